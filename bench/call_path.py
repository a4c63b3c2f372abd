"""The path of one call: own functions, files and changes of file between a request and its answer.

A `/call` of ORS and a `tools/call` of MCP on an idle session are traced in the server's event loop, beside the
same call of the `openreward` server. Fewer hops are easier to read and cheaper, so the processor time per call
is measured in the same run. What is counted is the same on every machine, whatever else runs there.
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
from uuid import uuid4

from bench import client, mcp_calls, servers
from bench.report import Goal, Row

WARM_UP = 20
"""Calls before the traced one, after which nothing is done for the first time."""
LIMIT = 30.0
"""Seconds that a trace may take to appear."""
GOALS = {"functions": 100, "files": 20, "changes of file": 55}
"""Figures of one `/call` that count as good enough."""

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
    ours = trace_ours("memory")
    recorded = trace_ours("sqlite")["ORS /call"]
    peer = trace_peer()
    rows = [
        Row(f"ORS /call, {store}", figure, path.figures[figure], peer.figures[figure], servers.OPENREWARD, goal)
        for store, path in (("in memory", ours["ORS /call"]), ("SQLite", recorded))
        for figure, goal in ((name, Goal("ours", most=most)) for name, most in GOALS.items())
    ]
    name = f"MCP tools/call, era {mcp_calls.MODERN}"
    path = ours["MCP tools/call"].figures
    return rows + [Row(name, figure, path[figure], peer.figures[figure], "its ORS /call") for figure in path]


def trace_ours(store: str) -> dict[str, CallPath]:
    """Trace an ORS `/call` and an MCP `tools/call` of this project's server.

    Args:
        store: `"memory"` or `"sqlite"`.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = servers.free_port()
        where = "memory" if store == "memory" else f"sqlite:///{folder / 'record.db'}"
        command = [*_traced("ors_server", folder / "trace"), *servers.ours(port), "--store", where]
        server = stack.enter_context(servers.running(command, port))
        return asyncio.run(_trace_both(server, folder / "trace"))


def trace_peer() -> CallPath:
    """Trace a `/call` of the `openreward` server."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = servers.free_port()
        python, *program = servers.openreward(port)
        command = [python, *_traced("openreward", folder / "trace")[1:], *program]
        server = stack.enter_context(servers.running(command, port))
        return asyncio.run(_trace_one(server, folder / "trace"))


def _traced(package: str, target: Path) -> list[str]:
    return [sys.executable, str(servers.PROGRAMS / "traced_server.py"), package, str(target)]


async def _trace_both(server: servers.Server, target: Path) -> dict[str, CallPath]:
    return {
        "ORS /call": await _trace_one(server, target),
        "MCP tools/call": await _trace_mcp(server, target),
    }


async def _trace_one(server: servers.Server, target: Path) -> CallPath:
    name = f"path-{uuid4().hex}"
    await client.create_sessions(server.port, [name])
    async with client.connected(server.port) as connection:
        body = {"name": "echo", "input": {"text": "hello"}}

        async def call() -> None:
            _, answer = await connection.post("/echo/call", {"X-Session-ID": name}, body)
            if b"hello" not in answer:
                raise RuntimeError(f"this is no answer of the echo tool: {answer!r}")

        return await _trace(server, target, call)


async def _trace_mcp(server: servers.Server, target: Path) -> CallPath:
    name = f"path-{uuid4().hex}"
    await client.create_sessions(server.port, [name])
    async with client.connected(server.port) as connection:

        async def call() -> None:
            await mcp_calls.call_echo(connection, f"/sessions/{name}/mcp", mcp_calls.MODERN, 1)

        return await _trace(server, target, call)


async def _trace(server: servers.Server, target: Path, call: Call) -> CallPath:
    for _ in range(WARM_UP):
        await call()
    await asyncio.sleep(0.2)  # what the last call left to do is not the next one's
    os.kill(server.pid, signal.SIGUSR1)
    await asyncio.sleep(0.05)
    await call()
    os.kill(server.pid, signal.SIGUSR2)
    deadline = time.monotonic() + LIMIT
    while not target.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(f"the server wrote no trace within {LIMIT:g} seconds")
        await asyncio.sleep(0.02)
    entries = json.loads(target.read_text())
    target.unlink()
    return CallPath([(file, function, line) for file, function, line in entries])
