"""A clock that a test controls."""

from datetime import UTC, datetime, timedelta

import anyio
from anyio.lowlevel import checkpoint

YIELDS = 10
"""Number of times that other tasks may run after a sleeper woke, before time advances."""


class FakeClock:
    """A clock for tests: no sleeper really waits, and sleepers wake in the order of their deadlines."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        """Stop time at `start`."""
        self._start = start
        self._passed = 0.0
        self._sleepers: list[tuple[float, int, anyio.Event]] = []
        self._count = 0
        self._slept: anyio.Event | None = None

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._passed

    def now(self) -> datetime:
        """Return the time of the wall clock."""
        return self._start + timedelta(seconds=self._passed)

    @property
    def sleepers(self) -> int:
        """Number of sleeping tasks."""
        return len(self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Wait until so many seconds have passed; 0 or less yields once."""
        if seconds <= 0:
            await checkpoint()
            return
        woken = anyio.Event()
        self._count += 1
        # The count breaks ties: sleepers with the same deadline wake in the order in which they began.
        sleeper = (self._passed + seconds, self._count, woken)
        self._sleepers.append(sleeper)
        if self._slept is not None:
            self._slept.set()
        try:
            await woken.wait()
        # A cancelled sleeper must not stay, or `advance` would stop at its deadline.
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    async def advance(self, seconds: float) -> None:
        """Let so many seconds pass, from deadline to deadline, so that each sleeper sees its own time."""
        end = self._passed + seconds
        while due := [sleeper for sleeper in self._sleepers if sleeper[0] <= end]:
            first = min(due)
            self._sleepers.remove(first)
            # `jump` may have moved time beyond a deadline; it never goes back.
            self._passed = max(self._passed, first[0])
            first[2].set()
            await _let_others_run()
        self._passed = end
        await _let_others_run()

    def jump(self, seconds: float) -> None:
        """Move time without waking a sleeper, as on a busy machine; `advance` wakes them later.

        Args:
            seconds: By which the time moves, at least 0.
        """
        self._passed += seconds

    async def until_sleeping(self, count: int = 1) -> None:
        """Wait until at least `count` tasks sleep."""
        while self.sleepers < count:
            self._slept = anyio.Event()
            await self._slept.wait()
        self._slept = None


async def _let_others_run() -> None:
    for _ in range(YIELDS):
        await checkpoint()
