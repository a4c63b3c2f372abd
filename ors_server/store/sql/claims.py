"""Says whether a store is the only one that has its database open for writing.

Every store that writes shares the claim for as long as it is open. One that starts alone has it for itself
for a moment: what is open on record then, no living server plays. The operating system, or PostgreSQL,
takes the claim from a process that was killed.
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, event, text

NUMBER = 0x6F727363
"""Number of PostgreSQL's advisory lock (arbitrary)."""
ATTEMPTS = 10
"""Attempts to be alone: PostgreSQL notices only after a moment that a client was killed."""
RETRY_SECONDS = 0.1
"""Seconds between two attempts."""
PRIVATE = 0o600


class Claim(Protocol):
    """The claim of one store."""

    @contextmanager
    def alone(self, connection: Connection) -> Generator[bool]:
        """Tell whether no other store has the database open; none opens it before the context ends."""
        ...

    def release(self) -> None:
        """Give the claim up; for after the last write."""
        ...


class FileClaim:
    """A lock on a file next to a SQLite database."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @contextmanager
    def alone(self, connection: Connection) -> Generator[bool]:
        """See `Claim.alone`; a folder in which no file can be made leaves no store alone."""
        del connection
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, PRIVATE)
        except OSError:
            yield False
            return
        is_alone = True
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_alone = False
            # Waits for one that is opening it alone just now: what that writes first is then to be read.
            fcntl.flock(self._file, fcntl.LOCK_SH)
        try:
            yield is_alone
        finally:
            fcntl.flock(self._file, fcntl.LOCK_SH)

    def release(self) -> None:
        """See `Claim.release`."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


class AdvisoryClaim:
    """An advisory lock of every writing connection to a PostgreSQL database, later ones included."""

    def __init__(self, engine: Engine) -> None:
        event.listen(engine, "connect", _share)

    @contextmanager
    def alone(self, connection: Connection) -> Generator[bool]:
        """See `Claim.alone`."""
        is_alone = _take(connection)
        try:
            yield is_alone
        finally:
            if is_alone:
                connection.execute(text(f"SELECT pg_advisory_unlock({NUMBER})"))

    def release(self) -> None:
        """Do nothing: the lock ends with the connection."""


def _share(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pg_advisory_lock_shared({NUMBER})")
    connection.commit()


def _take(connection: Connection) -> bool:
    """Take the lock alone, in place of the share that the connection has, if no other one comes to have it.

    Two that open a database at once have a share each, so that neither would be alone: both give theirs up
    while they wait, and the first to try again is.
    """
    if _try_alone(connection):
        return True
    connection.execute(text(f"SELECT pg_advisory_unlock_shared({NUMBER})"))
    is_alone = False
    for _ in range(ATTEMPTS - 1):
        time.sleep(RETRY_SECONDS)
        is_alone = _try_alone(connection)
        if is_alone:
            break
    connection.execute(text(f"SELECT pg_advisory_lock_shared({NUMBER})"))
    return is_alone


def _try_alone(connection: Connection) -> bool:
    return bool(connection.execute(text(f"SELECT pg_try_advisory_lock({NUMBER})")).scalar())
