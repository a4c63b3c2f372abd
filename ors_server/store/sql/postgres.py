"""An episode store in PostgreSQL, through psycopg; several servers can share it."""

import importlib.util
import os
import socket
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from ors_server.installation import install_hint
from ors_server.model.errors import SettingsError
from ors_server.store.location import StoreLocation
from ors_server.store.sql.claims import AdvisoryClaim, Claim
from ors_server.store.sql.database import WriteFailure, is_about_values
from ors_server.store.store_options import Durability

READERS = 8
"""Maximum number of reading connections."""
LOCK = 0x6F72735F
"""Number of the advisory lock that a server takes to change the tables (arbitrary)."""
FULL = frozenset({"53100", "53200", "53400", "25006", "42501", "28P01", "3D000"})
"""SQLSTATEs that a retry does not help: disk full, out of memory, read only, no permission, password,
database (appendix A of PostgreSQL's manual).
"""


class PostgresDatabase:
    """One database of a PostgreSQL server."""

    begin_statement = "BEGIN"
    placeholder = "%s"

    def __init__(self, location: StoreLocation, durability: Durability, write_seconds: float) -> None:
        """Remember the settings; opens nothing; `SettingsError` if the driver is not installed."""
        if importlib.util.find_spec("psycopg") is None:
            raise SettingsError(
                "an episode store in PostgreSQL needs the package psycopg, which is not installed; "
                f"run: {install_hint('postgres')}"
            )
        self._location = location
        self._durability = durability
        self._seconds = write_seconds

    @property
    def display_name(self) -> str:
        """The URL without its password."""
        return self._location.display_name

    def check(self) -> None:
        """Do nothing: the connection fails by itself."""

    def writing_engine(self) -> Engine:
        """See `Database.writing_engine`."""
        limit = max(1, int(self._seconds * 1000))
        settings: dict[str, Any] = {
            "statement_timeout": limit,
            "idle_in_transaction_session_timeout": 4 * limit,
        }
        if self._durability is Durability.NONE:
            settings["synchronous_commit"] = "off"
        return create_engine(
            self._location.url,
            connect_args=self._connecting(settings),
            pool_size=1,
            max_overflow=0,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
        )

    def reading_engine(self) -> Engine:
        """See `Database.reading_engine`."""
        return create_engine(
            self._location.url,
            connect_args=self._connecting({"default_transaction_read_only": "on"}),
            pool_size=READERS,
            max_overflow=0,
            pool_timeout=self._seconds,
            pool_pre_ping=True,
            isolation_level="REPEATABLE READ",
            hide_parameters=True,
        )

    def lock(self, connection: Connection) -> None:
        """See `Database.lock`."""
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": LOCK})

    def make_claim(self, engine: Engine) -> Claim:
        """See `Database.make_claim`."""
        return AdvisoryClaim(engine)

    def classify(self, error: BaseException) -> WriteFailure:
        """See `Database.classify`."""
        if is_about_values(error):
            return WriteFailure.SPLIT
        inner = error.orig if isinstance(error, DBAPIError) else error
        state = getattr(inner, "sqlstate", None)
        if isinstance(error, DBAPIError | PoolTimeoutError) and state not in FULL:
            return WriteFailure.RETRY
        return WriteFailure.REPORT

    def interrupt(self, connection: Connection) -> None:
        """Shut the connection's socket down, so that its thread no longer waits for the server."""
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
