"""What one call in a worker process may take."""

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may take; importing the function's module is not counted."""

    cpu_seconds: float = 5.0
    """Processor time of the worker, above 0."""
    wall_seconds: float = 120.0
    """Time on the wall, the worker's start included: a backstop for an overloaded machine."""
    memory_bytes: int = 1024 * MIB
    """Address space of the worker, the interpreter's own included; not enforced by macOS."""
    result_bytes: int = 16 * MIB
    """Size of the result, pickled."""
