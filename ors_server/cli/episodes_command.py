"""`ors-server episodes`: reads the record, from a store or from a running server."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import typer

from ors_server.cli.command_options import Command, Group, from_fields
from ors_server.cli.episodes_options import ListOptions, ShowOptions, SourceOptions, TailOptions

if TYPE_CHECKING:
    from ors_server.cli.episodes_source import Source

episodes = typer.Typer(
    cls=Group, no_args_is_help=True, help="Read recorded episodes, from a store or from a running server."
)


def list_episodes(options: ListOptions) -> None:
    """List episodes on record, live and ended, the newest first.

    The last line sums up all that were meant, also those that the table leaves out. With --json, each
    episode is an object on its own line, as in the control API's list.
    """
    from ors_server.cli.episodes_list import list_from
    from ors_server.cli.filters import read_selection
    from ors_server.clock import SystemClock

    wanted = read_selection(options, options.environment, now=SystemClock().now())
    _read(options, lambda source: list_from(source, wanted, options))


def show_episode(options: ShowOptions) -> None:
    """Show one episode step by step: where it came from, each call, what it was paid, and the figures.

    Long texts are cut, and a notice says so; images are named with their size. Characters that a terminal
    would obey are spelled out. The status is 1 where there is no such episode or step.
    """
    from ors_server.cli.episodes_show import show_from

    _read(options, lambda source: show_from(source, options))


def tail_episodes(options: TailOptions) -> None:
    """Follow an episode's steps until its session is gone; or, without an ID, all new episodes and steps.

    With --json, each event is an object on its own line: `event` is opened, step or closed.
    """
    from ors_server.cli.episodes_tail import tail_all, tail_one
    from ors_server.cli.filters import read_selection
    from ors_server.clock import SystemClock

    clock = SystemClock()
    wanted = read_selection(options, options.environment, now=clock.now())
    if options.episode is None:
        if options.start:
            raise typer.BadParameter("--start goes with an ID.")
        _read(options, lambda source: tail_all(source, wanted, options, clock))
        return
    if wanted.model_fields_set:
        raise typer.BadParameter("give an ID, or say which episodes; not both.")
    _read(options, lambda source: tail_one(source, options))


COMMANDS: dict[str, Callable[[Any], None]] = {
    "list": list_episodes,
    "show": show_episode,
    "tail": tail_episodes,
}
"""The commands of the group by name."""
for name, command in COMMANDS.items():
    episodes.command(name, cls=Command)(from_fields(command))


def _read(options: SourceOptions, work: "Callable[[Source], Awaitable[None]]") -> None:
    import anyio

    from ors_server.cli.episodes_source import open_source
    from ors_server.cli.terminal import until_nobody_reads

    opened = open_source(options)

    async def run() -> None:
        async with opened as source:
            await work(source)

    with until_nobody_reads():
        anyio.run(run)
