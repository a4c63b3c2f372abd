"""`ors-server compare`: two runs, task by task."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ors_server.cli.command_output import say, say_json
from ors_server.cli.reading_options import (
    Confidence,
    Html,
    Resamples,
    Seed,
    SuccessAt,
    WithoutOverBudget,
    console_of_tables,
    gathered,
    reading_of,
)


@dataclass(frozen=True)
class CompareOptions:
    """What `compare` can be told."""

    first: Annotated[
        Path, typer.Argument(metavar="FIRST", help="Folder of the run that is compared with: the baseline.")
    ]
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Folder of the run that is compared.")]
    html: Html = None
    success_at: SuccessAt = None
    without_over_budget: WithoutOverBudget = False
    confidence: Confidence = 0.95
    resamples: Resamples = 10_000
    seed: Seed = 0
    json: Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")] = False


def compare(options: CompareOptions) -> None:
    """Compare two runs on the tasks that both played.

    Tasks are matched by split, index and hash. Differences are the second run's figures less the first one's,
    with intervals by paired bootstrap and p-values by sign flips. The status is 0, or 2 if nothing can be
    compared.
    """
    from ors_server.evaluation import run_comparison
    from ors_server.evaluation.report.comparison_page import comparison_report
    from ors_server.evaluation.table import changes_table, comparison_remarks, comparison_table

    first, second = gathered([options.first]), gathered([options.second])
    try:
        comparison = run_comparison.compare(first, second, reading_of(options))
    except run_comparison.ComparisonError as error:
        raise typer.BadParameter(str(error)) from error
    if options.html is not None:
        options.html.write_text(comparison_report(comparison), encoding="utf-8")
    if options.json:
        say_json(run_comparison.COMPARISON.as_json(comparison))
        return
    console = console_of_tables()
    console.print(comparison_table(comparison))
    changed = changes_table(comparison)
    if changed.row_count:
        say()
        console.print(changed)
    say()
    for remark in comparison_remarks(comparison):
        say(remark)
    if options.html is not None:
        say(f"report in {options.html}")
