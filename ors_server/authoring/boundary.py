"""The border to author code: what an author's function raises comes out as one of our errors, whatever it was.

Author code may raise anything, `SystemExit` and a hand-made `CancelledError` included. Only a cancellation that the
server itself asked for passes through.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
from anyio.to_thread import run_sync

from ors_server.errors import AuthorError, EnvironmentFailedError, OrsServerError

Function: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


@dataclass(slots=True)
class Stray:
    """A worker thread that may outlive the call that started it.

    Attributes:
        ended: Set on the event loop when the thread has returned; `None` while no thread was started.
    """

    ended: anyio.Event | None = None


def is_async(function: Function) -> bool:
    """Return whether calling the function gives an awaitable at once.

    Args:
        function: A function or method, possibly wrapped by `functools.partial` or decorators.
    """
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(inspect.unwrap(function))


async def call_author(
    function: Function, *args: Any, stray: Stray | None = None, on_loop: bool | None = None
) -> Any:
    """Call a function that an author wrote: async ones here, others in a worker thread.

    Args:
        function: The function; if it is not async but returns an awaitable, that is awaited here.
        *args: Its positional arguments.
        stray: Told of the worker thread, so that the caller can wait for it after giving up on the call.
        on_loop: Whether the function is known to be async; `None` finds out.

    Returns:
        What the function returned.

    Raises:
        AuthorRaisedError: If it raised anything, or was cancelled by anybody but the server.
    """
    try:
        if is_async(function) if on_loop is None else on_loop:
            return await function(*args)
        result = await _in_thread(function, args, stray or Stray())
        return await result if inspect.isawaitable(result) else result
    except OrsServerError:
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError | GeneratorExit) and _is_being_cancelled():
            raise
        raise AuthorRaisedError(error) from error


class AuthorRaisedError(AuthorError):
    """Author code raised.

    Attributes:
        error: What it raised.
    """

    def __init__(self, error: BaseException) -> None:
        """Describe the error as `Type: message`.

        Args:
            error: What the author's code raised.
        """
        super().__init__(describe(error))
        self.error = error


async def call_hook(function: Callable[..., Any], *args: Any) -> Any:
    """Call an author's function whose failure means that the environment cannot go on.

    Args:
        function: The function.
        *args: Its positional arguments.

    Returns:
        What the function returned.

    Raises:
        EnvironmentFailedError: If it raised; the message is `Type: message`.
    """
    try:
        return await call_author(function, *args)
    except AuthorRaisedError as raised:
        raise EnvironmentFailedError(str(raised)) from raised.error


def describe(error: BaseException) -> str:
    """Render an error as `Type: message`, or just the type where there is no message.

    Args:
        error: Any exception.
    """
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


async def _in_thread(function: Function, args: tuple[Any, ...], stray: Stray) -> Any:
    ended = anyio.Event()
    loop = asyncio.get_running_loop()

    def body() -> Any:
        try:
            return function(*args)
        except BaseException as error:  # noqa: BLE001  (carried over the thread's border, raised on the other side)
            return _Raised(error)
        finally:
            loop.call_soon_threadsafe(ended.set)

    stray.ended = ended
    result = await run_sync(body, abandon_on_cancel=True)
    if isinstance(result, _Raised):
        raise result.error
    return result


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


