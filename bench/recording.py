"""What the record costs: ORS `/call` with a store on a disk beside the same server that keeps it in memory.

The servers share one core, wrk has another, and PostgreSQL runs where the kernel puts it. All take turns,
each round in another order; a rate is divided by the memory's of the same round, and the median of these
ratios counts, so that whatever else the machine does hits both sides of every ratio.
"""

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psycopg

from bench import client, servers
from bench.ors_calls import BODY, PATH, SESSIONS, load
from bench.report import Goal, Row
from ors_server.model.recording import STEP
from ors_server.store.episode_filter import EpisodeFilter
from ors_server.store.open import open_reader
from tests.postgres import PostgresServer, running_postgres

TARGET = 0.7
"""With a durable record in SQLite the server answers at least this share of the calls per second."""
MEMORY = "memory"
LONE_CALLS = 50
"""Calls one after another, whose median is one measurement of a lone call."""
IN_MEMORY = frozenset({"tmpfs", "ramfs"})
"""File systems on which nothing is ever on a disk."""


@dataclass(slots=True)
class Candidate:
    """One way to keep the record, and what it came to."""

    name: str
    where: str
    durability: str
    server: servers.Server
    rates: list[float] = field(default_factory=list)
    """Calls per second, round by round; as are the others."""
    costs: list[float] = field(default_factory=list)
    """Seconds of the server's CPU per call."""
    lone: list[float] = field(default_factory=list)
    """Milliseconds of a call while there is no other."""


