"""The line in front of the writing thread, as the event loop sees it: who waits, how much, how long."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic

import anyio

from ors_server.errors import StoreError
from ors_server.logs import get_logger
from ors_server.store.options import BATCH_SECONDS, StoreOptions
from ors_server.store.sql.entries import Entry
from ors_server.store.sql.scribe import Failed, Scribe

log = get_logger("ors_server.store")

LOOK_SECONDS = 1.0
"""Seconds between two looks for what has waited too long."""
GRACE_SECONDS = 2.0
"""Seconds beyond the limit after which whoever waits is told, whatever the writing thread is doing."""


class Line:
    """Puts entries on the line and wakes those who wait for them; all of it on one event loop."""

    def __init__(self, options: StoreOptions) -> None:
        """Begin with nothing on the line.

        Args:
            options: How much may wait, and how long.
        """
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._entries = 0
        self._bytes = 0
        self._outside: deque[asyncio.Future[None]] = deque()
        self._is_rousing = False
        self._later: asyncio.TimerHandle | None = None
        self._watching: asyncio.TimerHandle | None = None
        self._scribe: Scribe | None = None

    @property
    def scribe(self) -> Scribe:
        """The thread.

        Raises:
            StoreError: If the store is closed.
        """
        if self._scribe is None:
            raise StoreError("the store is closed")
        return self._scribe

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is taken."""
        return self._scribe is None

    @property
    def is_empty(self) -> bool:
        """Whether all that was put on the line has been written."""
        return not self._entries

    @property
    def is_full(self) -> bool:
        """Whether more has to wait outside."""
        options = self._options
        return self._entries >= options.queue_entries or self._bytes >= options.queue_bytes

    def start(self, make: Callable[[Callable[[Sequence[Entry], Failed], None]], Scribe]) -> None:
        """Start the thread.

        Args:
            make: Makes it, given whom it tells.
        """
        self._scribe = make(self._hear)
        self._scribe.start()

    def put(self, entry: Entry) -> None:
        """Put an entry on the line that nobody waits for; it is written before long.

        Args:
            entry: The entry.
        """
        self._add(entry)
        if self._later is None and not self._is_rousing:
            self._later = self._loop.call_later(BATCH_SECONDS / 2, self._rouse)

    async def write(self, entry: Entry) -> None:
        """Put an entry on the line and wait until it is written.

        Args:
            entry: The entry.

        Raises:
            StoreError: If it could not be written in time, or makes no sense.
        """
        entry.waiter = waiter = self._loop.create_future()
        self._add(entry)
        if not self._is_rousing:
            self._is_rousing = True
            # At the end of this turn of the loop: whatever else is put on the line in it comes along.
            self._loop.call_soon(self._rouse)
        await waiter

    async def flush(self) -> None:
        """Wait until all that is on the line has been tried, whatever came of it."""
        if not self.is_empty:
            with suppress(StoreError):
                await self.write(Entry())

    async def room(self) -> None:
        """Wait until the line is not full.

        Raises:
            StoreError: If that takes too long.
        """
        try:
            with anyio.fail_after(self._options.write_seconds):
                while self.is_full:
                    self._rouse()
                    outside = self._loop.create_future()
                    self._outside.append(outside)
                    await outside
        except TimeoutError:
            raise StoreError(
                f"{self._entries} writes of {self._bytes} bytes wait for the record already; try again later"
            ) from None

    def end(self) -> Scribe | None:
        """Take nothing more, and return the thread, for the caller to end."""
        scribe, self._scribe = self._scribe, None
        return scribe

    def settle(self) -> None:
        """Let go of the loop, after the thread has ended."""
        for timer in (self._later, self._watching):
            if timer is not None:
                timer.cancel()
        self._later = self._watching = None

    def _add(self, entry: Entry) -> None:
        entry.since = monotonic()
        self.scribe.line.append(entry)
        self._entries += 1
        self._bytes += entry.size
        if self._watching is None:
            self._watching = self._loop.call_later(LOOK_SECONDS, self._look)

    def _rouse(self) -> None:
        self._is_rousing = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._scribe is not None:
            self._scribe.wake.set()

    def _hear(self, done: Sequence[Entry], failed: Failed) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it everybody who waited
            self._loop.call_soon_threadsafe(self._tell, done, failed)

    def _tell(self, done: Sequence[Entry], failed: Failed) -> None:
        for waiter, wrong in failed:
            if not waiter.done():
                waiter.set_exception(StoreError(wrong))
        for entry in done:
            self._bytes -= entry.size
            if entry.waiter is not None and not entry.waiter.done():
                entry.waiter.set_result(None)
        self._entries -= len(done)
        while self._outside:
            outside = self._outside.popleft()
            if not outside.done():
                outside.set_result(None)

    def _look(self) -> None:
        """See that nobody waits for ever for a thread that is stuck."""
        self._watching = None
        scribe = self._scribe
        if scribe is None or self.is_empty:
            return
        overdue = monotonic() - self._options.write_seconds - GRACE_SECONDS
        late = [entry for entry in (*scribe.batch, *tuple(scribe.line)) if entry.since < overdue]
        waiting = [entry.waiter for entry in late if entry.waiter is not None and not entry.waiter.done()]
        for waiter in waiting:
            waiter.set_exception(StoreError(f"no write ended within {self._options.write_seconds:g} seconds"))
        if waiting:
            log.warning("record_is_stuck", waiting=len(waiting))
            scribe.interrupt()
        self._watching = self._loop.call_later(LOOK_SECONDS, self._look)
