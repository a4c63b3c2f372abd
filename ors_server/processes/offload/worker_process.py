"""One worker process, from the side of its caller."""

import os
import pickle
import secrets
import select
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ors_server.processes.child_process import ChildProcess, worker_command
from ors_server.processes.child_variables import worker_variables
from ors_server.processes.offload.offload_errors import (
    CrashedError,
    OverCpuError,
    OverLimitError,
    OverMemoryError,
    WorkerDiedError,
    WorkerStalledError,
)
from ors_server.processes.offload.offload_limits import OffloadLimits
from ors_server.processes.offload.worker_program import (
    ANSWER,
    CALL,
    MAX_ERROR_BYTES,
    OVER_MEMORY,
    OVER_RESULT,
    RAISED,
)

_MODULE = "ors_server.processes.offload.worker_program"
_PIECE = 1 << 16
_MAX_MEBIBYTES = 512
"""A worker that once used more memory is not used again."""
_END_SECONDS = 2.0
"""Seconds that an idle worker may take to end by itself."""
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL})


class WorkerCall:
    """One call: what to run, within which limits; any thread may cancel it."""

    def __init__(self, path: str, arguments: tuple[Any, ...], limits: OffloadLimits) -> None:
        self.path = path
        self.arguments = arguments
        self.limits = limits
        self.number = secrets.randbits(64)
        """Its answer repeats it, so that no other text of the worker is taken for the answer."""
        self.is_cancelled = False
        self._worker: WorkerProcess | None = None
        # A call is cancelled by another thread than the one that runs it.
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """Kill the worker that runs it, or keep it from beginning."""
        with self._lock:
            self.is_cancelled = True
            if self._worker is not None:
                self._worker.kill()

    def begin(self, worker: "WorkerProcess") -> None:
        """Set the worker that runs it; raises `WorkerDiedError` if it was cancelled."""
        with self._lock:
            if self.is_cancelled:
                raise WorkerDiedError("the call was cancelled before it began")
            self._worker = worker

    def end(self) -> None:
        """Forget the worker, which may run another call now."""
        with self._lock:
            self._worker = None

    def packed(self) -> tuple[bytes, bytes]:
        """Return it as a worker reads it: the head, and the arguments, which may be long."""
        limits, path = self.limits, self.path.encode()
        arguments = pickle.dumps(self.arguments, pickle.HIGHEST_PROTOCOL)
        sizes = (limits.memory_bytes, limits.result_bytes, len(path), len(arguments))
        return CALL.pack(self.number, limits.cpu_seconds, *sizes) + path, arguments


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """A worker's answer to one call."""

    outcome: int
    value: bytes
    limits: OffloadLimits

    def open(self) -> Any:
        """Return the function's result.

        Raises:
            OverLimitError: It exceeded a limit.
            Exception: The function's error.
        """
        if self.outcome == OVER_MEMORY:
            raise OverMemoryError(f"it takes more than {self.limits.memory_bytes} bytes of memory")
        if self.outcome == OVER_RESULT:
            raise OverLimitError(f"its result has more than {self.limits.result_bytes} bytes")
        result: Any = pickle.loads(self.value)  # noqa: S301  (written by our own program)
        if self.outcome == RAISED:
            raise result
        return result


