"""`episodes tail`: one episode until it ends, or everything until somebody has seen enough."""

import json
import queue
import re
import signal
import threading
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from ors_server.cli.episodes_tail import EpisodeWatch, event_line
from ors_server.model.recording import STEP
from ors_server.model.trajectory import first_summary
from ors_server.store.episode_filter import EpisodeFilter
from ors_server.store.memory import MemoryStore
from ors_server.testing.store_promises import make_origin, make_step
from tests.fixtures.workshop import HOSTILE, Player

LIMIT = 60


def test_a_tail_of_an_ended_episode_is_its_steps_and_its_figures(episodes, long_one):
    out = episodes("tail", long_one, "--start", "4").out
    assert re.findall(r"^step (\d)", out, re.MULTILINE) == ["5", "6"]
    assert "summary  deleted, completed" in out
    events = [json.loads(line) for line in episodes("tail", long_one, "--json").out.splitlines()]
    assert [event["event"] for event in events] == ["step"] * 6 + ["closed"]
    assert {event["episode_id"] for event in events} == {long_one}
    assert STEP.of_json(events[0]["step"]).tool == "make"
    assert events[-1]["summary"]["episode_return"] == 1.25


def test_a_tail_goes_on_until_the_session_is_gone(start, where, player):
    session_id, episode_id = player.create(index=2)
    player.call(session_id, "make")
    tail = start("tail", episode_id, *where)
    assert tail.stdout.readline().startswith("step 1  make")
    player.call(session_id, "draw")
    player.delete(session_id)
    out, err = tail.communicate(timeout=LIMIT)
    assert (tail.returncode, err) == (0, "")
    assert re.findall(r"^step (\d)", out, re.MULTILINE) == ["2"]
    assert "summary  deleted, deleted" in out


def events_of(process):
    """Reads a process's lines beside the test."""
    events: queue.Queue[Any] = queue.Queue()

    def read():
        for line in process.stdout:
            events.put(json.loads(line))

    threading.Thread(target=read, daemon=True).start()
    return events


def test_a_tail_of_everything_goes_on_until_it_is_interrupted(start, where, player, long_one):
    tail = start("tail", "--json", "--label", "watched=yes", *where)
    events = events_of(tail)
    seen: dict[str, list[Any]] = {}
    while not any(len(each) == 3 for each in seen.values()):  # nobody knows when it begins to look
        session_id, _ = player.create(labels={"watched": "yes"})
        player.call(session_id, "make", reward=0.5)
        player.delete(session_id)
        try:
            while True:
                event = events.get(timeout=1.0)
                seen.setdefault(event["episode_id"], []).append(event)
        except queue.Empty:
            continue
    told = next(each for each in seen.values() if len(each) == 3)
    assert [event["event"] for event in told] == ["opened", "step", "closed"]
    assert told[0]["episode"]["labels"] == {"watched": "yes"}
    assert STEP.of_json(told[1]["step"]).reward == 0.5
    assert told[2]["summary"]["episode_return"] == 0.5
    assert long_one not in seen
    tail.send_signal(signal.SIGINT)
    assert tail.wait(LIMIT) == 130


def test_a_server_that_stops_waits_for_nobody_who_reads(start, serve, refenv):
    server = serve(refenv)
    session_id, episode_id = Player(server.url).create(environment="refenv")
    Player(server.url).call(session_id, "echo", text="once")
    tail = start("tail", episode_id, "--url", server.url)
    assert tail.stdout.readline().startswith("step 1  echo")
    log = server.stop(with_signal=signal.SIGTERM)
    assert "Traceback" not in log
    assert "graceful shutdown exceeded" not in log
    assert tail.wait(LIMIT) == 1
    assert "the server is stopping" in tail.stderr.read()


NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Record:
    """A record in memory that a test writes, and a watch over it."""

    def __init__(self):
        self.store = MemoryStore()
        self.watch = EpisodeWatch(self.store, EpisodeFilter())
        self.origins = {}

    async def open(self, name, at=0.0, split="train"):
        origin = make_origin(
            3,
            environment=f"game{HOSTILE}",
            task_hash="0" * 64,
            split=split,
            index=None if split is None else 3,
            created_at=NOW + timedelta(seconds=at),
            labels={"run": HOSTILE},
            episode_id=name * 32,
        )
        self.origins[name] = origin
        await self.store.open(origin)

    async def step(self, name, *numbers):
        for number in numbers:
            step = make_step(number, tool=f"do{HOSTILE}", arguments={"text": HOSTILE * 10}, reward=0.5)
            await self.store.append(name * 32, step, partial(self.summary, name, number))

    def summary(self, name, steps):
        first = first_summary(self.origins[name])
        return type(first)(**{field: getattr(first, field) for field in first.__slots__} | {"steps": steps})

    async def close(self, name, steps=0):
        await self.store.close(name * 32, self.summary(name, steps))

    async def look(self):
        return [event async for event in self.watch.poll()]

    async def told(self):
        found = []
        for event in await self.look():
            name = "opened" if event.step is None else f"stepped{event.step.number}"
            found.append(f"{event.entry.episode_id[0]} {'closed' if event.summary else name}")
        return found


async def test_what_was_there_before_is_not_told():
    record = Record()
    await record.open("a")
    await record.step("a", 1, 2)
    await record.open("b")
    await record.close("b")
    await record.watch.begin()
    assert await record.told() == []
    await record.step("a", 3)
    assert await record.told() == ["a stepped3"]
    await record.close("a", steps=3)
    assert await record.told() == ["a closed"]
    assert await record.told() == []


async def test_all_that_happens_is_told_once_and_in_order():
    record = Record()
    await record.watch.begin()
    await record.open("a", at=1)
    await record.open("b", at=2)
    await record.step("b", 1)
    assert await record.told() == ["a opened", "b opened", "b stepped1"]
    await record.step("a", *range(1, 251))
    told = await record.told()
    assert told == [f"a stepped{number}" for number in range(1, 251)]
    assert await record.told() == []


async def test_an_episode_that_came_and_went_between_two_looks_is_told_whole():
    record = Record()
    await record.open("a", at=1)
    await record.watch.begin()
    for name in "bc":
        await record.open(name, at=1)
        await record.step(name, 1)
        await record.close(name, steps=1)
    expected = ["b opened", "b stepped1", "c opened", "c stepped1", "b closed", "c closed"]
    assert await record.told() == expected
    assert await record.told() == []


async def test_an_episode_whose_record_is_late_is_told_while_it_lives():
    record = Record()
    await record.open("a", at=5)
    await record.watch.begin()
    await record.open("b", at=1)
    assert await record.told() == ["b opened"]


async def test_an_episode_that_is_forgotten_is_told_no_more():
    record = Record()
    await record.open("a")
    await record.watch.begin()
    record.store._episodes.clear()
    assert await record.told() == []
    assert record.watch._seen == {}


@pytest.mark.parametrize("split", ["train", None])
async def test_each_happening_is_one_line_that_no_terminal_obeys(split):
    record = Record()
    await record.watch.begin()
    await record.open("a", split=split)
    await record.step("a", 1)
    lines = [event_line(event) for event in await record.look()]
    await record.close("a", steps=1)
    lines += [event_line(event) for event in await record.look()]
    assert [line.split("  ")[2].split(" ")[0] for line in lines[:2]] == ["opened", "step"]
    assert "closed" in lines[2]
    assert all(("train/3" if split else "00000000") in line for line in lines)
    assert re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e]", "".join(lines)) is None
    assert max(map(len, lines)) < 300
