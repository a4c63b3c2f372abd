"""A hundred faults of hosts, front and record: nothing that was acknowledged is lost, or counted twice.

Half of the clients give their calls ids. A call without an id that breaks may have run when it is sent again,
so that it may be on record twice; it breaks once at most.
"""

import os
import random
import re
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

import anyio
import httpx2
import pytest

from ors_server.processes.host_processes import send_signal
from ors_server.store.open import open_reader
from tests.contract.test_workers import ENVIRONMENT, FRONT, connected, serving
from tests.fixtures.small_disk import SmallDisk
from tests.postgres import running_postgres

PAUSE = 0.2
"""Seconds between two calls of a player: the faults matter, and the disk of the record is small."""
FAULTS = int(os.environ.get("ORS_TEST_FAULTS", "100"))
PLAYERS = 8
CALLS = 12
"""Calls of one episode."""
PATIENCE = 60.0
"""Seconds for which a player repeats one request."""
HOSTS = ("h0", "h1")
PATH = f"/{ENVIRONMENT}/call"

pytestmark = [pytest.mark.stress, pytest.mark.timeout(3600)]


class Answer(NamedTuple):
    """The answer to a request, and what became of the attempts before it."""

    text: str
    refused: int
    """Attempts that were answered with 503."""
    broken: int
    """Attempts that ended without an answer, or with 502: they may have run."""


class Player(threading.Thread):
    """Plays episodes until it is stopped, and remembers what was acknowledged."""

    def __init__(self, workers, number):
        super().__init__()
        self.workers, self.number = workers, number
        self.names_calls = number % 2 == 0
        self.stopping = threading.Event()
        self.answers = {}
        """Session id -> expression of the call -> answer."""
        self.lost = []
        self.errors = 0

    def run(self):
        for index in count():
            if self.stopping.is_set():
                return
            try:
                self.play(index % 200, index)
            except AssertionError as error:
                self.lost.append(str(error))

    def play(self, task, index):
        drawn = self.repeat("/create_session").text
        session_id = re.findall(r"[0-9a-f-]{36}", drawn)[-1]
        headers = {"X-Session-ID": session_id}
        # The same creation until it is answered, as `openreward` repeats it.
        body = {"env_name": ENVIRONMENT, "split": "test", "index": task}
        self.repeat("/create", headers=headers, json=body)
        answers = self.answers.setdefault(session_id, {})
        for number in range(CALLS):
            expression = f"{number}+{index}"
            call = {"name": "calculator", "input": {"expression": expression}}
            if self.names_calls:
                call["task_id"] = f"{self.number}-{expression}"
            answers[expression] = self.repeat(PATH, headers=headers, json=call)
            self.stopping.wait(PAUSE)

    def repeat(self, path, **words):
        """Send a request until it is answered, as a client does that repeats broken connections and 503."""
        deadline = time.monotonic() + PATIENCE
        problem = ""
        refused = broken = 0
        while time.monotonic() < deadline:
            try:
                with connected(self.workers) as client:
                    answered = client.post(path, **words)
                text = answered.text
            except httpx2.TransportError as error:
                problem = repr(error)
                broken += 1
            else:
                problem = f"{answered.status_code} {text}"
                if answered.status_code not in {502, 503} and text and "event: error" not in text:
                    assert answered.status_code == 200, f"{path} of {words}: {problem}"
                    return Answer(text, refused, broken)
                if answered.status_code == 503:
                    refused += 1
                else:
                    broken += 1
            self.errors += 1
            time.sleep(0.05)
        raise AssertionError(f"{path} of {words} had no answer within {PATIENCE:.0f} s, at last {problem}")


def kill_host(workers, _players, chances):
    workers.kill(chances.choice(HOSTS))


def kill_front(workers, _players, _chances):
    workers.kill(FRONT)


def stop_host(workers, _players, chances):
    pid = workers.pid_of(chances.choice(HOSTS))
    send_signal(pid, signal.SIGSTOP, lambda pid: True)
    time.sleep(0.5)
    send_signal(pid, signal.SIGCONT, lambda pid: True)


class SQLiteFile:
    """A record on a small disk, which may be full for a while."""

    def __init__(self, folder):
        self.disk = SmallDisk(folder / "disk", 256)
        self.where = str(self.disk.folder / "episodes.db")
        self.fault = self.fill_disk

    def fill_disk(self, _workers, players, chances):
        self.disk.fill()
        # SQLite's log has some room of its own at first.
        repeats, deadline = count_repeats(players), time.monotonic() + PATIENCE
        while count_repeats(players) == repeats:
            assert time.monotonic() < deadline, "no call failed on a full disk"
            time.sleep(0.05)
        time.sleep(chances.uniform(0.5, 2.0))
        self.disk.empty()

    def close(self):
        self.disk.unmount()


