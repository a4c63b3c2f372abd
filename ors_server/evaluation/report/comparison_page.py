"""The report of a comparison of two runs."""

from markupsafe import Markup

from ors_server.evaluation.number_format import chance, count_of
from ors_server.evaluation.report.comparison_plots import both_returns, differences, record
from ors_server.evaluation.report.long_table import MAX_ROWS, Column, LongTable
from ors_server.evaluation.report.page import run_facts
from ors_server.evaluation.report.shell import parts, report
from ors_server.evaluation.run_comparison import RunComparison, TaskChange
from ors_server.evaluation.runs import Run
from ors_server.evaluation.table import COMPARED, RATES, comparison_remarks, difference_cells, label_of

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
