"""Workers that import a slow module in advance."""

import os
import threading
from collections.abc import Mapping

from typing_extensions import override

from ors_server.processes.offload.offload_limits import OffloadLimits
from ors_server.processes.offload.worker_pool import WorkerPool
from ors_server.processes.offload.worker_process import WorkerCall, WorkerProcess

_LOAD = "ors_server.processes.offload.worker_program:load"
_LIMITS = OffloadLimits(cpu_seconds=60.0)
"""Of one import."""


class PreparedPool(WorkerPool):
    """Workers that import a module when they start, in the background; one that ended is replaced at once.

    The limits of a call count from when a worker is ready for it. One worker starts at a time, and a call
    takes the first free one.
    """

    def __init__(
        self, module: str, size: int | None = None, variables: Mapping[str, str] | None = None
    ) -> None:
        """Start nothing yet; the default size is the number of processors, up to 4.

        Args:
            variables: Environment variables of the workers, besides this process's.
        """
        super().__init__(size or min(4, os.cpu_count() or 1), variables)
        self._module = module

    def prepare(self) -> None:
        """Start a worker unless there is one; returns at once."""
        self._forget_parents()
        with self._changed:
            if not self._idle and not self._busy:
                self._start_another()

    @property
    def is_ready(self) -> bool:
        """Whether a worker is waiting for a call."""
        return self._process == os.getpid() and bool(self._idle)

    @override
    def _forget(self) -> None:
        super()._forget()
        self._changed = threading.Condition()
        self._is_starting = False
        # Calls that wait for a worker: the error of a failed start goes to one of them.
        self._waiting = 0
        self._failure: Exception | None = None

    @override
    def _take(self) -> WorkerProcess:
        with self._changed:
            self._waiting += 1
            try:
                while not self._idle:
                    self._start_another()
                    self._changed.wait()
                    # One waiting call gets the error; the next one that waits starts another worker and gets
                    # its own.
                    failure, self._failure = self._failure, None
                    if failure is not None:
                        raise failure
            finally:
                self._waiting -= 1
            worker = self._idle.pop()
            self._busy.add(worker)
            return worker

    @override
    def _give_back(self, worker: WorkerProcess, *, is_usable: bool) -> None:
        super()._give_back(worker, is_usable=is_usable)
        with self._changed:
            if not is_usable:
                self._start_another()
            self._changed.notify_all()

    def _start_another(self) -> None:
        if not self._is_starting and len(self._idle) + len(self._busy) < self._size:
            self._is_starting = True
            threading.Thread(target=self._add, name="offload-start", daemon=True).start()

    def _add(self) -> None:
        worker, failure = None, None
        try:
            worker = self._start()
            self._starting.add(worker)
            worker.ask(WorkerCall(_LOAD, (self._module,), _LIMITS)).open()
        except Exception as error:  # noqa: BLE001  (it is for the calls that wait)
            failure = error
        with self._changed:
            self._is_starting = False
            if worker is not None:
                self._starting.discard(worker)
                if failure is None:
                    self._idle.append(worker)
            # A failed start in the background is not kept for a call that comes much later.
            self._failure = failure if self._waiting else None
            self._changed.notify_all()
        if worker is not None and failure is not None:
            worker.kill()
            worker.close()
