"""What a worker of a batch judges just now, in memory that its owner reads: it outlives the worker."""

import mmap
import os
import struct
import tempfile

PROGRESS = struct.Struct("=qd")
"""The row's number, and when it began, in monotonic seconds."""
NO_ROW = -1


def make_progress() -> tuple[int, mmap.mmap]:
    """Make the memory.

    Returns:
        A descriptor for the worker, which the caller closes once the worker has it; the memory.
    """
    descriptor, name = tempfile.mkstemp(prefix="ors-batch-")
    os.unlink(name)  # noqa: PTH108  (a path object for one call)
    os.truncate(descriptor, PROGRESS.size)
    memory = open_progress(descriptor)
    PROGRESS.pack_into(memory, 0, NO_ROW, 0.0)
    return descriptor, memory


def open_progress(descriptor: int) -> mmap.mmap:
    """Map the memory.

    Args:
        descriptor: By `make_progress`.
    """
    return mmap.mmap(descriptor, PROGRESS.size)
