"""Writes many episodes into a store, or reads them in one way, and prints what it took as JSON.

Usage: python record_scale.py write STORE EPISODES STEPS
       python record_scale.py WAY STORE FOLDER

A way is a query (`list`, `filter`, `totals`), a format of `ors-server export`, or `preferences`. Every way is
run in a process of its own, so that its peak of memory is its own too.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import anyio

from ors_server.export.chat import ConversationOptions
from ors_server.export.episodes import ExportCounts
from ors_server.export.formats import FORMATS, export_rows, make_format
from ors_server.export.preferences import Pairing, export_preferences
from ors_server.export.writing import write_lines, write_table
from ors_server.files.atomic_file import atomic_file
from ors_server.model.trajectory import (
    EpisodeOrigin,
    EpisodeSummary,
    Step,
    StepStatus,
    Transition,
    first_summary,
)
from ors_server.model.wire import TextBlock
from ors_server.store.base import EpisodeStore, RecordReader
from ors_server.store.episode_filter import ALL, EpisodeFilter
from ors_server.store.open import open_reader, open_store
from ors_server.store.store_options import Durability, StoreOptions

BEGINNING = datetime(2026, 11, 1, tzinfo=UTC)
ATTEMPTS = 4
"""Episodes of one task, and so of one group."""
WRITERS = 64
"""Episodes that are written at once."""


def text_of(*numbers: int) -> str:
    """Make a text of 320 characters that no compression makes much smaller."""
    return "".join(sha256(repr((numbers, part)).encode()).hexdigest() for part in range(5))


def origin_of(number: int) -> EpisodeOrigin:
    """Make the origin of one episode."""
    task = {"question": f"What is {number // ATTEMPTS} + 1?", "answer": number // ATTEMPTS + 1}
    return EpisodeOrigin(
        session_id=f"session-{number}",
        environment=("alpha", "beta")[number // ATTEMPTS % 2],
        environment_version="1",
        server_version="0.1.0",
        task_spec=task,
        task_hash=f"{number // ATTEMPTS:064x}",
        split=("train", "test")[number // ATTEMPTS % 10 == 0],
        index=number // ATTEMPTS,
        created_at=BEGINNING + timedelta(seconds=number),
        policy={"step_limit": 20},
        episode_id=f"{number:032x}",
        seed=number,
        labels={"run": f"r{number % ATTEMPTS}"},
    )


def step_of(episode: int, number: int, steps: int) -> Step:
    """Make one step, the last of which ends the episode."""
    is_last = number == steps
    reward = float((episode * 7 + episode // ATTEMPTS) % 5) / 4 if is_last else 0.0
    return Step(
        number=number,
        call_id=f"{episode:08x}-{number:04x}",
        tool="submit" if is_last else "write",
        arguments={"answer": f"{episode}"}
        if is_last
        else {"path": f"notes/{number}.txt", "line": text_of(episode, number)[:80]},
        status=StepStatus.GRADED,
        blocks=(TextBlock(text=text_of(episode, number)),),
        reward=reward,
        components={"tool": reward},
        finished=is_last,
        error=None,
        error_code=None,
        metadata={"episode": {"step": number, "return": reward}},
        started_at=BEGINNING + timedelta(seconds=episode + number),
        duration=0.01,
    )


def summary_of(origin: EpisodeOrigin, steps: list[Step]) -> EpisodeSummary:
    """Sum up the steps so far."""
    rewards = [step.reward or 0.0 for step in steps]
    is_over = bool(steps) and steps[-1].finished
    return replace(
        first_summary(origin),
        phase="finished" if is_over else "playing",
        steps=len(steps),
        episode_return=sum(rewards),
        reward_sum=sum(rewards),
        last_reward=rewards[-1] if rewards else None,
        best_reward=max(rewards, default=None),
        stop_reason="completed" if is_over else None,
        finished_at=origin.created_at + timedelta(seconds=len(steps)) if is_over else None,
    )


async def play(store: EpisodeStore, number: int, steps: int) -> None:
    """Write one episode as a session does, each step before the next."""
    origin, played = origin_of(number), list[Step]()
    name = origin.episode_id
    await store.open(origin)
    store.record_prompt(
        name, (TextBlock(text=f"What is {number // ATTEMPTS} + 1? {text_of(number // ATTEMPTS)}"),)
    )
    for place in range(1, steps + 1):
        played.append(step_of(number, place, steps))
        await store.append(name, played[-1], partial(summary_of, origin, played))
    summary = summary_of(origin, played)
    store.record_transition(name, Transition("end", "finished", "completed", origin.created_at), summary)
    await store.close(name, summary)


async def write(where: str, episodes: int, steps: int) -> dict[str, Any]:
    """Write episodes as sessions do, many at once, each step before the next."""
    store = await open_store(where, StoreOptions(durability=Durability.STEP))

    async def take(first: int) -> None:
        for number in range(first, episodes, WRITERS):
            await play(store, number, steps)

    async with anyio.create_task_group() as group:
        for first in range(WRITERS):
            group.start_soon(take, first)
    await store.aclose()
    return {"count": episodes * steps, "bytes": 0}


async def list_all(reader: RecordReader) -> int:
    """Go through every page of the list."""
    count, after = 0, None
    while page := await reader.page(ALL, after=after):
        count, after = count + len(page), page[-1].origin.episode_id
    return count


async def filter_some(reader: RecordReader) -> int:
    """Ask for one page of each of several filters."""
    some = [
        EpisodeFilter(environment="alpha", split="test"),
        EpisodeFilter(labels={"run": "r1"}),
        EpisodeFilter(min_return=1.0, stop_reason="completed"),
        EpisodeFilter(task_hash=f"{1:064x}"),
        EpisodeFilter(since=BEGINNING + timedelta(seconds=900), until=BEGINNING + timedelta(seconds=950)),
    ]
    return sum([len(await reader.page(wanted)) for wanted in some])


async def total(reader: RecordReader) -> int:
    """Sum up everything, and one environment."""
    await reader.totals(EpisodeFilter(environment="beta", closed=True))
    return (await reader.totals()).episodes


QUERIES: Mapping[str, Callable[[RecordReader], Awaitable[int]]] = MappingProxyType(
    {"list": list_all, "filter": filter_some, "totals": total}
)
WAYS = (*QUERIES, *FORMATS, "preferences")


async def read(way: str, where: str, folder: Path) -> dict[str, Any]:
    """Read the record in one way."""
    reader = await open_reader(where)
    try:
        if way in QUERIES:
            return {"count": await QUERIES[way](reader), "bytes": 0}
        return await export(way, reader, folder / f"{way}.out")
    finally:
        await reader.aclose()


async def export(way: str, reader: RecordReader, path: Path) -> dict[str, Any]:
    """Write an export."""
    counts = ExportCounts()
    with atomic_file(path) as sink:
        if way == "preferences":
            await write_lines(
                export_preferences(reader, ALL, Pairing(), ConversationOptions({}), counts), sink
            )
        else:
            form = make_format(way)
            rows = export_rows(reader.stream(), form, counts)
            await (write_lines(rows, sink) if form.columns is None else write_table(rows, sink, form.columns))
        size = sink.tell()
    return {"count": counts.rows, "bytes": size}


def peak() -> float:
    """Return the most memory that this process has had, in MiB.

    `ru_maxrss` would count the parent's too, from before this program was loaded.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise OSError("this system does not say how much memory a process has had")


def main() -> None:
    """Do what the command line says, and print what it took."""
    way, where, *rest = sys.argv[1:]
    started = time.perf_counter()
    if way == "write":
        found = anyio.run(write, where, int(rest[0]), int(rest[1]))
    else:
        found = anyio.run(read, way, where, Path(rest[0]))
    seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime
    sys.stdout.write(json.dumps({**found, "seconds": seconds, "cpu": cpu, "mib": peak(), "pid": os.getpid()}))


if __name__ == "__main__":
    main()
