"""Sandboxed shells: how fast they start and answer, what they hold, what a fork costs; beside bare bash.

The goals are the best figures of the study that the sandboxes were designed from, each as its ratio to a bare
bash of the same run (`bash -c true` took 1.32 ms there, and 740 of `bash -c echo` ran per second).
"""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count

import uvloop

from bench import bare_shells, client, servers
from bench.report import Goal, Row
from ors_server.sandboxes.base import Backend, Sandbox
from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose
from ors_server.sandboxes.hosted import HostedSandbox

BARE_TRUE = "bash -c true"
BARE_ECHO = "bash -c echo, in sequence"
BARE_PIPE = "bare bash on a pipe"
BARE_CROWD = "as many bash -c echo"
ROOM = "without the door"

START = Goal("ratio", most=15.0)
"""14 to 20 ms to a shell that is ready, with three cgroups of version 1."""
ECHO = Goal("ratio", most=0.34)
"""0.45 ms."""
RATES = {1: (3.6, 0.83), 16: (6.5, 1.6), 64: (7.5, 1.6), 256: (5.5, 1.4)}
"""Sessions at once -> commands per second: the builtin echo (2,750, 5,066, 5,311, 4,105) and /bin/echo (614,
1,178, 1,169, 1,034)."""
COST = Goal("ratio", most=0.12)
"""160 µs, where `bash -c` took 1,340."""
HELD = Goal("ours", most=1.05)
"""MiB of the machine's memory per idle session."""
CROWD = 300
CROWD_TAIL = Goal("ratio", most=0.55)
"""146 ms at p99 for 256 sessions, where as many `bash -c` took 267."""
FORKS = {"empty": (0, 0, 20.0), "200 x 4 kB": (200, 4_000, 28.0), "5,000 x 12 kB": (5_000, 12_000, 105.0)}
"""What stands in the work dir -> files, bytes of each, and the most `bash -c true` that a fork may cost: 26,
37 and 138 ms."""

_ROUNDS = 5
"""Slices of a load; the peer is measured before each."""
_MIN_LARGE_FORK_FILES = 1_000
"""Files from which a fork is measured less often."""

_numbers = count()


def measure(rounds: int = 60, seconds: float = 2.5) -> list[Row]:
    """Measure the strongest isolation that this machine has."""
    return uvloop.run(_measure(rounds, seconds))


