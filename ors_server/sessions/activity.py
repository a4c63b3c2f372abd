"""What happens in the sessions of this process, as it happens, for those who follow it.

Nothing is kept: an event is made only while a client follows, so that a call pays one comparison for it
otherwise. A reader that is too slow loses the oldest events and gets their number; the record has them all.
"""

import asyncio
from collections import deque
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from pydantic import ConfigDict

from ors_server.model.trajectory import RECORD_CONFIG, EpisodeOrigin, EpisodeSummary, Step
from ors_server.model.wire import JSONObject, compact_json

MAX_WAITING = 1_000
"""Events that wait for one reader."""
MAX_ARGUMENT_CHARACTERS = 2_000
"""Maximum number of characters of a call's arguments in an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityEvent:
    """Something that happened in an episode."""

    __pydantic_config__: ClassVar[ConfigDict] = RECORD_CONFIG

    kind: str
    """`opened`, `call` (a call begins to run), `step` (its step is on record), or `closed`."""
    at: datetime
    """UTC."""
    episode_id: str
    session_id: str
    environment: str
    labels: Mapping[str, str]
    call_id: str | None = None
    tool: str | None = None
    arguments: str | None = None
    """Of a call that begins: the first 2,000 characters of its JSON."""
    number: int | None = None
    """Of a step; so are the next five."""
    status: str | None = None
    error_code: str | None = None
    reward: float | None = None
    duration: float | None = None
    """Seconds."""
    summary: EpisodeSummary | None = None
    """The figures after a step, or the final ones."""


@dataclass(slots=True, eq=False)
class ActivityReader:
    """One who follows."""

    waiting: deque[ActivityEvent] = field(default_factory=lambda: deque[ActivityEvent](maxlen=MAX_WAITING))
    missed: int = 0
    """Events that were dropped since the reader was last sent their number."""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)


class ActivityFeed:
    """Passes events to those who follow; used on the event loop of the sessions."""

    def __init__(self) -> None:
        """Begin without readers."""
        self.readers: set[ActivityReader] = set()
        """Those who follow; without any, no event need be made."""

    @contextmanager
    def follow(self) -> Generator[ActivityReader]:
        """Pass the events of a with block to its reader."""
        reader = ActivityReader()
        self.readers.add(reader)
        try:
            yield reader
        finally:
            self.readers.discard(reader)

    def open(self, origin: EpisodeOrigin) -> None:
        """Tell that an episode began."""
        self._publish(_event("opened", origin, origin.created_at))

    def begin_call(
        self, origin: EpisodeOrigin, at: datetime, call_id: str, tool: str, arguments: JSONObject
    ) -> None:
        """Tell that a call begins to run."""
        try:
            shown = compact_json(arguments)[:MAX_ARGUMENT_CHARACTERS]
        except (TypeError, ValueError, RecursionError):  # the call's own checks answer it
            shown = ""
        self._publish(_event("call", origin, at, call_id=call_id, tool=tool, arguments=shown))

    def record_step(self, origin: EpisodeOrigin, at: datetime, step: Step, summary: EpisodeSummary) -> None:
        """Tell that a step is on record."""
        self._publish(
            _event(
                "step",
                origin,
                at,
                call_id=step.call_id,
                tool=step.tool,
                number=step.number,
                status=step.status.value,
                error_code=step.error_code,
                reward=step.reward,
                duration=step.duration,
                summary=summary,
            )
        )

    def close(self, origin: EpisodeOrigin, at: datetime, summary: EpisodeSummary) -> None:
        """Tell that an episode's session has ended."""
        self._publish(_event("closed", origin, at, summary=summary))

    def _publish(self, happened: ActivityEvent) -> None:
        for reader in self.readers:
            if len(reader.waiting) == MAX_WAITING:
                reader.missed += 1
            reader.waiting.append(happened)
            reader.arrived.set()


def _event(kind: str, origin: EpisodeOrigin, at: datetime, **values: object) -> ActivityEvent:
    return ActivityEvent(
        kind=kind,
        at=at,
        episode_id=origin.episode_id,
        session_id=origin.session_id,
        environment=origin.environment,
        labels=origin.labels,
        **values,  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # its own fields
    )
