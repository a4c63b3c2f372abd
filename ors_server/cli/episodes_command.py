"""`ors-server episodes`: reads the record, from a store or from a running server."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import typer

from ors_server.cli.command_options import Command, CommandGroup, from_fields
from ors_server.cli.episodes_options import (
    EpisodesListOptions,
    ShowOptions,
    SourceOptions,
    StatsOptions,
    TailOptions,
)
from ors_server.cli.examples import epilog_of

if TYPE_CHECKING:
    from ors_server.store.base import RecordReader

episodes = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="Read recorded episodes, from a store or from a running server.",
)


def list_episodes(options: EpisodesListOptions) -> None:
    """List episodes on record, live and ended, the newest first.

    The last line counts all episodes that match, also those beyond --limit. With --json, each episode is an
    object on its own line, as in the control API's list.
    """
    from ors_server.cli.episodes_list import list_from
    from ors_server.cli.filters import read_filter
    from ors_server.model.clock import SystemClock

    episode_filter = read_filter(options.filters, now=SystemClock().now())
    _read(options, lambda record: list_from(record, episode_filter, options))


def episode_stats(options: StatsOptions) -> None:
    """Show the mean return, its interval, the success rate and failures, over time and by group.

    Episodes belong to the span of time in which they were created; without --every there is one row for each
    group. The mean is over graded episodes, with an interval of 95 %; a success is a return of at least 1.
    """
    from ors_server.cli.episodes_stats import show_stats
    from ors_server.cli.filters import read_filter
    from ors_server.model.clock import SystemClock

    episode_filter = read_filter(options.filters, now=SystemClock().now())
    _read(options, lambda record: show_stats(record, episode_filter, options))


def show_episode(options: ShowOptions) -> None:
    """Show one episode step by step: its origin, each call and its reward, and the figures.

    Long texts are cut, with a notice; images are shown by their size. Control characters are escaped. The
    status is 1 if there is no such episode or step.
    """
    from ors_server.cli.episodes_show import show_from

    _read(options, lambda record: show_from(record, options))


def tail_episodes(options: TailOptions) -> None:
    """Follow an episode's steps until its session is gone; or, without an ID, all new episodes and steps.

    With --json, each event is an object on its own line: `event` is opened, step or closed.
    """
    from ors_server.cli.episodes_tail import tail_all, tail_one
    from ors_server.cli.filters import read_filter
    from ors_server.model.clock import SystemClock
    from ors_server.store.episode_filter import ALL

    clock = SystemClock()
    episode_filter = read_filter(options.filters, now=clock.now())
    if options.episode is None:
        if options.start:
            raise typer.BadParameter("--start goes with an ID.")
        _read(options, lambda record: tail_all(record, episode_filter, options, clock))
        return
    if episode_filter != ALL:
        raise typer.BadParameter("give an ID or filters, not both.")
    _read(options, lambda record: tail_one(record, options))


COMMANDS: dict[str, Callable[[Any], None]] = {
    "list": list_episodes,
    "stats": episode_stats,
    "show": show_episode,
    "tail": tail_episodes,
}
"""The commands of the group by name."""
for name, command in COMMANDS.items():
    episodes.command(name, cls=Command, epilog=epilog_of(f"episodes {name}"))(from_fields(command))


def _read(options: SourceOptions, work: "Callable[[RecordReader], Awaitable[None]]") -> None:
    import anyio

    from ors_server.cli.episodes_source import open_source

    async def run() -> None:
        async with open_source(options) as record:
            await work(record)

    anyio.run(run)
