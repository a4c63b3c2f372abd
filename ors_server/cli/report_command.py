"""`ors-server report`: statistics over finished or unfinished runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ors_server.cli.command_output import make_folder_of, say, say_json
from ors_server.cli.reading_options import StatisticsOptions, read_run_groups, reading_of, transcripts_of
from ors_server.cli.terminal import PIPED_WIDTH, make_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ors_server.evaluation.run_results import RunResults
    from ors_server.evaluation.summary import RunSummary


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
    from ors_server.evaluation.report.page import run_report
    from ors_server.evaluation.run_figures import summarise
    from ors_server.evaluation.summary import SUMMARY
    from ors_server.evaluation.table import summary_remarks, summary_table, tasks_table

    groups = read_run_groups(options.folder, options.success_at)
    summaries = [summarise(group, reading_of(options)) for group in groups]
    if len(groups) > 1:
        _report_several(options, groups, summaries)
        return
    (outcome,), (summary,) = groups, summaries
    if options.html is not None:
        transcripts = transcripts_of(outcome, options.store)
        make_folder_of(options.html).write_text(run_report(summary, outcome, transcripts), encoding="utf-8")
    if options.json:
        say_json(SUMMARY.as_json(summary))
        return
    console = make_console(piped_width=PIPED_WIDTH)
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


def _report_several(
    options: ReportOptions, groups: "Sequence[RunResults]", summaries: "Sequence[RunSummary]"
) -> None:
    """Show a table of runs of several agents or environments, and how to read one of them by itself."""
    from ors_server.evaluation.report.page import runs_report
    from ors_server.evaluation.suite import agent_labels
    from ors_server.evaluation.summary import SUMMARY
    from ors_server.evaluation.table import runs_table, summary_remarks, tasks_table

    if options.html is not None:
        make_folder_of(options.html).write_text(runs_report(summaries), encoding="utf-8")
    if options.json:
        say_json([SUMMARY.as_json(summary) for summary in summaries])
        return
    console = make_console(piped_width=PIPED_WIDTH)
    if options.tasks:
        for group, summary in zip(groups, summaries, strict=True):
            say(f"{group.runs[0].environment}, {group.runs[0].agent_name}")
            console.print(tasks_table(summary))
            say()
    console.print(runs_table(summaries))
    for label, summary in zip(
        agent_labels([summary.runs[0] for summary in summaries]), summaries, strict=True
    ):
        for remark in summary_remarks(summary)[:-1]:
            say(f"{label} in {summary.runs[0].environment}: {remark}")
    say(summary_remarks(summaries[0])[-1])
    if options.html is not None:
        say(f"report in {options.html}")
