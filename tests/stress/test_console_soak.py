"""Ten consoles are open on a server that is played on: its memory stays flat, and no page complains.

`ORS_CONSOLE_SOAK_MINUTES` says for how long (10 by default). The pages are those that update by themselves:
live episodes with their running calls, the overview, lists and runs; each is opened anew from time to time.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2
import pytest

from tests.fixtures.console_browser import WatchedPage, chromium

MINUTES = float(os.environ.get("ORS_CONSOLE_SOAK_MINUTES", "10"))
CONSOLES = 10
AGENTS = 8
CALLS = 12
"""Calls of one episode."""
WARM_UP = 0.3
"""Share of the time in which caches fill."""
SAMPLE_SECONDS = 2.0
MAX_GROWTH = 12 * 1024 * 1024
"""Bytes between the median of the first quarter after the warm-up and that of the last."""
FILE = Path(__file__).parents[1] / "fixtures" / "slow_environment.py"

pytestmark = [pytest.mark.stress, pytest.mark.timeout(int(MINUTES * 60) + 600)]


@pytest.fixture
def server():
    """A server process, and its address."""
    command = [sys.executable, "-m", "ors_server", "serve", f"{FILE}:Slow", "--port", "0", "--json"]
    command += ["--log-level", "error"]
    # SQLite's caches grow for as long as the record does, up to 32 MiB for each of five connections.
    store = ["--store", "memory"]
    # A server refuses variables that it does not know.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ORS_")}
    environment = {**kept, "PYTHONPATH": str(FILE.parents[2]), "ORS_RETAIN_EPISODES": "200"}
    with subprocess.Popen([*command, *store], stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield process, _address(process)
        finally:
            process.terminate()


def _address(process) -> str:
    return json.loads(process.stdout.readline())["url"]


def play(url: str, number: int, stop: threading.Event, played: list[int]) -> None:
    """Plays one episode after another until it is told to stop."""
    with httpx2.Client(base_url=url, timeout=60) as client:
        while not stop.is_set():
            order = {"split": "train", "index": 0, "labels": {"run": f"soak-{number % 3}"}}
            session = client.post("/_ors/sessions", json=order).json()["session_id"]
            for place in range(CALLS):
                arguments = {"command": f"echo {place}", "seconds": 0.4 * (number % 4)}
                body = {"name": "count", "arguments": arguments}
                client.post(f"/_ors/sessions/{session}/calls", json=body)
            client.delete(f"/_ors/sessions/{session}")
            played.append(number)


def resident_bytes(process) -> int:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def open_next(page: WatchedPage, client: httpx2.Client, place: int) -> None:
    """Opens what the place in the round shows; most are live episodes."""
    sessions = client.get("/_ors/sessions").json()["sessions"]
    others = ("/console", "/console/episodes?tab=live", "/console/episodes", "/console/runs")
    if place % CONSOLES < len(others) or not sessions:
        page.open(others[place % len(others)])
    else:
        page.open(f"/console/episodes/{sessions[place % len(sessions)]['episode_id']}")


def test_ten_consoles_leave_a_loaded_server_as_it_was(server):
    process, url = server
    stop = threading.Event()
    played: list[int] = []
    agents = [threading.Thread(target=play, args=(url, number, stop, played)) for number in range(AGENTS)]
    for agent in agents:
        agent.start()
    samples: list[int] = []
    minutes: dict[int, int] = {}
    running = 0
    with chromium() as browser, httpx2.Client(base_url=url, timeout=60) as client:
        pages = [WatchedPage(browser.new_context(), url) for _ in range(CONSOLES)]
        begun = time.monotonic()
        for place in itertools.count():
            if time.monotonic() - begun > MINUTES * 60:
                break
            page = pages[place % CONSOLES]
            open_next(page, client, place)
            page.page.wait_for_timeout(1000 * SAMPLE_SECONDS / 4)
            running += page.page.locator("#running .step").count()
            if place % 4 == 0:
                samples.append(resident_bytes(process))
                minutes[int((time.monotonic() - begun) // 60)] = samples[-1]
        by_console = [len(page.complaints) for page in pages]
        complaints = [complaint for page in pages for complaint in page.complaints]
    stop.set()
    for agent in agents:
        agent.join()
    rest = samples[round(WARM_UP * len(samples)) :]
    quarter = max(1, len(rest) // 4)
    early, late = statistics.median(rest[:quarter]), statistics.median(rest[-quarter:])
    sys.stdout.write(
        f"{len(played)} episodes beside {CONSOLES} consoles in {MINUTES:g} minutes; {running} running calls "
        f"seen; memory {early / 2**20:.1f} MiB after the warm-up, {late / 2**20:.1f} MiB at the end\n"
        f"MiB by minute: {' '.join(f'{size / 2**20:.1f}' for size in minutes.values())}\n"
        f"complaints by console: {by_console}\n"
    )
    assert complaints == []
    assert running > 0
    assert late - early <= MAX_GROWTH
