"""Which requests have spans where nobody has chosen a sampler."""

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context, use_span

from ors_server.timing import spans, trace_budget
from ors_server.timing.trace_budget import TraceBudget

HOST = (b"host", b"x")


class Second:
    """The time, which a test sets."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Second()
    monkeypatch.setattr(trace_budget, "time", clock)
    return clock


@pytest.fixture
def budget(clock):
    return TraceBudget(per_second=3)


@pytest.fixture
def kept(budget):
    exporter = InMemorySpanExporter()
    provider = TracerProvider(ParentBased(budget))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test"), exporter


def remote(*, sampled):
    parent = SpanContext(7, 9, is_remote=True, trace_flags=TraceFlags(int(sampled)))
    return set_span_in_context(NonRecordingSpan(parent), Context())


def begin(tracer, number, where):
    for _ in range(number):
        tracer.start_span("request", where).end()


def test_so_many_traces_begin_within_a_second(budget, kept, clock):
    tracer, exporter = kept
    assert budget.is_left()
    begin(tracer, 10, Context())
    assert len(exporter.get_finished_spans()) == 3
    assert not budget.is_left()
    clock.now += 1
    assert budget.is_left()
    begin(tracer, 10, Context())
    assert len(exporter.get_finished_spans()) == 6


def test_asking_takes_nothing(budget, kept):
    tracer, exporter = kept
    assert all(budget.is_left() for _ in range(10))
    begin(tracer, 5, Context())
    assert len(exporter.get_finished_spans()) == 3


@pytest.mark.parametrize("sampled", [True, False])
def test_a_trace_of_the_caller_is_kept_as_the_caller_keeps_it(budget, kept, monkeypatch, sampled):
    tracer, exporter = kept
    begin(tracer, 10, Context())
    request = {"headers": [HOST, (b"traceparent", b"00-07-09-01")]}
    assert not spans.is_left_out(request)
    monkeypatch.setattr(spans.tracing, "budget", budget)
    assert not spans.is_left_out(request)
    assert spans.is_left_out(other := {"headers": [HOST]})
    assert other[spans.SCOPE_KEY] is budget.left_out_context
    begin(tracer, 10, remote(sampled=sampled))
    assert len(exporter.get_finished_spans()) == 3 + 10 * sampled


def test_below_a_request_that_is_left_out_nothing_is_kept(budget, kept):
    tracer, exporter = kept
    begin(tracer, 5, budget.left_out_context)
    assert exporter.get_finished_spans() == ()
    begin(tracer, 5, Context())
    assert len(exporter.get_finished_spans()) == 3


def test_a_tool_has_a_span_below_one_that_is_kept(budget, kept, monkeypatch):
    tracer, _ = kept
    monkeypatch.setattr(spans.tracing, "tracer", tracer)
    assert spans.is_traced()
    monkeypatch.setattr(spans.tracing, "budget", budget)
    assert not spans.is_traced()
    with tracer.start_as_current_span("request", Context()):
        assert spans.is_traced()
    with use_span(NonRecordingSpan(SpanContext(7, 9, is_remote=True, trace_flags=TraceFlags(0)))):
        assert not spans.is_traced()
