"""The clock of a program: what counts against its time limit is what the program itself spends.

A program spends processor time. It also spends time in which it neither runs nor waits for a processor: it
sleeps, or waits for what never comes. Time for which it is ready to run and the machine gives it no processor
is the machine's, and so is the time by which this server looks late. A program on a busy machine gets as long
as it needs, up to a backstop, and to reach that is a failure of the machine.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias, TypeVar

import anyio

from ors_server.clock import Clock, SystemClock
from ors_server.sandboxes.errors import SandboxStarvedError
from ors_server.sandboxes.usage import Usage

T = TypeVar("T")
Meter: TypeAlias = Callable[[], Usage | None]
"""Looks at what a program used so far; None where that is not known."""

BACKSTOP_FACTOR = 10.0
BACKSTOP_LEAST = 60.0
"""The backstop in seconds of wall time is so many times the limit, and at least this."""
UNCOUNTED_PATIENCE = 3.0
"""So many times its limit may a program be idle if not all of its waits for a processor are known."""
_UNWATCHED = 0.25
_LOOK_EVERY = 0.5
_GRACE = 0.05
"""Seconds in which what has already arrived is read before the program is called late."""


class OutOfTimeError(Exception):
    """The program spent its time limit; that is its own doing."""


class ProgramClock:
    """Counts what one program spends while it is waited for.

    Attributes:
        spent_s: Seconds that the program has spent so far in everything that was waited for.
    """

    def __init__(self, meter: Meter, clock: Clock | None = None) -> None:
        """Look at a program.

        Args:
            meter: Looks at it.
            clock: The source of time.
        """
        self.spent_s = 0.0
        self._unwatched = 0.0
        self._meter = meter
        self._clock = clock or SystemClock()

    async def wait_for(self, work: Callable[[], Awaitable[T]], time_limit: float) -> T:
        """Wait for something of the program's, as long as the program has time.

        The first quarter of a second of all waits (of a short limit, a quarter of it) counts as it passes on
        the wall; a program that passes its limit has it for nothing.

        Args:
            work: Waits for it; cancelled when time is over.
            time_limit: Seconds that the program may spend, above 0.

        Raises:
            OutOfTimeError: It spent them.
            SandboxStarvedError: It did not get them within the backstop.
        """
        came: list[T] = []
        ended: list[Exception] = []
        unwatched = max(0.0, min(_UNWATCHED, time_limit / 4) - self._unwatched)
        wait = _Wait(self._meter, self._clock, time_limit, unwatched)
        before = self.spent_s

        async def watch() -> None:
            try:
                async for spent in wait.watch():
                    self.spent_s = before + spent
            except (OutOfTimeError, SandboxStarvedError) as error:
                ended.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            try:
                came.append(await work())
            except Exception as error:  # noqa: BLE001 # raised outside, so that no group wraps it
                ended.insert(0, error)
            group.cancel_scope.cancel()
        self.spent_s = before + wait.end()
        self._unwatched += wait.unwatched_s
        if came:
            return came[0]
        raise ended[0]


class _Wait:
    """One wait for a program, from now on."""

    def __init__(self, meter: Meter, clock: Clock, limit: float, unwatched: float) -> None:
        self._meter, self._clock, self._limit = meter, clock, limit
        self._began = self._counted = clock.monotonic()
        self._late = self._idle = self._spent = 0.0
        self._first: Usage | None = None
        self._since: float | None = None
        self._unwatched = unwatched
        if unwatched <= 0:
            self._begin_to_watch()

    @property
    def unwatched_s(self) -> float:
        """How long nobody looked, before the first look."""
        return (self._counted if self._since is None else self._since) - self._began

    async def watch(self) -> AsyncIterator[float]:
        """Give what was spent so far, after each look.

        Raises:
            OutOfTimeError: It is as much as the limit.
            SandboxStarvedError: It is not, but the backstop is reached.
        """
        clock, limit = self._clock, self._limit
        backstop = self._began + max(BACKSTOP_LEAST, BACKSTOP_FACTOR * limit)
        if self._since is None:
            await clock.sleep(self._unwatched)
            self._begin_to_watch()
        left = limit
        while left > 0:
            # At no time that a program could foresee, to be ready to run just then.
            due = clock.monotonic() + min(left, _LOOK_EVERY * random.uniform(0.5, 1.0))  # noqa: S311  (nobody guards a secret with it)
            await clock.sleep(due - clock.monotonic())
            self._late += clock.monotonic() - due
            left = self._count(None if self._first is None else self._meter())
            yield self._spent
            if left > 0 and self._counted >= backstop:
                raise SandboxStarvedError(
                    f"a program got {self._spent:.1f} of its {limit:g} seconds of a processor within "
                    f"{self._counted - self._began:.0f} seconds: the machine is too busy"
                )
        await clock.sleep(_GRACE)
        raise OutOfTimeError("ran out of time")

    def end(self) -> float:
        """Return what was spent in all of it, in seconds."""
        now = None if self._first is None else self._meter()
        if now is not None:
            self._count(now)
        else:  # nothing is left to look at
            self._spent += self._clock.monotonic() - self._counted
            self._counted = self._clock.monotonic()
        return self._spent

    def _begin_to_watch(self) -> None:
        self._first = self._meter()
        self._since = self._counted = self._clock.monotonic()  # after the look, which is not counted either
        self._spent = self._since - self._began

    def _count(self, now: Usage | None) -> float:
        """Count what was spent until a look; return what is left of the limit, in seconds."""
        since = self._began if self._since is None else self._since
        self._counted = self._clock.monotonic()
        passed = self._counted - since - self._late
        if self._first is None or now is None:
            spent, left = passed, UNCOUNTED_PATIENCE * self._limit - passed
        else:
            used = now.since(self._first)
            idle = max(0.0, passed - used.delayed_s)
            self._idle = idle = min(idle, self._idle) if now.is_ready else idle
            patience = UNCOUNTED_PATIENCE if used.has_ended_children else 1.0
            spent = max(used.processor_s, idle)
            left = min(self._limit - used.processor_s, patience * self._limit - idle)
        self._spent = since - self._began + spent
        return left
