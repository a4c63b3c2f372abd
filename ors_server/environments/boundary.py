"""Calls authors' functions and turns everything that they raise into one of the server's errors.

Author code may raise anything, including `SystemExit` and its own `CancelledError`, and may cancel the task
that it runs in. Only a cancellation that the server requested passes through. The way in which its source is
found was checked against anyio 4.16.0 over asyncio of Python 3.11 to 3.14, and
`tests/contract/test_event_loops.py` names what another version changed.
"""

import asyncio
import functools
import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import CoroutineType
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint
from pydantic import ValidationError

from ors_server.environments.source_places import location_of_error
from ors_server.model.errors import AuthorError, EnvironmentFailedError, OrsServerError
from ors_server.model.logs import secret_values
from ors_server.timing.call_clock import call_clock
from ors_server.timing.loop_watch import author_code, current_watch
from ors_server.timing.workers import LingeringThread, current_workers

Function: TypeAlias = Callable[..., Any]
Task: TypeAlias = asyncio.Task[Any]

MAX_ERROR_TEXT = 8_192
"""Characters of an author's error message that are kept."""


def is_async(function: Function) -> bool:
    """Return whether calling the function returns an awaitable at once."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(inspect.unwrap(function))


def binder(
    attribute: str, names: Sequence[str], *, model_name: str | None, context_name: str | None
) -> Callable[[Any], Callable[[Any, Any], Any]]:
    """Return what binds an author's method to its object, as a function of (parsed arguments, context).

    Args:
        names: The parameters that take the fields of the parsed arguments.
        model_name: The parameter that takes the parsed arguments themselves.
        context_name: The parameter that takes the context.
    """

    # Once per session, so that a call pays only for its arguments.
    def bind(owner: Any) -> Callable[[Any, Any], Any]:
        method = getattr(owner, attribute)

        def call(parsed: Any, context: Any) -> Any:
            arguments: dict[str, Any] = {} if model_name is None else {model_name: parsed}
            for name in names:
                arguments[name] = getattr(parsed, name)
            if context_name is not None:
                arguments[context_name] = context
            return method(**arguments)

        return call

    return bind


async def call_author(
    function: Function, *args: Any, thread: LingeringThread | None = None, on_loop: bool | None = None
) -> Any:
    """Call a function that an author wrote: async ones here, others in a worker thread.

    Args:
        function: The function; if it is not async but returns an awaitable, that is awaited here.
        thread: Receives the worker thread, so that the caller can wait for it after a cancelled call.
        on_loop: Whether the function is known to be async; `None` finds out.

    Raises:
        AuthorRaisedError: If it raised anything, or was not cancelled by the server.
    """
    task = asyncio.current_task()
    cancellations = 0 if task is None else task.cancelling()
    clock = call_clock.get()
    try:
        if is_async(function) if on_loop is None else on_loop:
            result: Any = function(*args)
        else:
            if clock is not None:
                clock.arm()
            # In a thread even if the function is quick: only its author knows, and a slow one would stop
            # every session.
            job = functools.partial(function, *args)
            result = await current_workers().run(job, thread or LingeringThread())
        if result.__class__ is CoroutineType or inspect.isawaitable(result):
            watch = current_watch.get() if clock is None else clock.watch
            if watch is None:
                if clock is not None:
                    clock.arm()
                result = await result
            else:
                code = author_code.get()
                name = getattr(function, "__qualname__", type(function).__name__) if code is None else code
                holds = (None, None) if clock is None else (clock.hold, clock.arm)
                result = await watch.stepping(result, name, *holds)
    except OrsServerError:
        raise
    except BaseException as error:
        if _is_ours(error, task):
            raise
        await take_back_cancellations(task, cancellations)
        raise AuthorRaisedError(error) from error
    # The function cancelled the task and then returned: the request was not the server's.
    if task is not None and task.cancelling() > cancellations:
        await take_back_cancellations(task, cancellations)
    return result


class AuthorRaisedError(AuthorError):
    """Author code raised `error`."""

    def __init__(self, error: BaseException) -> None:
        """Describe the error as `Type: message (file.py:12)`."""
        super().__init__(describe_authors(error))
        self.error = error


async def call_hook(function: Callable[..., Any], *args: Any, thread: LingeringThread | None = None) -> Any:
    """Call an author's function without which the environment cannot continue.

    Raises:
        EnvironmentFailedError: If it raised; the message is `Type: message (file.py:12)`.
    """
    try:
        return await call_author(function, *args, thread=thread)
    except AuthorRaisedError as raised:
        raise EnvironmentFailedError(str(raised)) from raised.error


def describe(error: BaseException) -> str:
    """Render an error as `Type: message`, or just the type where there is no message."""
    text = text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def describe_authors(error: BaseException) -> str:
    """Render an error of an author's code as `Type: message (file.py:12)`, with the line in that code."""
    location = location_of_error(error)
    return f"{describe(error)} ({location})" if location else describe(error)


def text_of(error: BaseException) -> str:
    """Return an error's message, bounded, encodable and without sessions' secrets; never raises."""
    try:
        text = explain_validation(error) if isinstance(error, ValidationError) else str(error)
    except BaseException:  # noqa: BLE001  (an author's `__str__` may raise anything)
        return ""
    text = secret_values.mask(text)
    if len(text) > MAX_ERROR_TEXT:
        text = f"{text[:MAX_ERROR_TEXT]}… ({len(text)} characters)"
    return encodable(text)


def explain_validation(error: ValidationError) -> str:
    """Render pydantic's error on one line, without the values: they may be secret."""
    problems = (
        f"{'.'.join(map(str, (error.title, *item['loc'])))}: {item['msg'].removeprefix('Value error, ')}"
        for item in error.errors(include_url=False, include_input=False, include_context=False)
    )
    return "; ".join(problems)


def encodable(text: str) -> str:
    """Return a text with every character that UTF-8 cannot express replaced by a question mark."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def listed(value: Any) -> list[Any] | None:
    """Return an author's sequence as a list; `None` for anything else, such as text."""
    return list(value) if _is_sequence(value) else None


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


async def take_back_cancellations(task: Task | None, count: int) -> None:
    """Undo requests to cancel the running task beyond the first `count`, unless a cancel scope made them."""
    if task is None or task.cancelling() <= count or is_scope_cancelled():
        return
    while task.cancelling() > count:
        task.uncancel()
    with suppress(asyncio.CancelledError):  # one that was requested and not delivered yet
        await cancel_shielded_checkpoint()


def is_scope_cancelled() -> bool:
    """Whether a cancel scope around the caller was cancelled: the only way in which the server cancels."""
    return anyio.current_effective_deadline() == -math.inf


def is_current(task: Task | None) -> bool:
    """Whether the code runs in this task; false where no event loop runs, as in a garbage collection."""
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False


def _is_ours(error: BaseException, task: Task | None) -> bool:
    if isinstance(error, asyncio.CancelledError):
        return is_scope_cancelled()
    # A coroutine that is closed from outside its task raises GeneratorExit in it.
    return isinstance(error, GeneratorExit) and not is_current(task)
