"""A hundred faults of hosts and front: nothing that was acknowledged is lost, or counted twice."""

import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from itertools import count
from typing import Any

import anyio
import httpx2
import pytest

from ors_server.processes.host_processes import send_signal
from ors_server.store.open import open_reader
from tests.contract.test_workers import ENVIRONMENT, connected, new_session, serving

FAULTS = int(os.environ.get("ORS_TEST_FAULTS", "100"))
PLAYERS = 8
CALLS = 12
"""Calls of one episode."""
PATIENCE = 60.0
"""Seconds for which a player repeats one call."""
HOSTS = ("ORS_HOST_SLOT=0/2", "ORS_HOST_SLOT=1/2")
PATH = f"/{ENVIRONMENT}/call"

pytestmark = [pytest.mark.stress, pytest.mark.timeout(1800)]


class Player(threading.Thread):
    """Plays episodes until it is stopped, and remembers what was acknowledged."""

    def __init__(self, workers, number):
        super().__init__()
        self.workers, self.number = workers, number
        self.stopping = threading.Event()
        self.answers = {}
        """Session id -> call id -> text of the answer."""
        self.lost = []
        self.errors = 0

    def run(self):
        for index in count():
            if self.stopping.is_set():
                return
            self.play(index % 200)

    def play(self, index):
        session_id = self.repeat(lambda client: new_session(client, index))
        answers = self.answers.setdefault(session_id, {})
        for number in range(CALLS):
            call_id = f"{self.number}-{index}-{number}"
            call = {"name": "calculator", "input": {"expression": f"{number}+{index}"}, "task_id": call_id}
            headers = {"X-Session-ID": session_id}

            def send(client, call=call, headers=headers):
                answered = client.post(PATH, headers=headers, json=call)
                if answered.status_code in {502, 503} or "event: error" in answered.text:
                    raise httpx2.ReadError(answered.text)
                assert answered.status_code == 200, answered.text
                return answered.text

            try:
                answers[call_id] = self.repeat(send)
            except AssertionError as error:
                self.lost.append((session_id, call_id, str(error)))
                return

    def repeat(self, send):
        """Send a request until it is answered, as a client does that repeats broken connections and 503."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with connected(self.workers) as client:
                    return send(client)
            except (httpx2.TransportError, IndexError):
                self.errors += 1
                if time.monotonic() > deadline:
                    raise AssertionError("no answer within the patience") from None
                time.sleep(0.05)


def strike(workers, random):
    """Do one fault."""
    kind = random.choice(["kill", "kill", "front", "stop"])
    with suppress(LookupError):
        if kind == "front":
            workers.kill("haproxy.cfg")
        elif kind == "kill":
            workers.kill(random.choice(HOSTS))
        else:
            pid = workers.pid_of(random.choice(HOSTS))
            send_signal(pid, signal.SIGSTOP, lambda pid: True)
            time.sleep(0.5)
            send_signal(pid, signal.SIGCONT, lambda pid: True)
    return kind


async def read_record(path):
    """Return the episodes on record with their steps, by session."""
    reader = await open_reader(str(path))
    found: dict[str, list[Any]] = {}
    try:
        async for record, steps in reader.stream():
            found.setdefault(record.origin.session_id, []).append((record, steps))
    finally:
        await reader.aclose()
    return found


def test_faults_lose_no_acknowledged_call_and_count_none_twice(tmp_path, capsys):
    chances = random.Random(20261128)  # noqa: S311  (a schedule, no secret)
    with serving(tmp_path) as workers:
        players = [Player(workers, number) for number in range(PLAYERS)]
        for player in players:
            player.start()
        struck = []
        for _ in range(FAULTS):
            # More than `MAX_STARTS` ends of one process within a minute would end the server, as they should.
            time.sleep(chances.uniform(8.0, 10.0))
            struck.append(strike(workers, chances))
        for player in players:
            player.stopping.set()
        for player in players:
            player.join()
        assert workers.stop() == 0
    acknowledged = {name: calls for player in players for name, calls in player.answers.items()}
    record = anyio.run(read_record, tmp_path / "episodes.db")
    for session_id, calls in acknowledged.items():
        [(summary, steps)] = record[session_id]
        ids = [step.call_id for step in steps]
        assert len(ids) == len(set(ids)), session_id
        assert set(calls) <= set(ids), session_id
        assert summary.summary.steps == len(steps)
        assert summary.summary.episode_return == sum(step.reward or 0.0 for step in steps)
        for step in steps:
            if step.call_id in calls:
                assert step.blocks[0].text in calls[step.call_id]
    total = sum(map(len, acknowledged.values()))
    lost = [item for player in players for item in player.lost]
    with capsys.disabled():
        kinds = {kind: struck.count(kind) for kind in sorted(set(struck))}
        repeats = sum(player.errors for player in players)
        played = f"{total} calls of {len(acknowledged)} episodes"
        sys.stdout.write(f"\n{kinds}: {played}, {repeats} repeats, {len(lost)} lost\n")
    assert not lost
