"""The record in PostgreSQL, through psycopg: many servers, one record."""

import importlib.util
import os
import socket
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from ors_server.errors import SettingsError
from ors_server.store.options import Durability
from ors_server.store.place import Place
from ors_server.store.sql.database import Failure, is_about_values

READERS = 8
"""Most connections that read at once."""
LOCK = 0x6F72735F
"""Number of the advisory lock that a server takes to change the tables; any number that nobody else takes."""
FULL = frozenset({"53100", "53200", "53400", "25006", "42501", "28P01", "3D000"})
"""States that do not pass by themselves: disk full, out of memory, read only, no right, password, database
(appendix A of PostgreSQL's manual)."""


class PostgresDatabase:
    """One database of a PostgreSQL server."""

    begin = "BEGIN"
    mark = "%s"
    has_files = False

    def __init__(self, place: Place, durability: Durability, write_seconds: float) -> None:
        """Name the database; nothing is opened.

        Args:
            place: Where it is.
            durability: What is on the server's disk after a commit.
            write_seconds: Seconds that one statement of a write may take.

        Raises:
            SettingsError: If the driver is not installed.
        """
        if importlib.util.find_spec("psycopg") is None:
            raise SettingsError(
                "a record in PostgreSQL needs the package psycopg, which is not installed; "
                "run: pip install 'ors-server[postgres]'"
            )
        self._place = place
        self._durability = durability
        self._seconds = write_seconds

    @property
    def shown(self) -> str:
        """The URL without its password."""
        return self._place.shown

    def check(self) -> None:
        """Do nothing: the connection tells."""

    def writing_engine(self) -> Engine:
        """Make the engine of the thread that writes."""
        limit = max(1, int(self._seconds * 1000))
        settings: dict[str, Any] = {
            "statement_timeout": limit,
            "idle_in_transaction_session_timeout": 4 * limit,
        }
        if self._durability is Durability.NONE:
            settings["synchronous_commit"] = "off"
        return create_engine(
            self._place.url,
            connect_args=self._connecting(settings),
            pool_size=1,
            max_overflow=0,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
        )

    def reading_engine(self) -> Engine:
        """Make the engine of the threads that read."""
        return create_engine(
            self._place.url,
            connect_args=self._connecting({"default_transaction_read_only": "on"}),
            pool_size=READERS,
            max_overflow=0,
            pool_timeout=self._seconds,
            pool_pre_ping=True,
            isolation_level="REPEATABLE READ",
            hide_parameters=True,
        )

    def lock(self, connection: Connection) -> None:
        """Wait until no other server changes the tables, and keep them from it until the transaction ends.

        Args:
            connection: One whose transaction has begun.
        """
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": LOCK})

    def sort(self, error: BaseException) -> Failure:
        """Say what may be done about a failed write.

        Args:
            error: What the driver raised.
        """
        if is_about_values(error):
            return Failure.SPLIT
        inner = error.orig if isinstance(error, DBAPIError) else error
        state = getattr(inner, "sqlstate", None)
        if isinstance(error, DBAPIError | PoolTimeoutError) and state not in FULL:
            return Failure.RETRY
        return Failure.TELL

    def interrupt(self, connection: Connection) -> None:
        """Shut the connection's socket, so that whoever waits for the server's answer waits no longer.

        Args:
            connection: The connection.
        """
        inner: Any = connection.connection.driver_connection
        if inner is None or inner.closed:
            return
        with socket.socket(fileno=os.dup(inner.fileno())) as copy:
            copy.shutdown(socket.SHUT_RDWR)

    def _connecting(self, settings: dict[str, Any]) -> dict[str, Any]:
        return {
            "connect_timeout": max(2, min(10, int(self._seconds))),
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": max(1000, int(self._seconds * 1000)),
            "application_name": "ors-server",
            "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
        }
