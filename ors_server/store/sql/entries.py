"""What waits to be written: one entry for every wish, and what is known of the episode that it is about."""

from asyncio import Future
from collections.abc import Mapping
from dataclasses import dataclass, field

from ors_server.trajectory import EpisodeOrigin, EpisodeSummary

NO_TEXTS: Mapping[str, bytes] = {}


@dataclass(slots=True, eq=False)
class Pen:
    """What one store knows of an episode that it writes."""

    episode_id: str
    steps: int = 0
    """Number of the last step that was put on the line and not taken back."""
    doubt: int | None = None
    """Number of a step that nobody was told of, and that may be on record all the same: it, and what
    follows it, goes before anything else of the episode is written."""
    key: int | None = None
    """The row, once it is known. Belongs to the writing thread, as do the two that follow."""
    moves: int = 0
    """Transitions so far."""
    found: int = 0
    """Number of the last step that was on record when the row was looked up."""

    def take_back(self, number: int) -> None:
        """Forget a step whose writing failed, or of which nobody knows whether it was written.

        Args:
            number: The step's.
        """
        self.steps = min(self.steps, number - 1)
        self.doubt = number if self.doubt is None else min(self.doubt, number)


@dataclass(slots=True, eq=False, kw_only=True)
class Entry:
    """One wish."""

    pen: Pen | None = None
    """`None` for a wish to be told when all before it was tried."""
    waiter: "Future[None] | None" = None
    """Whoever waits for it; what nobody waits for is kept until it can be written."""
    since: float = 0.0
    """Seconds of the monotonic clock when it was put on the line."""
    size: int = 0
    """Bytes, roughly."""

    @property
    def is_abandoned(self) -> bool:
        """Whether somebody waited for it and went away, or was told that it failed."""
        return self.waiter is not None and self.waiter.done()

    @property
    def outlives_failure(self) -> bool:
        """Whether it is tried again after a failure."""
        return self.waiter is None and self.pen is not None


@dataclass(slots=True, eq=False, kw_only=True)
class OpenEntry(Entry):
    """An episode begins."""

    origin: EpisodeOrigin
    body: bytes
    summary: EpisodeSummary


@dataclass(slots=True, eq=False, kw_only=True)
class StepEntry(Entry):
    """A step was played."""

    number: int
    reward: float | None
    body: bytes
    summary: EpisodeSummary
    places: str | None = None
    texts: Mapping[str, bytes] = field(default_factory=lambda: NO_TEXTS)


@dataclass(slots=True, eq=False, kw_only=True)
class MoveEntry(Entry):
    """The episode moved from one phase to another."""

    body: bytes
    summary: EpisodeSummary
    position: int | None = None
    """Its place among the transitions; stays the same however often it is tried."""


@dataclass(slots=True, eq=False, kw_only=True)
class PromptEntry(Entry):
    """The agent was told something."""

    body: bytes
    places: str | None = None
    texts: Mapping[str, bytes] = field(default_factory=lambda: NO_TEXTS)


@dataclass(slots=True, eq=False, kw_only=True)
class CloseEntry(Entry):
    """The session is gone."""

    summary: EpisodeSummary

    @property
    def outlives_failure(self) -> bool:
        """Always: a session ends once, and the record of it must end some time."""
        return True
