"""A server that is played on for long: its memory is flat once its caches are full.

`ORS_SOAK_MINUTES` says for how long (2 by default), `ORS_SOAK_RATE` how many sessions a second (8). The
warm-up is what SQLite keeps of the record in memory, 32 MiB for the writer and for each reader: it lasts
until so much has been written (docs/record.md).
"""

import itertools
import os
import statistics
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from tests.fixtures.record_client import Line
from tests.fixtures.recording_server import RecordingServer

MINUTES = float(os.environ.get("ORS_SOAK_MINUTES", "2"))
RATE = float(os.environ.get("ORS_SOAK_RATE", "8"))
"""Sessions per second."""
WARM_UP_BYTES = 96 * 1024 * 1024
"""Size of the record from which on the caches are full."""
BULK = 20_000
"""Bytes of the texts and images that some steps show."""
SAMPLE_SECONDS = 2.0
MAX_GROWTH = 4 * 1024 * 1024
"""Bytes between the mean of the first third and that of the last."""
SIDE_BY_SIDE = 32

pytestmark = [pytest.mark.stress, pytest.mark.timeout(int(MINUTES * 60) + 900)]


@pytest.fixture
async def server(tmp_path) -> AsyncIterator[RecordingServer]:
    server = RecordingServer(str(tmp_path / "soak.db"), "--idle-seconds", "20")
    try:
        await server.start()
        yield server
    finally:
        server.close()


def resident_bytes(server: RecordingServer) -> int:
    """Returns the memory of its own that the server holds."""
    assert server._process is not None
    lines = Path(f"/proc/{server._process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def recorded_bytes(server: RecordingServer) -> int:
    return Path(server.store).stat().st_size


async def play(server: RecordingServer, number: int, bulk: int) -> None:
    """Plays a session in one of the ways in which clients do: to its end, with mistakes, or left alone."""
    line, session = Line(server.port), uuid4().hex
    environment = ("paying", "free")[number % 2]
    try:
        order = {"env_name": environment, "split": "test", "index": 0}
        assert (await line.post("/create", session, order)).status == 200
        calls = [("pay", {"amount": 0.1}), ("nonesuch", {}), ("refuse", {}), ("fail", {}), ("look", {})]
        if bulk:
            calls.append(("show", {"size": bulk, "mark": number}))
        if number % 4:
            calls.append(("finish", {"amount": 1.0}))
        for name, arguments in calls:
            await line.call(environment, session, {"name": name, "input": arguments})
        if number % 3:
            assert (await line.post("/delete", session, {})).status == 200
    finally:
        line.hang_up()


async def warm_up(server: RecordingServer) -> int:
    """Fills the caches as fast as the server can; returns how many sessions that took."""
    played = itertools.count()

    async def go_on() -> None:
        while recorded_bytes(server) < WARM_UP_BYTES:
            await play(server, next(played), BULK)

    async with anyio.create_task_group() as group:
        for _ in range(SIDE_BY_SIDE):
            group.start_soon(go_on)
    return next(played)


async def test_memory_is_flat_after_the_warm_up(server, capsys):
    before = resident_bytes(server)
    warmed = await warm_up(server)
    samples: list[int] = []
    async with anyio.create_task_group() as group:
        began, numbers = anyio.current_time(), itertools.count()
        due = began + SAMPLE_SECONDS
        while (now := anyio.current_time()) - began < MINUTES * 60:
            number = next(numbers)
            group.start_soon(play, server, number, BULK if number % 10 == 0 else 0)
            if now >= due:
                samples.append(resident_bytes(server))
                due += SAMPLE_SECONDS
            await anyio.sleep(max(0.0, began + (number + 1) / RATE - now))
    third = len(samples) // 3
    first, last = statistics.mean(samples[:third]), statistics.mean(samples[-third:])
    mib = [round(each / 2**20, 1) for each in (before, first, last, last - first)]
    with capsys.disabled():
        print(  # noqa: T201  (the figures are what is wanted)
            f"\n{warmed:,} sessions to warm up, then {next(numbers):,} in {MINUTES:g} minutes: at the start "
            f"{mib[0]} MiB, first third {mib[1]} MiB, last third {mib[2]} MiB, growth {mib[3]} MiB"
        )
    assert last - first < MAX_GROWTH
