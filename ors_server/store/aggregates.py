"""Figures over many episodes, made from figures of groups: the same whether a database or memory counted.

An `EpisodeGroup` has the sums over the episodes that agree in everything that figures are shown by. Sums of
groups can be kept and added, so that no figure has to look at every episode again.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import sqrt
from types import MappingProxyType
from typing import Any, ClassVar

from pydantic import ConfigDict

from ors_server.model.clock import from_microseconds, to_microseconds
from ors_server.model.trajectory import RECORD_CONFIG, STEP_COUNTS, EpisodeRecord, EpisodeResult, result_of
from ors_server.store.episode_filter import MARKS

SUCCESS_AT = 1.0
"""Least return of a successful episode, as `eval` counts them by default."""
LARGEST_RETURN = 1e150
"""A return beyond it counts as this much in sums, so that no sum of squares leaves the range of a double."""
SMALLEST_RETURN = 1e-150
"""Distance from 0 up to which a return counts as 0 in sums: the square of a smaller one is 0."""
Z_95 = 1.959963984540054
"""Standard errors on each side of a mean that make an interval of 95 %."""
RUN_LABEL, AGENT_LABEL = "run", "agent"
"""Labels that groups are apart by."""


@dataclass(frozen=True, slots=True)
class EpisodeGroup:
    """Sums over the episodes that agree in the first eight fields; a missing name is empty."""

    environment: str
    split: str
    run: str
    agent: str
    phase: str
    stop_reason: str
    result: str
    marks: str
    """Letters of `MARK_LETTERS`: the kinds of steps that each of the episodes has."""
    episodes: int
    steps: int
    refused_steps: int
    penalised_steps: int
    failed_steps: int
    ungraded_steps: int
    unjudged_steps: int
    successes: int
    """Graded episodes whose return is at least `SUCCESS_AT`."""
    return_sum: float
    return_squares: float
    least_return: float
    greatest_return: float
    last_at: int
    """When an episode was created last, microseconds since 1970 in UTC."""


GROUP_COLUMNS = ("environment", "split", "run", "agent", "phase", "stop_reason", "result", "marks")
"""The fields that distinguish groups."""
MARK_LETTERS: Mapping[str, str] = MappingProxyType({mark: mark[0] for mark in MARKS})
"""Kinds of steps, with the letter for each in the field `marks`, which has them in this order."""
SUMS = (
    *("episodes", "steps", *STEP_COUNTS, "successes"),
    *("return_sum", "return_squares"),
)
"""The fields that are added up."""


@dataclass(frozen=True, slots=True)
class EpisodeTotals:
    """Statistics over a set of episodes."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    episodes: int
    steps: int
    mean_return: float | None
    """Over the graded episodes, as the next two are; `None` without one."""
    least_return: float | None
    greatest_return: float | None
    by_environment: Mapping[str, int]
    """Number of episodes by environment."""
    by_phase: Mapping[str, int]
    by_stop_reason: Mapping[str, int]
    """Number of ended episodes by stop reason."""
    graded: int = 0
    """Episodes that ended by their own rules, and in which something was paid or charged. Each of the others
    is in exactly one of the next five numbers."""
    unjudged: int = 0
    """Episodes with a step whose judgement failed."""
    ungraded: int = 0
    """Episodes that ended by their own rules without a reward or a penalty."""
    live: int = 0
    """Episodes that have not ended."""
    abandoned: int = 0
    """Episodes whose session was deleted, expired, or ended with the server, before they ended."""
    failed: int = 0
    """Episodes in which the environment failed."""
    refused_steps: int = 0
    """Calls that did not run."""
    penalised_steps: int = 0
    """Steps that were charged a penalty."""
    failed_steps: int = 0
    """Steps in which the environment's own code failed."""
    successes: int = 0
    """Graded episodes with a return of at least 1."""


