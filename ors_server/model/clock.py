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
