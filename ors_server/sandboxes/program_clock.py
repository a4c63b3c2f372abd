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
from ors_server.sandboxes.usage import Spent, Usage

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
_NOTHING = 1e-6
"""Seconds: a shorter rest of the limit counts as none; a clock's reading plus it may be that reading."""
_GRACE = 0.05
"""Seconds in which what has already arrived is read before the program is called late."""


class OutOfTimeError(Exception):
    """The program spent its time limit; that is its own doing."""


class ProgramClock:
    """Counts what one program spends while it is waited for.

    It looks at the program when a quarter of a second has passed since it last did; what passed since then
    counts as it passes on the wall.
    """

    def __init__(self, meter: Meter, clock: Clock | None = None) -> None:
        """Look at a program.

        Args:
            meter: Looks at it.
            clock: The source of time.
        """
        self._meter = meter
        self._clock = clock or SystemClock()
        self._first: Usage | None = None
        self._is_watched = False
        self._before = 0.0  # seconds that passed before the first look
        self._waited = 0.0  # seconds of waiting since then, less those by which this server was late
        self._unseen = 0.0  # those since the last look
        self._processor = self._awake = 0.0  # as the last look found them
        self._counted = self._forgotten = 0.0

    @property
    def spent_s(self) -> float:
        """Seconds that the program has spent so far in everything that was waited for."""
        return max(0.0, self._total - self._forgotten)

    def forget(self) -> None:
        """Count from 0 again."""
        self._forgotten = self._total

    def look(self) -> None:
        """Find out what of the last quarter of a second was the program's own."""
        if self._first is not None and self._unseen:
            self._see()

    async def wait_for(self, work: Callable[[], Awaitable[T]], time_limit: float) -> T:
        """Wait for something of the program's, as long as the program has time.

        The first quarter of a second of all waits (of a short limit, a quarter of it) is free for a program
        that passes its limit.

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
        self._count()
        if self._unseen >= _UNWATCHED:
            self.look()
        if came:
            return came[0]
        raise ended[0]

    async def _watch(self, limit: float) -> None:
        clock = self._clock
        began = clock.monotonic()
        backstop = began + max(BACKSTOP_LEAST, BACKSTOP_FACTOR * limit)
        if not self._is_watched:
            await clock.sleep(max(0.0, min(_UNWATCHED, limit / 4) - self._unseen))
            self._begin_to_watch()
        processor, awake, waited = self._processor, self._awake + self._unseen, self._waited
        left = limit
        while left > _NOTHING:
            # At no time that a program could foresee, to be ready to run just then.
            due = clock.monotonic() + min(left, _LOOK_EVERY * random.uniform(0.5, 1.0))  # noqa: S311  (nobody guards a secret with it)
            await clock.sleep(due - clock.monotonic())
            self._count(late=clock.monotonic() - due)
            used = self._see()
            if used is None:
                spent = self._waited - waited
                left = UNCOUNTED_PATIENCE * limit - spent
            else:
                patience = UNCOUNTED_PATIENCE if used.has_ended_children else 1.0
                spent = self._awake - awake
                left = min(limit - (self._processor - processor), patience * limit - spent)
            if left > _NOTHING and self._counted >= backstop:
                raise SandboxStarvedError(
                    f"a program got {spent:.1f} of its {limit:g} seconds of a processor within "
                    f"{self._counted - began:.0f} seconds: the machine is too busy"
                )
        await clock.sleep(_GRACE)
        raise OutOfTimeError("ran out of time")

    @property
    def _total(self) -> float:
        return self._before + max(self._processor, self._awake) + self._unseen

    def _begin_to_watch(self) -> None:
        self._count()
        self._before, self._waited, self._unseen = self._unseen, 0.0, 0.0
        self._first, self._is_watched = self._meter(), True
        self._counted = self._clock.monotonic()  # after the look, which is not counted either

    def _count(self, late: float = 0.0) -> None:
        now = self._clock.monotonic()
        passed = max(0.0, now - self._counted - late)
        self._counted = now
        self._waited += passed
        self._unseen += passed

    def _see(self) -> Spent | None:
        now = None if self._first is None else self._meter()
        if self._first is None or now is None:
            return None
        used = now.since(self._first)
        awake = max(0.0, self._waited - used.delayed_s)
        self._awake = min(awake, self._awake) if now.is_ready else awake
        self._processor, self._unseen = used.processor_s, 0.0
        return used
