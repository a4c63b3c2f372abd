"""What the owner of a record does to it now and then: looks at its size, packs it, forgets, migrates."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import SQLAlchemyError

from ors_server.store.options import DEFAULTS
from ors_server.store.place import Place
from ors_server.store.sql import pruning
from ors_server.store.sql.blobs import FileShelf
from ors_server.store.sql.database import as_store_error, snapshot, transaction
from ors_server.store.sql.migrating import NEWEST, migrate, revision_of
from ors_server.store.sql.opening import Prepared, name_parts, prepare_to_read
from ors_server.store.sql.pruning import Retention, drop_some_blobs, forget_some
from ors_server.store.sql.schema import blobs, episodes, standings, steps
from ors_server.store.sql.sqlite import SqliteDatabase
from ors_server.store.sql.stamps import moment


@dataclass(frozen=True, slots=True)
class Stats:
    """How much there is."""

    place: str
    revision: str
    episodes: int
    open_episodes: int
    """Those that were not closed: they are being played, or their server died."""
    steps: int
    blobs: int
    blob_bytes: int
    database_bytes: int
    """On the disk, without the blobs' files; what was forgotten counts until it is packed."""
    oldest: datetime | None
    newest: datetime | None
    """When the first and the last episode were created."""

    def as_json(self) -> dict[str, Any]:
        """Render the figures with JSON types."""
        times = {
            name: value and value.isoformat()
            for name, value in (("oldest", self.oldest), ("newest", self.newest))
        }
        return asdict(self) | times


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was forgotten."""

    episodes: int
    blobs: int


def gather_stats(place: Place) -> Stats:
    """Count what is on record; blocks.

    Args:
        place: Where the record is.

    Raises:
        SettingsError: If there is none, or it has another form.
        StoreError: If it cannot be read.
    """
    prepared = prepare_to_read(place)
    engine = prepared.database.reading_engine()
    try:
        with snapshot(prepared.database, engine) as connection:
            return _count(prepared, connection)
    finally:
        engine.dispose()


def prune(place: Place, retention: Retention, now: datetime) -> Pruned:
    """Forget all that need not be kept, a little at a time; servers may go on writing meanwhile. Blocks.

    Args:
        place: Where the record is.
        retention: What is kept.
        now: The time.

    Raises:
        SettingsError: If there is no record, or it has another form.
        StoreError: If it cannot be written.
    """
    prepared = prepare_to_read(place)
    gone = dropped = 0
    with _writing(prepared, "pruned") as connection:
        while (count := forget_some(prepared.database, connection, retention, now)) == pruning.AT_ONCE:
            gone += count
        gone += count
        while (count := drop_some_blobs(prepared.database, connection, prepared.shelf)) == pruning.AT_ONCE:
            dropped += count
        dropped += count
    return Pruned(gone, dropped)


def vacuum(place: Place) -> int:
    """Give back the room of what was forgotten, and remove files that no row names; blocks.

    Args:
        place: Where the record is.

    Returns:
        Bytes by which the database became smaller, its blobs included; never negative.

    Raises:
        SettingsError: If there is no record, or it has another form.
        StoreError: If it cannot be written, or, with SQLite, somebody else is at it.
    """
    prepared = prepare_to_read(place)
    database = prepared.database
    with _writing(prepared, "packed") as connection:
        before = _size(prepared, connection)
        strays = 0
        if isinstance(prepared.shelf, FileShelf):
            # Nobody adds a file while this transaction lasts.
            with transaction(database, connection):
                named = set(connection.execute(select(blobs.c.sha256)).scalars())
                strays = prepared.shelf.sweep(named)
        connection.exec_driver_sql("VACUUM")
        if isinstance(database, SqliteDatabase):
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").close()
        return max(0, before - _size(prepared, connection)) + strays


def bring_forward(place: Place) -> tuple[str | None, str]:
    """Bring a record that is there to this server's form; blocks.

    Args:
        place: Where the record is.

    Returns:
        The form that it had, and the form that it has.

    Raises:
        SettingsError: If there is none, or a newer server wrote it.
        StoreError: If it cannot be written.
    """
    prepared = name_parts(place, DEFAULTS)
    if isinstance(prepared.database, SqliteDatabase):
        prepared.database.demand()
    engine = prepared.database.writing_engine()
    try:
        return migrate(prepared.database, engine), NEWEST
    finally:
        engine.dispose()


@contextmanager
def _writing(prepared: Prepared, what: str) -> Generator[Connection]:
    engine = prepared.database.writing_engine()
    try:
        with engine.connect() as connection:
            yield connection
    except (SQLAlchemyError, OSError) as error:
        raise as_store_error(prepared.database, error, what) from error
    finally:
        engine.dispose()


def _count(prepared: Prepared, connection: Connection) -> Stats:
    count, oldest, newest = connection.execute(
        select(func.count(), func.min(episodes.c.created_at), func.max(episodes.c.created_at)).select_from(
            episodes
        )
    ).one()
    open_ones = select(func.count()).select_from(standings).where(standings.c.closed_at.is_(None))
    kept = select(func.count(), func.coalesce(func.sum(blobs.c.size), 0)).select_from(blobs)
    blob_count, blob_bytes = connection.execute(kept).one()
    return Stats(
        place=prepared.database.shown,
        revision=revision_of(connection) or "",
        episodes=count,
        open_episodes=connection.execute(open_ones).scalar_one(),
        steps=connection.execute(select(func.count()).select_from(steps)).scalar_one(),
        blobs=blob_count,
        blob_bytes=int(blob_bytes),
        database_bytes=_size(prepared, connection),
        oldest=None if oldest is None else moment(oldest),
        newest=None if newest is None else moment(newest),
    )


def _size(prepared: Prepared, connection: Connection) -> int:
    if isinstance(prepared.database, SqliteDatabase):
        return prepared.database.size()
    return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())
