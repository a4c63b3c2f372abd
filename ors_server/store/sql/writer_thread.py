"""The one thread that writes: it takes what is queued, writes it in one transaction, and reports the results.

The event loop appends to the queue and gets one report for every batch. A write that no caller waits for
stays in the queue until it succeeds; a write with a caller fails after a bounded time.
"""

import threading
from asyncio import Future
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import monotonic

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from ors_server.model.errors import OrsServerError, StoreError
from ors_server.model.logs import get_logger
from ors_server.store.sql.batch_writer import BatchWriter, Rejections
from ors_server.store.sql.database import Database, WriteFailure, as_store_error
from ors_server.store.sql.pending_writes import PendingWrite

log = get_logger("ors_server.store")

MAX_ENTRIES = 1024
MAX_BYTES = 16 * 1024 * 1024
"""Limits of one transaction."""
FIRST_PAUSE = 0.02
MAX_PAUSE = 0.5
"""Seconds between two attempts: the first pause, which doubles, and the longest one."""
MAINTENANCE_SECONDS = 60.0
"""Seconds between two runs of the maintenance."""

ReportBatch = Callable[[Sequence[PendingWrite], "Failed"], None]
"""Called on the writer thread with the finished writes, and with the callers that must get an error."""
Failed = Sequence[tuple["Future[None]", OrsServerError]]
"""Waiting futures, and the error of each."""


class _BatchOutcome:
    """The results within a batch so far."""

    def __init__(self) -> None:
        self.written: set[PendingWrite] = set()
        self.rejected: Rejections = {}


