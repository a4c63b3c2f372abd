"""ORS `/call` on a trivial tool: calls per second beside the `openreward` server and a bare ASGI application.

The servers share one core and wrk has another. They take turns, and medians count, so that whatever else the
machine does hits all of them alike. CPU per call is measured beside the rate, since it does not care who else
wanted the core.
"""

import asyncio
import json
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from bench import client, servers
from bench.report import Goal, Row

SESSIONS = 64
TARGET = 5.0
"""The server's calls per second are at least this many times openreward's."""

PATH = "/echo/call"
"""The path with the environment's name, which openreward answers without a redirect."""
BODY = json.dumps({"name": "echo", "input": {"text": "hello"}})


@dataclass(slots=True)
class Samples:
    """What one server came to, round by round."""

    rates: list[float] = field(default_factory=list)
    """Calls per second."""
    costs: list[float] = field(default_factory=list)
    """Seconds of the server's CPU per call."""
    tails: list[float] = field(default_factory=list)
    """Milliseconds within which 99 of 100 calls were answered."""

    @property
    def rate(self) -> float:
        """The median rate."""
        return statistics.median(self.rates)

    @property
    def cost(self) -> float:
        """The median cost, in microseconds."""
        return statistics.median(self.costs) * 1e6

    @property
    def tail(self) -> float:
        """The median of the tails."""
        return statistics.median(self.tails)


def measure(seconds: int = 2, rounds: int = 5) -> list[Row]:
    """Load the three servers in turns."""
    names = [f"bench-{uuid4().hex}" for _ in range(SESSIONS)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sessions, answer = folder / "sessions", folder / "answer"
        sessions.write_text("\n".join(names))

        def start(command: Callable[[int], list[str]]) -> servers.Server:
            port = servers.free_port()
            return stack.enter_context(servers.running(command(port), port))

        ours, openreward = start(servers.ours), start(servers.openreward)
        for server in (openreward, ours):
            asyncio.run(client.create_sessions(server.port, names))
            answer.write_bytes(asyncio.run(_one_answer(server.port, names[0])))
        bare = start(lambda port: servers.bare(port, answer))

        samples = {server: Samples() for server in (ours, openreward, bare)}
        for server in samples:
            load(server, sessions, 1)
        for _ in range(rounds):
            for server, found in samples.items():
                sample(server, sessions, seconds, found)
    return _rows(*samples.values())


def _rows(ours: Samples, openreward: Samples, bare: Samples) -> list[Row]:
    name = f"ORS /call, {SESSIONS} sessions"
    ceiling = "bare ASGI app, same bytes"
    return [
        Row(name, "calls/s", ours.rate, openreward.rate, servers.OPENREWARD, Goal("ratio", least=TARGET)),
        Row(name, "calls/s", ours.rate, bare.rate, ceiling),
        Row(name, "µs CPU", ours.cost, openreward.cost, servers.OPENREWARD),
        Row(name, "µs CPU", ours.cost, bare.cost, ceiling),
        Row(name, "ms at p99", ours.tail, openreward.tail, servers.OPENREWARD),
    ]


async def _one_answer(port: int, session_id: str) -> bytes:
    async with client.connected(port) as connection:
        _, answer = await connection.post(PATH, {"X-Session-ID": session_id}, json.loads(BODY))
    if b'"text":"hello"' not in answer.replace(b" ", b""):
        raise RuntimeError(f"expected an answer of the echo tool, got {answer!r}")
    return answer


def sample(server: servers.Server, sessions: Path, seconds: int, samples: Samples) -> None:
    """Load a server, and note what it came to."""
    before = server.cpu_seconds()
    done = load(server, sessions, seconds)
    samples.rates.append(done["requests"] / done["seconds"])
    samples.costs.append((server.cpu_seconds() - before) / done["requests"])
    samples.tails.append(done["p99_ms"])


def load(server: servers.Server, sessions: Path, seconds: int) -> dict[str, float]:
    """Load a server from another core with as many connections as there are sessions.

    Returns:
        `requests`, `seconds`, `p50_ms` and `p99_ms`.

    Raises:
        RuntimeError: If a call failed.
    """
    script = str(servers.PROGRAMS / "calls.lua")
    pinned = ["taskset", "--cpu-list", str(servers.LOAD_CORE)]
    wrk = [
        "wrk",
        "-t1",
        f"-c{SESSIONS}",
        f"-d{seconds}s",
        "--timeout=30s",  # where others want the core, two seconds are not a failure
        "-s",
        script,
        f"http://127.0.0.1:{server.port}",
        "--",
    ]
    command = [*pinned, *wrk, PATH, str(sessions), BODY]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    done: dict[str, float] = json.loads(printed.splitlines()[-1])
    if done["failed"]:
        raise RuntimeError(f"{done['failed']} calls failed: {printed}")
    return done
