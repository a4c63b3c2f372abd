"""Opens the record wherever it is kept: memory, a SQLite file, PostgreSQL."""

from ors_server.clock import Clock
from ors_server.errors import SettingsError
from ors_server.store.base import EpisodeStore, RecordReader
from ors_server.store.memory import MemoryStore
from ors_server.store.options import DEFAULTS, StoreOptions

MEMORY = "memory"
"""Where a record is that goes with the process."""
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
    del clock
    if where == MEMORY:
        retain = options.retain_episodes
        return MemoryStore(RETAINED_IN_MEMORY if retain is None else retain)
    raise SettingsError(f"the record cannot be kept in {where!r} yet; use {MEMORY!r}")


async def open_reader(where: str) -> RecordReader:
    """Open a record to read it; nothing is made or changed.

    Args:
        where: As for `open_store`; `memory` is an empty record.

    Raises:
        SettingsError: If there is no record, or a newer server wrote it.
        StoreError: If the database cannot be reached.
    """
    return await open_store(where)
