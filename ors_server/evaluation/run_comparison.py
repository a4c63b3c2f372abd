"""Compares two runs task by task.

Only tasks that both played are compared, each with its own mean in both: most of the variation between scores
is between tasks, and cancels (Miller 2024, arXiv:2411.00640). A difference is always the second run's figure
minus the first one's.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import StatisticsError, correlation, median_low
from typing import Any, cast

from ors_server.errors import ClientError
from ors_server.evaluation.figures import pass_at_k, pass_hat_k
from ors_server.evaluation.intervals import Interval, normal, standard_error
from ors_server.evaluation.permutation import SignTest, sign_flip_test
from ors_server.evaluation.resampling import bootstrap
from ors_server.evaluation.run_results import RunResults
from ors_server.evaluation.runs import Run
from ors_server.evaluation.summary import FigureOptions
from ors_server.evaluation.task_attempts import AMOUNTS, Quantity, TaskAttempts, group_by_task, mean_of
from ors_server.recording import JsonCodec

FORM = 1
"""Version of the JSON; a form that older readers would misread gets a higher one."""
_SAME = 1e-9
"""Task means that are closer than this are a tie."""
_NAMED_ANYWAY = frozenset(
    {"agent", "agent_options", "attempts", "environment", "seed", "split", "success_at", "target"}
)
"""Settings that are fields of the run itself, or that are compared."""


class ComparisonError(ClientError):
    """Two runs cannot be compared."""

    code = "comparison"


@dataclass(frozen=True, slots=True)
class FigureDifference:
    """The difference of one figure, over the matched tasks that have it in both runs."""

    first: float
    """Mean over tasks in the first run."""
    second: float
    """Mean over tasks in the second run."""
    difference: float
    """The second less the first."""
    interval: Interval | None
    """Of the difference, by paired bootstrap over tasks; `None` for fewer than two tasks."""
    standard_error: float | None
    """Of the difference, paired and clustered by task."""
    normal: Interval | None
    """By the normal distribution."""
    test: SignTest
    correlation: float | None
    """Between the task means of both runs; `None` if all are equal. Close to 1, pairing gains much."""
    tasks: int


@dataclass(frozen=True, slots=True)
class WinCounts:
    """Numbers of matched tasks at which the second run does better, equally and worse, by mean return."""

    wins: int
    ties: int
    losses: int


@dataclass(frozen=True, slots=True)
class McNemar:
    """Successes of both runs where each played every matched task once."""

    both: int
    only_first: int
    only_second: int
    neither: int
    p: float
    """Exact and two-sided: the probability of so unequal a split of the changed tasks at random."""


@dataclass(frozen=True, slots=True)
class TaskChange:
    """One matched task in both runs."""

    split: str
    index: int
    first: float
    """Mean return in the first run."""
    second: float
    """Mean return in the second run."""
    difference: float
    first_attempts: int
    second_attempts: int
    first_success_rate: float
    second_success_rate: float


@dataclass(frozen=True, slots=True)
class UnmatchedTasks:
    """Tasks that are not compared, as `split/index`."""

    only_first: tuple[str, ...]
    """The second run has no attempt at them."""
    only_second: tuple[str, ...]
    """The first run has no attempt at them."""
    changed: tuple[str, ...]
    """Their hashes differ, so they are other tasks."""
    uncounted: tuple[str, ...]
    """One of the runs has only attempts that do not count."""


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two runs compared."""

    first: tuple[Run, ...]
    second: tuple[Run, ...]
    reading: FigureOptions
    resamples: int
    matched: int
    """Tasks that are compared."""
    unmatched: UnmatchedTasks
    notes: tuple[str, ...]
    """Other differences between the runs, which may be the reason."""
    figures: Mapping[str, FigureDifference]
    """By name: `reward`, `success_rate`, `steps`, `seconds`, ..., as far as both runs have them."""
    k: int
    """Of `pass_at_k` and `pass_hat_k`, which are over the tasks with at least k counted attempts in both
    runs: at least half of the matched tasks."""
    record: WinCounts
    mcnemar: McNemar | None
    tasks: tuple[TaskChange, ...]
    """The matched tasks, those that changed most first."""
    form: int = FORM


