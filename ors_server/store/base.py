"""The interface of an episode store: one writer for each live episode, any number of readers."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ors_server.model.trajectory import (
    EpisodeNote,
    EpisodeOrigin,
    EpisodeRecord,
    EpisodeSummary,
    Incident,
    Step,
    Transition,
)
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.store.aggregates import CallsOfMinute, EpisodeTotals, PlayedTask, RunFigures
from ors_server.store.episode_filter import ALL, EpisodeFilter
from ors_server.store.episode_order import NEWEST_FIRST, EpisodeSorting
from ors_server.store.series import ReturnHistogram, RolloutGroup, SeriesPoint


@dataclass(frozen=True, slots=True)
class OpenEpisode:
    """An episode whose server ended without closing it."""

    session_id: str
    episode_id: str
    alive_at: datetime
    """When its server was last known to be alive, UTC: at least when the record was last written."""


class RecordReader(Protocol):
    """Read-only access to episode records, whichever server wrote them.

    Every method may raise `StoreError`.
    """

    async def find(self, name: str) -> EpisodeRecord | None:
        """Return the record with this episode id, else the newest one with this session id."""
        ...

    async def whole(self, name: str) -> tuple[EpisodeRecord, Sequence[Step]] | None:
        """Return the record that `find` returns with all of its steps, both as of one moment."""
        ...

    async def resolve(self, prefix: str, limit: int = 2) -> Sequence[str]:
        """Return ids of episodes that begin with a prefix, in order."""
        ...

    async def steps(self, episode_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """Return a slice of an episode's steps, in order; empty for an unknown episode.

        Args:
            start: First position, from 0.
            stop: Last position, exclusive; `None` for all.
        """
        ...

    async def page(
        self,
        episode_filter: EpisodeFilter,
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int = 100,
        order: EpisodeSorting = NEWEST_FIRST,
    ) -> Sequence[EpisodeRecord]:
        """Return a page of episodes, without transitions and incidents.

        Args:
            after: Id of the last episode of the previous page; `None` for the first page.
            before: Id of the first episode of the next page, for the page before it; `after` is then `None`.

        Raises:
            EpisodeNotFoundError: If no episode has the id `after` or `before`.
        """
        ...

    def stream(
        self, episode_filter: EpisodeFilter = ALL
    ) -> AsyncIterator[tuple[EpisodeRecord, Sequence[Step]]]:
        """Yield matching episodes with all their steps, oldest first, with only a few in memory at a time.

        Episodes that are created during the iteration may be missing.
        """
        ...

    async def totals(self, episode_filter: EpisodeFilter = ALL) -> EpisodeTotals:
        """Return statistics over the matching episodes."""
        ...

    async def runs(self, episode_filter: EpisodeFilter = ALL) -> Sequence[RunFigures]:
        """Return the figures of each run of the matching episodes, the one with the newest episode first."""
        ...

    async def by_task(
        self, episode_filter: EpisodeFilter = ALL, *, limit: int = 1000
    ) -> Sequence[PlayedTask]:
        """Return the figures of each task of the matching episodes, by environment, split and index.

        Args:
            limit: Most tasks.
        """
        ...

    async def notes(self, episode_id: str) -> Sequence[EpisodeNote]:
        """Return the notes about an episode, oldest first; empty for an unknown one."""
        ...

    async def series(
        self, episode_filter: EpisodeFilter, every: float, by: Sequence[str] = ()
    ) -> Sequence[SeriesPoint]:
        """Return figures over time of the episodes that match, by span and series.

        Args:
            every: Length of a span, seconds; episodes belong to the span in which they were created.
            by: What series are apart by: names of `series.ORIGINS`, or `label:KEY`.
        """
        ...

    async def histogram(self, episode_filter: EpisodeFilter = ALL, *, bins: int = 20) -> ReturnHistogram:
        """Return how the returns of the graded ones among the matching episodes are distributed."""
        ...

    async def groups(self, run: str) -> Sequence[RolloutGroup]:
        """Return the groups of a run: by the label `group`, or else by task, and by the label `step`."""
        ...

    async def calls_by_minute(self, since: datetime) -> Sequence[CallsOfMinute]:
        """Return how many calls began in each minute from that of `since`, oldest first.

        Minutes without a call are left out. Calls are counted as their steps are written, by the minute in
        which they began: pruning changes no count. Those of the last 31 days are kept.
        """
        ...

    async def aclose(self) -> None:
        """Write pending data and release every resource."""
        ...


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a store has accepted and not written yet."""

    entries: int = 0
    size: int = 0
    """In bytes, roughly."""


class EpisodeStore(RecordReader, Protocol):
    """Stores episodes: a step that was appended stays readable until its episode is pruned.

    Every async method ends within a bounded time, and may raise `StoreError`; then nothing was written, and
    the caller must not send its answer. A session that ends waits that long for a step that is being written.
    Repeating a call is safe: an episode that is opened twice, or a step that is appended twice, is
    stored once. An episode has one writer; several stores may write different episodes to one database.
    """

    left_open: Sequence[OpenEpisode]
    """Episodes that were open when this store was opened and that no other store writes, oldest first. Empty
    if another store had the same database open at that moment, because it may write any of them; a host of
    several has those of its slot, which no other host writes."""
    shared_secret: bytes
    """A random secret of the record as it was when the store was opened: the same for every store of it."""

    async def read_secret(self) -> bytes:
        """Return the secret of the record as it is now."""
        ...

    async def renew_secret(self) -> None:
        """Replace the secret of the record by another random one."""
        ...

    async def claim_attempt(self, episode_id: str, numbers: Sequence[int]) -> int | None:
        """Give an episode on record a number among its key's attempts at its task.

        Of all servers of the record, the first that asks for a number gets it.

        Returns:
            The first of `numbers` that no other episode on record has; `None` if each is another's.
        """
        ...

    def backlog(self) -> Backlog:
        """Return what waits to be written."""
        ...

    async def open(self, origin: EpisodeOrigin) -> None:
        """Start the record of an episode."""
        ...

    async def append(self, episode_id: str, step: Step, summarise: Callable[[], EpisodeSummary]) -> None:
        """Write one step, and the summary after it, in one transaction.

        A step replaces a stored step of the same number: a caller repeats a step if it does not know whether
        the first attempt succeeded.

        Args:
            step: Its number is at most one more than the last step's; numbers begin at 1.
            summarise: Returns the summary, in any thread and at any later time, and raises nothing. A store
                in memory needs it once somebody reads it, and one on a disk for the last of the steps that it
                writes together.
        """
        ...

    def record_transition(self, episode_id: str, transition: Transition, summary: EpisodeSummary) -> None:
        """Queue a transition and the summary after it; they are written before any later write.

        It neither waits nor fails: what cannot be written now is written with the next step, or at the end.
        """
        ...

    def record_prompt(self, episode_id: str, blocks: Sequence[TextBlock | ImageBlock]) -> None:
        """Queue the prompt, as `record_transition` does; the first prompt is kept."""
        ...

    def note_alive(self) -> None:
        """Write that this server is alive; to be repeated, and neither waits nor fails."""
        ...

    async def record_incident(self, episode_id: str, incident: Incident) -> None:
        """Write an incident of an episode; an unknown episode is ignored."""
        ...

    async def add_note(self, episode_id: str, note: EpisodeNote) -> None:
        """Write a note about an episode, open or closed; an unknown episode is ignored."""
        ...

    async def close(self, episode_id: str, summary: EpisodeSummary) -> None:
        """Write the final summary of an episode whose session has ended."""
        ...
