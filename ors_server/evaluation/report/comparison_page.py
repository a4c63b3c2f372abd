"""The report of a comparison of two runs, with its plots."""

import math
from collections import Counter
from statistics import fmean

from markupsafe import Markup

from ors_server.charts.chart import (
    Chart,
    ChartMark,
    band,
    bars,
    chart_options,
    dots,
    line,
    names_axis,
    value_axis,
    widened,
    with_level,
)
from ors_server.evaluation.number_format import chance, count_of, number, signed
from ors_server.evaluation.report.long_table import MAX_ROWS, Column, LongTable
from ors_server.evaluation.report.page import run_facts
from ors_server.evaluation.report.plots import MAX_TASKS, neighbours
from ors_server.evaluation.report.shell import parts, report
from ors_server.evaluation.run_comparison import RunComparison, TaskChange
from ors_server.evaluation.runs import Run
from ors_server.evaluation.table import COMPARED, RATES, comparison_remarks, difference_cells, label_of

_GRID = 30
"""Number of positions in each direction at which the returns of many tasks are drawn."""
_SHARES = (("wins", "good", "better"), ("ties", "other", "alike"), ("losses", "bad", "worse"))
_TILES = 4
_COLUMNS: tuple[Column[TaskChange], ...] = (
    Column("task", lambda change: f"{change.split}/{change.index}", in_id=True),
    Column("difference", lambda change: change.difference, "number"),
    Column("first", lambda change: change.first, "number"),
    Column("second", lambda change: change.second, "number"),
    Column("first success rate", lambda change: change.first_success_rate, "number"),
    Column("second success rate", lambda change: change.second_success_rate, "number"),
    Column("first attempts", lambda change: change.first_attempts, "number"),
    Column("second attempts", lambda change: change.second_attempts, "number"),
)


def comparison_report(comparison: RunComparison) -> str:
    """Return the report of a comparison as one page."""
    first, second = comparison.first[0], comparison.second[0]
    names = f"{_name(first)} and {_name(second)}"
    how = comparison_remarks(comparison)[-1]
    tasks = LongTable("tasks", "The tasks that changed most come first.", _COLUMNS, comparison.tasks, "task:")
    charts = [differences(comparison), both_returns(comparison), record(comparison)]
    runs = [("First", run) for run in comparison.first] + [("Second", run) for run in comparison.second]
    matched = count_of(comparison.matched, "task")
    lead = f"{names}, over {matched} that both played. Differences are the second less the first."
    return report(
        f"{first.environment}: {names}",
        ("Comparison", first.environment, lead),
        (
            ("figures", "Figures", _figures(comparison)),
            ("plots", "Plots", [parts.figures(charts)]),
            ("tasks-section", "Tasks", [parts.long_table(tasks)]),
            ("run", "Runs", [run_facts(run, f"{place}: {_name(run)}") for place, run in runs]),
        ),
        f"{how[:1].upper()}{how[1:]}. Sign flips: how often chance alone would make so large a difference. "
        f"The page holds at most {MAX_ROWS:,} tasks; it loads nothing.",
        has_charts=True,
    )


def _name(run: Run) -> str:
    return f"{run.agent_name} ({run.run_id})"


def _figures(comparison: RunComparison) -> list[Markup]:
    """Return a tile for each of the first differences, what is to say about them, and a table of all."""
    cells = {
        name: difference_cells(comparison.figures[name], is_rate=name in RATES)
        for name in COMPARED
        if name in comparison.figures
    }
    labels = {name: label_of(name, comparison.k) for name in cells}
    # Steps and cost have no good direction.
    tiles = [
        parts.difference_tile(labels[name], cells[name], comparison.figures[name], name in {"reward", *RATES})
        for name in [*cells][:_TILES]
    ]
    sentences = comparison_remarks(comparison)[:-1]
    headings = ("figure", "first", "second", "difference", "interval", "sign flips")
    note = "" if comparison.mcnemar is None else f" McNemar, exact: {chance(comparison.mcnemar.p)}."
    rows = [(labels[name], *cells[name]) for name in cells]
    table = parts.plain_table(headings, rows, f"Over the matched tasks.{note}")
    return [parts.box("tiles", *tiles), parts.remarks(sentences), parts.box("card", table)]


