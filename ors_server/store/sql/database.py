"""A database's connections, locks, and kinds of errors: the parts that differ besides SQL."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from ors_server.model.errors import StoreError
from ors_server.store.sql.claims import Claim

Result = TypeVar("Result")


class WriteFailure(Enum):
    """The reaction to a failed write."""

    RETRY = auto()
    """Try again: a lock, a lost connection."""
    REPORT = auto()
    """Give the callers an error: the operator has to act, as when the disk is full."""
    SPLIT = auto()
    """Write one by one: one write of the batch is invalid, and must not fail the others."""


class Database(Protocol):
    """One database."""

    begin_statement: str
    """The statement that begins a writing transaction."""
    placeholder: str
    """The placeholder of a value in a statement."""

    @property
    def display_name(self) -> str:
        """The location for people and logs, without its password."""
        ...

    def check(self) -> None:
        """Check quickly that the database still exists; `StoreError` if it does not."""
        ...

    def writing_engine(self) -> Engine:
        """Make the engine of the writer thread; statements begin and end its transactions."""
        ...

    def reading_engine(self) -> Engine:
        """Make the engine of the reading threads; each connection is one snapshot."""
        ...

    def lock(self, connection: Connection) -> None:
        """Keep other servers from changing the tables until this transaction ends."""
        ...

    def make_claim(self, engine: Engine) -> Claim:
        """Make the claim of a store that writes through this engine; its connections share it."""
        ...

    def classify(self, error: BaseException) -> WriteFailure:
        """Return what to do about a failed write."""
        ...

    def interrupt(self, connection: Connection) -> None:
        """Abort a connection's current operation, from another thread; the connection is unusable after."""
        ...


def explain(error: BaseException) -> str:
    """Return a driver's message in one line, without the statement's values."""
    inner = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return " ".join(str(inner).split()) or type(inner).__name__


def as_store_error(database: Database, error: BaseException, verb: str) -> StoreError:
    """Return an error as a `StoreError`.

    Args:
        verb: The participle of what failed: "written", "read".
    """
    if isinstance(error, StoreError):
        return error
    return StoreError(f"the episode store {database.display_name} could not be {verb}: {explain(error)}")


@contextmanager
def disposed_after(engine: Engine) -> Generator[Engine]:
    """Close an engine's connections afterwards."""
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def snapshot(database: Database, engine: Engine) -> Generator[Connection]:
    """Open one snapshot of the database for reading; `StoreError` if it cannot be read."""
    try:
        database.check()
        with engine.connect() as connection:
            yield connection
    except (SQLAlchemyError, OSError) as error:
        raise as_store_error(database, error, "read") from error


@contextmanager
def transaction(database: Database, connection: Connection) -> Generator[None]:
    """Run the block in one writing transaction; an exception rolls it back."""
    connection.exec_driver_sql(database.begin_statement)
    try:
        yield
        connection.exec_driver_sql("COMMIT")
    except BaseException:
        try:
            connection.exec_driver_sql("ROLLBACK")
        except SQLAlchemyError:
            # The transaction or the connection has ended already; either way nothing was written.
            connection.invalidate()
        raise


def execute(connection: Connection, statement: str, values: Sequence[Any]) -> Any:
    """Run a statement of the driver and return its cursor.

    A batch has several of them, and most take less time than SQLAlchemy's own work around each would.

    Raises:
        DBAPIError: If it failed, as from SQLAlchemy.
    """
    dialect = connection.dialect
    errors: Any = dialect.loaded_dbapi
    cursor: Any = connection.connection.cursor()
    try:
        cursor.execute(statement, values)
    except errors.Error as error:
        raise DBAPIError.instance(
            statement, None, error, errors.Error, hide_parameters=True, dialect=dialect
        ) from error
    return cursor


def is_about_values(error: BaseException) -> bool:
    """Return whether a value in the batch caused an error, not the database."""
    return isinstance(error, IntegrityError) or (
        isinstance(error, DBAPIError) and type(error).__name__ in {"DataError", "ProgrammingError"}
    )
