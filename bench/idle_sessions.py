"""Sessions that no client plays: the memory that one holds, and how many are made and ended per second."""

import asyncio
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from uuid import uuid4

import uvloop

from bench import client, servers
from bench.report import Goal, Row

MAX_KIB = 10.0
"""KiB that an idle session may hold."""
TARGET = 2.0
"""Sessions made and ended per second are at least this many times openreward's."""
CONNECTIONS = 64


@dataclass(slots=True)
class Samples:
    """What one server came to, round by round."""

    rates: list[float] = field(default_factory=list)
    """Sessions made and ended per second."""
    costs: list[float] = field(default_factory=list)
    """Seconds of the server's CPU per session."""

    @property
    def rate(self) -> float:
        """The median rate."""
        return statistics.median(self.rates)

    @property
    def cost(self) -> float:
        """The median cost, in microseconds."""
        return statistics.median(self.costs) * 1e6

    def add(self, server: servers.Server, pairs: int) -> None:
        """Measure once.

        Args:
            server: The server.
            pairs: Sessions to make and end.
        """
        cpu, started = server.cpu_seconds(), time.perf_counter()
        _make_and_end_sessions(server, pairs)
        self.rates.append(pairs / (time.perf_counter() - started))
        self.costs.append((server.cpu_seconds() - cpu) / pairs)


def measure(sessions: int = 2_000, pairs: int = 1_280, rounds: int = 5) -> list[Row]:
    """Make sessions on both servers, in turns.

    Args:
        sessions: Idle sessions whose memory is measured.
        pairs: Sessions that are made and ended per measurement of the rate.
        rounds: Measurements of the rate per server; the median counts.
    """
    servers.pin_load()
    with ExitStack() as stack:

        def start(command: Callable[[int], list[str]]) -> servers.Server:
            port = servers.free_port()
            return stack.enter_context(servers.running(command(port), port))

        ours, openreward = start(servers.ours), start(servers.openreward)
        samples = {server: Samples() for server in (ours, openreward)}
        for server in samples:
            _make_and_end_sessions(server, pairs // 4)
        kib = {server: _kib_per_session(server, sessions) for server in samples}
        for _ in range(rounds):
            for server, found in samples.items():
                found.add(server, pairs)
    return _rows(samples[ours], samples[openreward], kib[ours], kib[openreward], sessions)


def _rows(ours: Samples, openreward: Samples, our_kib: float, their_kib: float, sessions: int) -> list[Row]:
    memory, turnover = Goal("ours", most=MAX_KIB), Goal("ratio", least=TARGET)
    return [
        Row(f"idle session, of {sessions:,}", "KiB", our_kib, their_kib, servers.OPENREWARD, memory),
        Row("create + delete", "sessions/s", ours.rate, openreward.rate, servers.OPENREWARD, turnover),
        Row("create + delete", "µs CPU", ours.cost, openreward.cost, servers.OPENREWARD),
    ]


def _kib_per_session(server: servers.Server, sessions: int) -> float:
    before = server.resident_bytes()
    uvloop.run(client.create_sessions(server.port, _names(sessions)))
    return (server.resident_bytes() - before) / 1024 / sessions


def _make_and_end_sessions(server: servers.Server, pairs: int) -> None:
    uvloop.run(_make_and_end(server.port, pairs))


async def _make_and_end(port: int, pairs: int) -> None:
    async def work(count: int) -> None:
        async with client.connected(port) as connection:
            for name in _names(count):
                await client.create_session(connection, name)
                await connection.post("/delete", {"X-Session-ID": name}, {})

    await asyncio.gather(*(work(pairs // CONNECTIONS) for _ in range(CONNECTIONS)))


def _names(count: int) -> list[str]:
    return [f"bench-{uuid4().hex}" for _ in range(count)]
