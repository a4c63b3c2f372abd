"""Follows an episode while it is played, whoever plays it.

The store is asked again and again, for an episode may be played by another process that shares the store, and
nothing tells one process what another one wrote. The pauses between two questions grow while nothing happens,
and nothing is held between them: whoever stops listening leaves nothing behind.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from ors_server.clock import Clock
from ors_server.errors import EpisodeNotFoundError
from ors_server.store.base import RecordReader
from ors_server.trajectory import EpisodeRecord, Step

BATCH = 100
"""Most steps that are held at once."""

SHORTEST_PAUSE = 0.1
"""Seconds between two questions while the episode moves."""

LONGEST_PAUSE = 1.0
"""Seconds between two questions, at most."""

GROWTH = 1.5
"""How much longer each pause without news is than the one before."""


@dataclass(frozen=True, slots=True)
class News:
    """What one look at an episode showed."""

    record: EpisodeRecord
    """The record as it stood just before the steps were read."""
    steps: Sequence[Step]
    """Steps that no look before has shown, in order; empty where nothing was new."""

    @property
    def is_last(self) -> bool:
        """Whether the record is closed and all of it was shown."""
        return self.record.is_closed and len(self.steps) < BATCH


async def follow(
    reader: RecordReader, episode_id: str, *, start: int = 0, clock: Clock
) -> AsyncGenerator[News, None]:
    """Give the steps that are on record, then each new one, until the record is closed.

    Every look is given, also one that showed nothing new, at most a second and the store's own time after the
    one before; the last one has the closed record.

    Args:
        reader: Where to look.
        episode_id: The episode.
        start: First position, from 0.
        clock: Measures the pauses.

    Raises:
        EpisodeNotFoundError: If the episode is not on record, or no longer.
        StoreError: If the store failed.
    """
    position, pause = start, SHORTEST_PAUSE
    while True:
        record = await reader.find(episode_id)
        if record is None:
            raise EpisodeNotFoundError(f"the episode {episode_id!r} is not on record, or no longer")
        steps = await reader.steps(episode_id, position, position + BATCH)
        position += len(steps)
        news = News(record, steps)
        yield news
        if news.is_last:
            return
        if len(steps) == BATCH:
            continue
        pause = SHORTEST_PAUSE if steps else min(pause * GROWTH, LONGEST_PAUSE)
        await clock.sleep(pause)
