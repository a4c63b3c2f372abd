"""A time limit for a process that counts neither its progress nor its waits for a processor."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread

from ors_server.audit.side_by_side import run_both
from ors_server.resources.resource_errors import ResourceTimeoutError
from ors_server.rewards.batch.machine_delay import MachineDelay

LOOK_SECONDS = 0.25
BACKSTOP = 20
"""How many times the limit a call may take on a machine that gives the process no processor."""
_Result = TypeVar("_Result")


class StalledError(ResourceTimeoutError):
    """A process did not answer, and made no progress, for longer than its limit."""


async def call_within(
    seconds: float,
    process_id: int,
    call: Callable[[], Awaitable[_Result]],
    progress: Callable[[], object] = lambda: None,
) -> _Result:
    """Return the result of a call to a process, or cancel it.

    Args:
        seconds: Most seconds without progress; those count not for which the process, and what it started,
            was ready to run and had no processor.
        process_id: The process that answers.
        call: The call; what it raises is raised.
        progress: Looks for progress, in a thread: its result changes with each bit of it.

    Raises:
        StalledError: If the limit is over.
    """
    is_answered = anyio.Event()

    async def make_call() -> _Result:
        try:
            return await call()
        finally:
            is_answered.set()

    result, _ = await run_both(make_call, partial(_watch, seconds, process_id, progress, is_answered))
    return result


async def _watch(
    seconds: float, process_id: int, progress: Callable[[], object], is_answered: anyio.Event
) -> None:
    """Return at the answer; `StalledError` at the limit."""
    delay = MachineDelay(process_id)
    began, seen = time.monotonic(), await anyio.to_thread.run_sync(progress)
    while True:
        with anyio.move_on_after(LOOK_SECONDS):
            await is_answered.wait()
            return
        await anyio.to_thread.run_sync(delay.look_now)
        found = await anyio.to_thread.run_sync(progress)
        now = time.monotonic()
        if found != seen:
            began, seen = now, found
        waited = now - began
        if waited > seconds * BACKSTOP or waited - delay.since(began) > seconds:
            raise StalledError(f"the environment did not answer within {seconds:g} seconds")
