"""The clock of a call: counts the time that the call's own code takes, and ends the call when it is up.

What the server makes a call wait for is not the call's: a queue for a worker thread or for a grading, which
is entered `paused_call_clock`, and an event loop that other code holds. Seconds for which the call's own code
holds the loop are its own.
"""

import asyncio
import functools
import math
import operator
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, cast

import anyio

from ors_server.timing.loop_watch import HEARTBEAT_SECONDS, LoopWatch, current_watch

_MARGIN = 0.02
"""Seconds by which the scope's own deadline, which others read, comes after the clock's."""

_monotonic = time.monotonic


class Start:
    """Reports to a clock, from another thread, that its function has begun; does not wake the event loop."""

    __slots__ = ("_now", "_watch", "began_at", "late_s")

    def __init__(self, now: Callable[[], float], watch: LoopWatch | None) -> None:
        self._now = now
        self._watch = watch
        self.began_at: float | None = None
        self.late_s = 0.0

    def note(self) -> None:
        """Note that it begins now; from any thread."""
        now = self._now()
        self.late_s = 0.0 if self._watch is None else self._watch.late_until(now)
        self.began_at = now  # the last, for this is what the clock looks at


class CallClock:
    """Time of one call: all of it, and how much of it counts."""

    __slots__ = (
        "_began",
        "_counted_s",
        "_due",
        "_has_waited",
        "_held_s",
        "_late_before_s",
        "_loop",
        "_now",
        "_pauses",
        "_scope",
        "_since",
        "_starts",
        "_thread",
        "_timer",
        "before_change",
        "bound",
        "has_rung",
        "limit",
        "on_hold",
        "watch",
    )

    def __init__(
        self,
        seconds: float | None = None,
        *,
        watch: LoopWatch | None = None,
        now: Callable[[], float] = _monotonic,
        bound: Callable[[], float | None] | None = None,
    ) -> None:
        """Start to count, in the time of the watch; `None` seconds for no limit.

        Args:
            bound: Returns the seconds that are left of a time which continues while this clock is paused.
        """
        self.limit = math.inf if seconds is None else seconds
        self.bound = bound
        self.before_change: Callable[[], None] | None = None
        """Is called before the clock stops or continues to count, on the event loop's thread."""
        self.on_hold: Callable[[float], None] | None = None
        """Is called with the seconds for which the call's own code held the event loop."""
        self.watch = watch
        self._now = now if watch is None else watch.now
        self._began = self._since = began = self._now()
        self._late_before_s = 0.0 if watch is None else watch.late_until(began)
        self._counted_s = 0.0
        self._pauses = 0
        self._starts: list[Start] = []
        """Awaited starts that have not been reported yet."""
        self._held_s = 0.0
        self.has_rung = False
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where the timer is, once there is a limit and a scope."""
        self._thread = 0
        """The thread of that loop: no other one touches the timer."""
        self._scope: anyio.CancelScope | None = None
        """Is cancelled when the time is up."""
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        self._has_waited = False

    @property
    def is_up(self) -> bool:
        """Whether the code was stopped because its time was up, or should have been."""
        return self.has_rung or self._held_s >= self.limit

    @property
    def spent_s(self) -> float:
        """Seconds that count."""
        return self._spent(self._now())

    @property
    def waived_s(self) -> float:
        """Seconds that do not count, at least 0."""
        now = self._now()
        waived = now - self._began - self._spent(now)
        return waived if waived > 0 else 0.0

    @property
    def left_s(self) -> float:
        """Seconds that are left; negative once it is too late."""
        left = self.limit - self.spent_s
        bound = None if self.bound is None else self.bound()
        return left if bound is None else min(left, bound)

    def counts_from(self, now: float, late: float) -> tuple[float, float]:
        """Return since when the clock counts, now while it is paused, and how late the loop was then.

        Args:
            late: Seconds that the loop has been late up to now.
        """
        return (now, late) if self.is_paused else (self._since, self._late_before_s)

    @property
    def is_paused(self) -> bool:
        """Whether nothing counts now."""
        self._see_starts()
        return self._pauses > 0 or bool(self._starts)

    def pause(self) -> None:
        """Stop counting; pauses nest, and each has its `resume`."""
        self._note_change()
        self._counted_s = self.spent_s
        self._pauses += 1
        self._plan()

    def resume(self) -> None:
        """Count on, once each `pause` has had its `resume`."""
        self._note_change()
        self._see_starts()
        self._pauses -= 1
        if not self._pauses:
            if not self._starts:
                self._since = now = self._now()
                self._late_before_s = 0.0 if self.watch is None else self.watch.late_until(now)
            self._plan()

    def wait_for_start(self) -> Start:
        """Stop counting until something begins in another thread, which says so."""
        self._note_change()
        self._counted_s = self.spent_s
        start = Start(self._now, self.watch)
        self._starts.append(start)
        return start  # it may begin at any moment, so that the time may be up as early as it would be now

    def hold(self, seconds: float) -> None:
        """Count seconds for which the call's own code held the event loop, so that the loop was late."""
        self._counted_s += seconds
        self._held_s += seconds
        if self.on_hold is not None:
            self.on_hold(seconds)

    def scope(self, *, shield: bool = False) -> anyio.CancelScope:
        """Return a scope that is cancelled when the time is up, until `stop`.

        The clock was just started. The scope's deadline is the clock's, for code that plans by it.
        """
        if self.limit != math.inf:
            self._loop = None if self.watch is None else self.watch.loop
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
            self._thread = threading.get_ident()
            if not self._pauses:
                self._due = time.monotonic() + self.limit
        clocked = _clock_scope_class()(shield=shield)
        clocked.clock = self
        self._scope = scope = cast("anyio.CancelScope", clocked)
        return scope

    @property
    def deadline(self) -> float:
        """When the code should be done by the event loop's time; infinite without a limit and in a pause."""
        return self._due + _MARGIN

    def arm(self) -> None:
        """Set the timer, before the code waits for the first time; a second call does nothing."""
        if self._timer is None and self._due != math.inf and self._loop is not None:
            if threading.get_ident() != self._thread:
                self._loop.call_soon_threadsafe(self.arm)
                return
            self._timer = self._loop.call_at(self._due, self._ring)

    def stop(self) -> None:
        """Never ring."""
        self._loop = self._scope = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _note_change(self) -> None:
        if self.before_change is not None:
            self.before_change()

    def _spent(self, now: float) -> float:
        if self._starts:
            self._see_starts()
        if self._pauses or self._starts:
            return self._counted_s
        counted = now - self._since
        if self.watch is not None:
            counted -= self.watch.late_until(now) - self._late_before_s
        return self._counted_s + counted if counted > 0 else self._counted_s

    def _see_starts(self) -> None:
        begun = [
            (start.began_at, start.late_s, start) for start in self._starts if start.began_at is not None
        ]
        if not begun:
            return
        for _, _, start in begun:
            self._starts.remove(start)
        if not (self._starts or self._pauses):
            self._since, self._late_before_s, _ = max(begun, key=operator.itemgetter(0))

    def _plan(self) -> None:
        if self._loop is None:
            return
        if threading.get_ident() != self._thread:
            # A tool in a worker thread may run its own event loop, and pause the clock in it.
            self._loop.call_soon_threadsafe(self._plan)
            return
        self._wake_after(math.inf if self._pauses else self.left_s)

    def _wake_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._loop is None or self._scope is None or self._scope.cancel_called:
            return
        self._due = time.monotonic() + max(0.0, seconds)
        if seconds != math.inf:
            self._timer = self._loop.call_at(self._due, self._ring)

    def _ring(self) -> None:
        """Look again, for the time should be over."""
        left = self.left_s
        if left > 0:
            self._wake_after(left)
        elif time.monotonic() - self._due > _MARGIN and not self._has_waited:
            self._has_waited = True  # the loop was held just then: what ended meanwhile may still say so
            self._wake_after(HEARTBEAT_SECONDS)
        elif self._scope is not None:
            self.has_rung = True
            self.limit = min(self.limit, self.spent_s)  # less than it was, if the bound ended it
            self._scope.cancel()


