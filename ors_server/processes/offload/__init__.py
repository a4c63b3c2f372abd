"""Runs pure functions in worker processes that can be killed, with limits on processor time and memory.

For work whose cost depends on hostile input: archives, documents, regular expressions, algebra. A thread
would hold the interpreter's lock and block the event loop, and it cannot be killed.

    is_equal = offload.call(decide, left, right, limits=TWO_SECONDS)  # from any thread
    text = await offload.run(render, content)                         # from async code

The function is a module's own, or a `FunctionPath("module:function")`, which the caller need not import. The
worker imports the module at its first use, outside the limits; a module that takes seconds to import has its
own workers, which import it in advance (`prepared`). Arguments and results are plain data, pickled by this
package alone. Nothing starts before the first call. Workers end with this process, even if it is killed.
"""

import functools

from ors_server.processes.offload.offload_errors import (
    CrashedError,
    OverCpuError,
    OverLimitError,
    OverMemoryError,
    WorkerDiedError,
    WorkerLostError,
    WorkerStalledError,
)
from ors_server.processes.offload.offload_limits import MIB, OffloadLimits
from ors_server.processes.offload.prepared_pool import PreparedPool
from ors_server.processes.offload.worker_pool import MAX_INLINE_SIZE, FunctionPath, WorkerPool

__all__ = [
    "MAX_INLINE_SIZE",
    "MIB",
    "CrashedError",
    "FunctionPath",
    "OffloadLimits",
    "OverCpuError",
    "OverLimitError",
    "OverMemoryError",
    "PreparedPool",
    "WorkerDiedError",
    "WorkerLostError",
    "WorkerPool",
    "WorkerStalledError",
    "aclose",
    "call",
    "divide",
    "prepared",
    "run",
    "run_sized",
]

_shared = WorkerPool()
_pools: list[WorkerPool] = [_shared]
_processes = 1
"""Processes of this machine among which workers are divided."""
call = _shared.call
run = _shared.run
run_sized = _shared.run_sized


@functools.cache
def prepared(module: str) -> PreparedPool:
    """Return the pool whose workers import a module when they start, outside a call's limits."""
    pool = PreparedPool(module)
    pool.divide(_processes)
    _pools.append(pool)
    return pool


def divide(processes: int) -> None:
    """Divide the workers of all pools among as many processes of this machine.

    Each pool keeps at least 2, if it had as many.
    """
    global _processes  # noqa: PLW0603  (one for the process, as the pools are)
    _processes = processes
    for pool in _pools:
        pool.divide(processes)


async def aclose() -> None:
    """End the idle workers; the next call starts one again."""
    for pool in tuple(_pools):
        await pool.aclose()
