"""Writes that wait in the queue, and what the store knows of the episode that each belongs to."""

from asyncio import Future
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ors_server.model.trajectory import EpisodeNote, EpisodeOrigin, EpisodeSummary

NO_TEXTS: Mapping[str, bytes] = {}


@dataclass(slots=True, eq=False)
class WriteState:
    """The store's knowledge of an episode that it writes."""

    episode_id: str
    steps: int = 0
    """Number of the last step that was queued and not withdrawn."""
    unconfirmed_from: int | None = None
    """Number of a step that may have been written although its caller got an error: it and later ones are
    deleted before the next write for the episode.
    """
    key: int | None = None
    """The episode's row, once known. Only the writer uses this field and the next ones."""
    moves: int = 0
    """Number of transitions so far."""
    incidents: int = 0
    """Number of incidents so far."""
    last_found: int = 0
    """Number of the last step in the database when the row was looked up."""
    last_counted: int = 0
    """Number of the last step that is counted among the calls of its minute."""
    is_closed: bool = False
    """Whether the record was closed when the row was looked up."""
    tools: set[str] = field(default_factory=set[str])
    """Tools that are on record for the episode, as far as this writer knows."""

    def withdraw(self, number: int) -> None:
        """Forget a step whose write failed, or may have failed."""
        self.steps = min(self.steps, number - 1)
        self.unconfirmed_from = (
            number if self.unconfirmed_from is None else min(self.unconfirmed_from, number)
        )


@dataclass(slots=True, eq=False, kw_only=True)
class PendingWrite:
    """One write in the queue."""

    state: WriteState | None = None
    """`None` for a marker that only reports that every earlier write was attempted."""
    waiter: "Future[None] | None" = None
    """The future of the caller; a write without one stays in the queue until it succeeds."""
    queued_at: float = 0.0
    """Seconds of the monotonic clock when it was queued."""
    size: int = 0
    """Approximate size in bytes."""

    @property
    def has_content(self) -> bool:
        """Whether there is anything to write: a marker has nothing."""
        return self.state is not None

    @property
    def is_abandoned(self) -> bool:
        """Whether its caller has gone, or already got an error."""
        return self.waiter is not None and self.waiter.done()

    @property
    def outlives_failure(self) -> bool:
        """Whether it is retried after a failure."""
        return self.waiter is None and self.state is not None


@dataclass(slots=True, eq=False, kw_only=True)
class PendingOpen(PendingWrite):
    """An episode begins."""

    origin: EpisodeOrigin
    body: bytes
    summary: EpisodeSummary


@dataclass(slots=True, eq=False, kw_only=True)
class PendingStep(PendingWrite):
    """A step was played."""

    number: int
    columns: tuple[Any, ...]
    """What its row has in columns (`columns.step_columns`)."""
    body: bytes
    summarise: Callable[[], EpisodeSummary]
    blob_refs: str | None = None
    texts: Mapping[str, bytes] = field(default_factory=lambda: NO_TEXTS)

    @property
    def summary(self) -> EpisodeSummary:
        """The summary after the step; computed at each look."""
        return self.summarise()


@dataclass(slots=True, eq=False, kw_only=True)
class PendingTransition(PendingWrite):
    """The episode changed its phase."""

    body: bytes
    summary: EpisodeSummary
    position: int | None = None
    """Its position among the transitions; the same in every attempt to write it."""


@dataclass(slots=True, eq=False, kw_only=True)
class PendingIncident(PendingWrite):
    """Something happened to the episode."""

    body: bytes
    position: int | None = None
    """Its position among the incidents; the same in every attempt to write it."""


@dataclass(slots=True, eq=False, kw_only=True)
class PendingNote(PendingWrite):
    """A reader wrote a note about the episode."""

    note: EpisodeNote


@dataclass(slots=True, eq=False, kw_only=True)
class PendingSign(PendingWrite):
    """A sign of life of the server; one that cannot be written is dropped."""

    @property
    def has_content(self) -> bool:
        """Always true, although it belongs to no episode."""
        return True


@dataclass(slots=True, eq=False, kw_only=True)
class PendingPrompt(PendingWrite):
    """The prompt was given to the agent."""

    body: bytes
    blob_refs: str | None = None
    texts: Mapping[str, bytes] = field(default_factory=lambda: NO_TEXTS)


@dataclass(slots=True, eq=False, kw_only=True)
class PendingClose(PendingWrite):
    """The episode's session has ended."""

    summary: EpisodeSummary

    @property
    def outlives_failure(self) -> bool:
        """Always true: a session ends once, so its end is not reported again."""
        return True