class WorkerProcess:
    """A process that runs one call at a time.

    It runs in a folder that is made for it and removed when it ends, so that a function that writes files
    where it runs leaves none in the folder of this process.
    """

    def __init__(self, variables: Mapping[str, str] | None = None, folder: str | None = None) -> None:
        """Start it; raises `OSError` if that is not possible.

        Args:
            variables: Environment variables besides those that every worker gets.
            folder: The folder in which it runs, which is kept; by default a temporary one, or that of this
                process where no temporary folder can be made.
        """
        self._temporary = "" if folder else _make_folder()
        try:
            # The worker removes its folder, too, because this process may be killed before it does so.
            self._child = ChildProcess(
                worker_command(_MODULE, self._temporary),
                variables=worker_variables(variables),
                folder=folder or self._temporary or None,
            )
        except OSError:
            self._remove_folder()
            raise
        self.is_worn = False
        """Whether it used so much memory that it should be ended."""

    def ask(self, worker_call: WorkerCall) -> WorkerAnswer:
        """Run one call.

        Raises:
            OverLimitError: It exceeded a limit, and the worker was killed for it.
            WorkerLostError: There is no answer, and the input is not the reason.
        """
        # One deadline for sending, working and receiving together.
        deadline = time.monotonic() + worker_call.limits.wall_seconds
        worker_call.begin(self)
        try:
            # Sending fails if the worker has ended, and its status says why.
            if not all(self._send(piece, deadline) for piece in worker_call.packed()):
                raise self._explain_end(worker_call)
            if (header := self._receive(ANSWER.size, deadline)) is None:
                raise self._explain_end(worker_call)
            number, outcome, mebibytes, length = ANSWER.unpack(header)
            longest = max(worker_call.limits.result_bytes, MAX_ERROR_BYTES)
            # A library in C may print to any descriptor: only the answer to this very call counts.
            if number != worker_call.number or outcome > OVER_RESULT or length > longest:
                raise WorkerDiedError("a worker process wrote something else than an answer, so it is ended")
            if (value := self._receive(length, deadline)) is None:
                raise self._explain_end(worker_call)
        finally:
            worker_call.end()
        # Freed memory seldom returns to the system: a worker that grew stays large.
        self.is_worn = outcome == OVER_MEMORY or mebibytes > _MAX_MEBIBYTES
        return WorkerAnswer(outcome, value, worker_call.limits)

    def kill(self) -> None:
        """Kill it at once, with what it started."""
        if self._child.is_alive():
            self._child.kill()

    def close(self, patience: float = 0.0) -> None:
        """End it, and kill it after `patience` seconds."""
        try:
            self._child.end(patience)
        finally:
            self._remove_folder()

    def _remove_folder(self) -> None:
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _send(self, data: bytes, deadline: float) -> bool:
        """Write everything; return whether the worker still runs."""
        left = memoryview(data)
        while left:
            self._wait(self._child.input, select.POLLOUT, deadline)
            try:
                left = left[os.write(self._child.input, left[: 16 * _PIECE]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                return False
        return True

    def _receive(self, length: int, deadline: float) -> bytes | None:
        """Read this many bytes; `None` if the worker has ended."""
        read = bytearray()
        while len(read) < length:
            self._wait(self._child.output, select.POLLIN, deadline)
            try:
                piece = os.read(self._child.output, min(length - len(read), 16 * _PIECE))
            except BlockingIOError:
                continue
            if not piece:
                return None
            read += piece
        return bytes(read)

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(max(0.0, 1000 * (deadline - time.monotonic()))):
            raise WorkerStalledError(
                "a worker process did not finish in time, although it used little processor time"
            )

    def _explain_end(self, worker_call: WorkerCall) -> Exception:
        # A closed pipe is seen a little before the process has ended.
        status = self._child.wait(_END_SECONDS)
        if status is None:
            return WorkerDiedError("a worker process closed its pipe")
        # The default action of the worker's processor timer; see `_limited` in its program.
        if status == -signal.SIGPROF:
            return OverCpuError(
                f"it takes more than {worker_call.limits.cpu_seconds:g} seconds of the processor"
            )
        if -status in _CRASHES:
            return CrashedError(f"the interpreter crashed over it: {signal.Signals(-status).name}")
        how = f"with status {status}" if status >= 0 else f"by signal {-status}"
        return WorkerDiedError(f"a worker process was ended {how}")


def _make_folder() -> str:
    """Return a new folder; empty where none can be made, as in a container that is read-only."""
    try:
        return tempfile.mkdtemp(prefix="ors-worker-")
    except OSError:
        return ""
