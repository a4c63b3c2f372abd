"""A server in a process of its own, many submits at once, and loops that want the processor beside it.

Run by itself it prints one line per number of submits: `python -m tests.stress.grading_load 12 64 200`.
"""

import asyncio
import contextlib
import json
import multiprocessing
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import anyio

from ors_server_tasks.code import CodeTasks
from ors_server_tasks.code.catalogue import SPLITS

ROOT = Path(__file__).parents[2]
START_LIMIT = 60.0
BUSY_LOOPS = 2
LIGHT_PAUSE = 0.1
BAD = 400
SLOW_TASK = "ordinal"
SLOW = """

import time as _time

_quick = ordinal


def ordinal(number):
    end = _time.process_time() + {seconds}
    while _time.process_time() < end:
        pass
    return _quick(number)
"""
SERVE = "import sys; from ors_server.cli.main import main; sys.exit(main())"


Actions: TypeAlias = Sequence[tuple[str, dict[str, Any]]]
Play: TypeAlias = tuple[str, int, Actions]
"""Split, index, tool calls."""


@dataclass
class Report:
    """What came of one load."""

    submits: int
    rewards: Counter[Any] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    light: list[float] = field(default_factory=list)
    """Seconds of each call of the light session beside."""
    processes: int = 0
    """Most processes at once below the server."""
    memory_mib: int = 0
    """Most proportional memory of these, as sampled."""
    worst_wait_s: float = 0.0

    def line(self) -> str:
        light = sorted(self.light)
        p95 = light[int(0.95 * (len(light) - 1))] if light else 0.0
        return (
            f"{self.submits} submits: {dict(self.rewards)} errors {len(self.errors)}, {self.seconds:.0f} s; "
            f"light p50 {light[len(light) // 2] if light else 0:.3f} p95 {p95:.3f} "
            f"max {light[-1] if light else 0:.3f} s over {len(light)}; "
            f"at most {self.processes} processes, {self.memory_mib} MiB; "
            f"longest wait {self.worst_wait_s:.0f} s"
        )


def _burn() -> None:
    while True:
        sum(range(10_000))


@contextlib.contextmanager
def busy_loops(count: int = BUSY_LOOPS) -> Generator[None]:
    context = multiprocessing.get_context("spawn")
    loops = [context.Process(target=_burn, daemon=True) for _ in range(count)]
    for loop in loops:
        loop.start()
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.join()


@contextlib.contextmanager
def server(*environments: str) -> Generator[tuple[str, int]]:
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-c", SERVE, "serve", *environments]
        argv += ["--port", "0", "--store", f"{folder}/episodes.db", "--log-level", "warning"]
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(argv, stderr=log, stdout=subprocess.PIPE, cwd=ROOT)
        try:
            yield _address(process), process.pid
        finally:
            process.terminate()
            process.wait(60)
            if process.stdout is not None:
                process.stdout.close()


def _address(process: "subprocess.Popen[bytes]") -> str:
    said = b""
    end = time.monotonic() + START_LIMIT
    while time.monotonic() < end and process.stdout is not None:
        if select.select([process.stdout], [], [], 1.0)[0]:
            said += os.read(process.stdout.fileno(), 65_536)
            if found := re.search(rb"http://[\d.]+:\d+", said):
                return found[0].decode()
    raise RuntimeError(f"the server did not start: {said!r}")