async def _measure(rounds: int, seconds: float) -> list[Row]:
    chosen = await choose(BackendRequest(BackendChoice.AUTO))
    try:
        backend = chosen.backend
        rows = await _starts(backend, rounds)
        rows += await _echoes(backend, rounds)
        rows += await _rates(backend, seconds)
        rows += await _cost(backend, seconds)
        rows += await _crowd(backend)
        rows += await _forks(backend, max(3, rounds // 2))
    finally:
        await chosen.aclose()
    return rows + await _door(rounds, seconds)


async def _starts(backend: Backend, rounds: int) -> list[Row]:
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        sandbox = await _start(backend)
        result = await sandbox.exec("true")
        ours.append((time.perf_counter() - began) * 1e3)
        await sandbox.aclose()
        bare.append(bare_shells.run_true())
        assert result.exit_code == 0
    return [
        Row(
            "start to the first true",
            "ms",
            statistics.median(ours),
            statistics.median(bare),
            BARE_TRUE,
            START,
        ),
        Row("start to the first true", "ms at p99", _tail(ours), _tail(bare), BARE_TRUE),
    ]


async def _echoes(backend: Backend, rounds: int) -> list[Row]:
    sandbox = await _start(backend)
    ours: list[float] = []
    pipe: list[float] = []
    bare: list[float] = []
    with bare_shells.BareShell() as shell:
        for _ in range(rounds):
            ours += [await _echo(sandbox, "echo hi") for _ in range(20)]
            pipe += [shell.echo() for _ in range(20)]
            bare.append(bare_shells.run_true())
    await sandbox.aclose()
    median = statistics.median(ours)
    return [
        Row("echo in a live shell", "ms", median, statistics.median(bare), BARE_TRUE, ECHO),
        Row("echo in a live shell", "ms", median, statistics.median(pipe), BARE_PIPE),
        Row("echo in a live shell", "ms at p99", _tail(ours), _tail(bare), BARE_TRUE),
    ]


async def _rates(backend: Backend, seconds: float) -> list[Row]:
    rows: list[Row] = []
    for sessions, goals in RATES.items():
        async with _several(backend, sessions) as sandboxes:
            for command, goal in zip(("echo hi", "/bin/echo hi"), goals, strict=True):
                ours: list[float] = []
                bare: list[float] = []
                for _ in range(_ROUNDS):
                    bare.append(bare_shells.echoes_per_second(60))
                    began = time.perf_counter()
                    done = len(await _load(sandboxes, command, seconds / _ROUNDS))
                    ours.append(done / (time.perf_counter() - began))
                name = f"{command.removesuffix(' hi')}, {_sessions(sessions)}"
                rate, peer = statistics.median(ours), statistics.median(bare)
                rows.append(Row(name, "commands/s", rate, peer, BARE_ECHO, Goal("ratio", least=goal)))
    return rows


async def _cost(backend: Backend, seconds: float) -> list[Row]:
    """Measure the processor time of a command on the side of the server, whatever else the machine does."""
    async with _several(backend, 64) as sandboxes:
        began = time.process_time()
        done = len(await _load(sandboxes, "echo hi", seconds))
        ours = (time.process_time() - began) * 1e6 / done
    bare = bare_shells.echo_cpu(200) * 1e6
    return [Row("echo, 64 sessions", "µs CPU, server", ours, bare, BARE_ECHO, COST)]


async def _crowd(backend: Backend) -> list[Row]:
    available = bare_shells.available_kib()
    async with _several(backend, CROWD) as sandboxes:
        session_mib = (available - bare_shells.available_kib()) / CROWD / 1024
        kib = statistics.median(_proportional_kib(sandbox) for sandbox in sandboxes[::10])
        alone = [await _echo(sandbox, "echo hi") for sandbox in sandboxes for _ in range(3)]
        bare = [bare_shells.run_true() for _ in range(100)]
        began = time.perf_counter()
        together = await _load(sandboxes, "echo hi", 3.0)
        rate = len(together) / (time.perf_counter() - began)
        peers = await bare_shells.crowd_of_echoes(CROWD, 5)
        with bare_shells.BareShell() as shell:
            shell.echo()
            bare_mib = shell.kib() / 1024
    name = f"{CROWD} live sessions"
    return [
        Row(f"idle session, of {CROWD}", "MiB", session_mib, bare_mib, "bare bash, PSS", HELD),
        Row(f"idle session, of {CROWD}", "MiB of PSS", kib / 1024, bare_mib, "bare bash, PSS"),
        Row(f"echo, one of {name}", "ms at p99", _tail(alone), _tail(bare), BARE_TRUE),
        Row(f"echo, all of {name}", "ms at p99", _tail(together), _tail(peers), BARE_CROWD, CROWD_TAIL),
        Row(f"echo, all of {name}", "commands/s", rate, bare_shells.echoes_per_second(100), BARE_ECHO),
    ]


async def _forks(backend: Backend, rounds: int) -> list[Row]:
    rows: list[Row] = []
    for name, (files, size, most) in FORKS.items():
        sandbox = await _start(backend)
        fill = f"value=7; head -c {files * size} /dev/urandom | split --bytes {size or 1} -a 4 - f"
        assert (await sandbox.exec(fill)).exit_code == 0
        ours: list[float] = []
        bare: list[float] = []
        for _ in range(rounds if files < _MIN_LARGE_FORK_FILES else max(3, rounds // 5)):
            began = time.perf_counter()
            fork = await sandbox.fork(f"bench-{next(_numbers)}")
            seen = await fork.exec("ls | wc -l; echo $value")
            ours.append((time.perf_counter() - began) * 1e3)
            assert seen.stdout.text == f"{files}\n7\n", seen
            await fork.aclose()
            bare += [bare_shells.run_true() for _ in range(5)]
        await sandbox.aclose()
        goal = Goal("ratio", most=most)
        rows.append(
            Row(f"fork, {name}", "ms", statistics.median(ours), statistics.median(bare), BARE_TRUE, goal)
        )
    return rows


# Through the server


async def _door(rounds: int, seconds: float) -> list[Row]:
    environment = f"{servers.PROGRAMS / 'shell_environment.py'}:Shell"
    port = servers.free_port()
    everywhere = ["taskset", "--cpu-list", f"0-{max(servers.SERVER_CORE, servers.LOAD_CORE)}"]
    command = [*everywhere, str(servers.COMMAND), "serve", environment, "--port", str(port)]
    with servers.running(command, port):
        names = [f"bench-{next(_numbers)}" for _ in range(64)]
        async with AsyncExitStack() as stack:
            doors = [await stack.enter_async_context(client.connected(port)) for _ in names]
            for door, name in zip(doors, names, strict=True):
                order = {"env_name": "shell", "split": "test", "index": 0}
                await door.post("/create", {"X-Session-ID": name}, order)
                await _call(door, name)
            one = [await _call(doors[0], names[0]) for _ in range(rounds * 20)]
            bare = [bare_shells.run_true() for _ in range(rounds)]
            until = time.perf_counter() + seconds
            calls = await asyncio.gather(
                *(_call_until(door, name, until) for door, name in zip(doors, names, strict=True))
            )
    rate, sequential = sum(calls) / seconds, bare_shells.echoes_per_second(200)
    median = statistics.median(one)
    return [
        Row("echo through the ORS door", "ms", median, statistics.median(bare), BARE_TRUE),
        Row("echo through the ORS door", "ms at p99", _tail(one), _tail(bare), BARE_TRUE),
        Row("… 64 sessions", "calls/s", rate, sequential, BARE_ECHO),
    ]


async def _call(door: client.Connection, name: str) -> float:
    began = time.perf_counter()
    body = {"name": "bash", "input": {"command": "echo hi"}}
    _, answer = await door.post("/shell/call", {"X-Session-ID": name}, body)
    assert b"hi\\n" in answer, answer
    return (time.perf_counter() - began) * 1e3


async def _call_until(door: client.Connection, name: str, until: float) -> int:
    calls = 0
    while time.perf_counter() < until:
        await _call(door, name)
        calls += 1
    return calls


# In the room


async def _start(backend: Backend) -> Sandbox:
    return await backend.start(f"bench-{next(_numbers)}")


@asynccontextmanager
async def _several(backend: Backend, sessions: int) -> AsyncGenerator[list[Sandbox]]:
    sandboxes: list[Sandbox] = []
    try:
        for first in range(0, sessions, 16):
            few = min(16, sessions - first)
            sandboxes += await asyncio.gather(*(_start(backend) for _ in range(few)))
        yield sandboxes
    finally:
        await asyncio.gather(*(sandbox.aclose() for sandbox in sandboxes))


async def _echo(sandbox: Sandbox, command: str) -> float:
    began = time.perf_counter()
    result = await sandbox.exec(command)
    took = (time.perf_counter() - began) * 1e3
    assert result.stdout.kept == b"hi\n", result
    return took


async def _load(sandboxes: Sequence[Sandbox], command: str, seconds: float) -> list[float]:
    """Let every sandbox run one command after another; return the milliseconds of each."""
    until = time.perf_counter() + seconds
    took: list[float] = []

    async def keep_on(sandbox: Sandbox) -> None:
        while time.perf_counter() < until:
            took.append(await _echo(sandbox, command))

    await asyncio.gather(*map(keep_on, sandboxes))
    return took


def _proportional_kib(sandbox: Sandbox) -> float:
    assert isinstance(sandbox, HostedSandbox)
    return sum(map(bare_shells.proportional_kib, sandbox.cell.processes()))


def _tail(took: Sequence[float]) -> float:
    return sorted(took)[int(len(took) * 0.99)]


def _sessions(number: int) -> str:
    return "1 session" if number == 1 else f"{number} sessions"
