"""Pairs of episodes of one task, the better one and the worse one.

A group is the episodes of one environment that played the same task (`task_hash`) and have the same value of
a label, if one is named. They are ordered by return, earlier ones first among equals. The first is paired
with the last, the second with the last but one, and so on, up to `Pairing.max_pairs` pairs, while the returns
differ by more than the margin.

Memory does not grow with the number of episodes: their index is in a temporary database on disk.
"""

import sqlite3
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby

from ors_server.export.chat import ConversationOptions
from ors_server.export.episodes import (
    UNFINISHED,
    UNJUDGED,
    ExportCounts,
    LeftOutError,
    is_played_out,
    judged_return,
)
from ors_server.export.trl import preference_row
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.model.wire import JSONObject
from ors_server.store.base import RecordReader
from ors_server.store.episode_filter import EpisodeFilter
from ors_server.store.episode_order import OLDEST_FIRST

EPISODES_AT_ONCE = 500
"""Episodes that are read at once for the index."""
WITHOUT_JUDGEMENT = "without a judgement"
TIED = "groups without a pair"


@dataclass(frozen=True, slots=True)
class Pairing:
    """How groups become pairs."""

    label: str | None = None
    """A label whose value the episodes of one group share."""
    max_pairs: int = 1
    """Maximum number of pairs of one group, at least 1."""
    margin: float = 0.0
    """The better return is greater by more than this; at least 0."""


async def export_preferences(
    reader: RecordReader,
    selected: EpisodeFilter,
    pairing: Pairing,
    options: ConversationOptions,
    counts: ExportCounts,
) -> AsyncGenerator[JSONObject, None]:
    """Write the pairs of a store as rows of a preference dataset, without unfinished episodes.

    The store is read once without steps, then again for the pairs; raises `StoreError` if that fails.
    """
    with closing(sqlite3.connect("")) as index:  # a database without a name is a temporary file's
        index.execute("CREATE TABLE played (grouped TEXT, worth REAL, place INTEGER, episode_id TEXT)")
        await _fill(index, reader, selected, pairing, counts)
        for better, worse in _pairs(index, pairing, counts):
            try:
                chosen, rejected = await _fetch(reader, better), await _fetch(reader, worse)
                row = preference_row(chosen, rejected, options)
            except LeftOutError as reason:
                counts.left_out[str(reason)] += 1
                continue
            counts.rows += 1
            counts.steps += len(chosen[1]) + len(rejected[1])
            yield row


async def _fill(
    index: sqlite3.Connection,
    reader: RecordReader,
    selected: EpisodeFilter,
    pairing: Pairing,
    counts: ExportCounts,
) -> None:
    after: str | None = None
    # Oldest first, so that the count of episodes orders equal returns by time.
    while page := await reader.page(selected, after=after, limit=EPISODES_AT_ONCE, order=OLDEST_FIRST):
        rows = [_entry(record, pairing, counts) for record in page]
        index.executemany("INSERT INTO played VALUES (?, ?, ?, ?)", [row for row in rows if row is not None])
        after = page[-1].origin.episode_id


def _entry(
    record: EpisodeRecord, pairing: Pairing, counts: ExportCounts
) -> tuple[str, float, int, str] | None:
    counts.episodes += 1
    worth = judged_return(record.summary)
    if record.summary.unjudged_steps:
        counts.left_out[UNJUDGED] += 1
        return None
    if worth is None or not is_played_out(record.summary):
        counts.left_out[WITHOUT_JUDGEMENT if worth is None else UNFINISHED] += 1
        return None
    origin = record.origin
    mark = "" if pairing.label is None else origin.labels.get(pairing.label, "")
    grouped = f"{origin.environment} {origin.task_hash} {mark}"  # neither of the first two has a space
    return grouped, worth, counts.episodes, origin.episode_id


def _pairs(index: sqlite3.Connection, pairing: Pairing, counts: ExportCounts) -> Iterator[tuple[str, str]]:
    ranked = index.execute(
        "SELECT grouped, worth, episode_id FROM played ORDER BY grouped, worth DESC, place"
    )
    for _, group in groupby(ranked, key=lambda row: row[0]):
        pairs = list(_match([(worth, episode_id) for _, worth, episode_id in group], pairing))
        if not pairs:
            counts.left_out[TIED] += 1
        yield from pairs


def _match(ranked: Sequence[tuple[float, str]], pairing: Pairing) -> Iterator[tuple[str, str]]:
    for rank in range(min(pairing.max_pairs, len(ranked) // 2)):
        (best, better), (worst, worse) = ranked[rank], ranked[-1 - rank]
        if best - worst > pairing.margin:
            yield better, worse


async def _fetch(reader: RecordReader, episode_id: str) -> tuple[EpisodeRecord, Sequence[Step]]:
    whole = await reader.whole(episode_id)
    if whole is None:  # forgotten since the index was made
        raise LeftOutError("episodes that were forgotten meanwhile")
    return whole
