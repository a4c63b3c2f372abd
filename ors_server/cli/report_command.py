"""`ors-server report`: the figures of runs that were played, again."""

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
    transcripts_of,
)


@dataclass(frozen=True)
class ReportOptions:
    """What `report` can be told."""

    folder: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="Folders of runs; several of one agent in one environment are summed up together.",
        ),
    ]
    html: Html = None
    store: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL",
            help="With --html: the record with the transcripts; the setting `store` by default.",
            show_default=False,
        ),
    ] = None
    tasks: Annotated[bool, typer.Option("--tasks", help="Print the figures of each task too.")] = False
    success_at: SuccessAt = None
    without_over_budget: WithoutOverBudget = False
    confidence: Confidence = 0.95
    resamples: Resamples = 10_000
    seed: Seed = 0
    json: Annotated[bool, typer.Option("--json", help="Print every figure as JSON.")] = False


def report(options: ReportOptions) -> None:
    """Sum up runs that `ors-server eval` left in folders, finished or not.

    Means are over tasks, of each task's mean over its attempts; attempts that errored are in no mean. The
    status is 0, or 2 if a folder holds no run.
    """
    from ors_server.evaluation.failures import failure_lines
    from ors_server.evaluation.report.page import run_report
    from ors_server.evaluation.run_figures import summarise
    from ors_server.evaluation.summary import SUMMARY
    from ors_server.evaluation.table import summary_remarks, summary_table, tasks_table

    outcome = gathered(options.folder)
    summary = summarise(outcome, reading_of(options))
    if options.html is not None:
        transcripts = transcripts_of(outcome, options.store)
        options.html.write_text(run_report(summary, outcome, transcripts), encoding="utf-8")
    if options.json:
        say_json(SUMMARY.as_json(summary))
        return
    console = console_of_tables()
    if options.tasks:
        console.print(tasks_table(summary))
        say()
    console.print(summary_table(summary))
    for remark in summary_remarks(summary):
        say(remark)
    for line in failure_lines(outcome.attempts, len(outcome.attempts)):
        say(line)
    if options.html is not None:
        say(f"report in {options.html}")
