"""The one source of time, so that a test can own it."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

import anyio

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


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


def to_microseconds(moment: datetime) -> int:
    """Return a time with a zone as microseconds since 1970 in UTC, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def from_microseconds(stamped: int) -> datetime:
    """Return the time of a number of microseconds since 1970, in UTC."""
    return _EPOCH + stamped * _MICROSECOND
