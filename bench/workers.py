"""Two hosts behind HAProxy: processor time a call of the front, and of the hosts compared with one host.

All of them write to SQLite. The peer of the front is the same HAProxy with a single rule, before one host:
the difference is the price of looking for a session's id in all places. The servers take turns, and the least
processor time of a round counts.
"""

import asyncio
import json
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from bench import client, servers
from bench.report import Goal, Row
from ors_server.processes.host_processes import descendants
from ors_server.supervisor.haproxy import find_program
from ors_server.supervisor.supervising import inheritable

SESSIONS = 32
CALLS = 40
"""Calls of each session in a round."""
ROUNDS = 5
FRONT_GOAL = Goal("ratio", most=1.2)
HOST_GOAL = Goal("ratio", most=1.1)

_ONE_RULE = """
global
    maxconn 2000
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
frontend front
    bind fd@{descriptor}
    http-request set-var(txn.slot) req.hdr(X-Session-ID),crc32,mod(1)
    use_backend %[str(h),concat(,txn.slot)]
backend h0
    server h0 127.0.0.1:{port}
"""


def measure() -> list[Row]:
    """Load one host, the same behind HAProxy with one rule, and two hosts behind the front, in turns."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        alone_port, two_port = servers.free_port(), servers.free_port()
        alone = stack.enter_context(_serving(folder / "alone.db", alone_port))
        two = stack.enter_context(_serving(folder / "two.db", two_port, "--workers", "2"))
        front, front_port = stack.enter_context(_one_rule(folder, alone_port))
        hosts = [pid for pid in descendants(two)[1:] if "haproxy" not in _name(pid)]
        our_front = next(pid for pid in descendants(two) if "haproxy" in _name(pid))
        least: dict[str, float] = {}
        for _ in range(ROUNDS):
            _note(least, asyncio.run(_load(alone_port)), {"alone": [alone]}, alone_port)
            _note(least, asyncio.run(_load(front_port)), {"peer front": [front]}, front_port)
            _note(least, asyncio.run(_load(two_port)), {"front": [our_front], "hosts": hosts}, two_port)
    return [
        Row("front", "µs CPU/call", least["front"], least["peer front"], "HAProxy, one rule", FRONT_GOAL),
        Row("2 hosts, SQLite", "µs CPU/call", least["hosts"], least["alone"], "1 host", HOST_GOAL),
    ]


def _note(least: dict[str, float], names: list[str], groups: dict[str, list[int]], port: int) -> None:
    """Play a round with sessions that exist, and keep the least processor time per call of each group."""
    before = {name: sum(map(_cpu_seconds, pids)) for name, pids in groups.items()}
    asyncio.run(_call(port, names))
    for name, pids in groups.items():
        cost = (sum(map(_cpu_seconds, pids)) - before[name]) / (SESSIONS * CALLS) * 1e6
        least[name] = min(least.get(name, cost), cost)


async def _load(port: int) -> list[str]:
    names = [uuid4().hex for _ in range(SESSIONS)]
    await client.create_sessions(port, names)
    return names


async def _call(port: int, names: list[str]) -> None:
    async def play(name: str) -> None:
        async with client.connected(port) as connection:
            for _ in range(CALLS):
                call = {"name": "echo", "input": {"text": "hello"}}
                status, body = await connection.post("/echo/call", {"X-Session-ID": name}, call)
                if b"hello" not in body:
                    raise RuntimeError(f"a call was answered with {status}: {body[:200]!r}")

    await asyncio.gather(*map(play, names))


@contextmanager
def _serving(record: Path, port: int, *flags: str) -> Iterator[int]:
    command = [*servers.ours(port), "--store", str(record), "--json", *flags]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=servers.ROOT
    ) as process:
        try:
            assert process.stdout is not None
            json.loads(process.stdout.readline())
            yield process.pid
        finally:
            process.terminate()


@contextmanager
def _one_rule(folder: Path, port: int) -> Iterator[tuple[int, int]]:
    """Run HAProxy with one rule before a port; give its process and its own port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        descriptor = inheritable(listener)
        path = folder / "one_rule.cfg"
        path.write_text(_ONE_RULE.format(descriptor=descriptor, port=port))
        command = [find_program(), "-db", "-q", "-f", str(path)]
        with subprocess.Popen(command, pass_fds=[descriptor]) as process:
            try:
                yield process.pid, listener.getsockname()[1]
            finally:
                process.terminate()


def _cpu_seconds(pid: int) -> float:
    """Return the processor time of all threads of a process, in nanoseconds' precision."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/exe").readlink().name
