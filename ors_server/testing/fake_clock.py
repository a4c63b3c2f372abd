"""Time that passes when a test says so."""

from datetime import UTC, datetime, timedelta

import anyio
from anyio.lowlevel import checkpoint

ROUNDS = 10
"""How often everything else may run after a sleeper woke, before time goes on."""


class FakeClock:
    """A clock for tests: nobody really waits, and sleepers wake in the order of their deadlines."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        """Stop time.

        Args:
            start: What the wall clock shows at first.
        """
        self._start = start
        self._passed = 0.0
        self._sleepers: list[tuple[float, int, anyio.Event]] = []
        self._born = 0
        self._came: anyio.Event | None = None

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self._passed

    def now(self) -> datetime:
        """Return what the wall clock shows."""
        return self._start + timedelta(seconds=self._passed)

    @property
    def sleepers(self) -> int:
        """How many tasks wait for time to pass."""
        return len(self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Wait until so much time has passed.

        Args:
            seconds: How long, in seconds; 0 or less yields once.
        """
        if seconds <= 0:
            await checkpoint()
            return
        woken = anyio.Event()
        self._born += 1
        sleeper = (self._passed + seconds, self._born, woken)
        self._sleepers.append(sleeper)
        if self._came is not None:
            self._came.set()
        try:
            await woken.wait()
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    async def advance(self, seconds: float) -> None:
        """Let time pass, from deadline to deadline, so that each sleeper sees its own time.

        Args:
            seconds: How much, in seconds.
        """
        end = self._passed + seconds
        while due := [sleeper for sleeper in self._sleepers if sleeper[0] <= end]:
            first = min(due)
            self._sleepers.remove(first)
            self._passed = max(self._passed, first[0])
            first[2].set()
            await _let_others_run()
        self._passed = end
        await _let_others_run()

    def jump(self, seconds: float) -> None:
        """Move time on and wake nobody, as on a machine that is too busy; `advance` wakes who is late then.

        Args:
            seconds: How far, in seconds.
        """
        self._passed += seconds

    async def until_sleeping(self, count: int = 1) -> None:
        """Wait until so many tasks wait for time to pass.

        Args:
            count: How many, at least.
        """
        while self.sleepers < count:
            self._came = anyio.Event()
            await self._came.wait()
        self._came = None


async def _let_others_run() -> None:
    for _ in range(ROUNDS):
        await checkpoint()
