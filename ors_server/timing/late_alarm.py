"""Wakes a thread while an event loop is late, and measures what the machine took from the loop's thread.

While the loop is on time the thread sleeps on. To wake, it would have to wait for the interpreter's lock,
which a busy loop releases and takes back at each turn, and each time both pay for it: twenty wakes a second
made a call in process cost 250 µs instead of 175, on two processors.
"""

import ctypes
import math
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

REPEAT = 0.05
"""Seconds between two rings while the loop is late."""
TOLERANCE = 0.02
"""Seconds that a thread may be late on an idle machine; only more counts."""
_NANOSECONDS = 1_000_000_000
_Times = ctypes.c_long * 4
"""`struct itimerspec`; made for each use, it would be a new class."""


class LateAlarm(Protocol):
    """An alarm that the loop puts off at each heartbeat."""

    lost_s: float
    """Seconds in which the loop's thread was kept from running, in all, when that was last looked at."""

    def lost_until(self, now: float) -> float:
        """Look at the seconds that were lost, in all."""
        ...

    def put_off(self, seconds: float) -> None:
        """Ring only after some seconds, and then every `REPEAT` seconds."""
        ...

    def wait(self) -> bool:
        """Wait for the next ring, in its own thread; return `False` once it is closed."""
        ...

    def close(self) -> None:
        """End the wait; nothing else is called afterwards."""
        ...


def make_alarm(now: Callable[[], float]) -> LateAlarm:
    """Make the alarm of the event loop that this thread runs; `now` is its time."""
    try:
        return TimerAlarm()
    except (OSError, AttributeError, ValueError):  # not Linux, or a sandbox without these
        return SleepingAlarm(now)


class TimerAlarm:
    """Linux: a timer of the kernel, and the kernel's account of the thread's waits for a processor."""

    def __init__(self) -> None:
        """Set no time yet; `OSError`, `AttributeError` or `ValueError` if the kernel has not both."""
        self._closed = False
        self._account = os.open(
            f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY | os.O_CLOEXEC
        )
        try:
            self.lost_s = self._look()
            self._library: Any = ctypes.CDLL(None, use_errno=True)
            self._timer = self._make_timer()
        except BaseException:
            os.close(self._account)
            raise

    def lost_until(self, now: float) -> float:
        """See `LateAlarm.lost_until`: the time for which the thread was ready to run and did not."""
        del now
        self.lost_s = self._look()
        return self.lost_s

    def put_off(self, seconds: float) -> None:
        """See `LateAlarm.put_off`."""
        self._set(int(seconds * _NANOSECONDS))

    def wait(self) -> bool:
        """See `LateAlarm.wait`."""
        os.read(self._timer, 8)
        if not self._closed:
            return True
        os.close(self._timer)
        os.close(self._account)
        return False

    def close(self) -> None:
        """See `LateAlarm.close`."""
        self._closed = True
        self._set(1)

    def _make_timer(self) -> int:
        timer: int = self._library.timerfd_create(time.CLOCK_MONOTONIC, os.O_CLOEXEC)
        if timer < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        return timer

    def _look(self) -> float:
        ran, waited, _ = os.pread(self._account, 128, 0).split()
        if not int(ran):
            raise OSError("the kernel keeps no account of threads")
        return int(waited) / _NANOSECONDS

    def _set(self, nanoseconds: int) -> None:
        repeat = int(REPEAT * _NANOSECONDS)
        times = _Times(0, repeat, *divmod(nanoseconds, _NANOSECONDS))
        self._library.timerfd_settime(self._timer, 0, times, None)


class SleepingAlarm:
    """Elsewhere: a thread that wakes often, and whose own lateness is the machine's."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Watch the thread that runs this."""
        clock_of = getattr(time, "pthread_getcpuclockid", None)
        self._cpu_clock: int | None = None if clock_of is None else clock_of(threading.get_ident())
        self._now = now
        self._stop = threading.Event()
        self.lost_s = 0.0
        self._due = math.inf
        self._cpu = self._cpu_seconds()

    def lost_until(self, now: float) -> float:
        """See `LateAlarm.lost_until`: lateness that the loop's thread did not compute away."""
        late = now - self._due
        if late <= TOLERANCE:
            return self.lost_s
        return self.lost_s + max(0.0, late - (self._cpu_seconds() - self._cpu))

    def put_off(self, seconds: float) -> None:
        """Do nothing: it rings all the time."""

    def wait(self) -> bool:
        """See `LateAlarm.wait`."""
        self._cpu = self._cpu_seconds()
        self._due = self._now() + REPEAT
        is_closed = self._stop.wait(REPEAT)
        self.lost_s = self.lost_until(self._now())
        self._due = math.inf
        return not is_closed

    def close(self) -> None:
        """See `LateAlarm.close`."""
        self._stop.set()

    def _cpu_seconds(self) -> float:
        if self._cpu_clock is None:
            return 0.0
        try:
            return time.clock_gettime(self._cpu_clock)
        except OSError:  # the loop's thread has ended
            return self._cpu
