"""Turns of the calls of one session: one at a time, unless a tool is concurrent or exclusive."""

from enum import Enum

import anyio


class Concurrency(Enum):
    """How a call shares its session with others."""

    SERIAL = "serial"
    """One at a time among serial calls; beside concurrent ones."""
    CONCURRENT = "concurrent"
    """Beside everything but exclusive calls."""
    EXCLUSIVE = "exclusive"
    """Alone; it waits for all and holds new ones back."""


class _TurnRequest:
    __slots__ = ("concurrency", "granted")

    def __init__(self, concurrency: Concurrency) -> None:
        self.concurrency = concurrency
        self.granted = anyio.Event()


class Turns:
    """Hands out turns in order of arrival within the rules of `concurrency`."""

    __slots__ = ("_concurrent", "_exclusive", "_serial", "_waiting")

    def __init__(self) -> None:
        self._serial = False
        self._concurrent = 0
        self._exclusive = False
        self._waiting: list[_TurnRequest] = []

    @property
    def is_idle(self) -> bool:
        """Whether no call has or awaits a turn."""
        return not (self._serial or self._concurrent or self._exclusive or self._waiting)

    async def acquire(self, concurrency: Concurrency) -> None:
        """Wait for a turn; it must be given back."""
        if self.acquire_now(concurrency):
            return
        waiter = _TurnRequest(concurrency)
        self._waiting.append(waiter)
        try:
            await waiter.granted.wait()
        except BaseException:
            if waiter.granted.is_set():
                self.release(concurrency)
            else:
                self._waiting.remove(waiter)
                self._grant()
            raise

    def acquire_now(self, concurrency: Concurrency) -> bool:
        """Take a turn that is free, which must be given back; return whether it was."""
        if not self._is_free(concurrency, self._waiting):
            return False
        self._occupy(concurrency)
        return True

    def release(self, concurrency: Concurrency) -> None:
        """End a turn and wake the next waiters."""
        match concurrency:
            case Concurrency.SERIAL:
                self._serial = False
            case Concurrency.CONCURRENT:
                self._concurrent -= 1
            case Concurrency.EXCLUSIVE:
                self._exclusive = False
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        still_waiting: list[_TurnRequest] = []
        for waiter in self._waiting:
            if self._is_free(waiter.concurrency, still_waiting):
                self._occupy(waiter.concurrency)
                waiter.granted.set()
            else:
                still_waiting.append(waiter)
        self._waiting = still_waiting

    def _is_free(self, concurrency: Concurrency, ahead: list[_TurnRequest]) -> bool:
        if self._exclusive or (
            ahead and any(waiter.concurrency is Concurrency.EXCLUSIVE for waiter in ahead)
        ):
            return False
        match concurrency:
            case Concurrency.SERIAL:
                return not self._serial and not (
                    ahead and any(waiter.concurrency is Concurrency.SERIAL for waiter in ahead)
                )
            case Concurrency.CONCURRENT:
                return True
            case Concurrency.EXCLUSIVE:
                return not (self._serial or self._concurrent or ahead)

    def _occupy(self, concurrency: Concurrency) -> None:
        match concurrency:
            case Concurrency.SERIAL:
                self._serial = True
            case Concurrency.CONCURRENT:
                self._concurrent += 1
            case Concurrency.EXCLUSIVE:
                self._exclusive = True
