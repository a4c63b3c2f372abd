"""The plots of a comparison of two runs."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ors_server.evaluation.number_format import count_of, number, signed
from ors_server.evaluation.report.drawing import Drawing, Frame, widened
from ors_server.evaluation.report.markup import Markup, element
from ors_server.evaluation.report.plots import MAX_TASKS, WIDE, Plot
from ors_server.evaluation.run_comparison import FigureDifference, RunComparison, TaskChange

SQUARE = Frame(height=400)
_GRID = 30
"""Number of positions in each direction at which the returns of many tasks are drawn."""
_SHARES = (("wins", "success", "better"), ("ties", "other", "alike"), ("losses", "error", "worse"))


@dataclass(frozen=True, slots=True)
class _Bar:
    change: float
    words: str


def differences(comparison: RunComparison) -> Plot:
    """Draw the change of each task's mean return, from the greatest gain to the greatest loss."""
    changes = sorted(comparison.tasks, key=lambda change: (-change.difference, change.split, change.index))
    bars = _bars(changes)
    overall = comparison.figures["reward"]
    reached = [0.0, changes[-1].difference, changes[0].difference]
    interval = overall.interval
    if interval is not None:
        reached += [interval.low, interval.high]
    low, high = widened(min(reached), max(reached))
    drawing = Drawing((0.0, float(len(bars))), (low, high), WIDE)
    drawing.axes("tasks, the greatest gain first", "second less first", x_ticks=())
    if interval is not None:
        ends = (0.0, float(len(bars)))
        drawing.band([(end, interval.low, interval.high) for end in ends])
    for index, bar in enumerate(bars):
        style = "success" if bar.change > 0 else "error" if bar.change < 0 else "other"
        drawing.bar((index + 0.1, index + 0.9), (0.0, bar.change), bar.words, style)
    drawing.level(overall.difference, f"mean {signed(overall.difference)}")
    grouped = (
        ""
        if len(changes) == len(bars)
        else f" {len(changes):,} tasks in {len(bars)} groups of neighbours, each with its mean."
    )
    return Plot(
        "differences",
        "Difference of the mean return per task",
        f"The band is the interval of the mean difference.{grouped}",
        drawing.render("differences", "Difference of the mean return per task"),
        ("task", "difference"),
        [tuple(bar.words.split(": ", 1)) for bar in bars],
        is_wide=True,
        legend=(("success", "better"), ("error", "worse")),
    )


def _bars(changes: Sequence[TaskChange]) -> list[_Bar]:
    if len(changes) <= MAX_TASKS:
        return [_Bar(change.difference, _words(change)) for change in changes]
    step = len(changes) / MAX_TASKS
    bars: list[_Bar] = []
    for index in range(MAX_TASKS):
        start, end = round(index * step), round((index + 1) * step)
        mean = math.fsum(change.difference for change in changes[start:end]) / (end - start)
        bars.append(_Bar(mean, f"ranks {start + 1:,} to {end:,}: {signed(mean)}"))
    return bars


def _words(change: TaskChange) -> str:
    figures = f"{number(change.first)} to {number(change.second)}"
    return f"{change.split}/{change.index}: {signed(change.difference)} ({figures})"


def both_returns(comparison: RunComparison) -> Plot:
    """Draw each task at its mean returns in both runs; more tasks at a position make a larger mark."""
    means = [value for task in comparison.tasks for value in (task.first, task.second)]
    low, high = widened(min(means), max(means))
    drawing = Drawing((low, high), (low, high), SQUARE)
    drawing.axes("mean return in the first run", "in the second run")
    drawing.parts.append(
        element(
            "line",
            x1=drawing.at_x(low),
            y1=drawing.at_y(low),
            x2=drawing.at_x(high),
            y2=drawing.at_y(high),
            class_="level",
        )
    )
    positions = Counter(
        _position(task, low, high, is_coarse=len(comparison.tasks) > MAX_TASKS) for task in comparison.tasks
    )
    rows: list[tuple[str, ...]] = []
    for (first, second), count in sorted(positions.items()):
        words = f"{number(first)} to {number(second)}: {count_of(count, 'task')}"
        style = "success-line-dot" if second > first else "error" if second < first else "accent-dot"
        # The area, not the radius, grows with the count, up to a limit that keeps marks apart.
        drawing.dot(first, second, words, f"{style} see-through", min(14.0, 2.6 + 1.4 * math.sqrt(count)))
        rows.append((number(first), number(second), f"{count:,}"))
    return Plot(
        "both-returns",
        "Mean returns in both runs",
        "Above the line, the second run does better. The more tasks are at a position, the larger its mark.",
        drawing.render("both-returns", "Mean returns of tasks in both runs"),
        ("first", "second", "tasks"),
        rows,
    )


def _position(change: TaskChange, low: float, high: float, *, is_coarse: bool) -> tuple[float, float]:
    if not is_coarse:
        return change.first, change.second
    size = (high - low) / _GRID
    return low + round((change.first - low) / size) * size, low + round((change.second - low) / size) * size


def record(comparison: RunComparison) -> Plot:
    """Draw the numbers of tasks at which the second run does better, equally and worse."""
    frame = Frame(height=16 + 34 * len(_SHARES), left=80, right=110, top=8, bottom=8)
    drawing = Drawing((0.0, float(comparison.matched)), (0.0, float(len(_SHARES))), frame)
    rows: list[tuple[str, ...]] = []
    for index, (name, style, words) in enumerate(_SHARES):
        count: int = getattr(comparison.record, name)
        top = len(_SHARES) - index - 0.2
        title = f"{count_of(count, 'task')} {words}, {100 * count / comparison.matched:.1f} %"
        drawing.bar((0, count), (top - 0.6, top), title, style)
        middle = drawing.at_y(top - 0.3) + 4
        drawing.text(frame.left - 10, middle, words, "name end")
        drawing.text(drawing.at_x(count) + 8, middle, f"{count:,}", "tick")
        rows.append((words, f"{count:,}"))
    return Plot(
        "record",
        "Tasks by outcome",
        f"{count_of(comparison.matched, 'matched task')}, by the mean return in the second run.",
        drawing.render("record", "Tasks at which the second run does better, alike and worse"),
        ("outcome", "tasks"),
        rows,
    )


def zero_bar(name: str, difference: FigureDifference) -> Markup:
    """Draw a difference and its interval around 0."""
    ends = (
        (difference.difference, 0.0)
        if difference.interval is None
        else (difference.interval.low, difference.interval.high, 0.0)
    )
    # A margin around the widest end; 1 where everything is 0.
    reach = 1.15 * max(map(abs, ends)) or 1.0
    frame = Frame(width=200, height=18, left=5, right=5, top=2, bottom=2)
    drawing = Drawing((-reach, reach), (0.0, 1.0), frame)
    low, high = min(ends[:2]), max(ends[:2])
    drawing.parts = [
        element("line", x1=5, x2=195, y1=9, y2=9, class_="track"),
        element("line", x1=drawing.at_x(low), x2=drawing.at_x(high), y1=9, y2=9, class_="extent"),
        element("line", x1=100, x2=100, y1=1, y2=17, class_="axis"),
        element("circle", cx=drawing.at_x(difference.difference), cy=9, r=4.5, class_="accent-dot"),
    ]
    return drawing.render(name, f"{signed(difference.difference)}, on a scale around 0")
