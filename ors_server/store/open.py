"""Opens the record wherever it is kept: memory, a SQLite file, PostgreSQL."""

import anyio.to_thread

from ors_server.clock import Clock, SystemClock
from ors_server.store.base import EpisodeStore, RecordReader
from ors_server.store.memory import MemoryStore
from ors_server.store.options import DEFAULTS, StoreOptions
from ors_server.store.place import PlaceKind, find_place

RETAINED_IN_MEMORY = 10_000
"""Closed episodes that memory keeps unless a setting says otherwise."""


async def open_store(
    where: str, options: StoreOptions = DEFAULTS, *, clock: Clock | None = None
) -> EpisodeStore:
    """Open a store to write episodes to; it is made, or brought to this server's form, where need be.

    Args:
        where: Path of a SQLite file, `sqlite:///PATH`, `postgresql://...`, or `memory`.
        options: How it works.
        clock: The source of time.

    Raises:
        SettingsError: If the place makes no sense, cannot be written, or a newer server wrote it.
        StoreError: If the database cannot be reached.
    """
    place = find_place(where)
    if place.kind is PlaceKind.MEMORY:
        retain = options.retain_episodes
        return MemoryStore(RETAINED_IN_MEMORY if retain is None else retain)
    # A server whose record is in memory loads no SQL.
    from ors_server.store.sql.opening import make_store, prepare  # noqa: PLC0415  (as above)

    prepared = await anyio.to_thread.run_sync(prepare, place, options)
    return make_store(prepared, options, clock or SystemClock())


async def open_reader(where: str) -> RecordReader:
    """Open a record to read it; nothing is made or changed.

    Args:
        where: As for `open_store`; `memory` is an empty record.

    Raises:
        SettingsError: If there is no record, or a newer or an older server wrote it.
        StoreError: If the database cannot be reached.
    """
    place = find_place(where)
    if place.kind is PlaceKind.MEMORY:
        return MemoryStore()
    from ors_server.store.sql.opening import make_reader, prepare_to_read  # noqa: PLC0415  (as above)

    return make_reader(await anyio.to_thread.run_sync(prepare_to_read, place))
