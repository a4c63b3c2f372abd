"""Limits of one call in a worker process."""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class OffloadLimits:
    """Limits of one call; importing the function's module does not count."""

    cpu_seconds: float = 5.0
    """Processor time of the worker, above 0."""
    wall_seconds: float = 120.0
    """Wall time, including the worker's start: a backstop for an overloaded machine."""
    memory_bytes: int = 1024 * MIB
    """Address space of the worker, including the interpreter's; not enforced by macOS."""
    result_bytes: int = 16 * MIB
    """Size of the result, pickled."""