@dataclass(frozen=True, slots=True)
class MeanReturn:
    """The mean return of graded episodes, and how certain it is."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    episodes: int
    """Graded episodes."""
    mean: float | None
    """`None` without a graded episode."""
    low: float | None
    """Lower end of the interval of 95 % (normal, from the standard error); `None` under two episodes."""
    high: float | None
    std: float | None
    """Standard deviation with n - 1; `None` under two episodes."""

    @classmethod
    def of(cls, count: int, total: float, squares: float) -> "MeanReturn":
        """Compute it from the sums of the returns and of their squares."""
        if not count:
            return cls(0, None, None, None, None)
        mean = total / count
        if count < 2:  # noqa: PLR2004  (one value has no deviation)
            return cls(count, mean, None, None, None)
        std = sqrt(max(0.0, squares - count * mean * mean) / (count - 1))
        error = Z_95 * std / sqrt(count)
        return cls(count, mean, mean - error, mean + error, std)


@dataclass(frozen=True, slots=True)
class RunFigures:
    """One run: the episodes with the same label `run`."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    run: str
    agents: tuple[str, ...]
    """The labels `agent` of its episodes, sorted."""
    environments: tuple[str, ...]
    """The environments of its episodes, sorted."""
    episodes: int
    live: int
    graded: int
    failed: int
    """Episodes in which the environment failed."""
    steps: int
    refused_steps: int
    failed_steps: int
    returns: MeanReturn
    success: float | None
    """Share of the graded episodes with a return of at least 1; `None` if none is graded."""
    last_created_at: datetime
    """When its newest episode was created, UTC."""


@dataclass(frozen=True, slots=True)
class PlayedTask:
    """All episodes of one task that match a filter."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    environment: str
    split: str | None
    index: int | None
    task_hash: str
    episodes: int
    graded: int
    failed: int
    returns: MeanReturn
    least_return: float | None
    greatest_return: float | None
    success: float | None
    """Share of the graded episodes with a return of at least 1."""


MINUTE = 60_000_000
"""Microseconds."""
KEPT_MINUTES = 31 * 24 * 60
"""Minutes before the newest one whose calls are kept counted."""


@dataclass(frozen=True, slots=True)
class CallsOfMinute:
    """The calls that began in one minute, whatever became of their episodes since."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    start: datetime
    """Beginning of the minute, UTC."""
    calls: int = 0
    refused: int = 0
    """Calls that did not run."""
    failed: int = 0
    """Calls in which the environment's own code failed."""


def fill_minutes(counted: Iterable[CallsOfMinute], now: datetime, minutes: int) -> list[CallsOfMinute]:
    """Return each of the last minutes, oldest first, the current one included, with 0 where no call began."""
    by_start = {minute.start: minute for minute in counted}
    last = to_microseconds(now) // MINUTE
    starts = (from_microseconds(number * MINUTE) for number in range(last - minutes + 1, last + 1))
    return [by_start.get(start) or CallsOfMinute(start) for start in starts]


MIN_LEARNABLE_RATE, MAX_LEARNABLE_RATE = 0.2, 0.8
"""Solve rates: below the first a task is rarely solved, above the second mostly; between them it is
learnable, because some attempts at it succeed and some fail."""


def solve_band(rate: float | None) -> str:
    """Return how hard a task is by its solve rate: never, rare, learnable, mostly, always, or ungraded."""
    if rate is None:
        return "ungraded"
    if rate in {0.0, 1.0}:
        return "never" if rate == 0.0 else "always"
    return "rare" if rate < MIN_LEARNABLE_RATE else "learnable" if rate <= MAX_LEARNABLE_RATE else "mostly"


def fold_totals(groups: Sequence[EpisodeGroup]) -> EpisodeTotals:
    """Add groups up to totals."""
    graded = [group for group in groups if group.result == EpisodeResult.GRADED]
    results = _count_by(groups, "result")
    count = results.get(EpisodeResult.GRADED, 0)
    return EpisodeTotals(
        episodes=sum(group.episodes for group in groups),
        steps=sum(group.steps for group in groups),
        mean_return=sum(group.return_sum for group in graded) / count if count else None,
        least_return=min((group.least_return for group in graded), default=None),
        greatest_return=max((group.greatest_return for group in graded), default=None),
        by_environment=_count_by(groups, "environment"),
        by_phase=_count_by(groups, "phase"),
        by_stop_reason=_count_by(groups, "stop_reason"),
        **{result.value: results.get(result.value, 0) for result in EpisodeResult},
        refused_steps=sum(group.refused_steps for group in groups),
        penalised_steps=sum(group.penalised_steps for group in groups),
        failed_steps=sum(group.failed_steps for group in groups),
        successes=sum(group.successes for group in groups),
    )


def fold_runs(groups: Iterable[EpisodeGroup]) -> list[RunFigures]:
    """Add groups up to runs, the one with the newest episode first; episodes without a run are left out."""
    runs: dict[str, list[EpisodeGroup]] = defaultdict(list)
    for group in groups:
        if group.run:
            runs[group.run].append(group)
    figures = [_run_of(name, members) for name, members in runs.items()]
    return sorted(figures, key=lambda run: (run.last_created_at, run.run), reverse=True)


