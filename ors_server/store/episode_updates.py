"""Follows an episode while it is played, in this process or another.

The store is polled, because another process that shares the store may play the episode. The pauses between
polls grow while nothing happens. No resource is held between polls. Where this process plays the episode, its
session says whether there is anything new, so that many open pages of idle episodes read nothing.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from ors_server.model.clock import Clock
from ors_server.model.errors import EpisodeNotFoundError
from ors_server.model.trajectory import EpisodeOrigin, EpisodeRecord, EpisodeSummary, Step
from ors_server.store.base import RecordReader

BATCH = 100
"""Most steps of one update."""

SHORTEST_PAUSE = 0.1
"""Seconds between two polls while the episode has new steps."""

LONGEST_PAUSE = 1.0
"""Seconds between two polls, at most."""

GROWTH = 1.5
"""Factor by which the pause grows after each poll without new steps."""


@dataclass(frozen=True, slots=True)
class EpisodeUpdate:
    """The result of one poll."""

    record: EpisodeRecord
    """The record just before the steps were read."""
    steps: Sequence[Step]
    """Steps that no earlier update contained, in order; empty if there were no new ones."""

    @property
    def is_last(self) -> bool:
        """Whether the record is closed and every step has been returned."""
        return self.record.is_closed and len(self.steps) < BATCH


async def follow(
    reader: RecordReader,
    episode_id: str,
    *,
    start: int = 0,
    clock: Clock,
    live_summary: Callable[[EpisodeOrigin], EpisodeSummary | None] = lambda _origin: None,
) -> AsyncGenerator[EpisodeUpdate, None]:
    """Yield the recorded steps, then new ones as they are written, until the record is closed.

    Every poll yields an update, even one without new steps; polls are at most a second (and the store's
    response time) apart. The last update has the closed record.

    Args:
        live_summary: Returns the figures of an episode that this process plays, `None` for others. While they
            are those of the last update, nothing was written since, and the store is not read.

    Raises:
        EpisodeNotFoundError: If the store has no such episode, or it was pruned meanwhile.
        StoreError: If the store failed.
    """
    position, pause = start, SHORTEST_PAUSE
    while True:
        record = await reader.find(episode_id)
        if record is None:
            raise EpisodeNotFoundError(f"the store has no episode {episode_id!r}; it may have been pruned")
        steps = await reader.steps(episode_id, position, position + BATCH)
        position += len(steps)
        update = EpisodeUpdate(record, steps)
        yield update
        if update.is_last:
            return
        if len(steps) == BATCH:
            continue
        pause = SHORTEST_PAUSE if steps else min(pause * GROWTH, LONGEST_PAUSE)
        await clock.sleep(pause)
        while live_summary(record.origin) == record.summary:
            yield EpisodeUpdate(record, ())
            pause = min(pause * GROWTH, LONGEST_PAUSE)
            await clock.sleep(pause)
