"""Sessions of a server that was killed: how many the next one takes up, and what that costs.

Each server plays 50 sessions of one bundled environment, is killed, and started again on the same record. The
peer is the environment itself: the same calls in one process, without HTTP and without a record.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import client, servers
from bench.programs.recovery_calls import SPLIT, calls_of
from bench.report import Goal, Row
from ors_server.environments.loading import definitions_of
from tests.postgres import running_postgres

ENVIRONMENTS = ("math_word_problems", "qa", "shell")
SESSIONS = 50
PLAYERS = 8
"""Sessions that are played at a time."""
MAX_BEYOND = 1_000.0
"""µs of the server's CPU that a rebuilt step may cost beyond the environment's own."""
MAX_FIRST_ANSWER = 1.0
"""Seconds from the moment when the server listens to its first answer in a rebuilt session."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The result of one restart."""

    back: int
    steps: int
    cpu: float
    """Seconds of the server's CPU that rebuilding took."""
    first_answer: float
    """Seconds."""
    start: float
    """Seconds from the start of the process until it listened."""
    wall: float
    """Seconds until all sessions were back."""


def measure(sessions: int = SESSIONS, environments: tuple[str, ...] = ENVIRONMENTS) -> list[Row]:
    """Kill a server of each environment on each store, and start it again."""
    rows: list[Row] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ors-recovery-")))
        folder.chmod(0o755)  # PostgreSQL's user must be able to enter it
        postgres = stack.enter_context(running_postgres(within=folder))
        for name in environments:
            own = _own_cost(name, sessions)
            for store in ("SQLite", "PostgreSQL"):
                where = str(folder / f"{name}.db") if store == "SQLite" else postgres.create_database()
                rows += _rows(f"{name}, {store}", _kill_and_restart(name, where, sessions), sessions, own)
    return rows


def _rows(name: str, figures: Figures, sessions: int, own: float) -> list[Row]:
    rebuilt = figures.cpu / figures.steps * 1e6
    itself = "the environment itself"
    return [
        Row(f"{name}: back", "sessions", figures.back, sessions, "live before", Goal("ratio", least=1.0)),
        Row(f"{name}: rebuild a step", "µs CPU", rebuilt, own, itself),
        Row(
            f"{name}: beyond its own",
            "µs CPU",
            max(0.0, rebuilt - own),
            own,
            itself,
            Goal("ours", most=MAX_BEYOND),
        ),
        Row(
            f"{name}: first answer",
            "s",
            figures.first_answer,
            figures.start,
            "the start itself",
            Goal("ours", most=MAX_FIRST_ANSWER),
        ),
        Row(f"{name}: all back", "s", figures.wall, figures.start, "the start itself"),
    ]


def _own_cost(name: str, sessions: int) -> float:
    """Return the µs of CPU that a step takes without a server."""
    command = [sys.executable, "-m", "bench.programs.recovery_calls", name, str(sessions)]
    ran = subprocess.run(command, cwd=servers.ROOT, capture_output=True, text=True, check=True)
    seconds, steps = ran.stdout.split()[-2:]
    return float(seconds) / int(steps) * 1e6


def _kill_and_restart(name: str, where: str, sessions: int) -> Figures:
    port = servers.free_port()
    with _serving(name, where, port) as (process, _):
        steps = asyncio.run(_play(name, port, sessions))
        process.send_signal(signal.SIGKILL)
        process.wait()
    began = time.perf_counter()
    with _serving(name, where, port) as (process, listening):
        server = servers.Server(process.pid, port)
        cpu = server.cpu_seconds()
        asyncio.run(_ask(port, [_session(0)]))
        first = time.perf_counter() - listening
        back = asyncio.run(_ask(port, [_session(number) for number in range(sessions)]))
        wall = time.perf_counter() - listening
        used = server.cpu_seconds() - cpu
    return Figures(back, steps, used, first, listening - began, wall)


@contextlib.contextmanager
def _serving(name: str, where: str, port: int) -> Iterator[tuple["subprocess.Popen[bytes]", float]]:
    """Run a server; yield its process and the moment at which it said that it listens."""
    command = [sys.executable, "-m", "ors_server", "serve", name, "--port", str(port), "--json"]
    variables = {**os.environ, "ORS_STORE": where}
    with subprocess.Popen(
        [*command, "--log-level", "error"], cwd=servers.ROOT, env=variables, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError("the server did not start")
            yield process, time.perf_counter()
        finally:
            process.kill()


async def _play(name: str, port: int, sessions: int) -> int:
    """Play every session but its end; return the number of steps."""
    [definition] = definitions_of(name)
    waiting = list(range(sessions))
    steps = 0

    async def work() -> None:
        nonlocal steps
        async with client.connected(port) as connection:
            while waiting:
                index = waiting.pop()
                headers = {"X-Session-ID": _session(index)}
                await connection.post("/create", headers, {"env_name": name, "split": SPLIT, "index": index})
                task = await definition.tasks.get_task(SPLIT, index)
                for tool, arguments in calls_of(name, task, definition):
                    await connection.post(f"/{name}/call", headers, {"name": tool, "input": arguments})
                    steps += 1

    await asyncio.gather(*(work() for _ in range(PLAYERS)))
    return steps


async def _ask(port: int, session_ids: list[str]) -> int:
    """Return in how many sessions a request is answered."""

    async def ask(session_id: str) -> bool:
        async with client.connected(port) as connection:
            try:
                await connection.post("/ping", {"X-Session-ID": session_id}, {})
            except RuntimeError as error:
                print(f"{session_id}: {error}", file=sys.stderr)
                return False
            return True

    return sum(await asyncio.gather(*map(ask, session_ids)))


def _session(number: int) -> str:
    return f"recovery-{number}"
