"""Measures a program's time: only what the program itself spends counts against its time limit.

A program spends processor time. It also spends time in which it neither runs nor waits for a processor: it
sleeps, or waits for an event. Time in which it is ready to run and gets no processor is the machine's, and so
is the delay of this server's own checks. On a busy machine a program gets as long as it needs, up to a
backstop; reaching that is a failure of the machine.

Invariants:

- Spent time is the larger of processor time and time awake, never their sum: a program that computes on one
  thread and sleeps on another spends each second once.
- The total has three parts: before the first look (`_before`), up to the last look (`_processor`, `_awake`),
  and since then (`_since_look`). A look moves the third part into the second.
- A delay of the server's own check (`late`) is subtracted before anything is counted.
- While the kernel does not report a program's use, all waiting counts, against three times the limit.
"""

import random
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import anyio

from ors_server.model.clock import Clock, SystemClock
from ors_server.sandboxes.processor_usage import ProcessorUsage, Spent
from ors_server.sandboxes.sandbox_errors import SandboxStarvedError

T = TypeVar("T")
Meter: TypeAlias = Callable[[], ProcessorUsage | None]
"""Reads what a program used so far; None if that is not known."""

BACKSTOP_FACTOR = 10.0
MIN_BACKSTOP = 60.0
"""The backstop in seconds of wall time is this factor times the limit, and at least this."""
UNCOUNTED_PATIENCE = 3.0
"""A program whose waits for a processor are not all known may idle for this many times its limit."""
_LOOK_AFTER = 0.25
_LOOK_EVERY = 0.5
_MIN_LOOK = 0.01
"""Seconds from one look to the next at least: a shorter rest may be too small for the clock to add."""
_GRACE = 0.05
"""Seconds to read what has already arrived before the program is called late."""


class OutOfTimeError(Exception):
    """The program spent its time limit, by its own fault."""


class ProgramClock:
    """Measures what one program spends while the server waits for it.

    It looks at the program when a quarter of a second has passed since the last look; shorter waits count as
    wall time.
    """

    def __init__(self, meter: Meter, clock: Clock | None = None) -> None:
        """Measure the program that `meter` reads."""
        self._meter = meter
        self._clock = clock or SystemClock()
        self._first: ProcessorUsage | None = None
        self._is_watched = False
        self._before = 0.0  # seconds that passed before the first look
        self._waited = 0.0  # seconds of waiting since then, less those by which this server was late
        self._since_look = 0.0  # those since the last look
        self._processor = self._awake = 0.0  # as the last look found them
        self._counted_until = self._forgotten = 0.0

    @property
    def spent_s(self) -> float:
        """Seconds that the program has spent in all waits so far."""
        return max(0.0, self._total - self._forgotten)

    def forget(self) -> None:
        """Count from 0 again."""
        self._forgotten = self._total

    def measure_if_due(self) -> None:
        """Find out how much of the last quarter of a second the program spent."""
        if self._first is not None and self._since_look:
            self._measure()

    async def wait_for(self, work: Callable[[], Awaitable[T]], time_limit: float) -> T:
        """Wait for the program, as long as it has time.

        The first quarter of a second of all waits (of a short limit, a quarter of it) is free for a program
        that passes its limit.

        Args:
            work: Waits for it; cancelled when the time is over.
            time_limit: Seconds that the program may spend, above 0.

        Raises:
            OutOfTimeError: It spent them.
            SandboxStarvedError: It did not get them within the backstop.
        """
        results: list[T] = []
        errors: list[Exception] = []
        self._counted_until = self._clock.monotonic()

        async def watch() -> None:
            try:
                await self._watch(time_limit)
            except (OutOfTimeError, SandboxStarvedError) as error:
                errors.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            try:
                results.append(await work())
            except Exception as error:  # noqa: BLE001 # raised outside, so that no group wraps it
                errors.insert(0, error)
            group.cancel_scope.cancel()
        self._count()
        if self._since_look >= _LOOK_AFTER:
            self.measure_if_due()
        if results:
            return results[0]
        raise errors[0]

    async def _watch(self, limit: float) -> None:
        clock = self._clock
        began, had_spent = clock.monotonic(), self._total
        backstop = began + max(MIN_BACKSTOP, BACKSTOP_FACTOR * limit)
        if not self._is_watched:
            await clock.sleep(max(0.0, min(_LOOK_AFTER, limit / 4) - self._since_look))
            self._count()
            self._before, self._waited, self._since_look = self._since_look, 0.0, 0.0
            self._first, self._is_watched = self._meter(), True
            self._counted_until = self._clock.monotonic()  # after the look, which is not counted either
        processor, awake, waited = self._processor, self._awake + self._since_look, self._waited
        left = limit
        while left > 0:
            # Random, so that a program cannot foresee it and be ready to run just then.
            due = clock.monotonic() + max(_MIN_LOOK, min(left, _LOOK_EVERY * random.uniform(0.5, 1.0)))  # noqa: S311  (not a secret)
            await clock.sleep(due - clock.monotonic())
            self._count(late=clock.monotonic() - due)
            used = self._measure()
            if used is None:
                spent = self._waited - waited
                left = UNCOUNTED_PATIENCE * limit - spent
            else:
                patience = UNCOUNTED_PATIENCE if used.has_ended_children else 1.0
                spent = self._awake - awake
                left = min(limit - (self._processor - processor), patience * limit - spent)
            if left > 0 and self._counted_until >= backstop:
                raise SandboxStarvedError(
                    f"a program got {spent:.1f} of its {limit:g} seconds of a processor within "
                    f"{self._counted_until - began:.0f} seconds: the machine is too busy"
                )
        # Where it slept before and computes now, the larger of all sleep and all computing grows by less.
        self._before += max(0.0, had_spent + limit - self._total)
        await clock.sleep(_GRACE)
        raise OutOfTimeError("ran out of time")

    @property
    def _total(self) -> float:
        return self._before + max(self._processor, self._awake) + self._since_look

    def _count(self, late: float = 0.0) -> None:
        now = self._clock.monotonic()
        passed = max(0.0, now - self._counted_until - late)
        self._counted_until = now
        self._waited += passed
        self._since_look += passed

    def _measure(self) -> Spent | None:
        now = None if self._first is None else self._meter()
        if self._first is None or now is None:
            return None
        used = now.since(self._first)
        awake = max(0.0, self._waited - used.delayed_s)
        # A thread that is ready now has an unfinished wait, which the kernel adds only at its end: until then
        # the time since the last look cannot be called idle.
        self._awake = min(awake, self._awake) if now.is_ready else awake
        self._processor, self._since_look = used.processor_s, 0.0
        return used
