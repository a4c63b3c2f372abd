"""Opens an episode store: memory, a SQLite file, or PostgreSQL."""

import anyio.to_thread

from ors_server.model.clock import Clock, SystemClock
from ors_server.store.base import EpisodeStore, RecordReader
from ors_server.store.location import StoreKind, parse_location
from ors_server.store.memory import MemoryStore
from ors_server.store.store_options import DEFAULTS, StoreOptions

MEMORY_EPISODES = 10_000
"""Closed episodes that a store in memory keeps by default."""


async def open_store(
    where: str, options: StoreOptions = DEFAULTS, *, clock: Clock | None = None
) -> EpisodeStore:
    """Open a store for writing; creates it, or migrates it to this server's schema, if necessary.

    Args:
        where: Path of a SQLite file, `sqlite:///PATH`, `postgresql://...`, or `memory`.

    Raises:
        SettingsError: If the location is not valid or not writable, or a newer server wrote it.
        StoreError: If the database cannot be reached.
    """
    location = parse_location(where)
    if location.kind is StoreKind.MEMORY:
        retain = options.retain_episodes
        return MemoryStore(MEMORY_EPISODES if retain is None else retain)
    # A server with a store in memory does not load SQLAlchemy.
    from ors_server.store.sql.components import prepare  # noqa: PLC0415  (as above)
    from ors_server.store.sql.opening import open_to_write  # noqa: PLC0415  (as above)
    from ors_server.store.sql.sql_store import SqlStore  # noqa: PLC0415  (as above)

    parts = await anyio.to_thread.run_sync(prepare, location, options)
    opened = await anyio.to_thread.run_sync(open_to_write, parts.database, options.slot)
    return SqlStore(opened, parts.blob_store, options, clock or SystemClock())


async def open_reader(where: str) -> RecordReader:
    """Open a store for reading; creates and changes nothing.

    Raises:
        SettingsError: If there is no store, or a server with another schema wrote it.
        StoreError: If the database cannot be reached.
    """
    location = parse_location(where)
    if location.kind is StoreKind.MEMORY:
        return MemoryStore()
    from ors_server.store.sql.components import prepare_to_read  # noqa: PLC0415  (as above)
    from ors_server.store.sql.sql_reader import SqlReader  # noqa: PLC0415  (as above)

    parts = await anyio.to_thread.run_sync(prepare_to_read, location)
    return SqlReader(parts.database, parts.blob_store)
