"""Which requests have spans, where the server sends its spans itself and nobody has chosen a sampler.

To make and send the spans of one call takes longer than the rest of a call of a trivial tool. So a process
begins `TRACES_PER_SECOND` traces in a second: a quiet server shows every call, and a busy one loses a few per
cent of its speed. A request whose caller names a trace is always a part of it, if the caller keeps its own
spans.
"""

import random
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from opentelemetry import context
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler, SamplingResult
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)
from typing_extensions import override

TRACES_PER_SECOND: Final = 50
"""Traces that a process begins in a second."""


class TraceBudget:
    """Counts the traces that begin within each second, and marks the requests that are left out."""

    def __init__(self, per_second: int = TRACES_PER_SECOND) -> None:
        self._per_second = per_second
        self._second = 0
        self._begun = 0
        # A parent that is not sampled, for the spans that the MCP SDK makes below a request. All requests
        # that are left out share it: nobody receives it.
        ids = random.SystemRandom()
        trace_id, span_id = ids.getrandbits(128) or 1, ids.getrandbits(64) or 1
        parent = SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(0))
        self.left_out_context = set_span_in_context(NonRecordingSpan(parent), context.Context())
        """The context of every request that is left out."""

    def admits(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Return whether a request with these raw headers is to have a span, as far as it is known yet.

        Of one with the header `traceparent`, the sampler decides.
        """
        return self._has_room() or any(name == b"traceparent" for name, _ in headers)

    def is_below_a_span(self) -> bool:
        """Return whether somebody keeps the span that is the current one."""
        return get_current_span().is_recording()

    def begin(self) -> bool:
        """Begin a trace; returns whether there was room for it."""
        has_room = self._has_room()
        self._begun += has_room
        return has_room

    def sampler(self) -> Sampler:
        """Return what begins traces within the budget, and keeps to the decision of every parent."""
        return ParentBased(_BudgetSampler(self))

    def _has_room(self) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._begun = second, 0
        return self._begun < self._per_second


class _BudgetSampler(Sampler):
    def __init__(self, budget: TraceBudget) -> None:
        self._budget = budget

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
        chosen = ALWAYS_ON if self._budget.begin() else ALWAYS_OFF
        return chosen.should_sample(parent_context, trace_id, name, kind, attributes, links, trace_state)

    @override
    def get_description(self) -> str:
        return "ors_server.TraceBudget"
