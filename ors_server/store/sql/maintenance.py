"""Maintenance of a store by its owner: statistics, vacuum, prune, migrate."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import SQLAlchemyError

from ors_server.model.clock import from_microseconds
from ors_server.store.location import StoreLocation
from ors_server.store.sql import pruning
from ors_server.store.sql.blobs import FileBlobStore
from ors_server.store.sql.components import StoreComponents, make_components, prepare_to_read, reading
from ors_server.store.sql.database import as_store_error, disposed_after, transaction
from ors_server.store.sql.migrating import NEWEST, migrate, revision_of
from ors_server.store.sql.pruning import Retention, prune_blobs, prune_episodes
from ors_server.store.sql.record_tables import blobs, episodes, standings, steps
from ors_server.store.sql.sqlite import SqliteDatabase
from ors_server.store.store_options import DEFAULTS


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Statistics of a store."""

    place: str
    revision: str
    episodes: int
    open_episodes: int
    """Episodes that are not closed: live ones, and those whose server crashed."""
    steps: int
    blobs: int
    blob_bytes: int
    database_bytes: int
    """Disk space without blob files; pruned episodes count until `vacuum`."""
    oldest: datetime | None
    newest: datetime | None
    """When the first and the last episode were created."""

    def as_json(self) -> dict[str, Any]:
        """Return the statistics with JSON types."""
        times = {
            name: value and value.isoformat()
            for name, value in (("oldest", self.oldest), ("newest", self.newest))
        }
        return asdict(self) | times


@dataclass(frozen=True, slots=True)
class PruneResult:
    """The numbers of pruned episodes and blobs."""

    episodes: int
    blobs: int


def count_store(location: StoreLocation) -> StoreStats:
    """Compute the statistics of a store; blocks.

    Raises:
        SettingsError: If there is no store, or it has another schema.
        StoreError: If it cannot be read.
    """
    with reading(location) as (components, connection):
        return _count(components, connection)


def prune(location: StoreLocation, retention: Retention, now: datetime) -> PruneResult:
    """Remove what the retention does not keep, in small transactions; servers may keep writing. Blocks.

    Raises:
        SettingsError: If there is no store, or it has another schema.
        StoreError: If it cannot be written.
    """
    components = prepare_to_read(location)
    database = components.database
    with _writing(components, "pruned") as connection:
        return PruneResult(
            _in_batches(lambda: prune_episodes(database, connection, retention, now)),
            _in_batches(lambda: prune_blobs(database, connection, components.blob_store)),
        )


def _in_batches(prune_some: Callable[[], int]) -> int:
    """Prune until a batch is not full; return how many were pruned."""
    gone = count = prune_some()
    while count == pruning.BATCH_SIZE:
        count = prune_some()
        gone += count
    return gone


def vacuum(location: StoreLocation) -> int:
    """Return freed space to the file system, and remove blob files that no row names; blocks.

    Returns:
        Bytes by which the database and its blobs became smaller; never negative.

    Raises:
        SettingsError: If there is no store, or it has another schema.
        StoreError: If it cannot be written, or (SQLite) another process uses it.
    """
    components = prepare_to_read(location)
    database = components.database
    with _writing(components, "vacuumed") as connection:
        before = _size(components, connection)
        freed = 0
        if isinstance(components.blob_store, FileBlobStore):
            # No process adds a file during this transaction.
            with transaction(database, connection):
                named = set(connection.execute(select(blobs.c.sha256)).scalars())
                freed = components.blob_store.remove_unreferenced(named)
        connection.exec_driver_sql("VACUUM")
        if isinstance(database, SqliteDatabase):
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").close()
        return max(0, before - _size(components, connection)) + freed


def migrate_store(location: StoreLocation) -> tuple[str | None, str]:
    """Migrate an existing store to this server's schema; blocks.

    Returns:
        The schema versions before and after.

    Raises:
        SettingsError: If there is no store, or a newer server wrote it.
        StoreError: If it cannot be written.
    """
    components = make_components(location, DEFAULTS)
    if isinstance(components.database, SqliteDatabase):
        components.database.require_file()
    return migrate(components.database), NEWEST


@contextmanager
def _writing(components: StoreComponents, verb: str) -> Generator[Connection]:
    try:
        with disposed_after(components.database.writing_engine()) as engine, engine.connect() as connection:
            yield connection
    except (SQLAlchemyError, OSError) as error:
        raise as_store_error(components.database, error, verb) from error


def _count(components: StoreComponents, connection: Connection) -> StoreStats:
    count, oldest, newest = connection.execute(
        select(func.count(), func.min(episodes.c.created_at), func.max(episodes.c.created_at)).select_from(
            episodes
        )
    ).one()
    open_ones = select(func.count()).select_from(standings).where(standings.c.closed_at.is_(None))
    kept = select(func.count(), func.coalesce(func.sum(blobs.c.size), 0)).select_from(blobs)
    blob_count, blob_bytes = connection.execute(kept).one()
    return StoreStats(
        place=components.database.display_name,
        revision=revision_of(connection) or "",
        episodes=count,
        open_episodes=connection.execute(open_ones).scalar_one(),
        steps=connection.execute(select(func.count()).select_from(steps)).scalar_one(),
        blobs=blob_count,
        blob_bytes=int(blob_bytes),
        database_bytes=_size(components, connection),
        oldest=None if oldest is None else from_microseconds(oldest),
        newest=None if newest is None else from_microseconds(newest),
    )


def _size(components: StoreComponents, connection: Connection) -> int:
    if isinstance(components.database, SqliteDatabase):
        return components.database.size()
    return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())
