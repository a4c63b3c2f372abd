"""Compares two runs task by task.

Only tasks that both played are compared, each with its own mean in both: most of the variation between scores
is between tasks, and cancels (Miller 2024, arXiv:2411.00640). A difference is always the second run's figure
minus the first one's.

The p-values are those of a sign-flip permutation test of paired differences: if two agents are equally good,
each task's difference could as well have the other sign. The test counts all signs if few sums are possible,
and otherwise draws signs. Differences are turned into integers first, so that equal sums are equal: with
floats, rounding would decide whether a sum is as extreme as the observed one.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from statistics import StatisticsError, correlation, median_low
from typing import Any, cast

from ors_server.evaluation.figures import pass_at_k, pass_hat_k
from ors_server.evaluation.intervals import Interval, normal, standard_error
from ors_server.evaluation.resampling import bootstrap
from ors_server.evaluation.run_results import RunResults
from ors_server.evaluation.runs import Run
from ors_server.evaluation.summary import FigureOptions
from ors_server.evaluation.task_attempts import AMOUNTS, TaskAttempts, group_by_task, mean_of
from ors_server.model.errors import ClientError
from ors_server.model.recording import JsonCodec

DRAWS = 20_000
"""Number of drawn assignments of signs."""
MAX_SUMS = 40_000
"""Number of different sums up to which the test is exact."""
MAX_WORK = 1_500_000
"""Number of additions up to which it is exact."""
_MAX_DENOMINATOR = 1_000
"""Largest denominator of differences that count as fractions of the largest one."""
_ROUNDING_SHARE = 1e-12
"""Part of the largest difference below which a difference is a rounding error."""
_FIXED = 2**40
"""Units of the largest difference, if the differences are not such fractions."""
_BYTE = 8


@dataclass(frozen=True, slots=True)
class SignTest:
    """The result of a sign-flip test."""

    p: float
    """Two-sided p-value, in [0, 1]."""
    is_exact: bool
    """Whether all assignments of signs were counted; otherwise `DRAWS` were drawn."""


def sign_flip_test(differences: Sequence[float], seed: int = 0) -> SignTest:
    """Test whether paired differences, one finite number per task, have a mean other than 0.

    If signs are drawn, the observed ones count as one draw, so that p is never 0 (Phipson and Smyth 2010,
    Stat. Appl. Genet. Mol. Biol. 9, 39).
    """
    # Sums of the same rewards in another order differ by rounding; that is not a difference.
    near = _ROUNDING_SHARE * max(map(abs, differences), default=0.0)
    changes = [difference for difference in differences if abs(difference) > near]
    if not changes:
        return SignTest(1.0, is_exact=True)
    units = _as_fractions(changes)
    if units is None:
        largest = max(map(abs, changes))
        units = [round(_FIXED * (difference / largest)) for difference in changes]
    sums = _all_sums(units)
    if sums is None:
        return SignTest(_drawn(units, seed), is_exact=False)
    return SignTest(_share(sums, _observed(units)), is_exact=True)


def _observed(units: Sequence[int]) -> int:
    """Return the distance of the sum from 0, less what rounding to units may have added."""
    # Each rounded difference is off by at most half a unit. To subtract too much only makes p greater.
    slack = len(units) if max(map(abs, units)) >= _FIXED else 0
    return abs(sum(units)) - slack


def _as_fractions(numbers: Sequence[float]) -> list[int] | None:
    largest = max(map(abs, numbers))
    shares = [number / largest for number in numbers]
    parts = [Fraction(share).limit_denominator(_MAX_DENOMINATOR) for share in shares]
    # The denominators bound the units: with larger ones nearly every number would be a fraction, and the
    # sums too many.
    if any(abs(float(part) - share) > _ROUNDING_SHARE for part, share in zip(parts, shares, strict=True)):
        return None
    common = math.lcm(*(part.denominator for part in parts))
    return [int(part * common) for part in parts]


def _all_sums(units: Sequence[int]) -> Counter[int] | None:
    sums: Counter[int] = Counter({0: 1})
    work = 0
    for size, times in sorted(Counter(map(abs, units)).items()):
        # Equal sizes at once: flipping j of n signs of the same size gives one sum, in C(n, j) ways.
        ways = {size * (times - 2 * flipped): math.comb(times, flipped) for flipped in range(times + 1)}
        work += len(sums) * len(ways)
        # Counted before the work is done, so that a large run costs no more than the draws would.
        if work > MAX_WORK:
            return None
        following: Counter[int] = Counter()
        for total, count in sums.items():
            for change, more in ways.items():
                following[total + change] += count * more
        sums = following
        if len(sums) > MAX_SUMS:
            return None
    return sums


def _share(sums: Counter[int], observed: int) -> float:
    extreme = sum(count for total, count in sums.items() if abs(total) >= observed)
    return extreme / sum(sums.values())


def _drawn(units: Sequence[int], seed: int) -> float:
    sizes = [abs(size) for size in units]
    total, observed = sum(sizes), _observed(units)
    # Bytes of random bits look up the sums of eight signs at a time: one addition instead of eight.
    # A table has the sums of all subsets of up to eight sizes; a sum's index has a bit for each size.
    tables = [
        [
            sum(size for bit, size in enumerate(sizes[at : at + _BYTE]) if subset >> bit & 1)
            for subset in range(2**_BYTE)
        ]
        for at in range(0, len(sizes), _BYTE)
    ]
    source = random.Random(seed)  # noqa: S311  (no secret)
    extreme = 0
    for _ in range(DRAWS):
        flipped = sum(table[byte] for table, byte in zip(tables, source.randbytes(len(tables)), strict=True))
        extreme += abs(total - 2 * flipped) >= observed
    return (extreme + 1) / (DRAWS + 1)


FORM = 1
"""Version of the JSON; a form that older readers would misread gets a higher one."""
_TIE_TOLERANCE = 1e-9
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
    """Exact and two-sided: the probability that chance splits the changed tasks as unequally."""


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
    # Over at least half of the tasks, so that a few tasks with many attempts do not decide.
    k = median_low(min(len(task.counted) for task in pair) for pair in pairs)
    # Each task weighs the same, however many attempts it has.
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
        tasks=tuple(
            sorted(changes, key=lambda change: (-abs(change.difference), change.split, change.index))
        ),
    )


def _check(first: RunResults, second: RunResults, options: FigureOptions) -> None:
    names = [results.runs[0].environment for results in (first, second)]
    if names[0] != names[1]:
        raise ComparisonError(f"only runs of one environment can be compared, got {names[0]} and {names[1]}")
    thresholds = {run.success_at for results in (first, second) for run in results.runs}
    if options.success_at is None and len(thresholds) > 1:
        values = ", ".join(f"{threshold:g}" for threshold in sorted(thresholds))
        raise ComparisonError(
            f"the runs count returns from different thresholds as success (from {values}); "
            "set one for both with --success-at"
        )


def _match(
    first: RunResults, second: RunResults, options: FigureOptions
) -> tuple[list[_Pair], UnmatchedTasks]:
    baseline, candidate = (
        {(task.split, task.index): task for task in group_by_task(results.attempts, options)}
        for results in (first, second)
    )
    pairs: list[_Pair] = []
    changed: list[str] = []
    uncounted: list[str] = []
    for address in sorted(baseline.keys() & candidate.keys()):
        pair = baseline[address], candidate[address]
        # A hash that is not known contradicts no other one.
        hashes = {task.task_hash for task in pair} - {""}
        if len(hashes) > 1:
            changed.append(_name(address))
        elif not all(task.counted for task in pair):
            uncounted.append(_name(address))
        else:
            pairs.append(pair)
    return pairs, UnmatchedTasks(
        only_first=tuple(map(_name, sorted(baseline.keys() - candidate.keys()))),
        only_second=tuple(map(_name, sorted(candidate.keys() - baseline.keys()))),
        changed=tuple(changed),
        uncounted=tuple(uncounted),
    )


def _name(address: tuple[str, int]) -> str:
    return f"{address[0]}/{address[1]}"


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
    return tuple(f"{what} differs: {old} and {new}" for what, old, new in pairs if old != new)


def _settings(config: Mapping[str, Any], above: str = "") -> dict[str, object]:
    """Return the settings by name, nested ones as `outer.inner`."""
    settings: dict[str, object] = {}
    for key, value in config.items():
        if key in _NAMED_ANYWAY:
            continue
        if isinstance(value, dict):
            settings |= _settings(cast("dict[str, Any]", value), f"{above}{key}.")
        else:
            settings[f"{above}{key}"] = value
    return settings


def _differences(pairs: Sequence[_Pair], k: int, options: FigureOptions) -> dict[str, FigureDifference]:
    values = {
        name: [(figure(baseline), figure(candidate)) for baseline, candidate in pairs]
        for name, figure in _figures(k).items()
    }
    changes = {
        name: [None if first is None or second is None else second - first for first, second in both]
        for name, both in values.items()
    }
    intervals = bootstrap(changes, options.resampling)
    return {
        name: _difference(
            [(first, second) for first, second in both if first is not None and second is not None],
            intervals[name],
            options,
        )
        for name, both in values.items()
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
    return figures | {name: partial(TaskAttempts.mean, amount=amount) for name, amount in AMOUNTS.items()}


def _at(k: int, curve: Callable[[int, int], list[float]]) -> _Figure:
    def figure(task: TaskAttempts) -> float | None:
        count = len(task.counted)
        return curve(count, task.successes)[k - 1] if count >= k else None

    return figure


def _difference(
    both: Sequence[tuple[float, float]], interval: Interval | None, options: FigureOptions
) -> FigureDifference:
    firsts, seconds = [first for first, _ in both], [second for _, second in both]
    changes = [second - first for first, second in both]
    value, error, how = mean_of(changes), standard_error(changes), options.resampling
    correlated: float | None = None
    with suppress(StatisticsError):  # fewer than two tasks, or all alike
        correlated = correlation(firsts, seconds)
    return FigureDifference(
        first=mean_of(firsts),
        second=mean_of(seconds),
        difference=value,
        interval=interval,
        standard_error=error,
        normal=None if error is None else normal(value, error, how.confidence),
        test=sign_flip_test(changes, how.seed),
        correlation=correlated,
        tasks=len(both),
    )


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
    wins = sum(change.difference > _TIE_TOLERANCE for change in changes)
    losses = sum(change.difference < -_TIE_TOLERANCE for change in changes)
    return WinCounts(wins=wins, ties=len(changes) - wins - losses, losses=losses)


def _mcnemar(pairs: Sequence[_Pair]) -> McNemar | None:
    """McNemar 1947 (Psychometrika 12, 153-157), by the binomial distribution instead of chi-squared."""
    # With several attempts at a task, its successes are not a single pair of outcomes.
    if any(len(task.counted) > 1 for pair in pairs for task in pair):
        return None
    tally = Counter((first.successes, second.successes) for first, second in pairs)
    only_first, only_second = tally[1, 0], tally[0, 1]
    # The exact McNemar test is the sign test of the changed tasks.
    return McNemar(
        both=tally[1, 1],
        only_first=only_first,
        only_second=only_second,
        neither=tally[0, 0],
        p=sign_flip_test([1.0] * only_second + [-1.0] * only_first).p,
    )