class Control:
    """The control API of the server; one connection per request."""

    def __init__(self, address: str) -> None:
        self.host, port = address.removeprefix("http://").split(":")
        self.port = int(port)

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> tuple[int, Any]:
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=2**24)
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        answer = await reader.read()
        writer.close()
        top, _, rest = answer.partition(b"\r\n\r\n")
        return int(top.split(b" ", 2)[1]), json.loads(rest) if rest else None

    async def create(self, environment: str, split: str, index: int) -> str:
        wanted = {"environment": environment, "split": split, "index": index}
        status, answer = await self.ask("POST", "/_ors/sessions", wanted)
        if status >= BAD:
            raise RuntimeError(str(answer))
        made: str = answer["session_id"]
        return made

    async def call(self, session: str, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        body = {"name": tool, "arguments": dict(arguments)}
        answer: dict[str, Any] = (await self.ask("POST", f"/_ors/sessions/{session}/calls", body))[1]
        return answer

    async def delete(self, session: str) -> None:
        await self.ask("DELETE", f"/_ors/sessions/{session}")


async def play_light(talk: Control, report: Report, stop: asyncio.Event) -> None:
    """Play a light session until it is told to stop."""
    session = await talk.create("math_word_problems", "train", 0)
    while not stop.is_set():
        began = time.monotonic()
        await talk.call(session, "calculate", {"expression": "6*7"})
        report.light.append(time.monotonic() - began)
        await anyio.sleep(LIGHT_PAUSE)
    await talk.delete(session)


async def watch(talk: Control, pid: int, report: Report, stop: asyncio.Event) -> None:
    """Count the server's processes and read its queue until told to stop."""
    while not stop.is_set():
        count, memory = await asyncio.to_thread(below, pid)
        report.processes = max(report.processes, count)
        report.memory_mib = max(report.memory_mib, memory)
        _, health = await talk.ask("GET", "/health")
        report.worst_wait_s = health.get("queues", {}).get("gradings", {}).get("worst_wait_s", 0.0)
        await anyio.sleep(1)


def below(root: int) -> tuple[int, int]:
    """Return how many processes descend from one, and their resident MiB that is theirs alone."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            stat = (folder / "stat").read_text(errors="replace")
            parents.setdefault(int(stat[stat.rindex(")") + 2 :].split()[1]), []).append(int(folder.name))
    found, waiting, pages = 0, [root], 0
    while waiting:
        pid = waiting.pop()
        found += 1
        waiting += parents.get(pid, [])
        with contextlib.suppress(OSError):
            size = Path("/proc", str(pid), "statm").read_text().split()
            pages += int(size[1]) - int(size[2])
    return found, pages * os.sysconf("SC_PAGE_SIZE") >> 20


async def submit_all(talk: Control, environment: str, plays: Sequence[Play], pid: int) -> Report:
    """Play episodes up to their last call, then make all the last calls at once."""
    report = Report(len(plays))
    gate = asyncio.Semaphore(16)
    sessions: list[str] = []

    async def prepare(split: str, index: int, actions: Actions) -> tuple[str, Any]:
        async with gate:
            session = await talk.create(environment, split, index)
            sessions.append(session)
            for tool, arguments in actions[:-1]:
                await talk.call(session, tool, arguments)
            return session, actions[-1]

    async def finish(session: str, last: tuple[str, dict[str, Any]]) -> None:
        answer = await talk.call(session, *last)
        output = answer.get("output") or {}
        report.rewards[output.get("reward")] += 1
        if output.get("reward") != 1.0:
            report.errors.append(json.dumps(answer)[:500])

    ready = await asyncio.gather(*[prepare(*play) for play in plays])
    stop = asyncio.Event()
    light = asyncio.create_task(play_light(talk, report, stop))
    counting = asyncio.create_task(watch(talk, pid, report, stop))
    began = time.monotonic()
    await asyncio.gather(*[finish(*one) for one in ready])
    report.seconds = time.monotonic() - began
    stop.set()
    await asyncio.gather(light, counting)
    await asyncio.gather(*[talk.delete(session) for session in sessions])
    return report


def gold_plays(count: int) -> list[Play]:
    """Return the gold actions of so many tasks of `code`, of all splits in turns."""
    tasks = [
        (split.name, index)
        for split in CodeTasks.list_splits()
        for index in range(CodeTasks.num_tasks(split.name))
    ]
    picked = [tasks[number * 7 % len(tasks)] for number in range(count)]
    return [
        (split, index, list(CodeTasks.gold_actions(CodeTasks.get_task(split, index))))
        for split, index in picked
    ]


def slow_plays(count: int, seconds: float = 0.5) -> list[Play]:
    """Return gold actions of one task, with a solution that computes for so long in every case."""
    split, index = next(
        (split, names.index(SLOW_TASK)) for split, names in SPLITS.items() if SLOW_TASK in names
    )
    (create, arguments), submit = CodeTasks.gold_actions(CodeTasks.get_task(split, index))
    content = arguments["content"] + SLOW.format(seconds=seconds)
    return [(split, index, [(create, {**arguments, "content": content}), submit])] * count


async def load(plays: Sequence[Sequence[Play]]) -> list[Report]:
    reports: list[Report] = []
    with server("code", "math_word_problems") as (address, pid), busy_loops():
        for some in plays:
            reports.append(await submit_all(Control(address), "code", some, pid))
            print(  # noqa: T201  (its figures are its purpose)
                reports[-1].line(), *reports[-1].errors[:3], sep="\n  ", flush=True
            )
    return reports


if __name__ == "__main__":
    numbers = [word for word in sys.argv[1:] if word.isdigit()]
    slow = [slow_plays(12)] if "slow" in sys.argv else []
    anyio.run(load, [*slow, *[gold_plays(int(number)) for number in numbers]])
