"""The row that a worker of a batch judges now, in memory shared with its owner: it outlives the worker."""

import mmap
import os
import struct
import tempfile

PROGRESS = struct.Struct("=qd")
"""The row's number, and its start in monotonic seconds."""
NO_ROW = -1


def make_progress() -> tuple[int, mmap.mmap]:
    """Return a descriptor for the worker, which the caller closes once the worker has it, and the memory."""
    descriptor, name = tempfile.mkstemp(prefix="ors-batch-")
    os.unlink(name)  # noqa: PTH108  (a path object for one call)
    os.truncate(descriptor, PROGRESS.size)
    memory = open_progress(descriptor)
    PROGRESS.pack_into(memory, 0, NO_ROW, 0.0)
    return descriptor, memory


def open_progress(descriptor: int) -> mmap.mmap:
    """Map the memory of a descriptor of `make_progress`."""
    return mmap.mmap(descriptor, PROGRESS.size)
