"""The plots of one run, each with a caption and with its data as a table."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from markupsafe import Markup

from ors_server.charts.chart import (
    Chart,
    ChartMark,
    Options,
    band,
    bars,
    chart_options,
    dots,
    line,
    names_axis,
    ticks,
    value_axis,
    widened,
    with_level,
)
from ors_server.evaluation.intervals import Interval, z_of
from ors_server.evaluation.number_format import between, count_of, number, percent
from ors_server.evaluation.report.shell import parts
from ors_server.evaluation.runs import Attempt
from ors_server.evaluation.summary import AtK, RunSummary, TaskFigures

Ranked = TypeVar("Ranked")

MAX_VALUES = 12
"""Up to this many different values each have a bar; more are put into ranges."""
MAX_TASKS = 240
"""Up to this many tasks each have a mark; more are put into groups of neighbours."""
MAX_POINTS = 300
"""Points of a running mean."""
MAX_REASONS = 8
MAX_NAME = 20
"""Characters of a reason next to its bar."""
_BINS = 20


@dataclass(frozen=True, slots=True)
class HistogramValue:
    """One attempt's value in a histogram."""

    value: float
    is_success: bool


def histogram(name: str, title: str, label: str, values: Sequence[HistogramValue]) -> Chart | None:
    """Draw how often values occur, successes separately; `None` without values."""
    if not values:
        return None
    bins = _Bins.of([value.value for value in values])
    tallies = bins.tally(values)
    series: dict[str, list[ChartMark]] = {"successes": [], "others": []}
    rows: list[tuple[str, ...]] = []
    for (_, _, words), (successes, rest) in zip(bins.bars, tallies, strict=True):
        rows.append((words, f"{successes:,}", f"{rest:,}"))
        summary = f"{words}: {count_of(successes + rest, 'attempt')}, {successes:,} of them successes"
        series["successes"].append(ChartMark(successes, summary))
        series["others"].append(ChartMark(rest, summary))
    drawn = [
        bars(series["successes"], "good", "successes", "attempts"),
        bars(series["others"], "other", "others", "attempts"),
    ]
    return Chart(
        name,
        title,
        f"{count_of(len(values), 'attempt')} that count.",
        chart_options(
            names_axis([words for _, _, words in bins.bars], label),
            value_axis("attempts", is_whole=True),
            drawn,
        ),
        (label, "successes", "others"),
        rows,
        legend=(("good", "success"), ("other", "no success")),
    )


@dataclass(frozen=True, slots=True)
class _Bins:
    """The bars of a histogram."""

    bars: list[tuple[float, float, str]]
    """Beginning, end and label of each."""
    positions: dict[float, int]
    """The bar of each value."""

    @staticmethod
    def of(values: Sequence[float]) -> "_Bins":
        distinct = sorted(set(values))
        gap = min((after - before for before, after in pairwise(distinct)), default=1.0)
        # Few values, such as 0 and 1: a bar for each, without ranges between them that nothing can be in.
        if distinct[-1] - distinct[0] <= MAX_VALUES * gap:
            half = max(0.44 * gap, 1e-9 * max(1.0, abs(distinct[0]), abs(distinct[-1])))
            single = [(value - half, value + half, number(value)) for value in distinct]
            return _Bins(single, {value: index for index, value in enumerate(distinct)})
        low, high = widened(distinct[0], distinct[-1])
        marks = ticks(low, high, _BINS)
        step = marks[1] - marks[0]
        count = max(1, math.ceil((high - low) / step - 1e-9))
        edges = [low + step * index for index in range(count + 1)]
        positions = {value: min(count - 1, max(0, int((value - low) / step + 1e-9))) for value in distinct}
        words = [(start, end, f"{number(start)} to {number(end)}") for start, end in pairwise(edges)]
        return _Bins(words, positions)

    def tally(self, values: Sequence[HistogramValue]) -> list[tuple[int, int]]:
        """Return the numbers of successes and others of each bar."""
        counts = Counter((self.positions[value.value], value.is_success) for value in values)
        return [(counts[index, True], counts[index, False]) for index in range(len(self.bars))]


def running_mean(attempts: Sequence[Attempt], confidence: float) -> Chart | None:
    """Draw the mean return over counted attempts in the order of their end; `None` without attempts."""
    if not attempts:
        return None
    returns = [attempt.episode_return or 0.0 for attempt in attempts]
    least, greatest = min(returns), max(returns)
    points = [
        (count, mean, max(least, bottom), min(greatest, top))
        for count, mean, bottom, top in _thinned(running_means(attempts, z_of(confidence)))
    ]
    low, high = widened(min(point[2] for point in points), max(point[3] for point in points))
    series = [
        *band([(count, bottom, top) for count, _, bottom, top in points], "s1", "mean"),
        line([(count, mean) for count, mean, _, _ in points], "s1", "mean"),
    ]
    return Chart(
        "running-mean",
        "Running mean of the return",
        "The mean after each attempt, in the order in which they ended. The band is its interval, clustered "
        "by task and cut off at the least and greatest return. Quick attempts end first, so the beginning "
        "shows mostly them.",
        chart_options(
            value_axis("attempts that have ended", low=points[0][0], high=points[-1][0]),
            value_axis("mean return", low=low, high=high),
            series,
            by_axis=True,
        ),
        ("attempts", "mean", "band"),
        [
            (f"{int(ended):,}", number(mid), between(Interval(bottom, top, "")))
            for ended, mid, bottom, top in points
        ],
    )