COMPARISON: JsonCodec[RunComparison] = JsonCodec(RunComparison, "comparison of runs")

_Pair = tuple[TaskAttempts, TaskAttempts]
_Figure = Callable[[TaskAttempts], float | None]


def compare(first: RunResults, second: RunResults, options: FigureOptions | None = None) -> RunComparison:
    """Compare two runs, of which the first is the baseline.

    Raises:
        ComparisonError: If they are of different environments, count successes differently, or have no task
            in common.
    """
    options = options or FigureOptions()
    _check(first, second, options)
    pairs, unmatched = _match(first, second, options)
    if not pairs:
        raise ComparisonError(
            "the runs have no task in common that both played: "
            f"{len(unmatched.only_first)} are only in the first, {len(unmatched.only_second)} only in the "
            f"second, {len(unmatched.changed)} changed, {len(unmatched.uncounted)} without a counted attempt"
        )
    k = median_low(min(len(task.counted) for task in pair) for pair in pairs)
    changes = [_change(*pair) for pair in pairs]
    return RunComparison(
        first=first.runs,
        second=second.runs,
        reading=options,
        resamples=options.resampling.resamples_of(len(pairs)),
        matched=len(pairs),
        unmatched=unmatched,
        notes=_notes(first.runs[-1], second.runs[-1]),
        figures=_differences(pairs, k, options),
        k=k,
        record=_record(changes),
        mcnemar=_mcnemar(pairs),
        tasks=tuple(sorted(changes, key=lambda one: (-abs(one.difference), one.split, one.index))),
    )


def _check(first: RunResults, second: RunResults, options: FigureOptions) -> None:
    names = [results.runs[0].environment for results in (first, second)]
    if names[0] != names[1]:
        raise ComparisonError(f"runs of one environment are compared; these are of {names[0]} and {names[1]}")
    thresholds = {run.success_at for results in (first, second) for run in results.runs}
    if options.success_at is None and len(thresholds) > 1:
        known = ", ".join(f"{threshold:g}" for threshold in sorted(thresholds))
        raise ComparisonError(
            f"the runs count returns from different thresholds as success (from {known}); "
            "set one for both with --success-at"
        )


def _match(
    first: RunResults, second: RunResults, options: FigureOptions
) -> tuple[list[_Pair], UnmatchedTasks]:
    ours, theirs = (
        {(task.split, task.index): task for task in group_by_task(results.attempts, options)}
        for results in (first, second)
    )
    pairs: list[_Pair] = []
    changed: list[str] = []
    uncounted: list[str] = []
    for place in sorted(ours.keys() & theirs.keys()):
        pair = ours[place], theirs[place]
        hashes = {task.task_hash for task in pair} - {""}
        if len(hashes) > 1:
            changed.append(_name(place))
        elif not all(task.counted for task in pair):
            uncounted.append(_name(place))
        else:
            pairs.append(pair)
    return pairs, UnmatchedTasks(
        only_first=tuple(map(_name, sorted(ours.keys() - theirs.keys()))),
        only_second=tuple(map(_name, sorted(theirs.keys() - ours.keys()))),
        changed=tuple(changed),
        uncounted=tuple(uncounted),
    )


def _name(place: tuple[str, int]) -> str:
    return f"{place[0]}/{place[1]}"


def _notes(first: Run, second: Run) -> tuple[str, ...]:
    pairs: list[tuple[str, object, object]] = [
        (f"the version of {name}", first.versions.get(name), second.versions.get(name))
        for name in sorted(first.versions.keys() & second.versions.keys())
    ]
    pairs.extend(
        (what, getattr(first, name), getattr(second, name))
        for what, name in (
            ("the split", "split"),
            ("attempts at each task", "attempts"),
            ("the seed", "seed"),
        )
    )
    before, after = _settings(first.config), _settings(second.config)
    keys = sorted(before.keys() | after.keys())
    pairs.extend((f"the setting {key}", before.get(key), after.get(key)) for key in keys)
    return tuple(f"{what} differs: {ours} and {theirs}" for what, ours, theirs in pairs if ours != theirs)


