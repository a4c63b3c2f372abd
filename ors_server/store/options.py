"""How a store writes and what it keeps."""

from dataclasses import dataclass
from enum import StrEnum


class Durability(StrEnum):
    """What is on the disk when an append returns."""

    STEP = "step"
    """The step: a crash of the server or of the machine loses no step that was answered."""
    BATCH = "batch"
    """What was appended `BATCH_SECONDS` ago or earlier: a crash loses the steps of that time."""
    NONE = "none"
    """As `batch`, and the machine's crash may lose what it had not yet put on the disk by itself."""


BATCH_SECONDS = 0.25
"""Seconds within which a step is written that nobody waits for, as long as the store can write."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How a store works."""

    durability: Durability = Durability.STEP
    blob_bytes: int = 64 * 1024
    """Blocks whose text or data is longer go to content-addressed blobs; bytes of UTF-8."""
    retain_episodes: int | None = None
    """Closed episodes that are kept; older ones are forgotten first. `None`: all in SQL, 10,000 in memory."""
    retain_days: float | None = None
    """Days after its last change for which an episode is kept; `None` for ever."""
    write_seconds: float = 10.0
    """Seconds that a write may take, further attempts included, before whoever waits for it is told that it
    failed."""
    queue_entries: int = 20_000
    """Most writes that wait; more wait outside."""
    queue_bytes: int = 256 * 1024 * 1024
    """Most bytes of steps that wait; more wait outside."""


DEFAULTS = StoreOptions()