@functools.cache
def _scope_class() -> type[anyio.CancelScope]:
    return type(anyio.CancelScope())


@functools.cache
def _clock_scope_class() -> Callable[..., Any]:
    """Return a scope whose deadline is a clock's, which alone sets a timer: anyio's would be a second one.

    A call of a tool that waits for nothing has none at all.
    """
    deadline = property(operator.attrgetter("clock.deadline"))
    return type("ClockScope", (_scope_class(),), {"__slots__": ("clock",), "deadline": deadline})


def make_scope(*, deadline: float = math.inf, shield: bool = False) -> anyio.CancelScope:
    """Make a cancel scope; anyio would look its class up for each, which costs more than the scope.

    Only for code that runs on an event loop.
    """
    return _scope_class()(deadline=deadline, shield=shield)


call_clock: ContextVar[CallClock | None] = ContextVar("call_clock", default=None)
"""The clock of the call that runs in this context; it is paused while the call waits for the server."""


def start_clock(seconds: float | None) -> CallClock:
    """Make a clock that knows how late the running event loop is."""
    return CallClock(seconds, watch=current_watch.get())


class counting:  # noqa: N801  (used as a function, as `contextlib.suppress` is)
    """Have the code inside run by a clock, and cancel it when its own time is up.

    Afterwards the clock's `is_up` says whether that happened. A class, because each call enters one and a
    generator would cost several times as much.
    """

    __slots__ = ("_before", "_clock", "_is_armed", "scope")

    def __init__(self, clock: CallClock, *, shield: bool = False, is_armed: bool = True) -> None:
        """Count for a clock.

        Args:
            is_armed: Whether the timer is set at once; without, the code inside calls `arm` before it waits.
        """
        self._clock = clock
        self._is_armed = is_armed
        self.scope = clock.scope(shield=shield)
        """Is cancelled when the time is up."""

    def __enter__(self) -> CallClock:
        self.scope.__enter__()
        if self._is_armed:
            self._clock.arm()
        self._before = call_clock.set(self._clock)
        return self._clock

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        call_clock.reset(self._before)
        self._clock.stop()
        return self.scope.__exit__(kind, error, traceback)


@contextmanager
def paused_call_clock() -> Generator[None]:
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
