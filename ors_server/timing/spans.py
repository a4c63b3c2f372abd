"""Spans of OpenTelemetry for requests and tool calls, where the program has configured OpenTelemetry's SDK.

Without an SDK nothing is imported, and a call pays one comparison. Names and attributes follow the semantic
conventions of OpenTelemetry for HTTP, GenAI (`execute_tool`) and MCP; those of the server are under `ors.`.
Spans carry ids, names, statuses and numbers, never arguments, outputs, prompts or answers.
"""

import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ors_server._version import __version__
from ors_server.installation import install_hint
from ors_server.model import logs
from ors_server.model.errors import SettingsError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from ors_server.timing.trace_budget import TraceBudget

SCOPE_KEY: Final = "ors_server.trace_context"
"""Key of an ASGI scope under which the context of a request's span is."""
_CARRIED = (b"traceparent", b"tracestate", b"baggage")
_SERVER_ERROR = 500


class Tracing:
    """The tracer of this process; `None` while there is no SDK."""

    def __init__(self) -> None:
        self.tracer: Tracer | None = None
        self.budget: TraceBudget | None = None
        """Which requests have spans; `None` if a sampler of the SDK decides."""


tracing = Tracing()
"""Spans are made while it has a tracer."""


def begin() -> None:
    """Make spans from now on if the program has configured an SDK; a server calls it when it starts."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None or isinstance(api.get_tracer_provider(), api.ProxyTracerProvider):
        tracing.tracer = tracing.budget = None
        logs.set_context_fields(None)
        return
    tracing.tracer = api.get_tracer("ors_server", __version__)
    logs.set_context_fields(current_ids)


def export_to(endpoint: str, *, host: str | None = None) -> Callable[[], None]:
    """Send the spans of this process to an OTLP endpoint over HTTP.

    `OTEL_…` variables that the SDK reads hold. Without `OTEL_TRACES_SAMPLER`, a process begins few traces in
    a second (`trace_budget`), and those whose caller keeps its own spans.

    Args:
        endpoint: Address of a collector, such as `http://127.0.0.1:4318`.
        host: Name of this process among the hosts of one server.

    Returns:
        What sends the spans that are left, to be called at the end.

    Raises:
        SettingsError: If the SDK is not installed.
    """
    try:
        from opentelemetry import trace  # noqa: PLC0415  (the extra `otel`)
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415  (as above)
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  (as above)
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415  (as above)
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415  (as above)
        from opentelemetry.sdk.trace.sampling import ParentBased  # noqa: PLC0415  (as above)

        from ors_server.timing.trace_budget import TraceBudget  # noqa: PLC0415  (as above)
    except ImportError as error:
        raise SettingsError(
            f"otel_endpoint needs OpenTelemetry's SDK, which is not installed: {install_hint('otel')}"
        ) from error
    attributes = {"service.name": "ors-server", "service.version": __version__}
    if host is not None:
        attributes["service.instance.id"] = host
    tracing.budget = None if os.environ.get("OTEL_TRACES_SAMPLER") else TraceBudget()
    sampler = None if tracing.budget is None else ParentBased(tracing.budget)
    provider = TracerProvider(sampler, Resource.create(attributes))
    exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + "/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return provider.shutdown


def is_left_out(scope: Any) -> bool:
    """Return whether an HTTP request has no span, and nor has what runs below it."""
    if tracing.budget is None or tracing.budget.is_left():
        return False
    if any(name == b"traceparent" for name, _ in scope["headers"]):
        return False  # the caller's trace, of which the sampler decides
    scope[SCOPE_KEY] = tracing.budget.left_out_context  # the MCP SDK makes a span in another task
    return True


def is_traced() -> bool:
    """Return whether a tool that runs now has a span: below that of its request, where there is a budget."""
    if tracing.budget is None:
        return tracing.tracer is not None
    from opentelemetry.trace import get_current_span  # noqa: PLC0415  (imported, since an SDK is configured)

    return get_current_span().is_recording()


@contextmanager
def request_span(scope: Any, door: str, answer: Any) -> Generator[None]:
    """Make the span of an HTTP request the current one, below the caller's span if a header names it.

    Args:
        scope: The ASGI scope, under whose key `SCOPE_KEY` later tasks find the context.
        door: Which door serves it.
        answer: Has the `status` of the answer at the end, 0 if there was none.
    """
    from opentelemetry import context, propagate  # noqa: PLC0415  (imported, since an SDK is configured)
    from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context  # noqa: PLC0415  (as above)

    carrier = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope["headers"]
        if name in _CARRIED
    }
    path = logs.mask_credentials(scope["path"])
    span = _tracer().start_span(
        f"{scope['method']} {door}",
        context=propagate.extract(carrier),
        kind=SpanKind.SERVER,
        attributes={
            "http.request.method": scope["method"],
            "url.path": path,
            "url.scheme": scope.get("scheme", "http"),
            "ors.door": door,
        },
    )
    scope[SCOPE_KEY] = set_span_in_context(span)
    token = context.attach(scope[SCOPE_KEY])
    try:
        yield
    finally:
        context.detach(token)
        span.set_attribute("http.response.status_code", answer.status)
        if answer.status >= _SERVER_ERROR:
            span.set_attribute("error.type", str(answer.status))
            span.set_status(StatusCode.ERROR)
        span.end()


@contextmanager
def within(parent: "Context | None") -> Generator[None]:
    """Run something in the context of a request that another task serves."""
    from opentelemetry import context  # noqa: PLC0415  (as above)

    if parent is None:
        yield
        return
    token = context.attach(parent)
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def tool_span(tool: str, call_id: str, attributes: Mapping[str, str]) -> "Generator[Span]":
    """Make the span of a tool that runs the current one."""
    with _tracer().start_as_current_span(
        f"execute_tool {tool}",
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call_id,
            **attributes,
        },
    ) as span:
        yield span


def note_outcome(span: "Span", outcome: str, *, step: int, reward: float | None, is_fault: bool) -> None:
    """Note how a call ended.

    Args:
        outcome: One of the words of `outcome_of`.
        step: Its number in the episode.
        reward: `None` for a call without one.
        is_fault: Whether the author's code or the machinery failed it.
    """
    from opentelemetry.trace import StatusCode  # noqa: PLC0415  (as above)

    span.set_attributes({"ors.outcome": outcome, "ors.step": step})
    if reward is not None:
        span.set_attribute("ors.reward", reward)
    if outcome not in {"graded", "ungraded"}:
        span.set_attribute("error.type", outcome)
    if is_fault:
        span.set_status(StatusCode.ERROR)


def _tracer() -> "Tracer":
    if tracing.tracer is None:
        raise AssertionError("a span is made only while there is a tracer")
    return tracing.tracer


def current_ids() -> dict[str, str]:
    """Return the ids of the current span for a log event; nothing outside of a span."""
    from opentelemetry.trace import format_span_id, format_trace_id, get_current_span  # noqa: PLC0415  (as above)

    current = get_current_span().get_span_context()
    if not current.is_valid:
        return {}
    return {"trace_id": format_trace_id(current.trace_id), "span_id": format_span_id(current.span_id)}
