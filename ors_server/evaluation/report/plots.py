"""The plots of one run, each with a caption and with its data as a table."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ors_server.evaluation.intervals import Interval, z_of
from ors_server.evaluation.number_format import between, count_of, number, percent
from ors_server.evaluation.report.drawing import Drawing, Frame, apart, ticks, widened
from ors_server.evaluation.report.markup import Markup, element
from ors_server.evaluation.runs import Attempt
from ors_server.evaluation.summary import AtK, RunSummary, TaskFigures

WIDE = Frame(width=1160, height=290, bottom=30)
MAX_VALUES = 12
"""Up to this many different values each have a bar; more are put into ranges."""
MAX_TASKS = 240
"""Up to this many tasks each have a mark; more are put into groups of neighbours."""
MAX_POINTS = 300
"""Points of a running mean."""
MAX_REASONS = 8
MAX_NAME = 20
"""Characters of a reason next to its bar."""
LABEL_GAP = 18.0
"""Minimum distance of two labels, in the drawing's units."""
_BINS = 20
_LINE = 30
"""Height of a bar with a name, in the drawing's units."""


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot of a report."""

    name: str
    """Its id."""
    title: str
    caption: str
    drawing: Markup
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    """The data as text."""
    is_wide: bool = False
    legend: tuple[tuple[str, str], ...] = ()
    """Class of each colour, and its meaning."""


@dataclass(frozen=True, slots=True)
class HistogramValue:
    """One attempt's value in a histogram."""

    value: float
    is_success: bool


def histogram(name: str, title: str, label: str, values: Sequence[HistogramValue]) -> Plot | None:
    """Draw how often values occur, successes separately; `None` without values."""
    if not values:
        return None
    bins = _Bins.of([value.value for value in values])
    tallies = bins.tally(values)
    low, high = bins.bars[0][0], bins.bars[-1][1]
    drawing = Drawing((low, high), (0.0, max(map(sum, tallies)) * 1.06))
    # Attempts are whole: 2.5 attempts would be no label.
    whole = [count for count in ticks(*drawing.y) if count == round(count)]
    drawing.axes(label, "attempts", x_ticks=bins.ticks(), y_ticks=whole)
    rows: list[tuple[str, ...]] = []
    for (start, end, words), (successes, rest) in zip(bins.bars, tallies, strict=True):
        rows.append((words, f"{successes:,}", f"{rest:,}"))
        title_ = f"{words}: {count_of(successes + rest, 'attempt')}, {successes:,} of them successes"
        if successes:
            drawing.bar((start, end), (0, successes), title_, "success")
        if rest:
            drawing.bar((start, end), (successes, successes + rest), title_, "other")
    return Plot(
        name,
        title,
        f"{count_of(len(values), 'attempt')} that count.",
        drawing.render(name, title),
        (label, "successes", "others"),
        rows,
        legend=(("success", "success"), ("other", "no success")),
    )


@dataclass(frozen=True, slots=True)
class _Bins:
    """The bars of a histogram."""

    bars: list[tuple[float, float, str]]
    """Beginning, end and label of each."""
    positions: dict[float, int]
    """The bar of each value."""
    are_values: bool
    """Whether each bar is for one value and not for a range."""

    @staticmethod
    def of(values: Sequence[float]) -> "_Bins":
        distinct = sorted(set(values))
        gap = min((after - before for before, after in pairwise(distinct)), default=1.0)
        # Few values, such as 0 and 1: a bar for each, without ranges between them that nothing can be in.
        if distinct[-1] - distinct[0] <= MAX_VALUES * gap:
            half = max(0.44 * gap, 1e-9 * max(1.0, abs(distinct[0]), abs(distinct[-1])))
            bars = [(value - half, value + half, number(value)) for value in distinct]
            return _Bins(bars, {value: index for index, value in enumerate(distinct)}, are_values=True)
        low, high = widened(distinct[0], distinct[-1])
        marks = ticks(low, high, _BINS)
        step = marks[1] - marks[0]
        count = max(1, math.ceil((high - low) / step - 1e-9))
        edges = [low + step * index for index in range(count + 1)]
        positions = {value: min(count - 1, max(0, int((value - low) / step + 1e-9))) for value in distinct}
        words = [(start, end, f"{number(start)} to {number(end)}") for start, end in pairwise(edges)]
        return _Bins(words, positions, are_values=False)

    def tally(self, values: Sequence[HistogramValue]) -> list[tuple[int, int]]:
        """Return the numbers of successes and others of each bar."""
        counts = Counter((self.positions[value.value], value.is_success) for value in values)
        return [(counts[index, True], counts[index, False]) for index in range(len(self.bars))]

    def ticks(self) -> list[float] | None:
        """Return the values to label, if there are few bars of one value each."""
        few = self.are_values and len(self.bars) <= MAX_VALUES // 2
        return [(low + high) / 2 for low, high, _ in self.bars] if few else None


