"""`ors-server episodes stats`: figures over many episodes, over time and by group."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC
from typing import TYPE_CHECKING

from typer import BadParameter

from ors_server.cli.command_output import complain, say
from ors_server.cli.episodes_list import show_number
from ors_server.cli.terminal import make_console, make_table
from ors_server.model.printable import clean_line

if TYPE_CHECKING:
    from ors_server.cli.episodes_options import StatsOptions
    from ors_server.store.base import RecordReader
    from ors_server.store.episode_filter import EpisodeFilter
    from ors_server.store.series import SeriesPoint

_SPAN = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
WHOLE = 100_000 * 86_400.0
"""Seconds of a span that has every episode."""


async def show_stats(
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
        raise BadParameter(f"--by: {problem}.")
    every = WHOLE
    if options.every is not None:
        span = _SPAN.fullmatch(options.every)
        if span is None:
            raise BadParameter(f"--every is a number and s, m, h or d, such as 10m, not {options.every!r}.")
        every = int(span[1]) * _SECONDS[span[2]]
    points = await record.series(episode_filter, every, by)
    if options.to is not None:
        from ors_server.export.trackers import TrackerError, write_points

        try:
            runs = write_points(points, options.to)
        except TrackerError as error:
            raise BadParameter(f"--to: {error}.") from error
        complain(f"wrote {runs} run{'' if runs == 1 else 's'} to {options.to}")
    if options.json:
        for point in points:
            row = asdict(point) | {"start": None if options.every is None else point.start.isoformat()}
            say(json.dumps(row))
    elif points:
        _print_table(points, has_times=options.every is not None)
    else:
        say("no episodes")


def _print_table(points: "Sequence[SeriesPoint]", *, has_times: bool) -> None:
    from rich.text import Text

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