def _run_of(name: str, groups: Sequence[EpisodeGroup]) -> RunFigures:
    graded = [group for group in groups if group.result == EpisodeResult.GRADED]
    results = _count_by(groups, "result")
    count = results.get(EpisodeResult.GRADED, 0)
    return RunFigures(
        run=name,
        agents=tuple(sorted({group.agent for group in groups if group.agent})),
        environments=tuple(sorted({group.environment for group in groups})),
        episodes=sum(group.episodes for group in groups),
        live=results.get(EpisodeResult.LIVE, 0),
        graded=count,
        failed=results.get(EpisodeResult.FAILED, 0),
        steps=sum(group.steps for group in groups),
        refused_steps=sum(group.refused_steps for group in groups),
        failed_steps=sum(group.failed_steps for group in groups),
        returns=MeanReturn.of(
            count,
            sum(group.return_sum for group in graded),
            sum(group.return_squares for group in graded),
        ),
        success=sum(group.successes for group in graded) / count if count else None,
        last_created_at=from_microseconds(max(group.last_at for group in groups)),
    )


def _count_by(groups: Iterable[EpisodeGroup], kind: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for group in groups:
        name = getattr(group, kind)
        if name:
            counts[name] += group.episodes
    return dict(sorted(counts.items()))


def group_records(records: Iterable[EpisodeRecord]) -> list[EpisodeGroup]:
    """Sum up records in memory by the kinds of groups."""
    members: dict[tuple[str, ...], list[EpisodeRecord]] = defaultdict(list)
    for record in records:
        labels, summary = record.origin.labels, record.summary
        kind = (
            record.origin.environment,
            record.origin.split or "",
            labels.get(RUN_LABEL, ""),
            labels.get(AGENT_LABEL, ""),
            summary.phase,
            summary.stop_reason or "",
            result_of(summary).value,
            "".join(letter for mark, letter in MARK_LETTERS.items() if getattr(summary, MARKS[mark])),
        )
        members[kind].append(record)
    return [_group_of(kind, group) for kind, group in members.items()]


def _group_of(kind: tuple[str, ...], records: Sequence[EpisodeRecord]) -> EpisodeGroup:
    summaries = [record.summary for record in records]
    returns = [bounded(summary.episode_return) for summary in summaries]
    is_graded = kind[GROUP_COLUMNS.index("result")] == EpisodeResult.GRADED
    counts: dict[str, Any] = {
        name: sum(getattr(summary, name) for summary in summaries) for name in STEP_COUNTS
    }
    kinds: dict[str, Any] = dict(zip(GROUP_COLUMNS, kind, strict=True))
    return EpisodeGroup(
        **kinds,
        episodes=len(records),
        steps=sum(summary.steps for summary in summaries),
        **counts,
        successes=sum(is_graded and summary.episode_return >= SUCCESS_AT for summary in summaries),
        return_sum=sum(returns),
        return_squares=sum(value * value for value in returns),
        least_return=min(summary.episode_return for summary in summaries),
        greatest_return=max(summary.episode_return for summary in summaries),
        last_at=max(to_microseconds(record.origin.created_at) for record in records),
    )


def bounded(value: float) -> float:
    """Return a return as sums count it."""
    if abs(value) <= SMALLEST_RETURN:
        return 0.0
    return max(-LARGEST_RETURN, min(LARGEST_RETURN, value))


def tasks_in_memory(records: Iterable[EpisodeRecord]) -> list[PlayedTask]:
    """Sum up records in memory by their tasks."""
    members: dict[tuple[Any, ...], list[EpisodeRecord]] = defaultdict(list)
    for record in records:
        origin = record.origin
        members[origin.environment, origin.split, origin.index, origin.task_hash].append(record)
    figures: list[PlayedTask] = []
    for task, group in members.items():
        results = [result_of(record.summary) for record in group]
        returns = [
            record.summary.episode_return
            for record, result in zip(group, results, strict=True)
            if result is EpisodeResult.GRADED
        ]
        sums = [bounded(value) for value in returns]
        figures.append(
            PlayedTask(
                environment=task[0],
                split=task[1],
                index=task[2],
                task_hash=task[3],
                episodes=len(group),
                graded=len(returns),
                failed=results.count(EpisodeResult.FAILED),
                returns=MeanReturn.of(len(sums), sum(sums), sum(value * value for value in sums)),
                least_return=min(returns, default=None),
                greatest_return=max(returns, default=None),
                success=sum(value >= SUCCESS_AT for value in returns) / len(returns) if returns else None,
            )
        )
    return sorted(figures, key=task_order)


def task_order(task: PlayedTask) -> tuple[Any, ...]:
    """Return the key by which tasks are listed: by environment, split and index."""
    return task.environment, task.split or "", -1 if task.index is None else task.index, task.task_hash
