"""Runs pure functions in worker processes that can be killed, with limits on processor time and memory.

For work whose cost something hostile decides: archives, documents, regular expressions, algebra. A thread
would hold the interpreter's lock, and with it the event loop, and cannot be ended.

    is_equal = offload.call(decide, left, right, limits=TWO_SECONDS)  # from any thread
    text = await offload.run(render, content)                         # from async code

The function is a module's own, or a `Place("module:function")`, which the caller need not import. The worker
imports the module at its first use, outside the limits; a module that takes seconds to import has workers of
its own, which import it ahead (`prepared`). Arguments and results are plain data, pickled by this
package alone. Nothing starts before the first call. Workers end with this process, also where it is killed.
"""

import functools

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
from ors_server.offload.prepared import PreparedPool

__all__ = [
    "MIB",
    "SHORT",
    "CrashedError",
    "Limits",
    "OverCpuError",
    "OverLimitError",
    "OverMemoryError",
    "Place",
    "PreparedPool",
    "WorkerDiedError",
    "WorkerLostError",
    "WorkerPool",
    "WorkerStalledError",
    "aclose",
    "call",
    "prepared",
    "run",
    "run_sized",
]

_shared = WorkerPool()
_pools: list[WorkerPool] = [_shared]
call = _shared.call
run = _shared.run
run_sized = _shared.run_sized


@functools.cache
def prepared(module: str) -> PreparedPool:
    """Return the workers that import a module when they start; the same for every caller.

    Args:
        module: Its name; what costs time at its import counts against no call.
    """
    pool = PreparedPool(module)
    _pools.append(pool)
    return pool


async def aclose() -> None:
    """End the workers that are idle; the next call starts one again."""
    for pool in tuple(_pools):
        await pool.aclose()
