"""Which requests have spans, where the server sends its spans itself and no sampler was chosen.

To make and send the spans of one call takes longer than the rest of a call of a trivial tool. So a process
begins `TRACES_PER_SECOND` traces in a second: a quiet server shows every call, and a busy one loses a few per
cent of its speed. A request whose caller names a trace is always a part of it, if the caller keeps its own
spans.
"""

import random
import time
from collections.abc import Sequence
from typing import Any, Final

from opentelemetry import context
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler, SamplingResult
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context
from typing_extensions import override

TRACES_PER_SECOND: Final = 50
"""Traces that a process begins in a second."""


class TraceBudget(Sampler):
    """Begins so many traces within each second; a sampler of spans without a parent."""

    def __init__(self, per_second: int = TRACES_PER_SECOND) -> None:
        self._per_second = per_second
        self._second: int = 0
        self._begun: int = 0
        # A parent that is not sampled, for the spans that the MCP SDK makes below a request. All requests
        # that are left out share it: it is never sent.
        ids = random.SystemRandom()
        trace_id, span_id = ids.getrandbits(128) or 1, ids.getrandbits(64) or 1
        parent = SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(0))
        self.left_out_context = set_span_in_context(NonRecordingSpan(parent), context.Context())
        """The context of every request that is left out."""

    def is_left(self) -> bool:
        """Return whether another trace may begin now."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._begun = second, 0
        return self._begun < self._per_second

    @override
    def should_sample(
        self,
        parent_context: context.Context | None,
        trace_id: int,
        name: str,
        kind: Any = None,
        attributes: Any = None,
        links: Sequence[Any] | None = None,
        trace_state: Any = None,
    ) -> SamplingResult:
        """Begin a trace if some of the budget is left."""
        is_left = self.is_left()
        self._begun += is_left
        chosen = ALWAYS_ON if is_left else ALWAYS_OFF
        return chosen.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    @override
    def get_description(self) -> str:
        return "ors_server.TraceBudget"
