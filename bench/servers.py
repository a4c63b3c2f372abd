"""Servers to measure: started on one core, watched from outside, stopped at the end."""

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[1]
PROGRAMS = Path(__file__).parent / "programs"
ENVIRONMENT = f"{PROGRAMS / 'echo_environment.py'}:Echo"
SERVER_CORE, *_, LOAD_CORE = sorted(os.sched_getaffinity(0)) * 2
"""Servers have one core to themselves; the load comes from another, if there is one."""
COMMAND = Path(sys.executable).with_name("ors-server")
"""This project's command line, as installed."""
OPENREWARD = "openreward 0.1.167"
"""The peer, as the table names it; its lock file says the version."""
_PROCESS_CLOCK = 2
"""The kind of a process's clock in the id of it: CPUCLOCK_SCHED in linux/posix-timers.h."""
_NO_VARIABLES: Mapping[str, str] = MappingProxyType({})
START_LIMIT = 60.0
"""Seconds that a server may take to answer."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server process that listens on loopback."""

    pid: int
    port: int

    def cpu_seconds(self) -> float:
        """Return the CPU time that the process has used, user and system."""
        return cpu_seconds(self.pid)

    def resident_bytes(self) -> int:
        """Return the memory of its own that the process holds: resident pages that are not a file's."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def cpu_seconds(process_id: int) -> float:
    """Return the processor time of a process, ended threads included, in nanoseconds' precision."""
    return time.clock_gettime((~process_id << 3) | _PROCESS_CLOCK)


def pin_load() -> None:
    """Move this process, which makes the load, away from the servers' core."""
    os.sched_setaffinity(0, {LOAD_CORE})


def ours(port: int) -> list[str]:
    """Return the command that serves the echo environment with this project's server."""
    return [str(COMMAND), "serve", ENVIRONMENT, "--port", str(port)]


def openreward_python() -> Path:
    """Return the interpreter that has the `openreward` package."""
    venvs = Path(os.environ.get("ORS_TEST_VENVS", ROOT / ".venvs"))
    return venvs / "openreward" / "bin" / "python"


def openreward(port: int) -> list[str]:
    """Return the command that serves the same environment with the `openreward` package."""
    return [str(openreward_python()), str(PROGRAMS / "openreward_server.py"), str(port)]


def bare(port: int, answer: Path) -> list[str]:
    """Return the command that answers the same bytes to every request, with the same HTTP server as ours."""
    return [sys.executable, str(PROGRAMS / "bare_asgi.py"), str(port), str(answer)]


def bare_mcp(port: int) -> list[str]:
    """Return the command that serves the same tool over MCP alone."""
    return [sys.executable, str(PROGRAMS / "bare_mcp.py"), str(port)]


def free_port() -> int:
    """Find a TCP port on loopback on which no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(
    command: Sequence[str], port: int, variables: Mapping[str, str] = _NO_VARIABLES
) -> Iterator[Server]:
    """Run a server on its core for the length of a with statement.

    Args:
        variables: Environment variables beside those of this process.

    Raises:
        RuntimeError: If it ends or does not answer in time.
    """
    pinned = ["taskset", "--cpu-list", str(SERVER_CORE), *command]
    # No peer writes anything down, so that ours does not either unless the command says so.
    everything = {**os.environ, "ORS_STORE": "memory", **variables}
    with subprocess.Popen(
        pinned, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT, env=everything
    ) as process:
        try:
            _wait_until_answering(process, port)
            yield Server(process.pid, port)
        finally:
            process.terminate()


def _wait_until_answering(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + START_LIMIT
    while time.monotonic() < deadline:
        if _answers(port):
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(0.1)
            raise RuntimeError(f"the server ended with status {status} before it answered: {process.args!r}")
    raise RuntimeError(f"the server did not answer within {START_LIMIT:g} seconds: {process.args!r}")


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/health")
        connection.getresponse()  # whatever it says, it is there
        return True
    return False