def differences(comparison: RunComparison) -> Chart:
    """Draw the change of each task's mean return, from the greatest gain to the greatest loss."""
    changes = sorted(comparison.tasks, key=lambda change: (-change.difference, change.split, change.index))
    marks = [(change.difference, _words(change)) for change in changes]
    grouped = ""
    if len(changes) > MAX_TASKS:
        means = [(ranks, fmean(task.difference for task in group)) for ranks, group in neighbours(changes)]
        marks = [(mean, f"{ranks}: {signed(mean)}") for ranks, mean in means]
        grouped = f" {len(changes):,} tasks in {len(marks)} groups of neighbours, each with its mean."
    overall = comparison.figures["reward"]
    interval = overall.interval
    ends = [] if interval is None else [interval.low, interval.high]
    low, high = widened(min(0.0, changes[-1].difference, *ends), max(0.0, changes[0].difference, *ends))
    drawn = [ChartMark(change, words, _ink(change)) for change, words in marks]
    bar = bars(drawn, "other", "difference")
    series = [with_level(bar, overall.difference, f"mean {signed(overall.difference)}")]
    if interval is not None:
        borders = [(rank, interval.low, interval.high) for rank in (0, len(marks) - 1)]
        series = [*band(borders, "s1", "mean"), *series]
    return Chart(
        "differences",
        "Difference of the mean return per task",
        f"The band is the interval of the mean difference.{grouped}",
        chart_options(
            names_axis([words.partition(": ")[0] for _, words in marks], "tasks, the greatest gain first")
            | {"axisLabel": {"show": False}, "nameGap": 10},
            value_axis("second less first", low=low, high=high),
            series,
        ),
        ("task", "difference"),
        [tuple(words.split(": ", 1)) for _, words in marks],
        is_wide=True,
        legend=(("good", "better"), ("bad", "worse")),
    )


def _ink(difference: float, alike: str = "other") -> str:
    return "good" if difference > 0 else "bad" if difference < 0 else alike


def _words(change: TaskChange) -> str:
    figures = f"{number(change.first)} to {number(change.second)}"
    return f"{change.split}/{change.index}: {signed(change.difference)} ({figures})"


def both_returns(comparison: RunComparison) -> Chart:
    """Draw each task at its mean returns in both runs; more tasks at a position make a larger mark."""
    means = [value for task in comparison.tasks for value in (task.first, task.second)]
    low, high = widened(min(means), max(means))
    positions = Counter(
        _position(task, low, high, is_coarse=len(comparison.tasks) > MAX_TASKS) for task in comparison.tasks
    )
    rows: list[tuple[str, ...]] = []
    marks: list[ChartMark] = []
    for (first, second), count in sorted(positions.items()):
        words = f"{number(first)} to {number(second)}: {count_of(count, 'task')}"
        ink = _ink(second - first, "s1")
        # The area, not the diameter, grows with the count, up to a limit that keeps marks apart.
        marks.append(ChartMark((first, second), words, ink, min(28.0, 5 + 3 * math.sqrt(count))))
        rows.append((number(first), number(second), f"{count:,}"))
    return Chart(
        "both-returns",
        "Mean returns in both runs",
        "Above the line, the second run does better. The more tasks are at a position, the larger its mark.",
        chart_options(
            value_axis("mean return in the first run", low=low, high=high),
            value_axis("in the second run", low=low, high=high),
            [
                line([(low, low), (high, high)], "other", "equal", 1) | {"silent": True, "symbol": "none"},
                dots(marks, "s1", "tasks"),
            ],
        ),
        ("first", "second", "tasks"),
        rows,
    )


def _position(change: TaskChange, low: float, high: float, *, is_coarse: bool) -> tuple[float, float]:
    if not is_coarse:
        return change.first, change.second
    size = (high - low) / _GRID
    return low + round((change.first - low) / size) * size, low + round((change.second - low) / size) * size


def record(comparison: RunComparison) -> Chart:
    """Draw the numbers of tasks at which the second run does better, equally and worse."""
    rows: list[tuple[str, ...]] = []
    marks: list[ChartMark] = []
    for name, ink, words in _SHARES:
        count: int = getattr(comparison.record, name)
        title = f"{count_of(count, 'task')} {words}, {100 * count / comparison.matched:.1f} %"
        marks.append(ChartMark(count, title, ink))
        rows.append((words, f"{count:,}"))
    return Chart(
        "record",
        "Tasks by outcome",
        f"{count_of(comparison.matched, 'matched task')}, by the mean return in the second run.",
        chart_options(
            value_axis(is_whole=True),
            names_axis([words for _, _, words in _SHARES], is_down=True),
            [bars(marks, "other", "tasks")],
        ),
        ("outcome", "tasks"),
        rows,
        entries=len(_SHARES),
    )
