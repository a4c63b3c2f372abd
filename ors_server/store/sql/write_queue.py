"""The queue of pending writes in front of the writer thread; used on the event loop."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic

import anyio

from ors_server.model.errors import StoreError
from ors_server.model.logs import get_logger
from ors_server.store.base import Backlog
from ors_server.store.sql.pending_writes import PendingWrite
from ors_server.store.sql.writer_thread import Failed, WriterThread
from ors_server.store.store_options import BATCH_SECONDS, StoreOptions

log = get_logger("ors_server.store")

CHECK_SECONDS = 1.0
"""Seconds between two checks for overdue writes."""
GRACE_SECONDS = 2.0
"""Seconds beyond the limit after which callers get an error, even if the writer thread hangs."""


class WriteQueue:
    """Queues writes and wakes their callers; all of it on one event loop."""

    def __init__(self, options: StoreOptions) -> None:
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._entries = 0
        self._bytes = 0
        self._blocked: deque[asyncio.Future[None]] = deque()
        self._is_waking = False
        self._wake_timer: asyncio.TimerHandle | None = None
        self._overdue_timer: asyncio.TimerHandle | None = None
        self._writer: WriterThread | None = None

    @property
    def writer(self) -> WriterThread:
        """The writer thread; `StoreError` if the store is closed."""
        if self._writer is None:
            raise StoreError("the store is closed")
        return self._writer

    @property
    def is_closed(self) -> bool:
        """Whether no more writes are accepted."""
        return self._writer is None

    @property
    def is_empty(self) -> bool:
        """Whether every queued write is finished."""
        return not self._entries

    @property
    def is_full(self) -> bool:
        """Whether callers have to wait for space."""
        options = self._options
        return self._entries >= options.queue_entries or self._bytes >= options.queue_bytes

    @property
    def backlog(self) -> Backlog:
        """What is queued and not finished."""
        return Backlog(self._entries, self._bytes)

    def start(self, make: Callable[[Callable[[Sequence[PendingWrite], Failed], None]], WriterThread]) -> None:
        """Start the writer thread."""
        self._writer = make(self._report_from_thread)
        self._writer.start()

    def put(self, entry: PendingWrite) -> None:
        """Queue a write that no caller waits for; it is written soon."""
        self._add(entry)
        if self._wake_timer is None and not self._is_waking:
            self._wake_timer = self._loop.call_later(BATCH_SECONDS / 2, self._wake_writer)

    async def write(self, entry: PendingWrite) -> None:
        """Queue a write and wait until it is written.

        Raises:
            StoreError: If it could not be written in time, or was rejected.
        """
        entry.waiter = waiter = self._loop.create_future()
        self._add(entry)
        if not self._is_waking:
            self._is_waking = True
            # At the end of this loop iteration, so that other writes of the iteration join the batch.
            self._loop.call_soon(self._wake_writer)
        await waiter

    async def flush(self) -> None:
        """Wait until every queued write has been attempted, successfully or not."""
        if not self.is_empty:
            with suppress(StoreError):
                await self.write(PendingWrite())

    async def wait_for_space(self) -> None:
        """Wait until the queue is not full; `StoreError` if that takes too long."""
        try:
            with anyio.fail_after(self._options.write_seconds):
                while self.is_full:
                    self._wake_writer()
                    blocked = self._loop.create_future()
                    self._blocked.append(blocked)
                    await blocked
        except TimeoutError:
            raise StoreError(
                f"the episode store's queue is full ({self._entries} writes, {self._bytes} bytes); try again "
                "later"
            ) from None

    def end(self) -> WriterThread | None:
        """Accept no more writes; returns the writer thread, which the caller ends."""
        writer, self._writer = self._writer, None
        return writer

    def cancel_timers(self) -> None:
        """Cancel the event loop's timers, after the writer thread has ended."""
        for timer in (self._wake_timer, self._overdue_timer):
            if timer is not None:
                timer.cancel()
        self._wake_timer = self._overdue_timer = None

    def _add(self, entry: PendingWrite) -> None:
        entry.queued_at = monotonic()
        self.writer.queue.append(entry)
        self._entries += 1
        self._bytes += entry.size
        if self._overdue_timer is None:
            self._overdue_timer = self._loop.call_later(CHECK_SECONDS, self._fail_overdue)

    def _wake_writer(self) -> None:
        self._is_waking = False
        if self._wake_timer is not None:
            self._wake_timer.cancel()
            self._wake_timer = None
        if self._writer is not None:
            self._writer.wake.set()

    def _report_from_thread(self, done: Sequence[PendingWrite], failed: Failed) -> None:
        with suppress(RuntimeError):  # the event loop has ended, and every caller with it
            self._loop.call_soon_threadsafe(self._report, done, failed)

    def _report(self, done: Sequence[PendingWrite], failed: Failed) -> None:
        for waiter, wrong in failed:
            if not waiter.done():
                waiter.set_exception(wrong)
        for entry in done:
            self._bytes -= entry.size
            if entry.waiter is not None and not entry.waiter.done():
                entry.waiter.set_result(None)
        self._entries -= len(done)
        while self._blocked:
            blocked = self._blocked.popleft()
            if not blocked.done():
                blocked.set_result(None)

    def _fail_overdue(self) -> None:
        """Give an error to callers that wait for a writer thread which is stuck."""
        self._overdue_timer = None
        writer = self._writer
        if writer is None or self.is_empty:
            return
        overdue = monotonic() - self._options.write_seconds - GRACE_SECONDS
        late = [entry for entry in (*writer.batch, *tuple(writer.queue)) if entry.queued_at < overdue]
        waiting = [entry.waiter for entry in late if entry.waiter is not None and not entry.waiter.done()]
        for waiter in waiting:
            waiter.set_exception(
                StoreError(
                    f"the episode store finished no write within {self._options.write_seconds:g} seconds"
                )
            )
        if waiting:
            log.warning("store_writes_overdue", waiting=len(waiting))
            writer.interrupt()
        self._overdue_timer = self._loop.call_later(CHECK_SECONDS, self._fail_overdue)
