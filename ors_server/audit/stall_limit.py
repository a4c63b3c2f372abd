"""A time limit for a process that counts neither its progress nor its waits for a processor."""

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

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
    results: list[_Result] = []
    errors: list[Exception] = []
    async with anyio.create_task_group() as tasks:

        async def make_call() -> None:
            try:
                results.append(await call())
            except Exception as error:  # noqa: BLE001  (raised below, and not as a group)
                errors.append(error)
            tasks.cancel_scope.cancel()

        tasks.start_soon(make_call)
        await _wait_for_stall(seconds, process_id, progress)
        tasks.cancel_scope.cancel()
    if errors:
        raise errors[0]
    if not results:
        raise StalledError(f"the environment did not answer within {seconds:g} seconds")
    return results[0]


async def _wait_for_stall(seconds: float, process_id: int, progress: Callable[[], object]) -> None:
    delay = MachineDelay(process_id)
    began, seen = time.monotonic(), await anyio.to_thread.run_sync(progress)
    while True:
        await anyio.sleep(LOOK_SECONDS)
        await anyio.to_thread.run_sync(delay.look_now)
        found = await anyio.to_thread.run_sync(progress)
        now = time.monotonic()
        if found != seen:
            began, seen = now, found
        waited = now - began
        if waited > seconds * BACKSTOP or waited - delay.since(began) > seconds:
            return
