"""Starts and ends child processes, such as a worker: a clean interpreter that runs `main` of one module."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ors_server.offload.child_variables import worker_variables

_PROGRAM = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from {module} import main; main()"


def worker_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `main` of a module, which is found where this process finds it.

    `main` must end when standard input does; `arguments` are its `sys.argv[2:]`.
    """
    return [sys.executable, "-P", "-c", _PROGRAM.format(module=module), json.dumps(sys.path), *arguments]


class ChildProcess:
    """A process in a session of its own; its pipes never block."""

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
        self._process = subprocess.Popen(  # noqa: S603  (the command is the server's or an author's)
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=worker_variables() if variables is None else variables,
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
        """Kill it and everything that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def close_pipes(self) -> None:
        """Close both its pipes."""
        for pipe in self._pipes:
            pipe.close()

    def end(self, patience: float = 0.0) -> int:
        """Close its pipes, kill its process group after `patience` seconds, and return its status."""
        self.close_pipes()
        if patience:
            self.wait(patience)
        self.kill()
        return self._process.wait()
