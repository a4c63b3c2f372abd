"""Runs pure functions in worker processes that can be killed, with limits on processor time and memory.

For work whose cost something hostile decides: archives, documents, regular expressions, algebra. A thread
would hold the interpreter's lock, and with it the event loop, and cannot be ended.

    is_equal = offload.call(decide, left, right, limits=TWO_SECONDS)  # from any thread
    text = await offload.run(render, content)                         # from async code

The function is a module's own, or a `Place("module:function")`, which the caller need not import. The worker
imports the module at its first use, outside the limits. Arguments and results are plain data, pickled by this
package alone. Nothing starts before the first call. Workers end with this process, also where it is killed.
"""

from ors_server.offload.errors import (
    CrashedError,
    OverCpuError,
    OverLimitError,
    OverMemoryError,
    WorkerDiedError,
    WorkerLostError,
    WorkerStalledError,
)
from ors_server.offload.limits import MIB, Limits
from ors_server.offload.pool import SHORT, Place, WorkerPool

__all__ = [
    "MIB",
    "SHORT",
    "CrashedError",
    "Limits",
    "OverCpuError",
    "OverLimitError",
    "OverMemoryError",
    "Place",
    "WorkerDiedError",
    "WorkerLostError",
    "WorkerPool",
    "WorkerStalledError",
    "aclose",
    "call",
    "run",
    "run_sized",
]

_shared = WorkerPool()
call = _shared.call
run = _shared.run
run_sized = _shared.run_sized
aclose = _shared.aclose
