"""Tasks that outlive the requests that started them, none of which can end the others."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from ors_server.logs import get_logger

Result = TypeVar("Result")

log = get_logger("ors_server.sessions")


async def run_whole(
    spawn: Callable[..., object], function: Callable[..., Awaitable[Result]], *args: object
) -> Result:
    """Run a function in the background and return its result; it goes on if the caller is cancelled.

    Args:
        spawn: Starts a background task.
    """
    ended: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            result = await function(*args)
        except BaseException as error:
            if not ended.done():
                ended.set_exception(error if isinstance(error, Exception) else asyncio.CancelledError())
            if not isinstance(error, Exception):
                raise
        else:
            if not ended.done():
                ended.set_result(result)

    spawn(run)
    return await ended


class BackgroundTasks:
    """Runs functions side by side, each in a task of its own.

    These are deliberately no task group's children: they run authors' code, and a task group ends all of its
    tasks when one of them raises, cancels itself, or leaves a cancel scope open.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, function: Callable[..., Awaitable[Any]], *args: object) -> None:
        """Run a function in the background."""
        self._tasks.add(asyncio.get_running_loop().create_task(self._run(function, args)))

    async def _run(self, function: Callable[..., Awaitable[Any]], args: tuple[object, ...]) -> None:
        try:
            await function(*args)
        except Exception:  # the border between a defect of ours and all other sessions
            log.exception("task_defect", task=getattr(function, "__qualname__", repr(function)))
        finally:  # each call passes here: a callback of the task would cost more than the task itself
            self._tasks.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def aclose(self, time_limit: float) -> None:
        """Cancel what still runs and wait for it.

        Args:
            time_limit: Seconds after which tasks that ignore their cancellation are left behind.
        """
        running = set(self._tasks)
        for task in running:
            task.cancel()
        if not running:
            return
        _, stuck = await asyncio.wait(running, timeout=time_limit)
        if stuck:
            log.warning("tasks_left_behind", count=len(stuck), hint="an async tool swallows its cancellation")