def running_mean(attempts: Sequence[Attempt], confidence: float) -> Plot | None:
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
    drawing = Drawing((0.0, float(len(attempts))), (low, high))
    drawing.axes("attempts that have ended", "mean return")
    if len(points) > 1:
        drawing.band([(count, bottom, top) for count, _, bottom, top in points])
        drawing.line([(count, mean) for count, mean, _, _ in points], "accent")
    count, mean, _, _ = points[-1]
    drawing.dot(count, mean, f"after {count_of(int(count), 'attempt')}: {number(mean)}", "accent-dot", 4)
    return Plot(
        "running-mean",
        "Running mean of the return",
        "The mean after each attempt, in the order in which they ended. The band is its interval, clustered "
        "by task and cut off at the least and greatest return. Quick attempts end first, so the beginning "
        "shows mostly them.",
        drawing.render("running-mean", "Running mean of the return"),
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


def returns_by_task(summary: RunSummary) -> Plot | None:
    """Draw the mean return of each task, the best first; `None` if no attempt counts."""
    tasks = sorted(
        (task for task in summary.tasks if task.reward is not None),
        key=lambda task: (-(task.reward or 0.0), task.split, task.index),
    )
    if not tasks:
        return None
    ranked, caption = _ranked(tasks)
    low, high = widened(_least(tasks), _greatest(tasks))
    drawing = Drawing((0.0, float(len(ranked))), (low, high), WIDE)
    drawing.axes("tasks, the best first", "mean return", x_ticks=())
    radius = 3.5 if len(ranked) <= MAX_TASKS // 2 else 2.2
    for index, mark in enumerate(ranked):
        drawing.whisker(index + 0.5, mark.low, mark.high)
        drawing.dot(index + 0.5, mark.mean, mark.words, "accent-dot", radius)
    if (overall := summary.overall.reward) is not None:
        drawing.level(overall.value, f"mean {number(overall.value)}")
    return Plot(
        "task-returns",
        "Return per task",
        caption,
        drawing.render("task-returns", "Return per task"),
        ("task", "mean return and interval"),
        [tuple(mark.words.split(": ", 1)) for mark in ranked],
        is_wide=True,
    )


def _ranked(tasks: Sequence[TaskFigures]) -> tuple[list[TaskMark], str]:
    if len(tasks) <= MAX_TASKS:
        caption = "Each point is a task, with the interval of its mean return (arrow: beyond the plot)."
        return [_alone(task) for task in tasks], caption
    step = len(tasks) / MAX_TASKS
    groups = [tasks[round(index * step) : round((index + 1) * step)] for index in range(MAX_TASKS)]
    caption = (
        f"{len(tasks):,} tasks in {MAX_TASKS} groups of neighbours; a line reaches from the least to the "
        "greatest return of a group."
    )
    return [_together(group, round(index * step)) for index, group in enumerate(groups)], caption


def _alone(task: TaskFigures) -> TaskMark:
    mean = task.reward or 0.0
    within = task.interval
    words = f"{task.split}/{task.index}: {number(mean)}"
    if within is None:
        return TaskMark(mean, mean, mean, f"{words} ({count_of(task.counted, 'attempt')})")
    described = f"{words} ({between(within)}; {count_of(task.counted, 'attempt')})"
    return TaskMark(mean, within.low, within.high, described)


def _together(tasks: Sequence[TaskFigures], first: int) -> TaskMark:
    mean = math.fsum(task.reward or 0.0 for task in tasks) / len(tasks)
    low, high = _least(tasks), _greatest(tasks)
    words = f"ranks {first + 1:,} to {first + len(tasks):,}: {number(mean)} ({number(low)} to {number(high)})"
    return TaskMark(mean, low, high, words)


def _least(tasks: Sequence[TaskFigures]) -> float:
    return min(task.least for task in tasks if task.least is not None)


def _greatest(tasks: Sequence[TaskFigures]) -> float:
    return max(task.greatest for task in tasks if task.greatest is not None)


def at_k(figures: Sequence[AtK]) -> Plot | None:
    """Draw pass@k and pass^k over k; `None` for fewer than two k."""
    if len(figures) < 2:  # noqa: PLR2004  (a curve has two points)
        return None
    frame = Frame(right=66)
    ks = [float(figure.k) for figure in figures]
    drawing = Drawing((ks[0], ks[-1]), (0.0, 1.0), frame)
    marks = ks if len(ks) <= MAX_VALUES else [k for k in ticks(ks[0], ks[-1]) if k >= 1]
    drawing.axes(
        "attempts at a task, k", "probability", x_ticks=marks, format_y=lambda share: f"{100 * share:.0f} %"
    )
    curves: tuple[tuple[str, str, Callable[[AtK], tuple[float, Interval | None]]], ...] = (
        ("pass@k", "success-line", lambda figure: (figure.pass_at_k.value, figure.pass_at_k.interval)),
        ("pass^k", "accent", lambda figure: (figure.pass_hat_k.value, figure.pass_hat_k.interval)),
    )
    lasts: list[float] = []
    for label, style, read in curves:
        read_all = [(float(figure.k), *read(figure)) for figure in figures]
        if all(within is not None for _, _, within in read_all):
            drawing.band([(k, w.low, w.high) for k, _, w in read_all if w is not None], f"band {style}-band")
        drawing.line([(k, value) for k, value, _ in read_all], style)
        for k, value, within in read_all:
            words = f"{label[:-1]}{k:.0f}: {percent(value)} ({between(within, as_percent=True)})"
            drawing.dot(k, value, words, f"{style}-dot")
        lasts.append(drawing.at_y(read_all[-1][1]) + 4)
    for (label, style, _), height in zip(curves, apart(lasts, LABEL_GAP, frame.floor + 4), strict=True):
        drawing.text(frame.end + 8, height, label, f"series {style}-text")
    return Plot(
        "at-k",
        "What more attempts gain",
        "pass@k: at least one of k attempts succeeds; pass^k: all of them do. Over the tasks with at least k "
        "attempts that count.",
        drawing.render("at-k", "pass@k and pass^k over k"),
        ("k", "tasks", "pass@k", "interval", "pass^k", "interval", "best return of k", "interval"),
        [_row_at(figure) for figure in figures],
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


def stop_reasons(summary: RunSummary) -> Plot | None:
    """Draw the number of attempts by stop reason; `None` without attempts."""
    reasons = list(summary.overall.stop_reasons.items())
    if not reasons:
        return None
    rest = sum(count for _, count in reasons[MAX_REASONS:])
    shown = reasons[:MAX_REASONS] + ([("all others", rest)] if rest else [])
    total = sum(count for _, count in reasons)
    frame = Frame(height=16 + _LINE * len(shown), left=150, right=96, top=8, bottom=8)
    drawing = Drawing((0.0, float(max(shown[0][1], rest))), (0.0, float(len(shown))), frame)
    for index, (reason, count) in enumerate(shown):
        top = len(shown) - index - 0.22
        name = reason if len(reason) <= MAX_NAME else f"{reason[: MAX_NAME - 1]}…"
        words = f"{reason}: {count_of(count, 'attempt')}, {percent(count / total)}"
        drawing.bar((0, count), (top - 0.56, top), words, "error" if reason == "error" else "accent-bar")
        middle = drawing.at_y(top - 0.28) + 4
        drawing.text(frame.left - 10, middle, name, "name end")
        drawing.text(drawing.at_x(count) + 8, middle, f"{count:,} · {percent(count / total)}", "tick")
    return Plot(
        "stop-reasons",
        "Why attempts ended",
        f"{count_of(total, 'attempt')}, including those that errored.",
        drawing.render("stop-reasons", "Why attempts ended"),
        ("reason", "attempts", "share"),
        [(reason, f"{count:,}", percent(count / total)) for reason, count in reasons],
    )


def interval_bar(name: str, value: float, within: Interval, scale: tuple[float, float]) -> Markup:
    """Draw a figure and its interval on a line from `scale[0]` to `scale[1]`."""
    low, high = scale
    frame = Frame(width=200, height=14, left=5, right=5, top=2, bottom=2)
    drawing = Drawing((low, high), (0.0, 1.0), frame)
    drawing.parts = [element("line", x1=5, x2=195, y1=7, y2=7, class_="track")]
    drawing.extent(within.low, within.high, 7)
    drawing.parts.append(
        element("circle", cx=drawing.at_x(min(max(value, low), high)), cy=7, r=4.5, class_="accent-dot")
    )
    return drawing.render(
        name, f"{number(value)}, interval {between(within)}, on a scale from {low:g} to {high:g}"
    )
