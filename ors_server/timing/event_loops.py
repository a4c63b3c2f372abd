"""Uses of asyncio and anyio beyond the common ones: it finds the source of a cancellation.

Checked against anyio 4.16.0 over asyncio of Python 3.11 to 3.14; `tests/contract/test_event_loops.py` names
what another version changed.
"""

import asyncio
import math
from contextlib import suppress
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint

Task: TypeAlias = asyncio.Task[Any]


def is_current(task: Task | None) -> bool:
    """Whether the code runs in this task; false where no event loop runs, as in a garbage collection."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False


def is_scope_cancelled() -> bool:
    """Whether a cancel scope around the caller was cancelled: the only way in which the server cancels."""
    return anyio.current_effective_deadline() == -math.inf


def cancellations_of(task: Task | None) -> int:
    """Return how often it was requested to cancel the running task."""
    return 0 if task is None else task.cancelling()


async def take_back_cancellations(task: Task | None, count: int) -> None:
    """Undo requests to cancel the running task beyond the first `count`, unless a cancel scope made them."""
    if task is None or task.cancelling() <= count or is_scope_cancelled():
        return
    while task.cancelling() > count:
        task.uncancel()
    with suppress(asyncio.CancelledError):  # one that was requested and not delivered yet
        await cancel_shielded_checkpoint()
