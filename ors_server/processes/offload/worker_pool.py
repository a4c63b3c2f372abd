"""A few worker processes that run calls."""

import atexit
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, TypeVarTuple

import anyio
from anyio.lowlevel import RunVar

from ors_server.processes.offload.offload_errors import WorkerDiedError
from ors_server.processes.offload.offload_limits import OffloadLimits
from ors_server.processes.offload.worker_process import WorkerCall, WorkerProcess
from ors_server.processes.offload.worker_program import find

_A = TypeVarTuple("_A")
_R = TypeVar("_R")
_DEFAULT = OffloadLimits()
_MIN_WORKERS, _MAX_WORKERS = 4, 8
_MIN_SHARE = 2
"""Workers that a pool has at least, so that one call which takes long does not hold up all others."""
_END_SECONDS = 2.0
MAX_INLINE_SIZE = 65_536
"""Bytes or characters that a function of linear time may process on the event loop."""


class FunctionPath:
    """A function by its path, for a caller that does not import its module."""

    def __init__(self, path: str) -> None:
        """Import nothing yet; the path is `module:function`."""
        self.path = path

    def __call__(self, *arguments: Any) -> Any:
        """Call it in this process."""
        return find(self.path)(*arguments)


def _worker_call(
    function: Callable[..., Any], arguments: tuple[Any, ...], limits: OffloadLimits
) -> WorkerCall:
    if isinstance(function, FunctionPath):
        return WorkerCall(function.path, arguments, limits)
    return WorkerCall(f"{function.__module__}:{function.__qualname__}", arguments, limits)


class WorkerPool:
    """Workers that start when they are needed. Any thread and any event loop may use it at once."""

    def __init__(self, size: int | None = None, variables: Mapping[str, str] | None = None) -> None:
        """Start nothing yet; the default size is the number of processors, from 4 to 8."""
        self._variables = variables
        self._whole = size or max(_MIN_WORKERS, min(_MAX_WORKERS, os.cpu_count() or 1))
        self._size = self._whole
        # A limiter belongs to one event loop, and several loops may use the pool.
        self._limiter: RunVar[anyio.CapacityLimiter] = RunVar("offload_places")
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._places = threading.Semaphore(self._size)
        self._idle: list[WorkerProcess] = []
        self._busy: set[WorkerProcess] = set()
        self._starting: set[WorkerProcess] = set()
        self._is_registered = False

    def divide(self, processes: int) -> None:
        """Have a share of the workers only: as many processes of this machine have a pool like this one.

        Call it before the first call; those that run keep their workers.
        """
        size = max(min(self._whole, _MIN_SHARE), -(-self._whole // processes))
        if size != self._size:
            self._size = size
            self._places = threading.Semaphore(size)
            self._limiter = RunVar("offload_places")

    def call(self, function: Callable[[*_A], _R], /, *arguments: *_A, limits: OffloadLimits = _DEFAULT) -> _R:
        """Run a function in a worker and wait for it, in any thread but an event loop's.

        Its limits count from when a worker is free for it.

        Args:
            function: A module's function, or a `FunctionPath`.
            *arguments: Plain data, or frozen dataclasses of it.

        Raises:
            OverLimitError: It exceeds a limit.
            WorkerLostError: There is no answer, and the input is not the reason.
            Exception: What the function raises.
        """
        answer: _R = self._perform(_worker_call(function, arguments, limits))
        return answer

    async def run(
        self, function: Callable[[*_A], _R], /, *arguments: *_A, limits: OffloadLimits = _DEFAULT
    ) -> _R:
        """Run a function as `call` does, without blocking the event loop; cancellation kills the worker."""
        worker_call = _worker_call(function, arguments, limits)
        try:
            answer: _R = await anyio.to_thread.run_sync(
                # The abandoned thread ends by itself, once `cancel` has killed its worker.
                self._perform,
                worker_call,
                abandon_on_cancel=True,
                limiter=self._turns(),
            )
        except anyio.get_cancelled_exc_class():
            worker_call.cancel()
            raise
        return answer

    async def run_sized(
        self, size: int, function: Callable[[*_A], _R], /, *arguments: *_A, limits: OffloadLimits = _DEFAULT
    ) -> _R:
        """Run a function of linear time: here if `size` is at most `MAX_INLINE_SIZE`, or as `run`."""
        if size <= MAX_INLINE_SIZE:
            return function(*arguments)
        return await self.run(function, *arguments, limits=limits)

    async def aclose(self) -> None:
        """End the workers that are idle or starting; the next call starts one again."""
        if self._process == os.getpid() and (self._idle or self._starting):
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._close_idle)

    def _turns(self) -> anyio.CapacityLimiter:
        try:
            return self._limiter.get()
        except LookupError:
            limiter = anyio.CapacityLimiter(self._size)
            self._limiter.set(limiter)
            return limiter

    def _perform(self, worker_call: WorkerCall) -> Any:
        self._forget_parents()
        # Callers in threads are limited here, those in event loops by the limiter, so that they hold no
        # thread.
        with self._places:
            worker = self._take()
            is_usable = False
            try:
                answer = worker.ask(worker_call)
                # After any error in between, the worker's state is unknown, and it is ended.
                is_usable = not worker.is_worn
            finally:
                self._give_back(worker, is_usable=is_usable)
        return answer.open()

    def _forget_parents(self) -> None:
        """Forget another process's workers: after a fork, a copy must not write into its parent's pipes."""
        if self._process != os.getpid():
            self._forget()

    def _take(self) -> WorkerProcess:
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = self._start()
        # Listed while it runs, so that the exit of this process can kill it.
        self._busy.add(worker)
        return worker

    def _start(self) -> WorkerProcess:
        if not self._is_registered:
            # At the first start, because importing the package must have no effects.
            self._is_registered = True
            atexit.register(self._close_all)
        try:
            return WorkerProcess(self._variables)
        except OSError as error:
            raise WorkerDiedError(f"a worker process cannot start: {error}") from error

    def _give_back(self, worker: WorkerProcess, *, is_usable: bool) -> None:
        self._busy.discard(worker)
        if is_usable:
            self._idle.append(worker)
        else:
            worker.kill()
            worker.close()

    def _close_idle(self) -> None:
        # Killed, because closing one would wait for its import.
        for worker in tuple(self._starting):
            worker.kill()
        while self._idle:
            self._idle.pop().close(_END_SECONDS)

    def _close_all(self) -> None:
        if self._process == os.getpid():
            self._close_idle()
            for worker in tuple(self._busy):
                worker.kill()