@dataclass(eq=False, repr=False)
class WriterThread:
    """The writer thread, its connection, and its unwritten batch."""

    _database: Database
    _engine: Engine
    _writer: BatchWriter
    _report: ReportBatch
    _limit: float
    """Seconds for which a write is retried."""
    _maintenance: Callable[[Connection], bool] | None
    """Runs between batches; returns whether there is more to do."""
    queue: deque[PendingWrite] = field(default_factory=deque[PendingWrite], init=False)
    """Pending writes; the event loop appends to it."""
    batch: Sequence[PendingWrite] = field(default=(), init=False)
    """Writes in the current transaction."""
    wake: threading.Event = field(default_factory=threading.Event, init=False)
    """Set when a pending write should be written now."""
    needs_maintenance: bool = field(default=False, init=False)
    """Whether the maintenance should run before its time."""
    _is_failing: bool = field(default=False, init=False)
    _ending: threading.Event = field(default_factory=threading.Event, init=False)
    _connection: Connection | None = field(default=None, init=False)
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._work, name="ors-store", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """Write what is queued, in one attempt, and end the thread; waits at most twice the limit."""
        self._ending.set()
        self.wake.set()
        self._thread.join(2 * self._limit)
        if self._thread.is_alive():
            self.interrupt()
            self._thread.join(1.0)

    def interrupt(self) -> None:
        """Abort the thread's current database operation; called from another thread."""
        connection = self._connection
        if connection is not None:
            with suppress(Exception):  # the connection may be closed meanwhile
                self._database.interrupt(connection)

    def _work(self) -> None:
        due = monotonic()
        while True:
            self.wake.wait(self._wait_seconds(due))
            self.wake.clear()
            while self.queue and self._write_batch():
                pass
            if (
                self._maintenance is not None
                and not self._is_failing
                and (self.needs_maintenance or monotonic() >= due)
            ):
                due = monotonic() + MAINTENANCE_SECONDS
                self._maintain(self._maintenance)
            if self._ending.is_set() and (self._is_failing or not self.queue):
                break
        self._finish()

    def _wait_seconds(self, due: float) -> float | None:
        if self.queue:
            return MAX_PAUSE if self._is_failing else 0.0
        return None if self._maintenance is None else max(0.0, due - monotonic())

    def _finish(self) -> None:
        left = list(self.queue)
        if left:
            log.error("store_writes_lost", store=self._database.display_name, lost=len(left))
        why = "the episode store was closed before this write"
        self._report(left, [(entry.waiter, StoreError(why)) for entry in left if entry.waiter is not None])
        self._drop_connection()

    def _write_batch(self) -> bool:
        """Write the next batch; returns whether to continue with the one after it."""
        self.batch = batch = list[PendingWrite]()
        self._fill(batch)
        outcome = _BatchOutcome()
        error = self._attempt(batch, outcome)
        self.batch = ()
        self._is_failing = error is not None
        failed = [
            (entry.waiter, wrong) for entry, wrong in outcome.rejected.items() if entry.waiter is not None
        ]
        if error is None:
            self._report(batch, failed)
            return True
        left = [entry for entry in batch if entry not in outcome.written and entry not in outcome.rejected]
        failed += ((entry.waiter, StoreError(str(error))) for entry in left if entry.state and entry.waiter)
        entries = [entry for entry in left if entry.outlives_failure]
        for entry in entries:
            entry.waiter = None  # its caller got the error; the write is retried all the same
        self.queue.extendleft(reversed(entries))
        gone = set(entries)
        self._report([entry for entry in batch if entry not in gone], failed)
        return False

    def _fill(self, batch: list[PendingWrite]) -> None:
        """Add what is queued to a batch, as far as its limits allow."""
        size = sum(entry.size for entry in batch)
        while self.queue and len(batch) < MAX_ENTRIES and size < MAX_BYTES:
            entry = self.queue.popleft()
            size += entry.size
            batch.append(entry)

    def _attempt(self, batch: list[PendingWrite], outcome: _BatchOutcome) -> StoreError | None:
        """Write a batch, with retries while time allows; returns the error if it failed.

        The batch grows by what is queued until its transaction begins.
        """
        live: list[PendingWrite] = []

        def take() -> Sequence[PendingWrite]:
            nonlocal live
            self._fill(batch)
            live = _unfinished(batch)
            return live

        until = min((entry.queued_at for entry in batch if entry.waiter), default=0.0) + self._limit
        pause = FIRST_PAUSE
        while True:
            live = _unfinished(batch)
            if not live:
                return None
            try:
                outcome.rejected.update(self._writer.write(self._connect(), take))
                return None
            except Exception as error:  # noqa: BLE001  (any error must reach the callers)
                failure = self._classify(error)
                if failure is WriteFailure.SPLIT:
                    return self._write_singly(live, outcome)
                self._drop_connection()
                wrong = as_store_error(self._database, error, "written")
                if failure is WriteFailure.REPORT or monotonic() + pause > until or self._ending.is_set():
                    log.warning("store_write_failed", error=str(wrong), writes=len(live))
                    return wrong
                self._ending.wait(pause)
                pause = min(2 * pause, MAX_PAUSE)

    def _write_singly(self, entries: Sequence[PendingWrite], outcome: _BatchOutcome) -> StoreError | None:
        """Write one by one, so that a write that cannot succeed fails alone."""
        for entry in entries:
            try:
                take = partial(list[PendingWrite], (entry,))
                outcome.rejected.update(self._writer.write(self._connect(), take))
                outcome.written.add(entry)
            except Exception as error:  # noqa: BLE001  (as above)
                wrong = as_store_error(self._database, error, "written")
                if self._classify(error) is not WriteFailure.SPLIT:
                    self._drop_connection()
                    return wrong
                log.warning("store_write_rejected", error=str(wrong), kind=type(entry).__name__)
                outcome.rejected[entry] = wrong
        return None

    def _classify(self, error: Exception) -> WriteFailure:
        if isinstance(error, SQLAlchemyError | OSError | StoreError):
            return self._database.classify(error)
        return WriteFailure.SPLIT

    def _connect(self) -> Connection:
        if self._connection is None:
            # First: if SQLite opens an empty file next to a write-ahead log, it discards the log.
            self._database.check()
            self._connection = self._engine.connect()
        return self._connection

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # a broken connection may fail to close
                connection.invalidate()
            with suppress(Exception):
                connection.close()

    def _maintain(self, maintenance: Callable[[Connection], bool]) -> None:
        try:
            self.needs_maintenance = False
            if maintenance(self._connect()):
                self.needs_maintenance = True
                self.wake.set()
        except (SQLAlchemyError, OSError, StoreError) as error:
            self._drop_connection()
            log.warning("store_prune_failed", error=str(as_store_error(self._database, error, "pruned")))


def _unfinished(batch: Sequence[PendingWrite]) -> list[PendingWrite]:
    """Return the writes of a batch that have something to write and a caller who still waits, if any did."""
    return [entry for entry in batch if entry.has_content and not entry.is_abandoned]