def measure(seconds: int = 2, rounds: int = 7) -> list[Row]:
    """Load the servers in turns.

    Raises:
        RuntimeError: If the project stands on a file system that is kept in memory.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".bench-", dir=servers.ROOT)))
        kind = file_system_of(folder)
        if kind in IN_MEMORY:
            raise RuntimeError(
                f"{folder} is on {kind}, which no disk keeps; run this from a checkout on a disk"
            )
        folder.chmod(0o755)  # PostgreSQL's user must be able to enter it
        postgres = stack.enter_context(running_postgres(within=folder))
        wishes = _wishes(folder, postgres)
        empty = _database_bytes(wishes[-1][1])
        with ExitStack() as running:
            candidates = [_start(running, *wish) for wish in wishes]
            _play(candidates, folder, seconds, rounds)
        synced = statistics.median(_sync_milliseconds(folder) for _ in range(rounds * 10))
        return [
            *_speed_rows(candidates, kind),
            *_lone_rows(candidates, synced, kind),
            *asyncio.run(_size_rows(candidates, empty)),
        ]


def file_system_of(folder: Path) -> str:
    """Return the type of the file system on which a folder is, as the kernel calls it."""
    device = folder.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[2] == wanted:
            return fields[fields.index("-") + 1]
    return "an unknown file system"


def _wishes(folder: Path, postgres: PostgresServer) -> Sequence[tuple[str, str, str]]:
    def file(name: str) -> str:
        return str(folder / name / "episodes.db")

    return [
        (MEMORY, MEMORY, "step"),
        ("SQLite, step", file("step"), "step"),
        ("SQLite, batch", file("batch"), "batch"),
        ("SQLite, none", file("none"), "none"),
        ("PostgreSQL, step", postgres.create_database(), "step"),
    ]


def _start(stack: ExitStack, name: str, where: str, durability: str) -> Candidate:
    port = servers.free_port()
    command = [*servers.ours(port), "--store", where, "--durability", durability]
    return Candidate(name, where, durability, stack.enter_context(servers.running(command, port)))


def _play(candidates: Sequence[Candidate], folder: Path, seconds: int, rounds: int) -> None:
    names = [f"bench-{uuid4().hex}" for _ in range(SESSIONS)]
    sessions = folder / "sessions"
    sessions.write_text("\n".join(names))
    for candidate in candidates:
        asyncio.run(client.create_sessions(candidate.server.port, names))
        load(candidate.server, sessions, 1)
    for number in range(rounds):
        start = number % len(candidates)
        turns = [*candidates[start:], *candidates[:start]]
        for candidate in turns:
            _sample(candidate, sessions, seconds)
        for candidate in turns:
            candidate.lone.append(asyncio.run(_lone_call(candidate.server.port)))


def _sample(candidate: Candidate, sessions: Path, seconds: int) -> None:
    before = candidate.server.cpu_seconds()
    done = load(candidate.server, sessions, seconds)
    candidate.rates.append(done["requests"] / done["seconds"])
    candidate.costs.append((candidate.server.cpu_seconds() - before) / done["requests"])


async def _lone_call(port: int) -> float:
    spent: list[float] = []
    async with client.connected(port) as connection:
        session_id = f"lone-{uuid4().hex}"
        await client.create_session(connection, session_id)
        for _ in range(LONE_CALLS):
            began = time.perf_counter()
            await connection.post(PATH, {"X-Session-ID": session_id}, json.loads(BODY))
            spent.append((time.perf_counter() - began) * 1e3)
    return statistics.median(spent)


def _sync_milliseconds(folder: Path) -> float:
    """Measure what no durable step can be faster than: a page that is appended to a file and synced."""
    with (folder / "synced").open("ab", buffering=0) as file:
        began = time.perf_counter()
        file.write(bytes(4096))
        os.fdatasync(file.fileno())
        return (time.perf_counter() - began) * 1e3


def _speed_rows(candidates: Sequence[Candidate], kind: str) -> list[Row]:
    memory, *others = candidates
    rows: list[Row] = []
    for candidate in others:
        name = f"{candidate.name}, {SESSIONS} sessions, {kind}"
        goal = Goal("ratio", least=TARGET) if candidate.name == "SQLite, step" else None
        for unit, ours, theirs, scale, wanted in (
            ("calls/s", candidate.rates, memory.rates, 1.0, goal),
            ("µs CPU", candidate.costs, memory.costs, 1e6, None),
        ):
            peer = statistics.median(theirs) * scale
            rows.append(Row(name, unit, peer * _paired(ours, theirs), peer, MEMORY, wanted))
    return rows


def _paired(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the ratios of the rounds."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def _lone_rows(candidates: Sequence[Candidate], synced: float, kind: str) -> list[Row]:
    """Lay a lone call out beside the memory's, and what was added to it beside one sync of the disk."""
    memory, *others = candidates
    free = statistics.median(memory.lone)
    rows: list[Row] = []
    for candidate in others:
        lone = statistics.median(candidate.lone)
        rows.append(Row(f"{candidate.name}, a lone call", "ms", lone, free, MEMORY))
        if candidate.durability == "step":
            rows.append(Row("… what was added", "ms", lone - free, synced, f"write and fdatasync, {kind}"))
    return rows


async def _size_rows(candidates: Sequence[Candidate], empty: int) -> list[Row]:
    rows: list[Row] = []
    for candidate in candidates:
        if candidate.durability != "step" or candidate.where == MEMORY:
            continue
        reader = await open_reader(candidate.where)
        totals = await reader.totals()
        record = (await reader.page(EpisodeFilter(), limit=1))[0]
        steps = await reader.steps(record.origin.episode_id, 0, 1000)
        await reader.aclose()
        written = statistics.mean(len(STEP.write(step)) + 1 for step in steps)
        stored_bytes = _held_bytes(candidate.where, empty)
        per_step = stored_bytes / totals.steps
        rows.append(Row(f"{candidate.name}, a step", "bytes", per_step, written, "a line of JSON"))
    return rows


def _held_bytes(where: str, empty: int) -> int:
    if where.startswith("postgresql:"):
        return _database_bytes(where) - empty
    return sum(path.stat().st_size for path in Path(where).parent.rglob("*") if path.is_file())


def _database_bytes(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        return int(row[0]) if row else 0