class Database:
    """A record in PostgreSQL, which may be restarted, in order or after its processes were killed."""

    def __init__(self, _folder):
        self._running = running_postgres()
        self._server = self._running.__enter__()
        self.where = self._server.create_database()
        self.fault = self.restart_database

    def restart_database(self, _workers, _players, chances):
        end = chances.choice([self._server.stop, lambda: self._server.stop("immediate"), self._server.kill])
        end()
        self._server.start()

    def close(self):
        self._running.__exit__(None, None, None)


def count_repeats(players):
    return sum(player.errors for player in players)


async def read_record(where):
    """Return the episodes on record with their steps, by session."""
    reader = await open_reader(where)
    found: dict[str, list[Any]] = {}
    try:
        async for record, steps in reader.stream():
            found.setdefault(record.origin.session_id, []).append((record, steps))
    finally:
        await reader.aclose()
    return found


def expressions_of(steps):
    return Counter(step.arguments["expression"] for step in steps)


def check_record(player, answers, episodes):
    """Check a session's one episode: every acknowledged call is there, and once if it was sent once."""
    [(summary, steps)] = episodes
    played = expressions_of(steps)
    assert set(answers) <= set(played), summary.origin.session_id
    for expression, times in played.items():
        answer = answers.get(expression)
        assert times == 1 or (answer and not player.names_calls and times <= 1 + answer.broken), expression
    assert player.names_calls or all(answer.broken <= 1 for answer in answers.values())
    assert summary.summary.steps == len(steps)
    assert summary.summary.episode_return == sum(step.reward or 0.0 for step in steps)
    for step in steps:
        answer = answers.get(step.arguments["expression"])
        if answer is not None:
            assert step.blocks[0].text in answer.text


def describe(players, record):
    """Say how many calls these players made, and what became of those that broke."""
    sessions = {name: answers for player in players for name, answers in player.answers.items()}
    calls = [answer for answers in sessions.values() for answer in answers.values()]
    twice = sum(
        times > 1
        for name in sessions
        for _, steps in record.get(name, ())
        for times in expressions_of(steps).values()
    )
    kind = "with" if players[0].names_calls else "without"
    refused = sum(call.refused > 0 for call in calls)
    broken = Counter(call.broken for call in calls if call.broken)
    return (
        f"{kind} ids: {len(calls)} calls of {len(sessions)} episodes, {refused} refused at first, "
        f"{broken.total()} broken (at most {max(broken, default=0)} times), {twice} on record twice"
    )


@pytest.fixture(params=[SQLiteFile, Database])
def place(request, tmp_path):
    made = request.param(tmp_path)
    yield made
    made.close()


def test_faults_lose_no_acknowledged_call_and_count_none_twice(tmp_path, place, capsys):
    chances = random.Random(20261128)  # noqa: S311  (a schedule, no secret)
    kinds = [kill_host, kill_host, kill_front, stop_host, place.fault]
    with serving(tmp_path, "--store", place.where) as workers:
        players = [Player(workers, number) for number in range(PLAYERS)]
        for player in players:
            player.start()
        struck = []
        try:
            for _ in range(FAULTS):
                # More than `MAX_STARTS` ends of one process within a minute end the server, as they should.
                time.sleep(chances.uniform(8.0, 10.0))
                strike = chances.choice(kinds)
                with suppress(LookupError):
                    strike(workers, players, chances)
                struck.append(strike.__name__)
        finally:
            for player in players:
                player.stopping.set()
            for player in players:
                player.join()
        assert workers.stop() == 0
    record = anyio.run(read_record, place.where)
    lost = [item for player in players for item in player.lost]
    with capsys.disabled():
        figures = {kind: struck.count(kind) for kind in sorted(set(struck))}
        sys.stdout.write(f"\n{figures}: {count_repeats(players)} repeats, {len(lost)} lost\n")
        for names_calls in (True, False):
            chosen = [player for player in players if player.names_calls is names_calls]
            sys.stdout.write(f"{describe(chosen, record)}\n")
    for player in players:
        for session_id, answers in player.answers.items():
            check_record(player, answers, record[session_id])
    assert not lost
