"""Follows an episode while it is played, in this process or another.

The store is polled, because another process that shares the store may play the episode. The pauses between
polls grow while nothing happens. No resource is held between polls. Where this process plays the episode, its
session says whether there is anything new: many open pages of an idle episode read nothing, and of one that
is played they read each step once.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from ors_server.model.clock import Clock
from ors_server.model.errors import EpisodeNotFoundError
from ors_server.model.trajectory import EpisodeOrigin, EpisodeRecord, EpisodeSummary, Step
from ors_server.store.base import RecordReader

MAX_STEPS = 100
"""Maximum number of steps of one update."""

MIN_PAUSE = 0.1
"""Seconds between two polls while the episode has new steps."""

MAX_PAUSE = 1.0
"""Maximum seconds between two polls."""

MAX_KEPT, MAX_KEPT_STEPS = 64, 4
"""Updates that are kept for other followers, and steps of one that is."""

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
        return self.record.is_closed and len(self.steps) < MAX_STEPS


@dataclass(eq=False)
class LiveUpdates:
    """What the followers of episodes that this process plays share."""

    live_summary: Callable[[EpisodeOrigin], EpisodeSummary | None]
    """Returns the current figures of an episode, `None` of one that is not played here."""
    _kept: OrderedDict[tuple[str, int], EpisodeUpdate] = field(
        default_factory=OrderedDict[tuple[str, int], EpisodeUpdate], init=False
    )
    """The newest updates, by episode and position."""

    def is_current(self, record: EpisodeRecord) -> bool:
        """Return whether nothing was written since a record was read: its session has the same figures."""
        return self.live_summary(record.origin) == record.summary

    def find(self, episode_id: str, position: int) -> EpisodeUpdate | None:
        """Return what another follower has read after a position, if it is all that there is."""
        update = self._kept.get((episode_id, position))
        return update if update is not None and self.is_current(update.record) else None

    def keep(self, position: int, update: EpisodeUpdate) -> None:
        """Keep an update for others, unless it is a long one."""
        if len(update.steps) <= MAX_KEPT_STEPS:
            self._kept[update.record.origin.episode_id, position] = update
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)


async def follow(
    reader: RecordReader,
    episode_id: str,
    *,
    start: int = 0,
    clock: Clock,
    live: LiveUpdates | None = None,
) -> AsyncGenerator[EpisodeUpdate, None]:
    """Yield the recorded steps, then new ones as they are written, until the record is closed.

    Every poll yields an update, even one without new steps; polls are at most a second (and the store's
    response time) apart. The last update has the closed record.

    Args:
        live: What is shared with other followers; by default every poll reads the store.

    Raises:
        EpisodeNotFoundError: If the store has no such episode, or it was pruned meanwhile.
        StoreError: If the store failed.
    """
    position, pause = start, MIN_PAUSE
    while True:
        update = None if live is None else live.find(episode_id, position)
        if update is None:
            record = await reader.find(episode_id)
            if record is None:
                raise EpisodeNotFoundError(
                    f"the store has no episode {episode_id!r}; it may have been pruned"
                )
            update = EpisodeUpdate(record, await reader.steps(episode_id, position, position + MAX_STEPS))
            if live is not None:
                live.keep(position, update)
        steps = update.steps
        position += len(steps)
        yield update
        if update.is_last:
            return
        if len(steps) == MAX_STEPS:
            continue
        pause = MIN_PAUSE if steps else min(pause * GROWTH, MAX_PAUSE)
        await clock.sleep(pause)
        while live is not None and live.is_current(update.record):
            yield EpisodeUpdate(update.record, ())
            pause = min(pause * GROWTH, MAX_PAUSE)
            await clock.sleep(pause)
