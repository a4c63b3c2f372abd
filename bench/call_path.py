"""The path of one call: own functions, files and changes of file between a request and its answer.

A `/call` of ORS and a `tools/call` of MCP on an idle session are traced in the server's event loop, and so is
the same call of the `openreward` server. The counts do not depend on the machine or on its load.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self
from uuid import uuid4

from bench import client, mcp_calls, servers
from bench.report import Goal, Row

WARM_UP = 20
"""Calls before the traced ones, after which nothing is done for the first time."""
TRACES = 5
"""Traces of one call; the shortest counts, because timers of the server fall into the others."""
LIMIT = 30.0
"""Seconds that a trace may take to appear."""
GOALS = {"functions": 100, "files": 20, "changes of file": 55}
"""Figures of one `/call` that count as good enough."""

ORS, MCP = "ORS /call", "MCP tools/call"

Call = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class CallPath:
    """What one call entered, in order."""

    entries: list[tuple[str, str, int]]
    """File, function and first line."""

    @property
    def figures(self) -> dict[str, int]:
        """The numbers of distinct functions and files, and how often the next entry is in another file."""
        files = [file for file, _, _ in self.entries]
        return {
            "functions": len(set(self.entries)),
            "files": len(set(files)),
            "changes of file": sum(first != second for first, second in pairwise(files)),
        }


def measure() -> list[Row]:
    """Trace a call of each kind, and the peer's."""
    ours, peer = trace_ours("memory"), trace_peer()
    paths = {
        "ORS /call, in memory": ours[ORS],
        "ORS /call, SQLite": trace_ours("sqlite")[ORS],
        "MCP tools/call, in memory": ours[MCP],
    }
    return [
        Row(name, figure, value, peer.figures[figure], servers.OPENREWARD, _goal(name, figure))
        for name, path in paths.items()
        for figure, value in path.figures.items()
    ]


def _goal(name: str, figure: str) -> Goal | None:
    return Goal("ours", most=GOALS[figure]) if name.startswith("ORS") else None


def trace_ours(store: str) -> dict[str, CallPath]:
    """Trace an ORS `/call` and an MCP `tools/call` of this project's server.

    Args:
        store: `"memory"` or `"sqlite"`.
    """
    with tempfile.TemporaryDirectory() as folder:
        port, target = servers.free_port(), Path(folder) / "trace"
        place = "memory" if store == "memory" else str(Path(folder) / "record.db")
        command = [sys.executable, *_traced("ors_server", target), *servers.ours(port), "--store", place]
        with servers.running(command, port) as server, _Tracer(server, target) as tracer:
            return {ORS: tracer.trace(tracer.call_ors), MCP: tracer.trace(tracer.call_mcp)}


def trace_peer() -> CallPath:
    """Trace a `/call` of the `openreward` server."""
    with tempfile.TemporaryDirectory() as folder:
        port, target = servers.free_port(), Path(folder) / "trace"
        python, *program = servers.openreward(port)
        command = [python, *_traced("openreward", target), *program]
        with servers.running(command, port) as server, _Tracer(server, target) as tracer:
            return tracer.trace(tracer.call_ors)


def _traced(package: str, target: Path) -> list[str]:
    return [str(servers.PROGRAMS / "traced_server.py"), package, str(target)]


class _Tracer:
    """One session on a server, whose calls are traced one at a time."""

    def __init__(self, server: servers.Server, target: Path) -> None:
        self._server = server
        self._target = target
        self._name = f"path-{uuid4().hex}"

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self._runner = self._stack.enter_context(asyncio.Runner())
        self._runner.run(client.create_sessions(self._server.port, [self._name]))
        self._connection = self._runner.run(client.connect(self._server.port))
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()
        self._stack.close()

    def trace(self, call: Call) -> CallPath:
        """Trace a call; the shortest of several traces."""
        for _ in range(WARM_UP):
            self._runner.run(call())
        return min((self._trace_once(call) for _ in range(TRACES)), key=lambda path: len(path.entries))

    def _trace_once(self, call: Call) -> CallPath:
        time.sleep(0.2)  # the server may still finish what the call before left to do
        os.kill(self._server.pid, signal.SIGUSR1)
        time.sleep(0.005)
        self._runner.run(call())
        os.kill(self._server.pid, signal.SIGUSR2)
        deadline = time.monotonic() + LIMIT
        while not self._target.exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"the server wrote no trace within {LIMIT:g} seconds")
            time.sleep(0.02)
        entries = json.loads(self._target.read_text())
        self._target.unlink()
        return CallPath([(file, function, line) for file, function, line in entries])

    async def call_ors(self) -> None:
        """Make a `/call`."""
        body = {"name": "echo", "input": {"text": "hello"}}
        _, answer = await self._connection.post("/echo/call", {"X-Session-ID": self._name}, body)
        if b"hello" not in answer:
            raise RuntimeError(f"expected an answer of the echo tool, got {answer!r}")

    async def call_mcp(self) -> None:
        """Make a `tools/call`."""
        path = f"/sessions/{self._name}/mcp"
        await mcp_calls.call_echo(self._connection, path, mcp_calls.MODERN, 1)
