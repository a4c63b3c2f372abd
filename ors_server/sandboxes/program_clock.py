"""The clock of a program: what counts against its time limit is what the program itself spends.

A program spends processor time. It also spends time in which it neither runs nor waits for a processor: it
sleeps, or waits for what never comes. Time for which it is ready to run and the machine gives it no processor
is the machine's, and so is the time by which this server looks late. A program on a busy machine gets as long
as it needs, up to a backstop, and to reach that is a failure of the machine.
"""

import random
from collections.abc import Awaitable, Callable
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
        self._counted = self._idle = 0.0
        self._meter = meter
        self._clock = clock or SystemClock()

    async def wait_for(self, work: Callable[[], Awaitable[T]], time_limit: float) -> T:
        """Wait for something of the program's, as long as the program has time.

        The first quarter of a second (of a short limit, a quarter of it) is free for a program that passes
        its limit.

        Args:
            work: Waits for it; cancelled when time is over.
            time_limit: Seconds that the program may spend, above 0.

        Raises:
            OutOfTimeError: It spent them.
            SandboxStarvedError: It did not get them within the backstop.
        """
        came: list[T] = []
        ended: list[Exception] = []
        self._counted = self._clock.monotonic()

        async def watch() -> None:
            try:
                await self._watch(time_limit)
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
        self.spent_s += self._clock.monotonic() - self._counted
        if came:
            return came[0]
        raise ended[0]

    async def _watch(self, limit: float) -> None:
        clock, before = self._clock, self.spent_s
        began = clock.monotonic()
        backstop = began + max(BACKSTOP_LEAST, BACKSTOP_FACTOR * limit)
        await clock.sleep(min(_UNWATCHED, limit / 4))
        first, self._idle = self._meter(), 0.0
        since = clock.monotonic()  # after the look: what was waited before it is not counted either
        before += since - began
        left, late = limit, 0.0
        while left > 0:
            # At no time that a program could foresee, to be ready to run just then.
            due = clock.monotonic() + min(left, _LOOK_EVERY * random.uniform(0.5, 1.0))  # noqa: S311  (nobody guards a secret with it)
            await clock.sleep(due - clock.monotonic())
            late += clock.monotonic() - due
            self._counted = clock.monotonic()
            spent, left = self._spent(first, self._counted - since - late, limit)
            self.spent_s = before + spent
            if left > 0 and self._counted >= backstop:
                raise SandboxStarvedError(
                    f"a program got {spent:.1f} of its {limit:g} seconds of a processor within "
                    f"{self._counted - began:.0f} seconds: the machine is too busy"
                )
        await clock.sleep(_GRACE)
        raise OutOfTimeError("ran out of time")

    def _spent(self, first: Usage | None, passed: float, limit: float) -> tuple[float, float]:
        """Return what was spent and what is left of the limit, in seconds."""
        now = self._meter() if first is not None else None
        if first is None or now is None:
            return passed, UNCOUNTED_PATIENCE * limit - passed
        used = now.since(first)
        idle = max(0.0, passed - used.delayed_s)
        self._idle = min(idle, self._idle) if now.is_ready else idle
        idle = self._idle
        patience = UNCOUNTED_PATIENCE if used.has_ended_children else 1.0
        return max(used.processor_s, idle), min(limit - used.processor_s, patience * limit - idle)
