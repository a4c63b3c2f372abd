"""`ors-server episodes`: reads the record, from a store or from a running server."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import UTC
from typing import TYPE_CHECKING, Any

import typer

from ors_server.cli.command_options import Command, CommandGroup, from_fields
from ors_server.cli.command_output import complain, say
from ors_server.cli.episodes_options import (
    EpisodesListOptions,
    ShowOptions,
    SourceOptions,
    StatsOptions,
    TailOptions,
)
from ors_server.cli.examples import epilog_of
from ors_server.cli.terminal import make_console, make_table
from ors_server.model.printable import clean_line

if TYPE_CHECKING:
    from ors_server.store.base import RecordReader
    from ors_server.store.episode_filter import EpisodeFilter
    from ors_server.store.series import SeriesPoint

_SPAN = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
WHOLE = 100_000 * 86_400.0
"""Seconds of a span that has every episode."""

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
    from ors_server.cli.filters import read_filter
    from ors_server.model.clock import SystemClock

    episode_filter = read_filter(options.filters, now=SystemClock().now())
    _read(options, lambda record: _show_stats(record, episode_filter, options))


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


async def _show_stats(
    record: "RecordReader", episode_filter: "EpisodeFilter", options: "StatsOptions"
) -> None:
    """Print a row for each span of time and group of the matching episodes.

    Raises:
        BadParameter: If the span or a name of a group is wrong.
    """
    from ors_server.store.series import check_by

    by = tuple(name.strip() for name in (options.by or "").split(",") if name.strip())
    problem = check_by(by)
    if problem is not None:
        raise typer.BadParameter(f"--by: {problem}.")
    every = WHOLE
    if options.every is not None:
        span = _SPAN.fullmatch(options.every)
        if span is None:
            raise typer.BadParameter(
                f"--every must be a number and s, m, h or d, such as 10m, got {options.every!r}."
            )
        every = int(span[1]) * _SECONDS[span[2]]
    points = await record.series(episode_filter, every, by)
    if options.to is not None:
        from ors_server.export.trackers import TrackerError, write_points

        try:
            runs = write_points(points, options.to)
        except TrackerError as error:
            raise typer.BadParameter(f"--to: {error}.") from error
        complain(f"wrote {runs} run{'' if runs == 1 else 's'} to {options.to}")
    if options.json:
        for point in points:
            row = asdict(point) | {"start": None if options.every is None else point.start.isoformat()}
            say(json.dumps(row))
    elif points:
        _print_stats(points, has_times=options.every is not None)
    else:
        say("no episodes")


def _print_stats(points: "Sequence[SeriesPoint]", *, has_times: bool) -> None:
    from rich.text import Text

    from ors_server.cli.episodes_list import show_number

    table = make_table()
    if has_times:
        table.add_column("from, UTC", no_wrap=True)
    for name in points[0].group:
        table.add_column(name.removeprefix("label:"), overflow="fold")
    for heading in ("episodes", "mean return", "95 %", "success", "ungraded", "failed", "steps"):
        table.add_column(heading, justify="right", no_wrap=True)
    for point in points:
        returns = point.returns
        interval = "-"
        if returns.low is not None and returns.high is not None:
            interval = f"{returns.low:.3g} to {returns.high:.3g}"
        cells = (
            *([f"{point.start.astimezone(UTC):%Y-%m-%d %H:%M:%S}"] if has_times else []),
            *(clean_line(value) or "-" for value in point.group.values()),
            f"{point.episodes:,}",
            show_number(returns.mean),
            interval,
            "-" if point.success is None else f"{100 * point.success:.0f} %",
            f"{point.ungraded:,}",
            f"{point.failed:,}",
            f"{point.mean_steps:.1f}",
        )
        table.add_row(*map(Text, cells))
    make_console().print(table)
