"""Makes the components of a SQL store, and opens them for reading."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from ors_server.model.errors import SettingsError
from ors_server.store.location import StoreKind, StoreLocation
from ors_server.store.sql.blobs import BlobStore, FileBlobStore, TableBlobStore
from ors_server.store.sql.database import Database, disposed_after, snapshot
from ors_server.store.sql.migrating import check_readable, migrate
from ors_server.store.sql.postgres import PostgresDatabase
from ors_server.store.sql.sqlite import SqliteDatabase
from ors_server.store.sql.upserts import BLOBS
from ors_server.store.store_options import DEFAULTS, StoreOptions


@dataclass(frozen=True, slots=True)
class StoreComponents:
    """A database and its blobs."""

    database: Database
    blob_store: BlobStore


def blob_folder(path: Path) -> Path:
    """Return the folder of a SQLite file's blobs."""
    return path.with_name(f"{path.name}.blobs")


def prepare(location: StoreLocation, options: StoreOptions = DEFAULTS) -> StoreComponents:
    """Create a database, or migrate it to this server's schema; blocks.

    Raises:
        SettingsError: If it cannot be written, or a newer server wrote it.
        StoreError: If it cannot be reached.
    """
    components = make_components(location, options)
    if isinstance(components.database, SqliteDatabase):
        components.database.create_file()
    migrate(components.database)
    return components


@contextmanager
def reading(location: StoreLocation) -> Generator[tuple[StoreComponents, Connection]]:
    """Open one snapshot of a store that has this server's schema; blocks.

    Raises:
        SettingsError: If there is no store, or it has another schema.
        StoreError: If it cannot be read.
    """
    components = make_components(location, DEFAULTS)
    database = components.database
    if isinstance(database, SqliteDatabase):
        database.require_file()
    with disposed_after(database.reading_engine()) as engine, snapshot(database, engine) as connection:
        check_readable(database, connection)
        yield components, connection


def prepare_to_read(location: StoreLocation) -> StoreComponents:
    """Check that a store exists and has this server's schema; blocks and raises as `reading`."""
    with reading(location) as (components, _):
        return components


def make_components(location: StoreLocation, options: StoreOptions) -> StoreComponents:
    """Make the components of a SQL store; opens nothing.

    Raises:
        SettingsError: If the database's driver is not installed.
    """
    if location.kind is StoreKind.POSTGRES:
        postgres = PostgresDatabase(location, options.durability, options.write_seconds)
        return StoreComponents(postgres, TableBlobStore(BLOBS.text(1, postgres.placeholder)))
    path = location.path
    if path is None:
        raise SettingsError(f"{location.display_name} is not a SQL database")
    sqlite = SqliteDatabase(path, options.durability, options.write_seconds)
    return StoreComponents(sqlite, FileBlobStore(blob_folder(path), BLOBS.text(1, sqlite.placeholder)))
