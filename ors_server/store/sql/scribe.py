"""The one thread that writes: it takes whatever waits, writes it in one transaction, and tells everybody.

The event loop puts entries on a line and hears of them again once for every batch. What nobody waits for
stays on the line until it could be written; what somebody waits for fails after a bounded time.
"""

import threading
from asyncio import Future
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from ors_server.errors import StoreError
from ors_server.logs import get_logger
from ors_server.store.sql.batch import BatchWriter, Rejections
from ors_server.store.sql.database import Database, Failure, as_store_error
from ors_server.store.sql.entries import Entry

log = get_logger("ors_server.store")

MOST_ENTRIES = 1024
MOST_BYTES = 16 * 1024 * 1024
"""Limits of one transaction."""
FIRST_PAUSE = 0.02
LONGEST_PAUSE = 0.5
"""Seconds between two attempts."""
CHORE_SECONDS = 60.0
"""Seconds between two looks for what may be forgotten."""

Tell = Callable[[Sequence[Entry], "Failed"], None]
"""Called on the writing thread with the entries that are off the line, and with those who must hear of a
failure."""
Failed = Sequence[tuple["Future[None]", str]]
"""Who waits, and what went wrong."""


class _Outcome:
    """What came of a batch so far."""

    def __init__(self) -> None:
        self.written: set[Entry] = set()
        self.rejected: Rejections = {}


class Scribe:
    """The thread, its connection, and what it has not written yet."""

    def __init__(
        self,
        database: Database,
        engine: Engine,
        writer: BatchWriter,
        tell: Tell,
        *,
        write_seconds: float,
        chore: Callable[[Connection], bool] | None = None,
    ) -> None:
        """Prepare the thread.

        Args:
            database: The database.
            engine: Its writing engine.
            writer: Writes a batch.
            tell: Hears of every batch.
            write_seconds: Seconds for which a write is tried.
            chore: What to do between batches; says whether there is more of it.
        """
        self._database = database
        self._engine = engine
        self._writer = writer
        self._tell = tell
        self._limit = write_seconds
        self._chore = chore
        self.line: deque[Entry] = deque()
        """What waits; the event loop adds to its end."""
        self.batch: Sequence[Entry] = ()
        """What is being written."""
        self.wake = threading.Event()
        """Set when something waits that should be written now."""
        self.has_chore = False
        """Whether the chore is due before its time."""
        self._is_failing = False
        self._ending = threading.Event()
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._work, name="ors-store", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """Write what waits, once more, and end the thread; waits for it, at most for twice the limit."""
        self._ending.set()
        self.wake.set()
        self._thread.join(2 * self._limit)
        if self._thread.is_alive():
            self.interrupt()
            self._thread.join(1.0)

    def interrupt(self) -> None:
        """End whatever the thread waits for in the database; called from another thread."""
        connection = self._connection
        if connection is not None:
            with suppress(Exception):  # it may have ended by itself meanwhile
                self._database.interrupt(connection)

    def _work(self) -> None:
        due = monotonic()
        while True:
            self.wake.wait(self._patience(due))
            self.wake.clear()
            while self.line and self._write_batch():
                pass
            if self._chore is not None and not self._is_failing and (self.has_chore or monotonic() >= due):
                due = monotonic() + CHORE_SECONDS
                self._do_chore(self._chore)
            if self._ending.is_set() and (self._is_failing or not self.line):
                break
        self._finish()

    def _patience(self, due: float) -> float | None:
        if self.line:
            return LONGEST_PAUSE if self._is_failing else 0.0
        return None if self._chore is None else max(0.0, due - monotonic())

    def _finish(self) -> None:
        left = list(self.line)
        if left:
            log.error("record_incomplete", place=self._database.shown, lost=len(left))
        why = "the store was closed before this could be written"
        self._tell(left, [(entry.waiter, why) for entry in left if entry.waiter is not None])
        self._let_go()

    def _write_batch(self) -> bool:
        """Write the next batch, and say whether there is sense in going on to the one after it."""
        self.batch = batch = self._take()
        outcome = _Outcome()
        error = self._attempt(batch, outcome)
        self.batch = ()
        self._is_failing = error is not None
        failed = [
            (entry.waiter, str(wrong))
            for entry, wrong in outcome.rejected.items()
            if entry.waiter is not None
        ]
        if error is None:
            self._tell(batch, failed)
            return True
        left = [entry for entry in batch if entry not in outcome.written and entry not in outcome.rejected]
        failed += ((entry.waiter, str(error)) for entry in left if entry.pen and entry.waiter)
        kept = [entry for entry in left if entry.outlives_failure]
        for entry in kept:
            entry.waiter = None  # who waited has been told; it is tried again all the same
        self.line.extendleft(reversed(kept))
        gone = set(kept)
        self._tell([entry for entry in batch if entry not in gone], failed)
        return False

    def _take(self) -> list[Entry]:
        batch: list[Entry] = []
        size = 0
        while self.line and len(batch) < MOST_ENTRIES and size < MOST_BYTES:
            entry = self.line.popleft()
            size += entry.size
            batch.append(entry)
        return batch

    def _attempt(self, batch: Sequence[Entry], outcome: _Outcome) -> StoreError | None:
        """Write a batch, as often as it takes and time allows; says what is wrong if it could not be done."""
        until = min((entry.since for entry in batch if entry.waiter), default=0.0) + self._limit
        pause = FIRST_PAUSE
        while True:
            wanted = [entry for entry in batch if entry.pen is not None and not entry.is_abandoned]
            if not wanted:
                return None
            try:
                outcome.rejected.update(self._writer.write(self._connect(), wanted))
                return None
            except Exception as error:  # noqa: BLE001  (whatever it is, those who wait must hear of it)
                failure = self._sort(error)
                if failure is Failure.SPLIT:
                    return self._write_singly(wanted, outcome)
                self._let_go()
                wrong = as_store_error(self._database, error, "written")
                if failure is Failure.TELL or monotonic() + pause > until or self._ending.is_set():
                    log.warning("record_not_written", error=str(wrong), entries=len(wanted))
                    return wrong
                self._ending.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _write_singly(self, entries: Sequence[Entry], outcome: _Outcome) -> StoreError | None:
        """Write entry by entry, so that the one that cannot be written harms nobody else."""
        for entry in entries:
            try:
                outcome.rejected.update(self._writer.write(self._connect(), [entry]))
                outcome.written.add(entry)
            except Exception as error:  # noqa: BLE001  (as above)
                wrong = as_store_error(self._database, error, "written")
                if self._sort(error) is not Failure.SPLIT:
                    self._let_go()
                    return wrong
                log.warning("entry_not_written", error=str(wrong), kind=type(entry).__name__)
                outcome.rejected[entry] = wrong
        return None

    def _sort(self, error: Exception) -> Failure:
        if isinstance(error, SQLAlchemyError | OSError | StoreError):
            return self._database.sort(error)
        return Failure.SPLIT

    def _connect(self) -> Connection:
        if self._connection is None:
            # Before, not after: opening an empty file beside a log makes SQLite throw the log away.
            self._database.check()
            self._connection = self._engine.connect()
        return self._connection

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # what is broken cannot be put away in order
                connection.invalidate()
            with suppress(Exception):
                connection.close()

    def _do_chore(self, chore: Callable[[Connection], bool]) -> None:
        try:
            self.has_chore = False
            if chore(self._connect()):
                self.has_chore = True
                self.wake.set()
        except (SQLAlchemyError, OSError, StoreError) as error:
            self._let_go()
            log.warning("nothing_forgotten", error=str(as_store_error(self._database, error, "tidied")))
