"""A fair limiter: a number of permits, and waiters take turns by key.

It knows nothing of what is limited. Gradings use it with (environment, credential) as the key, so that a
thousand gradings of one trainer delay another trainer's grading by one, not by a thousand.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import anyio

from ors_server.model.clock import Clock, SystemClock
from ors_server.timing.call_clock import paused_call_clock


@dataclass(frozen=True, slots=True)
class KeyFigures:
    """One key's permits and waiters now."""

    running: int
    waiting: int
    longest_wait_s: float
    """Seconds that its oldest waiter has waited so far; 0 where none waits."""


@dataclass(frozen=True, slots=True)
class AdmissionFigures:
    """The state of a limiter."""

    capacity: int
    running: int
    waiting: int
    longest_wait_s: float
    """Seconds that the oldest waiter has waited so far; 0 where none waits."""
    admitted: int
    """Places given since the start."""
    waited_s: float
    """Seconds that admitted requests have waited, in all."""
    worst_wait_s: float
    """The longest wait of one that was admitted, in seconds."""
    keys: Mapping[Hashable, KeyFigures]
    """Keys that have or await a permit now."""

    def summary(self) -> dict[str, int | float]:
        """Return the figures without the keys, rounded, for a log or a health check."""
        return {
            "capacity": self.capacity,
            "running": self.running,
            "waiting": self.waiting,
            "longest_wait_s": round(self.longest_wait_s, 3),
            "admitted": self.admitted,
            "worst_wait_s": round(self.worst_wait_s, 3),
        }


class _PermitRequest:
    __slots__ = ("granted", "key", "permit", "since")

    def __init__(self, key: Hashable, since: float) -> None:
        self.key = key
        self.since = since
        self.granted = anyio.Event()
        self.permit: Permit | None = None


class Permit:
    """A permit that was given; its holder releases it."""

    __slots__ = ("_admission", "is_urgent", "key", "waited_s")

    def __init__(self, admission: "Admission", key: Hashable, waited_s: float, *, is_urgent: bool) -> None:
        """Belong to a key; an urgent permit may be one of the reserve."""
        self._admission: Admission | None = admission
        self.key = key
        self.waited_s = waited_s
        self.is_urgent = is_urgent

    def release(self) -> None:
        """Give it back, on the event loop's thread; a second call does nothing."""
        admission, self._admission = self._admission, None
        if admission is not None:
            admission.take_back(self)


_Queues = OrderedDict[Hashable, deque[_PermitRequest]]
"""Waiters by key, the key whose turn is next first."""


