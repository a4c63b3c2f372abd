"""What the server asks of a store: a pen for the episodes that are played, and eyes for everybody else."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from ors_server.trajectory import EpisodeOrigin, EpisodeRecord, EpisodeSummary, Step, Transition
from ors_server.wire import ImageBlock, TextBlock


@dataclass(frozen=True, slots=True)
class EpisodeFilter:
    """Which episodes are meant: those that agree with every field that is set."""

    environment: str | None = None
    split: str | None = None
    index: int | None = None
    task_hash: str | None = None
    session_id: str | None = None
    phase: str | None = None
    stop_reason: str | None = None
    credential_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Labels that the episode must bear; it may bear others."""
    since: datetime | None = None
    """Created then or later."""
    until: datetime | None = None
    """Created before."""
    min_return: float | None = None
    max_return: float | None = None
    """Both inclusive."""
    closed: bool | None = None
    """Whether the session is gone."""


@dataclass(frozen=True, slots=True)
class EpisodeTotals:
    """Figures over a set of episodes."""

    episodes: int
    steps: int
    mean_return: float | None
    """`None` without episodes; likewise the two that follow."""
    least_return: float | None
    greatest_return: float | None
    by_environment: Mapping[str, int]
    """Episodes by environment."""
    by_phase: Mapping[str, int]
    by_stop_reason: Mapping[str, int]
    """Those that are over, by reason."""


ALL = EpisodeFilter()


class RecordReader(Protocol):
    """Reads records, whoever wrote them; reading changes nothing.

    Every method may raise `StoreError`.
    """

    async def find(self, name: str) -> EpisodeRecord | None:
        """Return a record by the episode's id, or the newest one by its session's id.

        Args:
            name: The whole id.
        """
        ...

    async def resolve(self, prefix: str, limit: int = 2) -> Sequence[str]:
        """Return ids of episodes that begin with a text, in order.

        Args:
            prefix: At least one character.
            limit: Most ids.
        """
        ...

    async def steps(self, episode_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """Return a slice of an episode's steps, in order; empty for an unknown episode.

        Args:
            episode_id: The episode.
            start: First position, from 0.
            stop: Last position, exclusive; `None` for all.
        """
        ...

    async def page(
        self, wanted: EpisodeFilter, *, after: str | None = None, limit: int = 100, newest_first: bool = True
    ) -> Sequence[EpisodeRecord]:
        """Return a page of episodes in the order of their creation, without their transitions.

        Args:
            wanted: Which ones.
            after: Id of the last episode of the page before; `None` for the first page.
            limit: Most episodes.
            newest_first: Whether the newest one comes first.

        Raises:
            EpisodeNotFoundError: If `after` is the id of no episode.
        """
        ...

    def stream(self, wanted: EpisodeFilter = ALL) -> AsyncIterator[tuple[EpisodeRecord, Sequence[Step]]]:
        """Go through episodes with all their steps, oldest first, holding a few of them at a time.

        Args:
            wanted: Which ones; those that come while it runs may be missing.
        """
        ...

    async def totals(self, wanted: EpisodeFilter = ALL) -> EpisodeTotals:
        """Return figures over a set of episodes.

        Args:
            wanted: Which ones.
        """
        ...

    async def aclose(self) -> None:
        """Write what is pending and let go of every resource."""
        ...


class EpisodeStore(RecordReader, Protocol):
    """Keeps episodes; a step that was appended is readable until the episode is forgotten.

    Every async method may raise `StoreError`; then nothing was written and the caller must not answer. It may
    be asked the same again: an episode that is opened twice, and a step that is appended twice, are there
    once. An episode has one writer; several stores may write different episodes to one record.
    """

    async def open(self, origin: EpisodeOrigin) -> None:
        """Start the record of an episode.

        Args:
            origin: Where it came from.
        """
        ...

    async def append(self, episode_id: str, step: Step, summary: EpisodeSummary) -> None:
        """Write one step and the figures after it, both or neither.

        Args:
            episode_id: The episode.
            step: The step; numbers follow one another from 1. One that has the number of another replaces
                it: whoever appends it again was not told that the first time succeeded.
            summary: The figures after the step.
        """
        ...

    def note(self, episode_id: str, transition: Transition, summary: EpisodeSummary) -> None:
        """Write a transition and the figures after it, soon, and before whatever is asked for later.

        It neither waits nor fails: what cannot be written now is written with the next step, or at the end.

        Args:
            episode_id: The episode.
            transition: The move.
            summary: The figures after it.
        """
        ...

    def note_prompt(self, episode_id: str, blocks: Sequence[TextBlock | ImageBlock]) -> None:
        """Write what the agent was told, in the same manner; the first prompt stays.

        Args:
            episode_id: The episode.
            blocks: The prompt.
        """
        ...

    async def close(self, episode_id: str, summary: EpisodeSummary) -> None:
        """Write the final figures of an episode whose session is gone.

        Args:
            episode_id: The episode.
            summary: The final figures.
        """
        ...
