"""Sessions that nobody plays: the memory that one holds, and how many are made and ended per second."""

import asyncio
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from uuid import uuid4

import uvloop

from bench import client, servers
from bench.report import Goal, Row

MOST_KIB = 10.0
"""KiB that an idle session may hold."""
TARGET = 2.0
"""Sessions made and ended per second are at least this many times openreward's."""
CONNECTIONS = 16


def measure(sessions: int = 2_000, pairs: int = 800, rounds: int = 5) -> list[Row]:
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
        rates: dict[servers.Server, list[float]] = {ours: [], openreward: []}
        for server in rates:
            _rate(server, pairs // 4)
        held = {server: _kib_per_session(server, sessions) for server in rates}
        for _ in range(rounds):
            for server, found in rates.items():
                found.append(_rate(server, pairs))
    mine, peer = (statistics.median(rates[server]) for server in (ours, openreward))
    reference = "openreward 0.1.167"
    return [
        Row(
            f"idle session, of {sessions:,}",
            "KiB",
            held[ours],
            held[openreward],
            reference,
            Goal("ours", most=MOST_KIB),
        ),
        Row("create + delete", "sessions/s", mine, peer, reference, Goal("ratio", least=TARGET)),
    ]


def _kib_per_session(server: servers.Server, sessions: int) -> float:
    before = server.resident_bytes()
    uvloop.run(client.create_sessions(server.port, _names(sessions)))
    return (server.resident_bytes() - before) / 1024 / sessions


def _rate(server: servers.Server, pairs: int) -> float:
    started = time.perf_counter()
    uvloop.run(_make_and_end(server.port, pairs))
    return pairs / (time.perf_counter() - started)


async def _make_and_end(port: int, pairs: int) -> None:
    async def work(count: int) -> None:
        async with client.connected(port) as connection:
            for name in _names(count):
                await client.create_session(connection, name)
                await connection.post("/delete", {"X-Session-ID": name}, {})

    await asyncio.gather(*(work(pairs // CONNECTIONS) for _ in range(CONNECTIONS)))


def _names(count: int) -> list[str]:
    return [f"bench-{uuid4().hex}" for _ in range(count)]
