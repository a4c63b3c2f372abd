"""Makes the parts of a store in SQL and puts them together."""

from dataclasses import dataclass
from pathlib import Path

from ors_server.clock import Clock
from ors_server.errors import SettingsError
from ors_server.store.options import DEFAULTS, StoreOptions
from ors_server.store.place import Place, PlaceKind
from ors_server.store.sql.blobs import FileShelf, Shelf, TableShelf
from ors_server.store.sql.database import Database, snapshot
from ors_server.store.sql.migrating import check_readable, migrate
from ors_server.store.sql.postgres import PostgresDatabase
from ors_server.store.sql.reader import SqlReader
from ors_server.store.sql.sqlite import SqliteDatabase
from ors_server.store.sql.statements import BLOBS
from ors_server.store.sql.store import SqlStore


@dataclass(frozen=True, slots=True)
class Prepared:
    """A database that can be used."""

    database: Database
    shelf: Shelf


def blob_folder(path: Path) -> Path:
    """Return the folder of a SQLite file's long texts.

    Args:
        path: The file.
    """
    return path.with_name(f"{path.name}.blobs")


def prepare(place: Place, options: StoreOptions = DEFAULTS) -> Prepared:
    """Make a database, or bring it to this server's form; blocks.

    Args:
        place: Where it is.
        options: How it will be written.

    Raises:
        SettingsError: If it cannot be written, or a newer server wrote it.
        StoreError: If it cannot be reached.
    """
    prepared = name_parts(place, options)
    if isinstance(prepared.database, SqliteDatabase):
        prepared.database.make()
    engine = prepared.database.writing_engine()
    try:
        migrate(prepared.database, engine)
    finally:
        engine.dispose()
    return prepared


def prepare_to_read(place: Place) -> Prepared:
    """See that a record is there and in this server's form; blocks.

    Args:
        place: Where it is.

    Raises:
        SettingsError: If there is none, or it has another form.
        StoreError: If it cannot be reached.
    """
    prepared = name_parts(place, DEFAULTS)
    database = prepared.database
    if isinstance(database, SqliteDatabase):
        database.demand()
    engine = database.reading_engine()
    try:
        with snapshot(database, engine) as connection:
            check_readable(database, connection)
    finally:
        engine.dispose()
    return prepared


def name_parts(place: Place, options: StoreOptions) -> Prepared:
    """Name the parts; nothing is opened.

    Args:
        place: Where the record is: in SQL.
        options: How it is written.

    Raises:
        SettingsError: If the database's driver is not installed.
    """
    if place.kind is PlaceKind.POSTGRES:
        postgres = PostgresDatabase(place, options.durability, options.write_seconds)
        return Prepared(postgres, TableShelf(BLOBS.text(1, postgres.mark)))
    path = place.path
    if path is None:
        raise SettingsError(f"{place.shown} is no database")
    sqlite = SqliteDatabase(path, options.durability, options.write_seconds)
    return Prepared(sqlite, FileShelf(blob_folder(path), BLOBS.text(1, sqlite.mark)))


def make_store(prepared: Prepared, options: StoreOptions, clock: Clock) -> SqlStore:
    """Open a prepared database to write to it, on the running event loop.

    Args:
        prepared: The database.
        options: How to write.
        clock: The source of time.
    """
    return SqlStore(prepared.database, prepared.shelf, options, clock)


def make_reader(prepared: Prepared) -> SqlReader:
    """Open a prepared database to read it.

    Args:
        prepared: The database.
    """
    return SqlReader(prepared.database, prepared.database.reading_engine(), prepared.shelf)
