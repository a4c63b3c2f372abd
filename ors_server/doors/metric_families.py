"""The families of metrics of a server: read from its parts, written as text, merged over its hosts.

Labels are environments, tools, causes and words of closed lists, never a session, an episode, a task or a
text that an agent chose: a policy under training must not be able to make the monitoring grow.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Final

from prometheus_client import PROCESS_COLLECTOR, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from typing_extensions import override

from ors_server._version import __version__
from ors_server.alarms.watched_runs import AlarmBook
from ors_server.doors.http.messages import HttpMeters
from ors_server.sessions.call_meters import EnvironmentMeters, Histogram
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_services import Services

MAX_HOLDERS: Final = 20
"""Functions that held the event loop and are named, the longest first."""


def collect(
    manager: SessionManager, http_meters: HttpMeters, alarms: AlarmBook, started: float
) -> Iterator[Metric]:
    """Yield every family of this process; on the event loop, which writes the figures.

    Args:
        started: When the server started, in Unix time.
    """
    yield InfoMetricFamily("ors_server", "Version of the server.", {"version": __version__})
    yield GaugeMetricFamily("ors_start_time_seconds", "When the server started, in Unix time.", started)
    yield from PROCESS_COLLECTOR.collect()
    yield from _collect_sessions(manager)
    yield from _collect_environments(manager.services.meters.environments)
    yield from _collect_services(manager.services)
    yield from _collect_requests(http_meters)
    open_alarms = GaugeMetricFamily(
        "ors_alarm", "1 while an alarm of a run is open.", labels=["run", "alarm"]
    )
    for run, alarm in sorted((run, alarm.name) for run, alarm in alarms.open):
        open_alarms.add_metric([run, alarm], 1)
    yield open_alarms


def _collect_sessions(manager: SessionManager) -> Iterator[Metric]:
    live = GaugeMetricFamily("ors_sessions", "Live sessions.", labels=["environment", "phase"])
    running = GaugeMetricFamily("ors_running_calls", "Calls that run or wait.", labels=["environment"])
    sessions: Counter[tuple[str, str]] = Counter()
    calls: Counter[str] = Counter(dict.fromkeys(manager.environments, 0))
    for session in manager.live_sessions:
        environment = session.definition.name
        sessions[environment, session.recorder.state.phase.value] += 1
        calls[environment] += session.running_calls
    for labels, count in sorted(sessions.items()):
        live.add_metric(labels, count)
    for environment, count in sorted(calls.items()):
        running.add_metric([environment], count)
    yield live
    yield running


def _collect_environments(environments: Mapping[str, EnvironmentMeters]) -> Iterator[Metric]:
    calls = CounterMetricFamily(
        "ors_calls", "Calls on record, by how they ended.", labels=["environment", "tool", "outcome"]
    )
    failures = CounterMetricFamily(
        "ors_call_failures",
        "Calls that the author's code or the machinery failed.",
        labels=["environment", "code"],
    )
    penalties = CounterMetricFamily(
        "ors_penalties", "Charges of the policy.", labels=["environment", "cause"]
    )
    amounts = CounterMetricFamily(
        "ors_penalty_amount", "Sum of the charges, as a positive number.", labels=["environment", "cause"]
    )
    ended = CounterMetricFamily(
        "ors_episodes_ended", "Ended episodes.", labels=["environment", "stop_reason", "result"]
    )
    unjudged = CounterMetricFamily(
        "ors_unjudged_steps", "Steps whose judgement failed.", labels=["environment"]
    )
    by_name = sorted(environments.items())
    for environment, meters in by_name:
        for (tool, outcome), counter in sorted(meters.calls.items()):
            calls.add_metric([environment, tool, outcome], counter.calls)
        for code, count in sorted(meters.failures.items()):
            failures.add_metric([environment, code], count)
        for cause, (count, amount) in sorted(meters.penalties.items()):
            penalties.add_metric([environment, cause], count)
            amounts.add_metric([environment, cause], -amount)
        for (reason, result), count in sorted(meters.ended.items()):
            ended.add_metric([environment, reason, result], count)
        unjudged.add_metric([environment], meters.unjudged_steps)
    yield from (calls, failures, penalties, amounts, ended, unjudged)
    counters = [
        (environment, counter) for environment, meters in by_name for counter in meters.calls.values()
    ]
    yield _histogram(
        "ors_tool_seconds",
        "How long tools ran.",
        "environment",
        _add_up((environment, counter.tool_seconds) for environment, counter in counters),
    )
    yield _histogram(
        "ors_store_seconds",
        "How long calls waited for their step to be on record.",
        "environment",
        _add_up((environment, counter.store_seconds) for environment, counter in counters),
    )
    yield _histogram(
        "ors_waiting_seconds",
        "How long calls waited for setup or their turn, of those that had to.",
        "environment",
        {environment: meters.waiting_seconds for environment, meters in by_name},
    )
    yield _histogram(
        "ors_episode_return",
        "Returns of ended episodes with a grade.",
        "environment",
        {environment: meters.returns for environment, meters in by_name},
    )
    yield _histogram(
        "ors_episode_steps",
        "Steps of ended episodes.",
        "environment",
        {environment: meters.steps for environment, meters in by_name},
    )


def _collect_services(services: Services) -> Iterator[Metric]:
    capacity = GaugeMetricFamily("ors_queue_capacity", "Places of a limiter.", labels=["queue"])
    running = GaugeMetricFamily("ors_queue_running", "Places in use.", labels=["queue"])
    waiting = GaugeMetricFamily("ors_queue_waiting", "Requests that wait for a place.", labels=["queue"])
    longest = GaugeMetricFamily(
        "ors_queue_longest_wait_seconds", "For how long the oldest request has waited.", labels=["queue"]
    )
    for name, figures in services.queues().items():
        capacity.add_metric([name], figures["capacity"])
        running.add_metric([name], figures["running"])
        waiting.add_metric([name], figures["waiting"])
        longest.add_metric([name], figures["longest_wait_s"])
    yield from (capacity, running, waiting, longest)
    loop = services.watch.figures()
    yield CounterMetricFamily("ors_loop_late_seconds", "For how long the event loop was late.", loop.late_s)
    holds = CounterMetricFamily("ors_loop_held_seconds", "Code that holds the event loop.", labels=["by"])
    for holder in loop.held_by[:MAX_HOLDERS]:
        holds.add_metric([holder.name], holder.seconds)
    yield holds
    backlog = services.store.backlog()
    yield GaugeMetricFamily("ors_store_queued_writes", "Writes that wait for the record.", backlog.entries)
    yield GaugeMetricFamily("ors_store_queued_bytes", "Their size in bytes.", backlog.size)
    yield GaugeMetricFamily(
        "ors_store_up", "1 unless the record could not be written lately.", float(services.health.is_well)
    )
    report = services.sandboxes.report
    isolation = GaugeMetricFamily(
        "ors_sandbox_isolation", "Strength of the isolation of agents' commands, 1 to 3.", labels=["backend"]
    )
    if report is not None:
        isolation.add_metric([report.backend], int(report.strength))
    yield isolation


def _collect_requests(meters: HttpMeters) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "ors_http_requests", "Answered requests.", labels=["door", "method", "status"]
    )
    for (door, method, status), counter in sorted(meters.answers.items()):
        requests.add_metric([door, method, str(status)], counter.answers)
    yield requests
    yield GaugeMetricFamily("ors_http_open_requests", "Requests that are being served.", meters.open_requests)
    yield _histogram(
        "ors_http_first_byte_seconds",
        "How long requests waited for the first byte of their answer.",
        "door",
        _add_up((door, counter.seconds) for (door, _method, _status), counter in meters.answers.items()),
    )


def _add_up(histograms: Iterable[tuple[str, Histogram]]) -> dict[str, Histogram]:
    """Add up the histograms of each label."""
    sums: dict[str, Histogram] = {}
    for label, histogram in histograms:
        whole = sums.setdefault(label, Histogram(histogram.bounds))
        whole.counts = [before + count for before, count in zip(whole.counts, histogram.counts, strict=True)]
        whole.total += histogram.total
    return sums


def _histogram(name: str, text: str, label: str, histograms: Mapping[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=[label])
    for value, histogram in sorted(histograms.items()):
        buckets: list[tuple[str, float]] = []
        total = 0
        for bound, count in zip((*histogram.bounds, inf), histogram.counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound == inf else str(bound), total))
        family.add_metric([value], buckets, histogram.total)
    return family


class _Families(Collector):
    """Families that were made already, for the writer of the library."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    @override
    def collect(self) -> Iterable[Metric]:
        return self._families


def write(families: Iterable[Metric]) -> bytes:
    """Write families in the text format of Prometheus."""
    return generate_latest(_Families(families))


def merge(answers: Mapping[str, bytes | None]) -> bytes:
    """Merge the texts of several hosts: each sample gets its host as a label.

    Args:
        answers: The text of each host by its name; `None` for one that did not answer.
    """
    merged: dict[str, Metric] = {}
    up = GaugeMetricFamily("ors_host_up", "1 if the host answered.", labels=["host"])
    for host, text in sorted(answers.items()):
        up.add_metric([host], float(text is not None))
        for family in () if text is None else text_string_to_metric_families(text.decode()):
            whole = merged.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            for sample in family.samples:
                whole.samples.append(sample._replace(labels={**sample.labels, "host": host}))
    return write([up, *merged.values()])
