"""Whose turn it is: one call at a time per session, unless a tool says otherwise."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from enum import Enum

import anyio


class Manner(Enum):
    """How a call shares its session with others."""

    SERIAL = "serial"
    """One at a time among serial calls; beside concurrent ones."""
    CONCURRENT = "concurrent"
    """Beside everything but exclusive calls."""
    EXCLUSIVE = "exclusive"
    """Alone; it waits for all and holds new ones back."""


class _Waiter:
    __slots__ = ("granted", "manner")

    def __init__(self, manner: Manner) -> None:
        self.manner = manner
        self.granted = anyio.Event()


class Turns:
    """Hands out turns in order of arrival within the rules of `Manner`."""

    __slots__ = ("_concurrent", "_exclusive", "_serial", "_waiting")

    def __init__(self) -> None:
        """Start with nobody's turn."""
        self._serial = False
        self._concurrent = 0
        self._exclusive = False
        self._waiting: list[_Waiter] = []

    @property
    def is_idle(self) -> bool:
        """Whether no call has or awaits a turn."""
        return not (self._serial or self._concurrent or self._exclusive or self._waiting)

    @asynccontextmanager
    async def turn(self, manner: Manner) -> AsyncGenerator[None, None]:
        """Wait for a turn and hold it.

        Args:
            manner: How the call shares the session.
        """
        await self.take(manner)
        try:
            yield
        finally:
            self.give_back(manner)

    async def take(self, manner: Manner) -> None:
        """Wait for a turn; it must be given back.

        Args:
            manner: How the call shares the session.
        """
        if self.take_now(manner):
            return
        waiter = _Waiter(manner)
        self._waiting.append(waiter)
        try:
            await waiter.granted.wait()
        except BaseException:
            if waiter.granted.is_set():
                self.give_back(manner)
            else:
                self._waiting.remove(waiter)
                self._grant()
            raise

    def take_now(self, manner: Manner) -> bool:
        """Take a turn that is free, which must be given back; return whether it was.

        Args:
            manner: How the call shares the session.
        """
        if not self._is_free(manner, self._waiting):
            return False
        self._occupy(manner)
        return True

    def give_back(self, manner: Manner) -> None:
        """End a turn and wake whoever may go next.

        Args:
            manner: As it was taken.
        """
        match manner:
            case Manner.SERIAL:
                self._serial = False
            case Manner.CONCURRENT:
                self._concurrent -= 1
            case Manner.EXCLUSIVE:
                self._exclusive = False
        if self._waiting:
            self._grant()

    def _grant(self) -> None:
        still_waiting: list[_Waiter] = []
        for waiter in self._waiting:
            if self._is_free(waiter.manner, still_waiting):
                self._occupy(waiter.manner)
                waiter.granted.set()
            else:
                still_waiting.append(waiter)
        self._waiting = still_waiting

    def _is_free(self, manner: Manner, ahead: list[_Waiter]) -> bool:
        if self._exclusive or (ahead and any(waiter.manner is Manner.EXCLUSIVE for waiter in ahead)):
            return False
        match manner:
            case Manner.SERIAL:
                return not self._serial and not (
                    ahead and any(waiter.manner is Manner.SERIAL for waiter in ahead)
                )
            case Manner.CONCURRENT:
                return True
            case Manner.EXCLUSIVE:
                return not (self._serial or self._concurrent or ahead)

    def _occupy(self, manner: Manner) -> None:
        match manner:
            case Manner.SERIAL:
                self._serial = True
            case Manner.CONCURRENT:
                self._concurrent += 1
            case Manner.EXCLUSIVE:
                self._exclusive = True
