"""`ors-server compare`: runs with one of them, task by task."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ors_server.cli.command_output import make_folder_of, say, say_json
from ors_server.cli.reading_options import StatisticsOptions, read_runs, reading_of
from ors_server.cli.terminal import PIPED_WIDTH, make_console

if TYPE_CHECKING:
    from ors_server.evaluation.run_comparison import RunComparison


@dataclass(frozen=True, kw_only=True)
class CompareOptions(StatisticsOptions):
    """Options of `compare`."""

    first: Annotated[
        Path, typer.Argument(metavar="FIRST", help="Folder of the run that is compared with: the baseline.")
    ]
    others: Annotated[
        list[Path], typer.Argument(metavar="SECOND...", help="Folders of the runs that are compared with it.")
    ]


def compare(options: CompareOptions) -> None:
    """Compare runs with the first one, on the tasks that both played.

    Tasks are matched by split, index and hash. Differences are the other run's figures less the first one's,
    with intervals by paired bootstrap and p-values by sign flips. Of more than two runs, each is a line. The
    status is 0, or 2 if two runs have no task in common.
    """
    from ors_server.evaluation import run_comparison
    from ors_server.evaluation.report.comparison_page import comparison_report
    from ors_server.evaluation.table import (
        changes_table,
        comparison_remarks,
        comparison_table,
        comparisons_table,
    )

    first = read_runs([options.first])
    comparisons: list[RunComparison] = []
    for folder in options.others:
        try:
            comparisons.append(run_comparison.compare(first, read_runs([folder]), reading_of(options)))
        except run_comparison.ComparisonError as error:
            raise typer.BadParameter(f"{folder}: {error}" if options.others[1:] else str(error)) from error
    if options.html is not None:
        if options.others[1:]:
            raise typer.BadParameter(
                "--html shows two runs; give FIRST and one SECOND, or report all of them."
            )
        make_folder_of(options.html).write_text(comparison_report(comparisons[0]), encoding="utf-8")
    if options.json:
        shown = [run_comparison.COMPARISON.as_json(comparison) for comparison in comparisons]
        say_json(shown if options.others[1:] else shown[0])
        return
    console = make_console(piped_width=PIPED_WIDTH)
    if options.others[1:]:
        console.print(comparisons_table(comparisons))
        return
    (comparison,) = comparisons
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
