"""The interface of an episode store: one writer for each live episode, any number of readers."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Protocol

from pydantic import ConfigDict

from ors_server.model.trajectory import (
    RECORD_CONFIG,
    EpisodeOrigin,
    EpisodeRecord,
    EpisodeSummary,
    Incident,
    Step,
    Transition,
)
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.store.episode_filter import ALL, EpisodeFilter


@dataclass(frozen=True, slots=True)
class EpisodeTotals:
    """Statistics over a set of episodes."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    episodes: int
    steps: int
    mean_return: float | None
    """Over the graded episodes; `None` if there are none. So are the next two."""
    least_return: float | None
    greatest_return: float | None
    by_environment: Mapping[str, int]
    """Number of episodes by environment."""
    by_phase: Mapping[str, int]
    by_stop_reason: Mapping[str, int]
    """Number of ended episodes by stop reason."""
    graded: int = 0
    """Episodes that ended by their own rules, and in which something was paid or charged. Each of the others
    is in exactly one of the next five numbers."""
    unjudged: int = 0
    """Episodes with a step whose judgement failed."""
    ungraded: int = 0
    """Episodes that ended by their own rules without a reward or a penalty."""
    live: int = 0
    """Episodes that have not ended."""
    abandoned: int = 0
    """Episodes whose session was deleted, expired, or ended with the server, before they ended."""
    failed: int = 0
    """Episodes in which the environment failed."""


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
        limit: int = 100,
        newest_first: bool = True,
    ) -> Sequence[EpisodeRecord]:
        """Return a page of episodes in the order of their creation, without transitions and incidents.

        Args:
            after: Id of the last episode of the previous page; `None` for the first page.

        Raises:
            EpisodeNotFoundError: If no episode has the id `after`.
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
    """A random secret of the record: the same for every store of it, at any time."""

    def backlog(self) -> Backlog:
        """Return what waits to be written."""
        ...

    async def open(self, origin: EpisodeOrigin) -> None:
        """Start the record of an episode."""
        ...

    async def append(self, episode_id: str, step: Step, summary: EpisodeSummary) -> None:
        """Write one step, and the summary after it, in one transaction.

        A step replaces a stored step of the same number: a caller repeats a step if it does not know whether
        the first attempt succeeded.

        Args:
            step: Its number is at most one more than the last step's; numbers begin at 1.
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

    async def close(self, episode_id: str, summary: EpisodeSummary) -> None:
        """Write the final summary of an episode whose session has ended."""
        ...
