"""`ors-server compare`: two runs, task by task."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ors_server.cli.command_output import make_folder_of, say, say_json
from ors_server.cli.reading_options import StatisticsOptions, read_runs, reading_of
from ors_server.cli.terminal import PIPED_WIDTH, make_console


@dataclass(frozen=True, kw_only=True)
class CompareOptions(StatisticsOptions):
    """Options of `compare`."""

    first: Annotated[
        Path, typer.Argument(metavar="FIRST", help="Folder of the run that is compared with: the baseline.")
    ]
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Folder of the run that is compared.")]


def compare(options: CompareOptions) -> None:
    """Compare two runs on the tasks that both played.

    Tasks are matched by split, index and hash. Differences are the second run's figures less the first one's,
    with intervals by paired bootstrap and p-values by sign flips. The status is 0, or 2 if the runs have no
    task in common.
    """
    from ors_server.evaluation import run_comparison
    from ors_server.evaluation.report.comparison_page import comparison_report
    from ors_server.evaluation.table import changes_table, comparison_remarks, comparison_table

    first, second = read_runs([options.first]), read_runs([options.second])
    try:
        comparison = run_comparison.compare(first, second, reading_of(options))
    except run_comparison.ComparisonError as error:
        raise typer.BadParameter(str(error)) from error
    if options.html is not None:
        make_folder_of(options.html).write_text(comparison_report(comparison), encoding="utf-8")
    if options.json:
        say_json(run_comparison.COMPARISON.as_json(comparison))
        return
    console = make_console(piped_width=PIPED_WIDTH)
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
