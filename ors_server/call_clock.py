"""The clock of a call: counts the time that the call's own code takes, and ends the call when it is up.

What the server makes a call wait for is not the call's: a queue for a worker thread or for a grading, which
is entered `off_the_clock`, and an event loop that other code holds. Seconds for which the call's own code
holds the loop are its own.
"""

import asyncio
import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio

from ors_server.loop_watch import BEAT, LoopWatch, current_watch

_MARGIN = 0.02
"""Seconds by which the scope's own deadline, which others read, comes after the clock's."""

_now = time.monotonic


class CallClock:
    """Time of one call: all of it, and how much of it counts."""

    def __init__(
        self,
        seconds: float | None = None,
        *,
        watch: LoopWatch | None = None,
        now: Callable[[], float] = _now,
    ) -> None:
        """Start to count.

        Args:
            seconds: Time limit; `None` for none.
            watch: Says how late the event loop has been.
            now: Seconds from any origin; the same as the watch's.
        """
        self.limit = math.inf if seconds is None else seconds
        self.watch = watch
        self._now = watch.now if watch is not None else now
        self._began = self._now()
        self._counted = 0.0
        self._since = self._began
        self._late_before = self._late(self._began)
        self._pauses = 0
        self._held = 0.0
        self._alarm: _Alarm | None = None
        self.has_rung = False

    @property
    def is_up(self) -> bool:
        """Whether the code was stopped because its time was up, or should have been."""
        return self.has_rung or self._held >= self.limit

    @property
    def spent_s(self) -> float:
        """Seconds that count."""
        if self._pauses:
            return self._counted
        now = self._now()
        return self._counted + max(0.0, now - self._since - (self._late(now) - self._late_before))

    @property
    def waived_s(self) -> float:
        """Seconds that do not count, at least 0."""
        return max(0.0, self._now() - self._began - self.spent_s)

    @property
    def left_s(self) -> float:
        """Seconds that are left; negative once it is too late."""
        return self.limit - self.spent_s

    @property
    def is_paused(self) -> bool:
        """Whether nothing counts now."""
        return self._pauses > 0

    def pause(self) -> None:
        """Stop counting; pauses nest, and each has its `resume`."""
        self._counted = self.spent_s
        self._pauses += 1
        self._rearm()

    def resume(self) -> None:
        """Count on, once each `pause` has had its `resume`."""
        self._pauses -= 1
        if not self._pauses:
            self._since = self._now()
            self._late_before = self._late(self._since)
            self._rearm()

    def hold(self, seconds: float) -> None:
        """Count seconds for which the call's own code held the event loop, so that the loop was late.

        Args:
            seconds: At most what the loop was late meanwhile.
        """
        self._counted += seconds
        self._held += seconds

    def rings(self, scope: anyio.CancelScope) -> "_Alarm":
        """Cancel a scope when the time is up.

        Args:
            scope: Its deadline is kept up to date, for those who plan by it.
        """
        self._alarm = _Alarm(self, scope)
        return self._alarm

    def _late(self, moment: float) -> float:
        return 0.0 if self.watch is None else self.watch.late_until(moment)

    def _rearm(self) -> None:
        if self._alarm is not None:
            self._alarm.set()


class _Alarm:
    """Wakes up when a clock's time should be over, and looks again."""

    def __init__(self, clock: CallClock, scope: anyio.CancelScope) -> None:
        self._clock = clock
        self._scope = scope
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        self._has_waited = False
        self.set()

    def set(self) -> None:
        """Plan by what is left."""
        self._set(math.inf if self._clock.is_paused else self._clock.left_s)

    def stop(self) -> None:
        """Never ring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, seconds: float) -> None:
        self.stop()
        if self._scope.cancel_called:
            return
        if math.isinf(seconds):
            self._scope.deadline = math.inf
            return
        self._due = time.monotonic() + max(0.0, seconds)
        delay = self._due - self._loop.time()
        self._scope.deadline = self._loop.time() + delay + _MARGIN
        self._timer = self._loop.call_later(delay, self._ring)

    def _ring(self) -> None:
        left = self._clock.left_s
        if left > 0:
            self._set(left)
        elif time.monotonic() - self._due > _MARGIN and not self._has_waited:
            self._has_waited = True  # the loop was held just then: what ended meanwhile may still say so
            self._set(BEAT)
        else:
            self._clock.has_rung = True
            self._scope.cancel()


call_clock: ContextVar[CallClock | None] = ContextVar("call_clock", default=None)
"""The clock of the call that runs in this context; it stands still while the call waits for the server."""


def start_clock(seconds: float | None) -> CallClock:
    """Make a clock that knows how late the running event loop is.

    Args:
        seconds: Time limit; `None` for none.
    """
    return CallClock(seconds, watch=current_watch.get())


@contextmanager
def counting(clock: CallClock, *, shield: bool = False) -> Generator[CallClock]:
    """Have the code inside run by a clock, and cancel it when its own time is up.

    Afterwards the clock's `is_up` says whether that happened.

    Args:
        clock: That was just started.
        shield: Whether a cancellation from outside waits.
    """
    with anyio.CancelScope(shield=shield) as scope:
        alarm = None if clock.limit == math.inf else clock.rings(scope)
        before = call_clock.set(clock)
        try:
            yield clock
        finally:
            call_clock.reset(before)
            if alarm is not None:
                alarm.stop()


@contextmanager
def off_the_clock() -> Generator[None]:
    """Stop the clock of the call that runs in this context, if there is one."""
    clock = call_clock.get()
    if clock is None:
        yield
        return
    clock.pause()
    try:
        yield
    finally:
        clock.resume()
