"""An episode store in one SQLite file, in WAL mode: readers do not block the one writer."""

import os
import sqlite3
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from ors_server.model.errors import SettingsError, StoreError
from ors_server.store.sql.claims import Claim, FileClaim
from ors_server.store.sql.database import WriteFailure, is_about_values
from ors_server.store.store_options import Durability

READERS = 8
"""Maximum number of reading connections."""
_MODE_PAUSE = 0.01
"""Seconds between two attempts to set the journal's mode."""
PRIVATE = 0o600
"""File mode: only the owner may read the file, which holds tasks with their answers."""


class SqliteDatabase:
    """One SQLite file."""

    begin_statement = "BEGIN IMMEDIATE"
    placeholder = "?"

    def __init__(self, path: Path, durability: Durability, write_seconds: float) -> None:
        """Remember the settings; opens nothing."""
        self.path = path
        self._durability = durability
        self._wait_seconds = max(1, int(write_seconds * 1000))
        self._identity: tuple[int, int] | None = None

    @property
    def display_name(self) -> str:
        """The path of the file."""
        return str(self.path)

    def create_file(self) -> None:
        """Create the file and its folder unless they exist; `SettingsError` if it cannot be written."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, PRIVATE))
        except OSError as error:
            raise SettingsError(
                f"the episode store {self.path} cannot be written: {error.strerror}; "
                "name another file with --store PATH, or use memory with --store memory"
            ) from error

    def require_file(self) -> None:
        """Check that the file exists; `SettingsError` if it does not."""
        if not self.path.is_file():
            raise SettingsError(
                f"there is no episode store in {self.path}; name another one with --store PATH"
            )

    def size(self) -> int:
        """Return the bytes of the file and its write-ahead log on the disk."""
        return sum(path.stat().st_size for path in (self.path, self._log) if path.exists())

    def check(self) -> None:
        """Check that the file is still the one that was opened first.

        Raises:
            StoreError: If it is gone or was replaced.
        """
        try:
            status = os.stat(self.path)  # noqa: PTH116  (before every batch; pathlib costs twice as much)
        except OSError as error:
            raise StoreError(f"the episode store's file {self.path} is gone: {error.strerror}") from error
        identity = (status.st_dev, status.st_ino)
        if self._identity is None:
            self._identity = identity
        if identity != self._identity:
            raise StoreError(
                f"another file has replaced the episode store {self.path}; "
                "restore the old one, or restart the server"
            )

    def writing_engine(self) -> Engine:
        """See `Database.writing_engine`."""
        # In WAL mode a commit waits for the disk only if synchronous is FULL (sqlite.org/pragma.html).
        synchronous = "NORMAL" if self._durability is Durability.NONE else "FULL"
        engine = create_engine(
            "sqlite://",
            creator=lambda: self._connect("rw", synchronous),
            poolclass=QueuePool,
            pool_size=1,
            max_overflow=0,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
        )
        event.listen(engine, "connect", _use_wal)
        return engine

    def reading_engine(self) -> Engine:
        """See `Database.reading_engine`."""
        engine = create_engine(
            "sqlite://",
            creator=self._connect_to_read,
            poolclass=QueuePool,
            pool_size=READERS,
            max_overflow=0,
            hide_parameters=True,
        )

        def begin_snapshot(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN")

        event.listen(engine, "begin", begin_snapshot)
        return engine

    def lock(self, connection: Connection) -> None:
        """Do nothing: a writing transaction is exclusive already."""

    def make_claim(self, engine: Engine) -> Claim:
        """See `Database.make_claim`: a file next to the record, for SQLite's own locks are its own."""
        del engine
        return FileClaim(self.path.with_name(f"{self.path.name}.claim"))

    def classify(self, error: BaseException) -> WriteFailure:
        """See `Database.classify`."""
        if is_about_values(error):
            return WriteFailure.SPLIT
        inner = error.orig if isinstance(error, DBAPIError) else error
        code = getattr(inner, "sqlite_errorcode", 0) & 0xFF
        return (
            WriteFailure.RETRY
            if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
            else WriteFailure.REPORT
        )

    def interrupt(self, connection: Connection) -> None:
        """Abort a connection's current operation, as far as SQLite can: not a sync of the disk."""
        inner: Any = connection.connection.driver_connection
        if inner is not None:
            inner.interrupt()

    def _connect_to_read(self) -> sqlite3.Connection:
        # In a folder without write permission SQLite cannot create its shared memory, and does not need it if
        # there is no write-ahead log.
        if os.access(self.path.parent, os.W_OK) or self._log.exists():
            return self._connect("ro")
        return self._connect("ro&immutable=1")

    @property
    def _log(self) -> Path:
        return self.path.with_name(f"{self.path.name}-wal")

    def _connect(self, mode: str, synchronous: str = "FULL") -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"file:{quote(str(self.path))}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        _set(
            connection,
            f"busy_timeout = {self._wait_seconds}",
            f"synchronous = {synchronous}",
            "foreign_keys = ON",
            "cache_size = -32768",
        )
        return connection


def _use_wal(connection: Any, _record: object) -> None:
    # SQLite does not wait for its busy timeout here if another connection has begun to write to a file that
    # is in no WAL mode yet, as when servers start at once on a new file.
    (wait_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
    until = time.monotonic() + wait_ms / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                connection.close()
                raise
        time.sleep(_MODE_PAUSE)
    _set(connection, "journal_size_limit = 67108864")


def _set(connection: sqlite3.Connection, *pragmas: str) -> None:
    """Configure a connection, or close it on failure: no other code has it yet."""
    try:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