def _settings(config: Mapping[str, Any], above: str = "") -> dict[str, object]:
    """Return the settings by name, nested ones as `outer.inner`."""
    found: dict[str, object] = {}
    for key, value in config.items():
        if key in _NAMED_ANYWAY:
            continue
        if isinstance(value, dict):
            found |= _settings(cast("dict[str, Any]", value), f"{above}{key}.")
        else:
            found[f"{above}{key}"] = value
    return found


def _differences(pairs: Sequence[_Pair], k: int, options: FigureOptions) -> dict[str, FigureDifference]:
    found = {
        name: [(figure(ours), figure(theirs)) for ours, theirs in pairs]
        for name, figure in _figures(k).items()
    }
    changes = {
        name: [None if first is None or second is None else second - first for first, second in both]
        for name, both in found.items()
    }
    intervals = bootstrap(changes, options.resampling)
    return {
        name: _difference(
            [(first, second) for first, second in both if first is not None and second is not None],
            intervals[name],
            options,
        )
        for name, both in found.items()
        if any(change is not None for change in changes[name])
    }


def _figures(k: int) -> dict[str, _Figure]:
    figures: dict[str, _Figure] = {
        "reward": lambda task: mean_of(task.returns),
        "success_rate": lambda task: task.successes / len(task.counted),
    }
    if k > 1:
        figures["pass_at_k"] = _at(k, pass_at_k)
        figures["pass_hat_k"] = _at(k, pass_hat_k)
    return figures | {name: _mean_of_amount(amount) for name, amount in AMOUNTS.items()}


def _at(k: int, curve: Callable[[int, int], list[float]]) -> _Figure:
    def figure(task: TaskAttempts) -> float | None:
        count = len(task.counted)
        return curve(count, task.successes)[k - 1] if count >= k else None

    return figure


def _mean_of_amount(amount: Quantity) -> _Figure:
    return lambda task: task.mean(amount)


def _difference(
    both: Sequence[tuple[float, float]], interval: Interval | None, options: FigureOptions
) -> FigureDifference:
    firsts, seconds = [first for first, _ in both], [second for _, second in both]
    changes = [second - first for first, second in both]
    value, error, how = mean_of(changes), standard_error(changes), options.resampling
    return FigureDifference(
        first=mean_of(firsts),
        second=mean_of(seconds),
        difference=value,
        interval=interval,
        standard_error=error,
        normal=None if error is None else normal(value, error, how.confidence),
        test=sign_flip_test(changes, how.seed),
        correlation=_correlation(firsts, seconds),
        tasks=len(both),
    )


def _correlation(firsts: Sequence[float], seconds: Sequence[float]) -> float | None:
    try:
        return correlation(firsts, seconds)
    except StatisticsError:  # fewer than two tasks, or all alike
        return None


def _change(first: TaskAttempts, second: TaskAttempts) -> TaskChange:
    before, after = mean_of(first.returns), mean_of(second.returns)
    return TaskChange(
        split=first.split,
        index=first.index,
        first=before,
        second=after,
        difference=after - before,
        first_attempts=len(first.counted),
        second_attempts=len(second.counted),
        first_success_rate=first.successes / len(first.counted),
        second_success_rate=second.successes / len(second.counted),
    )


def _record(changes: Sequence[TaskChange]) -> WinCounts:
    wins = sum(change.difference > _SAME for change in changes)
    losses = sum(change.difference < -_SAME for change in changes)
    return WinCounts(wins=wins, ties=len(changes) - wins - losses, losses=losses)


def _mcnemar(pairs: Sequence[_Pair]) -> McNemar | None:
    """McNemar 1947 (Psychometrika 12, 153-157), by the binomial distribution instead of chi-squared."""
    if any(len(task.counted) > 1 for pair in pairs for task in pair):
        return None
    tally = Counter((first.successes, second.successes) for first, second in pairs)
    only_first, only_second = tally[1, 0], tally[0, 1]
    return McNemar(
        both=tally[1, 1],
        only_first=only_first,
        only_second=only_second,
        neither=tally[0, 0],
        p=sign_flip_test([1.0] * only_second + [-1.0] * only_first).p,
    )
