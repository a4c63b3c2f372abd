"""`ors-server regrade`: judges recorded episodes with another reward and shows the differences."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ors_server.cli.command_output import complain, say
from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.judging_options import JudgingOptions, make_scorer
from ors_server.cli.recorded_options import RecordedOptions, open_recorded
from ors_server.cli.regrade_summary import RegradeSummary
from ors_server.cli.terminal import make_console
from ors_server.model.printable import clean_line

if TYPE_CHECKING:
    from ors_server.replaying.regrading import Regraded


@dataclass(frozen=True, kw_only=True)
class RegradeOptions(JudgingOptions, RecordedOptions):
    """Options of `regrade`."""

    final_response_from: Annotated[
        str | None,
        typer.Option(
            metavar="TOOL.ARGUMENT",
            help="Where the final response is: an argument of the last call of a tool, or TOOL for the text "
            "that it returned. What the episode's last call handed in by default.",
            show_default=False,
        ),
    ] = None
    by_task: Annotated[
        bool,
        typer.Option("--by-task", help="For a reward of groups: the episodes of one task are a group."),
    ] = False
    json: Annotated[
        bool, typer.Option("--json", help="Print one object per episode, as soon as it is judged.")
    ] = False


def regrade(options: RegradeOptions) -> None:
    """Judge recorded episodes with another reward, and show how it differs from the paid rewards.

    The reward receives the same fields as the environment's own: the task's fields by name, the trajectory,
    the final response. The paid rewards are those of the tools, without penalties. The record is not changed.
    The status is 0 if every episode was judged, 1 if some could not be, 2 if the command line is wrong or the
    reward cannot judge anything here.
    """
    import anyio

    from ors_server.rewards.reward_errors import BatchError

    summary = RegradeSummary()

    def report(regraded: "Regraded") -> None:
        summary.add(regraded)
        if options.json:
            say(json.dumps(regraded.as_json(), allow_nan=False))

    try:
        anyio.run(_regrade, options, report)
    except BatchError as error:
        raise typer.BadParameter(str(error)) from error
    if not options.json:
        _show(summary)
    if summary.unjudged:
        complain(f"{summary.unjudged} of {summary.episodes} episodes could not be judged")
        for reason in summary.reasons:
            complain(clean_line(reason))
        raise typer.Exit(ExitStatus.FAILED)


async def _regrade(options: RegradeOptions, report: "Callable[[Regraded], None]") -> None:
    from anyio import to_thread

    from ors_server.replaying.regrading import RegradeRequest
    from ors_server.replaying.regrading import regrade as judge_again

    request = RegradeRequest(options.final_response_from, options.by_task)
    with make_scorer(options) as scorer:
        await to_thread.run_sync(scorer.start)
        async with open_recorded(options) as episodes:
            replaced = await judge_again(scorer, episodes, request, report)
    if replaced:
        complain(f"{replaced} workers were replaced: they died, or an episode took them too long")


def _show(summary: RegradeSummary) -> None:
    if not summary.episodes:
        say("no episodes")
        return
    console = make_console()
    console.print(summary.as_table())
    if summary.largest:
        say()
        console.print(summary.as_changes())
