"""Starts and ends child processes, such as a worker: a clean interpreter that runs `main` of one module.

What a child started ends with it, also processes that left its group: they are found as its descendants, and
by an entry of their environment, which processes inherit. One is missed if it left the group, has another
environment, and its parent had ended before the child was killed, or the child crashed. Where there is no
/proc (macOS), only the group ends.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from ors_server.processes.child_variables import CHILD_MARK, worker_variables
from ors_server.processes.host_processes import ProcessRow, descendants, kill_marked, process_row, send_signal

_HAS_PROC = os.path.exists("/proc/self/environ")  # noqa: PTH110  (once, at import)
_SWEEPS = 20
"""Number of sweeps for processes that start others while they are killed."""
_PAUSE = 0.001
"""Seconds between two sweeps."""
_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import main; main()"


def worker_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `main` of a module, which is found where this process finds it.

    `main` must end when standard input does; `arguments` are its `sys.argv[2:]`. The program may run in any
    folder: relative entries of `sys.path` start from the folder of this process.
    """
    # Entries that are not folders are kept: hooks of editable installations compare them by their text.
    path = [os.path.abspath(entry) if os.path.exists(entry or ".") else entry for entry in sys.path]  # noqa: PTH100, PTH110  (texts, which may be empty)
    return [sys.executable, "-P", "-c", _PROGRAM.format(module=module), json.dumps(path), *arguments]


class ChildProcess:
    """A process that leads its own session; its pipes never block."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        descriptors: Sequence[int] = (),
        stderr: int | None = None,
        variables: Mapping[str, str] | None = None,
        folder: str | None = None,
    ) -> None:
        """Start a program, which must end when standard input does.

        Args:
            command: The program and its arguments.
            descriptors: Further descriptors that it inherits.
            stderr: The descriptor of its standard error; by default this process's.
            variables: All its environment variables; by default those of `worker_variables`.
            folder: The folder in which it runs; by default this process's.

        Raises:
            OSError: The process cannot be started.
        """
        # A child of a child has the marks of both, so that it ends with either.
        mark = os.environ.get(CHILD_MARK, "") + secrets.token_hex(8)
        self._mark = f"{CHILD_MARK}={mark}"
        own = worker_variables() if variables is None else variables
        self._process = subprocess.Popen(  # noqa: S603  (the command is the server's or an author's)
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**own, CHILD_MARK: mark},
            cwd=folder,
            bufsize=0,
            start_new_session=True,
            pass_fds=descriptors,
        )
        assert self._process.stdin is not None  # noqa: S101  (requested above)
        assert self._process.stdout is not None  # noqa: S101  (requested above)
        self._pipes = (self._process.stdin, self._process.stdout)
        self.input, self.output = (pipe.fileno() for pipe in self._pipes)
        """Descriptors of its standard input and output."""
        # A child that hangs must not hold its caller's thread beyond the deadline.
        for descriptor in (self.input, self.output):
            os.set_blocking(descriptor, False)

    @property
    def pid(self) -> int:
        """The process's id, which is also that of its group."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Return whether it has not ended."""
        return self._process.poll() is None

    def wait(self, seconds: float | None = None) -> int | None:
        """Return its status, for a signal its negative number; `None` if it still runs."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def close_input(self) -> None:
        """End its input, and so the program if it is idle."""
        self._pipes[0].close()

    def kill(self) -> None:
        """Kill it, its group and its descendants."""
        below = self.rows_below()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        kill_rows(below)

    def kill_left(self) -> None:
        """Kill what it started and what is left of that, once it has ended; takes some milliseconds."""
        # A process that is being killed may start another one in the meantime.
        for _ in range(_SWEEPS):
            if not _HAS_PROC or not kill_marked(self._mark, begins=True):
                return
            time.sleep(_PAUSE)

    def rows_below(self) -> list[ProcessRow]:
        """Return its descendants."""
        return [row for pid in descendants(self.pid)[1:] if (row := process_row(pid)) is not None]

    def close_pipes(self) -> None:
        """Close both its pipes."""
        for pipe in self._pipes:
            pipe.close()

    def end(self, patience: float = 0.0) -> int:
        """Close its pipes, kill it and what it started after `patience` seconds, and return its status."""
        below = self.rows_below()  # once it has ended, they are not its descendants
        self.close_pipes()
        if patience:
            self.wait(patience)
        self.kill()
        status = self._process.wait()
        kill_rows(below)
        self.kill_left()
        return status


def kill_rows(rows: Sequence[ProcessRow]) -> None:
    """Kill processes that were looked up; one that ended meanwhile is left alone."""
    for row in rows:
        send_signal(row.pid, signal.SIGKILL, partial(_is_same, row))


def _is_same(row: ProcessRow, pid: int) -> bool:
    # The start time tells a process from a later one with the same number.
    now = process_row(pid)
    return now is not None and now.started == row.started
