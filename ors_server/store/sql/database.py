"""What the store asks of a database beside SQL: connections, and what its errors mean."""

from collections.abc import Generator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Protocol, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from ors_server.errors import StoreError

Result = TypeVar("Result")


class Failure(Enum):
    """What may be done about a failed write."""

    RETRY = auto()
    """It may work in a moment: a lock, a lost connection."""
    TELL = auto()
    """Somebody has to do something: the disk is full."""
    SPLIT = auto()
    """One of the batch's entries is at fault; the others must not pay for it."""


class Database(Protocol):
    """One database, and what is particular about it."""

    begin: str
    """The statement that begins a transaction that writes."""
    mark: str
    """How a statement marks the place of a value."""
    has_files: bool
    """Whether long blocks stand in files beside it."""

    @property
    def shown(self) -> str:
        """How it is told to people."""
        ...

    def check(self) -> None:
        """See whether the database is where it was, which costs next to nothing.

        Raises:
            StoreError: If it is gone.
        """
        ...

    def writing_engine(self) -> Engine:
        """Make the engine of the one thread that writes; transactions are begun and ended by statements."""
        ...

    def reading_engine(self) -> Engine:
        """Make the engine of the threads that read; a connection is one snapshot of the record."""
        ...

    def lock(self, connection: Connection) -> None:
        """Keep every other server from changing the tables until the transaction ends.

        Args:
            connection: One whose transaction has begun.
        """
        ...

    def sort(self, error: BaseException) -> Failure:
        """Say what may be done about a failed write.

        Args:
            error: What the driver, or the file system, raised.
        """
        ...

    def interrupt(self, connection: Connection) -> None:
        """End, from another thread, whatever a connection waits for; it is of no use afterwards.

        Args:
            connection: The connection.
        """
        ...


def explain(error: BaseException) -> str:
    """Say what a driver said, in one line, without the statement's values.

    Args:
        error: What was raised.
    """
    inner = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return " ".join(str(inner).split()) or type(inner).__name__


def as_store_error(database: Database, error: BaseException, what: str) -> StoreError:
    """Return the error that the store's users know.

    Args:
        database: Where it happened.
        error: What was raised.
        what: What could not be done: "written", "read".
    """
    if isinstance(error, StoreError):
        return error
    return StoreError(f"the record in {database.shown} could not be {what}: {explain(error)}")


@contextmanager
def snapshot(database: Database, engine: Engine) -> Generator[Connection]:
    """Read in one snapshot of the record.

    Args:
        database: The database.
        engine: Its reading engine.

    Raises:
        StoreError: If it cannot be read.
    """
    try:
        database.check()
        with engine.connect() as connection:
            yield connection
    except (SQLAlchemyError, OSError) as error:
        raise as_store_error(database, error, "read") from error


@contextmanager
def transaction(database: Database, connection: Connection) -> Generator[None]:
    """Write in one transaction: all of it or, if anything is raised, nothing.

    Args:
        database: The database.
        connection: One of its writing engine.
    """
    connection.exec_driver_sql(database.begin)
    try:
        yield
        connection.exec_driver_sql("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise


def _roll_back(connection: Connection) -> None:
    try:
        connection.exec_driver_sql("ROLLBACK")
    except SQLAlchemyError:
        # The transaction is over already, or the connection is; either way nothing of it stays.
        connection.invalidate()


def is_about_values(error: BaseException) -> bool:
    """Say whether one entry's values are to blame, not the database.

    Args:
        error: What was raised.
    """
    return isinstance(error, IntegrityError) or (
        isinstance(error, DBAPIError) and type(error).__name__ in {"DataError", "ProgrammingError"}
    )
