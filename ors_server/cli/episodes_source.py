"""Where `ors-server episodes` reads: a store, or a running server."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import typer

from ors_server.cli.filters import open_record
from ors_server.cli.server_requests import api_key, is_url
from ors_server.store.episode_order import NEWEST_FIRST, EpisodeSorting

if TYPE_CHECKING:
    from ors_server.cli.episodes_options import SourceOptions
    from ors_server.doors.control.episodes import EpisodeEntry
    from ors_server.model.trajectory import EpisodeSummary, Step
    from ors_server.store.base import RecordReader
    from ors_server.store.episode_filter import EpisodeFilter

EPISODES_AT_ONCE = 500
"""Maximum number of episodes that are read at once."""


@asynccontextmanager
async def open_source(options: "SourceOptions") -> "AsyncGenerator[RecordReader]":
    """Open the record that the options choose.

    Raises:
        typer.BadParameter: If they choose two records, or one that cannot be read.
    """
    if options.url is None:
        async with open_record(options.store, "--url, or --store") as reader:
            yield reader
        return
    if options.store is not None:
        raise typer.BadParameter("give one record: --store or --url.")
    if not is_url(options.url):
        raise typer.BadParameter(
            f"--url must be a server's, such as http://127.0.0.1:8080, got {options.url!r}."
        )
    from ors_server.cli.server_record import ServerRecord

    async with aclosing(ServerRecord.at(options.url, api_key())) as server:
        yield server


async def list_entries(
    record: "RecordReader",
    episode_filter: "EpisodeFilter",
    *,
    limit: int | None = None,
    order: EpisodeSorting = NEWEST_FIRST,
) -> "AsyncGenerator[EpisodeEntry, None]":
    """Yield episodes in an order, with one page of them in memory."""
    from ors_server.doors.control.episodes import EpisodeEntry

    count, after = 0, None
    while limit is None or count < limit:
        size = EPISODES_AT_ONCE if limit is None else min(EPISODES_AT_ONCE, limit - count)
        page = await record.page(episode_filter, after=after, limit=size, order=order)
        for each in page:
            yield EpisodeEntry.of(each)
        if len(page) < size:
            break
        count += size
        after = page[-1].origin.episode_id


async def follow_steps(
    record: "RecordReader", episode_id: str, start: int
) -> "AsyncGenerator[Step | EpisodeSummary, None]":
    """Yield an episode's steps as they are played, and its final figures when its session has ended."""
    from ors_server.cli.server_record import ServerRecord
    from ors_server.model.clock import SystemClock
    from ors_server.store.episode_updates import follow

    if isinstance(record, ServerRecord):  # which sends each step at once
        async with aclosing(record.follow(episode_id, start)) as events:
            async for event in events:
                yield event
        return
    async with aclosing(follow(record, episode_id, start=start, clock=SystemClock())) as updates:
        async for update in updates:
            for step in update.steps:
                yield step
            if update.is_last:
                yield update.record.summary