def running_means(attempts: Sequence[Attempt], z: float) -> list[tuple[float, float, float, float]]:
    """Return (count, mean, lower end, upper end) after each attempt.

    The band is `z` standard errors to each side, clustered by task (Miller 2024, arXiv:2411.00640); its sums
    over tasks (squared totals, totals times sizes, squared sizes) are updated with each attempt.
    """
    totals: dict[tuple[str, int], tuple[float, int]] = {}
    total = squares = products = sizes = 0.0
    points: list[tuple[float, float, float, float]] = []
    for count, attempt in enumerate(attempts, 1):
        task, reward = (attempt.split, attempt.index), attempt.episode_return or 0.0
        before, size = totals.get(task, (0.0, 0))
        after = before + reward
        totals[task] = (after, size + 1)
        total += reward
        squares += after**2 - before**2
        products += after * (size + 1) - before * size
        sizes += 2 * size + 1
        mean = total / count
        # Rounding may make a spread of 0 negative.
        spread = max(0.0, squares - 2 * mean * products + mean**2 * sizes)
        half = z * math.sqrt(spread) / count if len(totals) > 1 else 0.0
        points.append((float(count), mean, mean - half, mean + half))
    return points


def _thinned(points: list[tuple[float, float, float, float]]) -> list[tuple[float, float, float, float]]:
    # The first bands are so wide that they would set the scale.
    start = min(len(points) // 10, 20)
    shown = points[start:]
    if len(shown) <= MAX_POINTS:
        return shown
    step = (len(shown) - 1) / (MAX_POINTS - 1)
    return [shown[round(index * step)] for index in range(MAX_POINTS)]


@dataclass(frozen=True, slots=True)
class TaskMark:
    """One mark of the plot of tasks: a task, or a group of neighbours."""

    mean: float
    low: float
    high: float
    words: str


def returns_by_task(summary: RunSummary) -> Chart | None:
    """Draw the mean return of each task, the best first; `None` if no attempt counts."""
    tasks = sorted(
        (task for task in summary.tasks if task.reward is not None),
        key=lambda task: (-(task.reward or 0.0), task.split, task.index),
    )
    if not tasks:
        return None
    ranked, caption = _ranked(tasks)
    low, high = widened(_least(tasks), _greatest(tasks))
    size = 7 if len(ranked) <= MAX_TASKS // 2 else 4
    points = dots(
        [ChartMark((rank, mark.mean), mark.words, size=size) for rank, mark in enumerate(ranked, 1)],
        "s1",
        "task",
    )
    if (overall := summary.overall.reward) is not None:
        points = with_level(points, overall.value, f"mean {number(overall.value)}")
    # Intervals of few attempts would set the scale; what is beyond it is in the words and in the table.
    ends = [(rank, max(low, mark.low), min(high, mark.high)) for rank, mark in enumerate(ranked, 1)]
    return Chart(
        "task-returns",
        "Return per task",
        caption,
        chart_options(
            value_axis("tasks, the best first", low=0, high=len(ranked) + 1, is_whole=True)
            | {"axisLabel": {"showMaxLabel": False}},
            value_axis("mean return", low=low, high=high),
            [*band(ends, "s1", "tasks"), points],
        ),
        ("task", "mean return and interval"),
        [tuple(mark.words.split(": ", 1)) for mark in ranked],
        is_wide=True,
    )


def _ranked(tasks: Sequence[TaskFigures]) -> tuple[list[TaskMark], str]:
    if len(tasks) <= MAX_TASKS:
        caption = "Each point is a task; the band is the interval of its mean return, cut at the ends."
        return [_alone(task) for task in tasks], caption
    caption = (
        f"{len(tasks):,} tasks in {MAX_TASKS} groups of neighbours; the band reaches from the least to the "
        "greatest return of a group."
    )
    marks: list[TaskMark] = []
    for ranks, group in neighbours(tasks):
        mean = math.fsum(task.reward or 0.0 for task in group) / len(group)
        low, high = _least(group), _greatest(group)
        words = f"{ranks}: {number(mean)} ({number(low)} to {number(high)})"
        marks.append(TaskMark(mean, low, high, words))
    return marks, caption


def neighbours(ranked: Sequence[Ranked]) -> Iterator[tuple[str, Sequence[Ranked]]]:
    """Return more than `MAX_TASKS` tasks in as many groups, each with its ranks in words."""
    step = len(ranked) / MAX_TASKS
    for index in range(MAX_TASKS):
        start, end = round(index * step), round((index + 1) * step)
        yield f"ranks {start + 1:,} to {end:,}", ranked[start:end]


def _alone(task: TaskFigures) -> TaskMark:
    mean = task.reward or 0.0
    within = task.interval
    words = f"{task.split}/{task.index}: {number(mean)}"
    if within is None:
        return TaskMark(mean, mean, mean, f"{words} ({count_of(task.counted, 'attempt')})")
    described = f"{words} ({between(within)}; {count_of(task.counted, 'attempt')})"
    return TaskMark(mean, within.low, within.high, described)


def _least(tasks: Sequence[TaskFigures]) -> float:
    return min(task.least for task in tasks if task.least is not None)


def _greatest(tasks: Sequence[TaskFigures]) -> float:
    return max(task.greatest for task in tasks if task.greatest is not None)


def at_k(figures: Sequence[AtK]) -> Chart | None:
    """Draw pass@k and pass^k over k; `None` for fewer than two k."""
    if len(figures) < 2:  # noqa: PLR2004  (a curve has two points)
        return None
    curves: tuple[tuple[str, str, Callable[[AtK], tuple[float, Interval | None]]], ...] = (
        ("pass@k", "good", lambda figure: (figure.pass_at_k.value, figure.pass_at_k.interval)),
        ("pass^k", "s1", lambda figure: (figure.pass_hat_k.value, figure.pass_hat_k.interval)),
    )
    series: list[Options] = []
    for position, (label, ink, read) in enumerate(curves):
        read_all = [(float(figure.k), *read(figure)) for figure in figures]
        if all(within is not None for _, _, within in read_all):
            series += band([(k, w.low, w.high) for k, _, w in read_all if w is not None], ink, label)
        series.append(line([(k, value) for k, value, _ in read_all], ink, label, position))
    return Chart(
        "at-k",
        "What more attempts gain",
        "pass@k: at least one of k attempts succeeds; pass^k: all of them do. Over the tasks with at least k "
        "attempts that count.",
        chart_options(
            value_axis("attempts at a task, k", low=figures[0].k, high=figures[-1].k, is_whole=True),
            value_axis("probability", low=0, high=1, is_percent=True),
            series,
            by_axis=True,
        ),
        ("k", "tasks", "pass@k", "interval", "pass^k", "interval", "best return of k", "interval"),
        [_row_at(figure) for figure in figures],
        legend=(("good", "pass@k"), ("s1", "pass^k")),
    )


def _row_at(figure: AtK) -> tuple[str, ...]:
    return (
        str(figure.k),
        f"{figure.tasks:,}",
        percent(figure.pass_at_k.value),
        between(figure.pass_at_k.interval, as_percent=True),
        percent(figure.pass_hat_k.value),
        between(figure.pass_hat_k.interval, as_percent=True),
        number(figure.best_of_k.value),
        between(figure.best_of_k.interval),
    )


def stop_reasons(summary: RunSummary) -> Chart | None:
    """Draw the number of attempts by stop reason; `None` without attempts."""
    reasons = list(summary.overall.stop_reasons.items())
    if not reasons:
        return None
    rest = sum(count for _, count in reasons[MAX_REASONS:])
    shown = reasons[:MAX_REASONS] + ([("all others", rest)] if rest else [])
    total = sum(count for _, count in reasons)
    marks = [
        ChartMark(
            count,
            f"{reason}: {count_of(count, 'attempt')}, {percent(count / total)}",
            "bad" if reason == "error" else None,
        )
        for reason, count in shown
    ]
    names = [reason if len(reason) <= MAX_NAME else f"{reason[: MAX_NAME - 1]}…" for reason, _ in shown]
    return Chart(
        "stop-reasons",
        "Why attempts ended",
        f"{count_of(total, 'attempt')}, including those that errored.",
        chart_options(
            value_axis(is_whole=True), names_axis(names, is_down=True), [bars(marks, "s1", "attempts")]
        ),
        ("reason", "attempts", "share"),
        [(reason, f"{count:,}", percent(count / total)) for reason, count in reasons],
        entries=len(shown),
    )


def interval_bar(value: float, within: Interval, scale: tuple[float, float]) -> Markup:
    """Draw a figure and its interval on a line from `scale[0]` to `scale[1]`."""
    return range_bar(
        f"{number(value)}, interval {between(within)}, on a scale from {scale[0]:g} to {scale[1]:g}",
        (within.low, within.high),
        value,
        scale,
    )


def range_bar(
    words: str, ends: tuple[float, float], value: float, scale: tuple[float, float], mark: float | None = None
) -> Markup:
    """Draw a range and a value on a line, as the console's tables do; `mark` is a line across."""
    low, high = scale

    def at(position: float) -> str:
        return f"{5 + 190 * (min(max(position, low), high) - low) / ((high - low) or 1.0):.2f}".rstrip(
            "0"
        ).rstrip(".")

    across = None if mark is None else at(mark)
    return parts.range_bar(words, at(ends[0]), at(ends[1]), at(value), across)