class Admission:
    """Gives so many permits at once: within a key in order of arrival, among keys in turns."""

    def __init__(
        self, capacity: int, *, share: int | None = None, reserve: int = 0, clock: Clock | None = None
    ) -> None:
        """Start with every permit free; `ValueError` if a number is out of its range.

        Args:
            capacity: Permits in all, from 1.
            share: Most permits that one key has at once, from 1; all by default.
            reserve: Permits that only urgent requests may take, below the capacity.
        """
        if capacity < 1 or not 0 <= reserve < capacity or (share is not None and share < 1):
            raise ValueError(
                f"capacity and share must be at least 1 and the reserve below the capacity, "
                f"got {capacity}, {share} and {reserve}"
            )
        self.capacity = capacity
        self._ordinary = capacity - reserve
        self._share = share or capacity
        self._clock = clock or SystemClock()
        self._running: dict[Hashable, int] = {}
        self._permits = 0
        self._ordinary_permits = 0
        self._urgent: _Queues = OrderedDict()
        self._usual: _Queues = OrderedDict()
        self._admitted = 0
        self._waited = 0.0
        self._worst = 0.0

    async def take(self, key: Hashable, *, urgent: bool = False, ahead: bool = False) -> Permit:
        """Wait for a permit, which has to be released; the clock of the running call is paused meanwhile.

        A cancelled wait takes no permit.

        Args:
            key: Whose turn and share it counts in.
            urgent: Whether it may take from the reserve, and goes before those that may not.
            ahead: Whether it goes before those of its key that wait already.
        """
        permit = self.take_now(key, urgent=urgent)
        if permit is not None:
            return permit
        queues = self._urgent if urgent else self._usual
        waiter = _PermitRequest(key, self._clock.monotonic())
        queue = queues.setdefault(key, deque())
        if ahead:
            queue.appendleft(waiter)
        else:
            queue.append(waiter)
        try:
            with paused_call_clock():
                await waiter.granted.wait()
        except BaseException:
            if waiter.permit is not None:
                waiter.permit.release()
            else:
                queue.remove(waiter)
                if not queue:
                    queues.pop(key, None)
            raise
        if waiter.permit is None:
            raise AssertionError("a waiter is granted with a permit")
        return waiter.permit

    def take_now(self, key: Hashable, *, urgent: bool = False) -> Permit | None:
        """Take a permit that is free, which has to be released; return `None` if one has to wait."""
        if key in (self._urgent if urgent else self._usual) or not self._is_free(key, urgent=urgent):
            return None
        return self._give(key, 0.0, urgent=urgent)

    def take_back(self, permit: Permit) -> None:
        """Let others have a permit; `Permit.release` calls this once."""
        self._permits -= 1
        self._ordinary_permits -= not permit.is_urgent
        self._running[permit.key] -= 1
        if not self._running[permit.key]:
            del self._running[permit.key]
        while self._grant_one(self._urgent, urgent=True):
            pass
        while self._grant_one(self._usual, urgent=False):
            pass

    def figures(self) -> AdmissionFigures:
        """Return what runs now."""
        now = self._clock.monotonic()
        waiters: dict[Hashable, list[float]] = {}
        for queues in (self._urgent, self._usual):
            for key, queue in queues.items():
                waiters.setdefault(key, []).extend(now - waiter.since for waiter in queue)
        keys = {
            key: KeyFigures(
                self._running.get(key, 0), len(waiters.get(key, ())), max(waiters.get(key, ()), default=0.0)
            )
            for key in (*self._running, *(key for key in waiters if key not in self._running))
        }
        return AdmissionFigures(
            capacity=self.capacity,
            running=self._permits,
            waiting=sum(figures.waiting for figures in keys.values()),
            longest_wait_s=max((figures.longest_wait_s for figures in keys.values()), default=0.0),
            admitted=self._admitted,
            waited_s=self._waited,
            worst_wait_s=self._worst,
            keys=keys,
        )

    def _is_free(self, key: Hashable, *, urgent: bool) -> bool:
        has_space = self._permits < self.capacity and (urgent or self._ordinary_permits < self._ordinary)
        return has_space and self._running.get(key, 0) < self._share

    def _give(self, key: Hashable, waited: float, *, urgent: bool) -> Permit:
        self._permits += 1
        self._ordinary_permits += not urgent
        self._running[key] = self._running.get(key, 0) + 1
        self._admitted += 1
        self._waited += waited
        self._worst = max(self._worst, waited)
        return Permit(self, key, waited, is_urgent=urgent)

    def _grant_one(self, queues: _Queues, *, urgent: bool) -> bool:
        """Give a permit to the first waiter that may have one; return whether there was one."""
        for key, queue in queues.items():
            if self._is_free(key, urgent=urgent):
                waiter = queue.popleft()
                if queue:
                    queues.move_to_end(key)
                else:
                    del queues[key]
                waiter.permit = self._give(key, self._clock.monotonic() - waiter.since, urgent=urgent)
                waiter.granted.set()
                return True
        return False


@dataclass(frozen=True, slots=True)
class Gate:
    """A limiter as one key sees it."""

    admission: Admission
    key: Hashable

    async def take(self, *, ahead: bool = False) -> Permit:
        """Wait for a permit, which has to be released."""
        return await self.admission.take(self.key, ahead=ahead)
