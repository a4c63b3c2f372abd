"""Ten thousand sessions over four hosts, nearly all of them idle: their memory, and calls in some of them.

`ORS_TEST_IDLE_SECONDS` says for how long (600 by default), `ORS_TEST_IDLE_SESSIONS` how many sessions.
"""

import os
import random
import re
import sys
import time
from pathlib import Path

import anyio
import httpx2
import pytest

from ors_server.processes.host_processes import descendants
from tests.contract.test_workers import ENVIRONMENT, KEY, PATIENCE, serving

SECONDS = float(os.environ.get("ORS_TEST_IDLE_SECONDS", "600"))
SESSIONS = int(os.environ.get("ORS_TEST_IDLE_SESSIONS", "10000"))
HOSTS = 4
WARM_UP = 400
"""Sessions before whose creation memory is not measured: modules and caches of the hosts take some, too."""
CREATORS = 16
PLAYERS = 8
PAUSE = 0.1
"""Seconds between two calls of a player."""
MAX_KIB = 10.0
"""KiB that an idle session may hold, as in `bench/idle_sessions.py`."""
CPUCLOCK_SCHED = 2
"""The kind of a process's clock in the id of it: linux/posix-timers.h."""

pytestmark = [pytest.mark.stress, pytest.mark.timeout(int(SECONDS) + 1800)]


def hosts_of(running):
    """Return the processes of a server's hosts."""
    below = descendants(running.process.pid)[1:]
    return [pid for pid in below if b"ORS_HOST_SLOT" in Path(f"/proc/{pid}/environ").read_bytes()]


def resident_kib(pids):
    """Return the memory of their own that processes hold."""
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    return sum(int(re.search(r"RssAnon:\s+(\d+)", text)[1]) for text in texts)


def cpu_seconds(pids):
    """Return the processor time of processes, ended threads included."""
    return sum(time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED) for pid in pids)


class Load:
    """Creates the sessions, and calls tools in some of them."""

    def __init__(self, http):
        self.http = http
        self.names = [f"idle-{number}" for number in range(SESSIONS)]
        self.seconds = []
        """What each call took."""
        self.problems = []

    async def post(self, path, name, body):
        try:
            answered = await self.http.post(path, headers={"X-Session-ID": name}, json=body)
        except httpx2.TransportError as error:
            self.problems.append(repr(error))
            return ""
        if answered.status_code != 200:
            self.problems.append(f"{answered.status_code} {answered.text}")
        return answered.text

    async def create(self, names):
        for name in names:
            body = {"env_name": ENVIRONMENT, "split": "test", "index": int(name.partition("-")[2]) % 200}
            await self.post("/create", name, body)

    async def play(self, number):
        chances = random.Random(number)  # noqa: S311  (which session is next)
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            await anyio.sleep(PAUSE)
            call = {"name": "calculator", "input": {"expression": f"{number}+1"}}
            started = time.monotonic()
            text = await self.post(f"/{ENVIRONMENT}/call", chances.choice(self.names), call)
            self.seconds.append(time.monotonic() - started)
            if f'"{number + 1}"' not in text:
                self.problems.append(text)

    async def run(self, work, items):
        async with anyio.create_task_group() as group:
            for item in items:
                group.start_soon(work, item)


async def test_ten_thousand_idle_sessions_hold_little_and_calls_in_them_are_answered(tmp_path, capsys):
    flags = ("--max-sessions", str(2 * SESSIONS), "--idle-seconds", str(SECONDS + 1800))
    async with httpx2.AsyncClient(timeout=PATIENCE, headers={"X-API-Key": KEY}) as http:
        with serving(tmp_path, *flags, workers=HOSTS, is_prepared=False) as running:
            http.base_url = running.url
            hosts = hosts_of(running)
            load = Load(http)
            await load.create(load.names[:WARM_UP])
            before = resident_kib(hosts)
            names = load.names[WARM_UP:]
            await load.run(load.create, [names[number::CREATORS] for number in range(CREATORS)])
            held = (resident_kib(hosts) - before) / len(names)
            quiet, since = cpu_seconds(hosts), time.monotonic()
            await anyio.sleep(SECONDS / 10)
            quiet = (cpu_seconds(hosts) - quiet) / (time.monotonic() - since)
            await load.run(load.play, range(PLAYERS))
            after = (resident_kib(hosts) - before) / len(names)
            text = (await http.get("/metrics")).text
            live = sum(
                float(value) for value in re.findall(r"^ors_sessions\{.*\} (\S+)$", text, re.MULTILINE)
            )
    load.seconds.sort()
    with capsys.disabled():
        sys.stdout.write(
            f"\n{SESSIONS:,} sessions over {HOSTS} hosts, {SECONDS:g} s: {held:.1f} KiB a session, "
            f"{after:.1f} after {len(load.seconds):,} calls; {100 * quiet:.1f} % of a processor before them; "
            f"p50 {1000 * load.seconds[len(load.seconds) // 2]:.1f} ms, "
            f"p99 {1000 * load.seconds[len(load.seconds) * 99 // 100]:.1f} ms, "
            f"longest {1000 * load.seconds[-1]:.0f} ms; {len(load.problems)} errors; "
            f"load {os.getloadavg()[0]:.1f}\n"
        )
    assert load.problems == []
    assert live == SESSIONS
    assert held <= MAX_KIB
