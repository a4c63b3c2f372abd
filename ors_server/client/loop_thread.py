"""An event loop in its own thread, which ends with its owner and never keeps Python from exiting."""

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent import futures
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from threading import Thread, current_thread
from typing import Any, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from ors_server.client.client_errors import CLOSED, ClosedError
from ors_server.model.errors import InvalidRequestError

_Value = TypeVar("_Value")

EXIT_SECONDS = 5.0
"""Seconds that Python's exit waits until open sessions are deleted."""
CLOSE_SECONDS = 40.0
"""Seconds that closing a client waits for that; one session takes at most 30."""

_ENDED = (RuntimeError, asyncio.CancelledError, futures.CancelledError)
"""Exceptions of a portal whose loop ends, or has ended."""


@dataclass(slots=True, eq=False)
class _OpenContext:
    """An async context that another thread holds open."""

    leave: anyio.Event = field(default_factory=anyio.Event)
    left: anyio.Event = field(default_factory=anyio.Event)
    failure: Exception | None = None
    """The exception of its body."""

    def raise_failure(self) -> None:
        """Raise the exception of its body."""
        if self.failure is not None:
            raise self.failure


@dataclass(frozen=True, slots=True)
class _Running:
    """The loop of a running thread."""

    portal: BlockingPortal
    loop: asyncio.AbstractEventLoop
    stop: anyio.Event
    open_contexts: set[_OpenContext]


class LoopThread:
    """Runs coroutines for other threads until `close`, or until it is unreferenced, or until Python exits.

    Open contexts are closed then.
    """

    def __init__(self, aclose: Callable[[], Awaitable[None]]) -> None:
        started: futures.Future[_Running] = futures.Future()
        self._thread = Thread(target=_serve, args=(started, aclose), name="ors-client", daemon=True)
        self._thread.start()
        self._running = started.result()
        # It refers to the parts and not to this object, which could not be collected otherwise.
        self._finalizer = weakref.finalize(self, _end, self._thread, self._running, EXIT_SECONDS)

    def run(self, function: Callable[..., Coroutine[Any, Any, _Value]], *arguments: Any) -> _Value:
        """Run a coroutine function on the loop and wait for it."""
        self._check()
        with self._closing_named():
            value: _Value = self._running.portal.call(function, *arguments)
        return value

    @contextmanager
    def hold(self, context: AbstractAsyncContextManager[_Value]) -> Generator[_Value]:
        """Hold an async context open on the loop; closing the client closes it."""
        self._check()
        open_context, entered = _OpenContext(), futures.Future[_Value]()
        with self._closing_named():
            done = self._running.portal.start_task_soon(_hold, self._running, open_context, context, entered)
            opened = entered.result()
        try:
            yield opened
        except Exception as error:
            open_context.failure = error
            if not self._leave(open_context, done):
                raise
        except BaseException:  # Ctrl-C in this thread is not a failure inside the context
            self._leave(open_context, done)
            raise
        else:
            self._leave(open_context, done)

    def close(self) -> None:
        """Close what is open, and end the thread; closing twice does nothing."""
        if self._finalizer.detach() is not None:
            _end(self._thread, self._running, CLOSE_SECONDS)

    @property
    def _is_over(self) -> bool:
        return not (self._finalizer.alive and self._thread.is_alive())

    def _check(self) -> None:
        if self._is_over:
            raise ClosedError(CLOSED)
        if self._thread is current_thread():
            raise InvalidRequestError(
                "this code runs on the client's loop, as an agent in `play` does, and would wait for itself: "
                "make the agent an async function and await the methods of `on_loop`"
            )

    @contextmanager
    def _closing_named(self) -> Generator[None]:
        try:
            yield
        except _ENDED as error:
            if self._is_over:
                raise ClosedError(CLOSED) from error
            raise

    def _leave(self, open_context: _OpenContext, done: "futures.Future[bool]") -> bool:
        """Leave a context, and return whether it handled the exception of its body."""
        if self._is_over:
            return False  # it was left with the client
        with self._closing_named():
            self._running.loop.call_soon_threadsafe(open_context.leave.set)
            return done.result()


def _serve(started: "futures.Future[_Running]", aclose: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        stop = anyio.Event()
        try:
            async with BlockingPortal() as portal:
                running = _Running(portal, asyncio.get_running_loop(), stop, set())
                started.set_result(running)
                await stop.wait()
                # Contexts are left before the loop's tasks are cancelled, so that their sessions are deleted.
                with anyio.move_on_after(CLOSE_SECONDS):
                    for open_context in list(running.open_contexts):
                        open_context.leave.set()
                    for open_context in list(running.open_contexts):
                        await open_context.left.wait()
                await portal.stop(cancel_remaining=True)
        finally:
            await aclose()

    try:
        anyio.run(main)
    except BaseException as error:  # noqa: BLE001  (waiting callers have their exceptions already)
        if not started.done():
            started.set_exception(error)


async def _hold(
    running: _Running,
    open_context: _OpenContext,
    context: AbstractAsyncContextManager[_Value],
    entered: "futures.Future[_Value]",
) -> bool:
    running.open_contexts.add(open_context)
    went_well = False
    try:
        async with context as value:
            entered.set_result(value)
            await open_context.leave.wait()
            open_context.raise_failure()
            went_well = True
        return not went_well
    except BaseException as error:
        if not entered.done():
            entered.set_exception(error)
        raise
    finally:
        running.open_contexts.discard(open_context)
        open_context.left.set()


def _end(thread: Thread, running: _Running, seconds: float) -> None:
    with suppress(RuntimeError):  # the loop has ended by itself
        running.loop.call_soon_threadsafe(running.stop.set)
    # The finalizer may run on the loop's own thread, which cannot wait for its own end.
    if thread is not current_thread():
        thread.join(seconds)
