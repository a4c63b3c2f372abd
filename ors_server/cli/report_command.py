"""`ors-server report`: statistics over finished or unfinished runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ors_server.cli.command_output import make_folder_of, say, say_json
from ors_server.cli.reading_options import StatisticsOptions, read_run_groups, reading_of, transcripts_of
from ors_server.cli.terminal import PIPED_WIDTH, make_console


@dataclass(frozen=True, kw_only=True)
class ReportOptions(StatisticsOptions):
    """Options of `report`."""

    folder: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...",
            help="Folders of runs or of suites; several of one agent in one environment are combined.",
        ),
    ]
    store: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL",
            help="With --html: the record with the transcripts; the setting `store` by default.",
            show_default=False,
        ),
    ] = None
    tasks: Annotated[bool, typer.Option("--tasks", help="Print the figures of each task too.")] = False


def report(options: ReportOptions) -> None:
    """Show statistics over the runs in folders that `ors-server eval` wrote, finished or not.

    Means are over tasks, of each task's mean over its attempts; attempts that failed with an
    error are in no mean. Runs of several agents or environments are a table: an agent a row, an environment a
    column. The status is 0, or 2 if a folder holds no run.
    """
    from ors_server.evaluation.failures import failure_lines
    from ors_server.evaluation.report.page import run_report, runs_report
    from ors_server.evaluation.run_figures import summarise
    from ors_server.evaluation.summary import SUMMARY
    from ors_server.evaluation.table import (
        runs_remarks,
        runs_table,
        summary_remarks,
        summary_table,
        tasks_table,
    )

    groups = read_run_groups(options.folder, options.success_at)
    summaries = [summarise(group, reading_of(options)) for group in groups]
    outcome, summary, are_several = groups[0], summaries[0], len(groups) > 1
    if options.html is not None:
        page = (
            runs_report(summaries)
            if are_several
            else run_report(summary, outcome, transcripts_of(outcome, options.store))
        )
        make_folder_of(options.html).write_text(page, encoding="utf-8")
    if options.json:
        shown = [SUMMARY.as_json(figures) for figures in summaries]
        say_json(shown if are_several else shown[0])
        return
    console = make_console(piped_width=PIPED_WIDTH)
    if options.tasks:
        for group, figures in zip(groups, summaries, strict=True):
            if are_several:
                say(f"{group.runs[0].environment}, {group.runs[0].agent_name}")
            console.print(tasks_table(figures))
            say()
    console.print(runs_table(summaries) if are_several else summary_table(summary))
    failures = failure_lines(outcome.attempts, len(outcome.attempts))
    for line in runs_remarks(summaries) if are_several else [*summary_remarks(summary), *failures]:
        say(line)
    if options.html is not None:
        say(f"report in {options.html}")
