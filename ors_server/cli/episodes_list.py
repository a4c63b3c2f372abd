"""`ors-server episodes list`: a table of episodes, or a line of JSON for each."""

import json
from collections.abc import Collection, Sequence
from contextlib import aclosing
from datetime import UTC
from typing import TYPE_CHECKING

from typer import BadParameter

from ors_server.cli.command_output import say
from ors_server.cli.episodes_source import list_entries
from ors_server.cli.terminal import make_console, make_table
from ors_server.model.printable import clean_line
from ors_server.store.episode_order import NEWEST_FIRST, OLDEST_FIRST, SORTS, parse_order

if TYPE_CHECKING:
    from ors_server.cli.episodes_options import EpisodesListOptions
    from ors_server.doors.control.episodes import EpisodeEntry
    from ors_server.model.trajectory import EpisodeSummary
    from ors_server.store.aggregates import EpisodeTotals
    from ors_server.store.base import RecordReader
    from ors_server.store.episode_filter import EpisodeFilter

OWN_COLUMNS = ("agent", "run")
"""Labels that have a column of their own: `eval` sets them."""
MIN_WIDE_COLUMNS = 120
"""Columns of a terminal from which on labels have their own columns; else they are below the task."""
ID_DIGITS = 8
"""Digits of an id in a table."""


async def list_from(
    record: "RecordReader", episode_filter: "EpisodeFilter", options: "EpisodesListOptions"
) -> None:
    """Print the episodes that match a filter."""
    order = OLDEST_FIRST if options.oldest_first else NEWEST_FIRST
    if options.sort is not None:
        if options.oldest_first or options.sort not in SORTS:
            raise BadParameter(f"--sort is one of {', '.join(SORTS)}, without --oldest-first.")
        order = parse_order(options.sort)
    listed = list_entries(record, episode_filter, limit=options.limit, order=order)
    async with aclosing(listed) as entries:
        if options.json:
            async for entry in entries:
                say(json.dumps(entry.model_dump(mode="json", by_alias=True)))
            return
        shown = [entry async for entry in entries]
    if shown:
        _print_table(shown)
    say(sum_up(len(shown), await record.totals(episode_filter)))


def sum_up(shown: int, totals: "EpisodeTotals") -> str:
    """Return lines that count the shown and the matching episodes, and those that the mean leaves out."""
    if not totals.episodes:
        return "no episodes"
    counts = f"{shown} of {totals.episodes:,} episodes, {totals.steps:,} steps"
    least, greatest = show_number(totals.least_return), show_number(totals.greatest_return)
    lines = [f"{counts}, mean return {show_number(totals.mean_return)} ({least} to {greatest})"]
    left_out = ", ".join(
        f"{count:,} {name}"
        for name, count in (
            *(("live", totals.live), ("abandoned", totals.abandoned), ("ungraded", totals.ungraded)),
            *(("failed", totals.failed), ("unjudged", totals.unjudged)),
        )
        if count
    )
    if left_out:
        lines.append(f"the mean is over {totals.graded:,} graded; left out: {left_out}")
    if totals.unjudged:
        lines.append("judge the unjudged again: ors-server regrade --unjudged --reward NAME")
    return "\n".join(lines)


def show_number(value: float | None) -> str:
    """Write a figure with at most six digits, and `None` as a dash."""
    return "-" if value is None else f"{value:g}"


def show_return(summary: "EpisodeSummary") -> str:
    """Write an episode's return; `unjudged` if a judgement failed, for it then lacks a part."""
    return "unjudged" if summary.unjudged_steps else show_number(summary.episode_return)


def show_task(entry: "EpisodeEntry") -> str:
    """Write which task an episode plays, on one line: its environment, and its place or its hash."""
    is_placed = entry.split is not None and entry.index is not None
    task = f"{entry.split}/{entry.index}" if is_placed else entry.task_hash[:ID_DIGITS]
    return clean_line(f"{entry.environment} {task}")


def show_state(entry: "EpisodeEntry") -> str:
    """Write why an episode ended, and whether its session is still open; its phase until then."""
    reason = entry.episode.stop_reason
    if reason is None:
        return entry.episode.phase
    return reason if entry.closed else f"{reason}, open"


def show_labels(entry: "EpisodeEntry", without: Collection[str] = ()) -> str:
    """Write an episode's labels on one line."""
    labels = {key: value for key, value in entry.labels.items() if key not in without}
    return clean_line(" ".join(f"{key}={value}" for key, value in labels.items()))


def _print_table(entries: "Sequence[EpisodeEntry]") -> None:
    from rich.text import Text

    console = make_console()
    own = [name for name in OWN_COLUMNS if any(name in entry.labels for entry in entries)]
    has_more = any(show_labels(entry, OWN_COLUMNS) for entry in entries)
    is_wide = console.width >= MIN_WIDE_COLUMNS
    columns = [*own, *(["labels"] if has_more else [])] if is_wide else []
    table = make_table()
    table.add_column("id", no_wrap=True)
    table.add_column("task", overflow="fold", min_width=12)
    table.add_column("standing", overflow="fold", min_width=9)
    for heading in ("steps", "return"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("created, UTC", no_wrap=True)
    for heading in columns:
        table.add_column(heading, overflow="fold", min_width=8)
    for entry in entries:
        labels = {name: clean_line(entry.labels.get(name, "-")) for name in own}
        labels["labels"] = show_labels(entry, OWN_COLUMNS)
        below = [show_labels(entry)] if not is_wide and entry.labels else []
        cells = (
            entry.episode_id[:ID_DIGITS],
            "\n".join([show_task(entry), *below]),
            show_state(entry),
            str(entry.episode.steps),
            show_return(entry.episode),
            f"{entry.created_at.astimezone(UTC):%m-%d %H:%M:%S}",
            *(labels[name] for name in columns),
        )
        table.add_row(*map(Text, cells))
    console.print(table)
