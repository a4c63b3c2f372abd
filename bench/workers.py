"""Two hosts behind HAProxy: processor time a call of the front, and of the hosts compared with one host.

All of them write to one kind of store. The peer of the front is the same HAProxy with a single rule, before
as many servers: the difference is the price of looking for a session's id in all places.

The peer of two hosts is one server behind that HAProxy with as many sessions as each host has: with half of
them, half as many calls share one turn of the event loop and one transaction of the record, on one server as
on two hosts. A second peer is a pair of single servers, each with its own record, that share nothing but
the machine: what they cost more than one server is the price of two busy processes. In the rows of one host
of two, that host has all sessions, so that nothing but being one of several differs from a single server.

The servers take turns, and the median of the rounds counts.
"""

import asyncio
import json
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from uuid import uuid4

from bench import client, servers
from bench.report import Goal, Row
from ors_server.model.host_slot import slot_of
from ors_server.processes.host_processes import descendants
from ors_server.supervisor.haproxy import find_program
from ors_server.supervisor.supervising import inheritable
from tests.postgres import running_postgres

SESSIONS = 32
"""Sessions of a single server; two hosts have half as many each, or as many each."""
CALLS = 40
"""Calls of each session in a round."""
ROUNDS = 9
FRONT_GOAL = Goal("ratio", most=1.2)
HOST_GOAL = Goal("ratio", most=1.1)

_RULE = """
global
    maxconn 2000
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
frontend front
    bind fd@{descriptor}
    http-request set-var(txn.slot) req.hdr(X-Session-ID),crc32,mod({count})
    use_backend %[str(h),concat(,txn.slot)]
"""


@dataclass(frozen=True, slots=True)
class Group:
    """Processes that answer at a port."""

    port: int
    sessions: int
    hosts: list[int]
    """Process ids, as are the others."""
    fronts: list[int]
    is_uneven: bool = False
    """Whether the first of two hosts has all sessions."""

    def draw_sessions(self) -> list[str]:
        """Return ids of new sessions."""
        drawn: list[str] = []
        while len(drawn) < self.sessions:
            session_id = uuid4().hex
            if not self.is_uneven or slot_of(session_id) % 2 == 0:
                drawn.append(session_id)
        return drawn


def measure() -> list[Row]:
    """Load one host, the same behind HAProxy, two hosts, and two single servers, in turns."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)  # PostgreSQL's user must be able to enter it
        postgres = stack.enter_context(running_postgres(within=folder))
        rows: list[Row] = []
        for name in ("SQLite", "PostgreSQL"):
            places = [
                str(folder / f"{number}.db") if name == "SQLite" else postgres.create_database()
                for number in range(4)
            ]
            with ExitStack() as running:
                rows += _rows(name, _play(_groups(running, folder, places)))
        return rows


def _groups(stack: ExitStack, folder: Path, places: Sequence[str]) -> dict[str, Group]:
    """Start the servers of one kind of store."""
    ports = [servers.free_port() for _ in places]
    alone, first, second = (
        stack.enter_context(_serving(place, port)) for place, port in zip(places[:3], ports[:3], strict=True)
    )
    two = stack.enter_context(_serving(places[3], ports[3], "--workers", "2"))
    below = descendants(two)[1:]
    front, front_port = stack.enter_context(_simple_front(folder, ports[:1]))
    pair, pair_port = stack.enter_context(_simple_front(folder, ports[1:3]))
    hosts = [pid for pid in below if "haproxy" not in _name(pid)]
    fronts = [pid for pid in below if "haproxy" in _name(pid)]
    groups = {
        "alone": Group(ports[0], SESSIONS, [alone], []),
        "behind": Group(front_port, SESSIONS, [alone], [front]),
        f"behind {SESSIONS // 2}": Group(front_port, SESSIONS // 2, [alone], [front]),
    }
    groups["first of two"] = Group(ports[3], SESSIONS, hosts, fronts, is_uneven=True)
    for sessions in (SESSIONS, 2 * SESSIONS):
        groups[f"pair {sessions}"] = Group(pair_port, sessions, [first, second], [pair])
        groups[f"two {sessions}"] = Group(ports[3], sessions, hosts, fronts)
    return groups


def _play(groups: Mapping[str, Group]) -> dict[str, float]:
    """Play rounds; return the median processor time per call of each group's hosts, and of its front."""
    costs: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, group in groups.items():
            session_ids = group.draw_sessions()
            asyncio.run(client.create_sessions(group.port, session_ids))
            parts = {name: group.hosts, f"front of {name}": group.fronts}
            before = {part: sum(map(servers.cpu_seconds, pids)) for part, pids in parts.items()}
            asyncio.run(_call(group.port, session_ids))
            for part, pids in parts.items():
                cost = (sum(map(servers.cpu_seconds, pids)) - before[part]) / (group.sessions * CALLS) * 1e6
                costs.setdefault(part, []).append(cost)
    return {part: median(rounds) for part, rounds in costs.items()}


def _rows(store: str, costs: Mapping[str, float]) -> list[Row]:
    unit, doubled, half = "µs CPU/call", 2 * SESSIONS, SESSIONS // 2
    front, peer = costs[f"front of two {doubled}"], costs[f"front of pair {doubled}"]
    alone, behind = costs["alone"], "1 host behind HAProxy"
    rows = [
        Row(f"front, {store}", unit, front, peer, "HAProxy, one rule", FRONT_GOAL),
        Row(f"1 host behind HAProxy, {store}", unit, costs["behind"], alone, "1 host without HAProxy"),
        Row(
            f"1 host of 2, {SESSIONS} sessions, {store}", unit, costs["first of two"], costs["behind"], behind
        ),
    ]
    for sessions, single in ((SESSIONS, f"behind {half}"), (doubled, "behind")):
        name, two = f"2 hosts, {sessions} sessions, {store}", costs[f"two {sessions}"]
        rows += [
            Row(name, unit, two, costs[single], f"{behind}, {sessions // 2} sessions", HOST_GOAL),
            Row(name, unit, two, costs[f"pair {sessions}"], "2 servers that share nothing", HOST_GOAL),
        ]
    return rows


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
def _serving(record: str, port: int, *flags: str) -> Iterator[int]:
    command = [*servers.ours(port), "--store", record, "--json", *flags]
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
def _simple_front(folder: Path, ports: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Run HAProxy with one rule before servers; give its process and its own port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        descriptor = inheritable(listener)
        path = folder / f"rule_{len(ports)}.cfg"
        backends = (
            f"backend h{number}\n    server h{number} 127.0.0.1:{port}\n" for number, port in enumerate(ports)
        )
        path.write_text(_RULE.format(descriptor=descriptor, count=len(ports)) + "".join(backends))
        command = [find_program(), "-db", "-q", "-f", str(path)]
        with subprocess.Popen(command, pass_fds=[descriptor]) as process:
            try:
                yield process.pid, listener.getsockname()[1]
            finally:
                process.terminate()


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/exe").readlink().name
