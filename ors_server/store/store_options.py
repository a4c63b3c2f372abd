"""Options of a store: durability, retention, limits."""

from dataclasses import dataclass
from enum import StrEnum

from ors_server.model.host_slot import SINGLE_HOST, HostSlot


class Durability(StrEnum):
    """The data that is on the disk when `append` returns."""

    STEP = "step"
    """The step: a crash of the server or of the machine loses no step that was answered."""
    BATCH = "batch"
    """Steps appended at least `BATCH_SECONDS` ago: a crash loses later ones."""
    NONE = "none"
    """As `batch`; a crash of the machine also loses what the operating system had not yet written to disk."""


BATCH_SECONDS = 0.25
"""Seconds within which a step is written that no caller waits for, while the store can write."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Settings of a store."""

    durability: Durability = Durability.STEP
    blob_bytes: int = 64 * 1024
    """Blocks whose text or data is longer (bytes of UTF-8) are stored once, as blobs named by their hash."""
    retain_episodes: int | None = None
    """Closed episodes to keep; the oldest are pruned first. `None`: all in SQL, 10,000 in memory."""
    retain_days: float | None = None
    """Days after its last change for which an episode is kept; `None`: without limit."""
    write_seconds: float = 10.0
    """Seconds that a write may take, retries included, before its caller gets an error."""
    idle_seconds: float = 900.0
    """Seconds without a write after which an open episode of another server is not taken for a live one."""
    slot: HostSlot = SINGLE_HOST
    """Which of several hosts on one record this store's server is. A host takes up the open episodes of its
    slot although other hosts have the record open: its supervisor has reaped the process that wrote them."""
    queue_entries: int = 20_000
    """Maximum number of writes in the queue; callers of further ones wait."""
    queue_bytes: int = 256 * 1024 * 1024
    """Maximum number of bytes of steps in the queue; callers of further ones wait."""


DEFAULTS = StoreOptions()
