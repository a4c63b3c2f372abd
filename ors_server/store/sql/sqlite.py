"""The record in one SQLite file, in WAL mode: one writes, and whoever reads does not stop it."""

import os
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import QueuePool

from ors_server.errors import SettingsError, StoreError
from ors_server.store.options import Durability
from ors_server.store.sql.database import Failure, is_about_values

READERS = 8
"""Most connections that read at once."""
PRIVATE = 0o600
"""The file holds tasks with their answers: its owner's eyes only."""


class SqliteDatabase:
    """One file."""

    begin = "BEGIN IMMEDIATE"
    mark = "?"
    has_files = True

    def __init__(self, path: Path, durability: Durability, write_seconds: float) -> None:
        """Name the file; nothing is opened.

        Args:
            path: The file.
            durability: What is on the disk after a commit.
            write_seconds: Seconds that a transaction may wait for another process to end its own.
        """
        self.path = path
        self._durability = durability
        self._patience = max(1, int(write_seconds * 1000))
        self._identity: tuple[int, int] | None = None

    @property
    def shown(self) -> str:
        """The file's path."""
        return str(self.path)

    def make(self) -> None:
        """Make the file, and its folder, if they are not there.

        Raises:
            SettingsError: If it cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, PRIVATE))
        except OSError as error:
            raise SettingsError(
                f"the record cannot be kept in {self.path}: {error.strerror}; "
                "name another file with --store PATH, or keep it in memory with --store memory"
            ) from error

    def demand(self) -> None:
        """See that the file is there.

        Raises:
            SettingsError: If it is not.
        """
        if not self.path.is_file():
            raise SettingsError(f"there is no record in {self.path}; name another one with --store PATH")

    def size(self) -> int:
        """Return the bytes of the file and its log on the disk."""
        return sum(path.stat().st_size for path in (self.path, self._log) if path.exists())

    def check(self) -> None:
        """See whether the file is the one that was opened first.

        Raises:
            StoreError: If it is gone, or another one stands in its place.
        """
        try:
            status = os.stat(self.path)  # noqa: PTH116  (before every batch; pathlib costs twice as much)
        except OSError as error:
            raise StoreError(f"the record's file {self.path} is gone: {error.strerror}") from error
        identity = (status.st_dev, status.st_ino)
        if self._identity is None:
            self._identity = identity
        if identity != self._identity:
            raise StoreError(
                f"another file stands where the record {self.path} was; put the old one back, or start again"
            )

    def writing_engine(self) -> Engine:
        """Make the engine of the thread that writes."""
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
        """Make the engine of the threads that read."""
        engine = create_engine(
            "sqlite://",
            creator=self._connect_to_read,
            poolclass=QueuePool,
            pool_size=READERS,
            max_overflow=0,
            hide_parameters=True,
        )
        event.listen(engine, "begin", _begin_snapshot)
        return engine

    def lock(self, connection: Connection) -> None:
        """Do nothing: a transaction that writes is alone already.

        Args:
            connection: Not used.
        """

    def sort(self, error: BaseException) -> Failure:
        """Say what may be done about a failed write.

        Args:
            error: What the driver, or the file system, raised.
        """
        if is_about_values(error):
            return Failure.SPLIT
        inner = error.orig if isinstance(error, DBAPIError) else error
        code = getattr(inner, "sqlite_errorcode", 0) & 0xFF
        return Failure.RETRY if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED} else Failure.TELL

    def interrupt(self, connection: Connection) -> None:
        """End what a connection waits for, as far as SQLite lets one: not a sync of the disk.

        Args:
            connection: The connection.
        """
        inner: Any = connection.connection.driver_connection
        if inner is not None:
            inner.interrupt()

    def _connect_to_read(self) -> sqlite3.Connection:
        # A folder that only others may write: SQLite can make no shared memory there, and needs none where
        # no log is left.
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
            f"busy_timeout = {self._patience}",
            f"synchronous = {synchronous}",
            "foreign_keys = ON",
            "cache_size = -32768",
        )
        return connection


def _use_wal(connection: Any, _record: object) -> None:
    _set(connection, "journal_mode = WAL", "journal_size_limit = 67108864")


def _set(connection: sqlite3.Connection, *pragmas: str) -> None:
    """Set up a connection, or close it: nobody else knows of it yet."""
    try:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise


def _begin_snapshot(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")
