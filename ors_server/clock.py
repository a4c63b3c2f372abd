"""The one source of time, so that a test can own it."""

import time
from datetime import UTC, datetime
from typing import Protocol

import anyio


class Clock(Protocol):
    """A source of time."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary origin that never run backwards."""
        ...

    def now(self) -> datetime:
        """Return the wall-clock time, with the UTC zone set."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; 0 seconds or less yields once."""
        ...


class SystemClock:
    """The machine's own clocks."""

    monotonic = staticmethod(time.monotonic)

    def now(self) -> datetime:
        """Return the wall-clock time, with the UTC zone set."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait; 0 seconds or less yields once."""
        await anyio.sleep(max(0.0, seconds))


class LastUse:
    """When something was last used; an object of its own, so that its parts need not hold the whole."""

    __slots__ = ("_now", "at")

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic
        self.at = clock.monotonic()
        """Seconds from the clock's origin."""

    def touch(self) -> None:
        """Note a use."""
        self.at = self._now()
