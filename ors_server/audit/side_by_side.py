"""Two calls side by side, whose errors are raised as they are."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

_One = TypeVar("_One")
_Other = TypeVar("_Other")


async def run_both(
    first: Callable[[], Awaitable[_One]], second: Callable[[], Awaitable[_Other]]
) -> tuple[_One, _Other]:
    """Return both results; the first error cancels the other call and is raised, not as a group."""
    results: dict[int, Any] = {}
    errors: list[Exception] = []

    async def run(index: int, call: Callable[[], Awaitable[Any]]) -> None:
        try:
            results[index] = await call()
        # Caught here, because a task group would raise an `ExceptionGroup`, and callers handle plain errors.
        except Exception as error:  # noqa: BLE001  (raised below)
            errors.append(error)
            tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, 0, first)
        tasks.start_soon(run, 1, second)
    if errors:
        raise errors[0]
    return results[0], results[1]
