"""Threads for authors' blocking code: a share for each environment, and a reserve for what is urgent.

A thread cannot be stopped. One that outlives its call keeps its permit until it has returned, so that their
number is bounded and the environment that left them behind is the one that goes short.
"""

import asyncio
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import anyio
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync
from typing_extensions import override

from ors_server.model.clock import Clock
from ors_server.model.errors import CapacityError
from ors_server.timing.admission import Admission, Permit
from ors_server.timing.call_clock import call_clock
from ors_server.timing.loop_watch import author_code

DEFAULT_THREADS = 64
RESERVED = 1 / 8
"""Part of the threads that only setups, prompts and the like may take."""
SHARE = 3 / 4
"""Part of the other threads that one environment may have at once where several are served."""
QUEUE_LIMIT = 60.0
"""Seconds that code waits for a thread before its caller gets `CapacityError`."""


@dataclass(slots=True)
class LingeringThread:
    """A worker thread that may outlive the call that started it."""

    ended: asyncio.Event | None = None
    """Set on the event loop when the thread has returned; `None` while no thread was started."""

    @property
    def is_running(self) -> bool:
        """Whether a thread was started and has not returned."""
        return self.ended is not None and not self.ended.is_set()


@dataclass(slots=True)
class _Raised:
    error: BaseException


class _NoLimiter(anyio.CapacityLimiter):
    """Limits nothing, since `Admission` does; anyio's own limiter takes two turns of the loop."""

    def __new__(cls) -> Self:
        return object.__new__(cls)

    @override
    async def __aenter__(self) -> None:
        pass

    @override
    async def __aexit__(self, *_error: object) -> None:
        pass


class Workers:
    """The worker threads of one event loop."""

    def __init__(
        self,
        threads: int = DEFAULT_THREADS,
        *,
        environments: int = 1,
        queue_limit: float = QUEUE_LIMIT,
        clock: Clock | None = None,
    ) -> None:
        """Start none yet; at most `threads` at once, and code waits `queue_limit` seconds for one."""
        reserve = min(math.ceil(threads * RESERVED), threads - 1)
        share = threads if environments < 2 else max(1, int((threads - reserve) * SHARE))  # noqa: PLR2004  (a single environment has all threads)
        self.admission = Admission(threads, share=share, reserve=reserve, clock=clock)
        self._queue_limit = queue_limit
        self._unlimited = _NoLimiter()

    async def run(
        self, function: Callable[[], Any], thread: LingeringThread, permit: Permit | None = None
    ) -> Any:
        """Run a function in a worker thread; a caller that gives up leaves the thread behind.

        The clock of the running call counts from the function's first moment. Without a permit, it waits for
        one and raises as `take` does. It sets the `ended` of `thread` when the thread has returned.
        """
        begun = _ThreadStart(permit or await self.take(), thread)

        def body() -> Any:
            if not begun.claim():
                return None
            begun.note_start()
            try:
                return function()
            except BaseException as error:  # noqa: BLE001  (carried over the thread's border, raised on the other side)
                return _Raised(error)
            finally:
                begun.note_end()

        try:
            result = await run_sync(body, abandon_on_cancel=True, limiter=self._unlimited)
        except BaseException as error:
            begun.leave()
            if isinstance(error, RuntimeError):
                raise CapacityError(f"no worker thread could be started: {error}") from error
            raise
        begun.end()
        if isinstance(result, _Raised):
            raise result.error
        return result

    async def take(self) -> Permit:
        """Wait for a permit for `run`, the call's clock paused; `CapacityError` if that takes too long."""
        code = author_code.get()
        is_urgent = code is not None and code.is_urgent
        # A separate key: tools that have used up the share do not keep prompts waiting.
        key = (None if code is None else code.environment, is_urgent)
        permit = self.admission.take_now(key, urgent=is_urgent)
        if permit is not None:
            return permit
        with anyio.move_on_after(self._queue_limit):
            return await self.admission.take(key, urgent=is_urgent)
        figures = self.admission.figures()
        raise CapacityError(
            f"no worker thread was free for {code or 'the code'} within {self._queue_limit:g} seconds: "
            f"{figures.running} of {figures.capacity} run (setting worker_threads), {figures.waiting} wait"
        )


class _ThreadStart:
    """Decides whether the thread runs the function or its caller has left before; tells the event loop."""

    __slots__ = ("_decision", "_ended", "_has_left", "_has_run", "_loop", "_permit", "_start", "_thread")

    def __init__(self, permit: Permit, thread: LingeringThread) -> None:
        self._permit = permit
        self._thread = thread
        self._loop = asyncio.get_running_loop()
        self._decision = threading.Lock()
        self._ended = thread.ended = asyncio.Event()
        self._has_left = False
        self._has_run = False
        clock = call_clock.get()
        self._start = None if clock is None else clock.wait_for_start()

    def claim(self) -> bool:
        """Decide; return whether this was the first decision."""
        return self._decision.acquire(blocking=False)

    def note_start(self) -> None:
        """Have the clock count; from any thread."""
        if self._start is not None:
            self._start.note()

    def note_end(self) -> None:
        """Note that the function has returned; from the thread."""
        self._has_run = True
        if self._has_left:  # else the caller ends it, and the event loop need not be woken a second time
            with suppress(RuntimeError):  # the loop is closed: there are no waiters
                self._loop.call_soon_threadsafe(self.end)

    def leave(self) -> None:
        """Note that the caller does not wait any more: the thread never runs it, or ends by itself."""
        self._has_left = True
        if self.claim():
            self.note_start()
            self._permit.release()
            self._thread.ended = None
        elif self._has_run:  # looked at after the thread could see that the caller has left
            self.end()

    def end(self) -> None:
        """Give the permit back; a second call does nothing."""
        self._permit.release()
        self._ended.set()


_current: RunVar[Workers] = RunVar("ors_workers")


def current_workers() -> Workers:
    """Return the worker threads of the running event loop."""
    try:
        return _current.get()
    except LookupError:
        workers = Workers(queue_limit=math.inf)  # no server runs here, so there is no later retry
        _current.set(workers)
        return workers


def set_workers(workers: Workers) -> None:
    """Have the code on the running event loop use these worker threads from now on."""
    _current.set(workers)
