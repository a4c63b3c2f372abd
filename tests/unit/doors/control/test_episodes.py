"""Following an episode over the control API: what is sent while it is played, and what is left afterwards."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

import anyio
import pytest
from pydantic import TypeAdapter

from ors_server.doors.access import Keyring
from ors_server.doors.control import app as control_app
from ors_server.doors.control import episodes as control_episodes
from ors_server.doors.control.app import ControlApp
from ors_server.doors.control.episodes import EpisodeHandlers, EpisodeRecordView
from ors_server.doors.control.operations import encode
from ors_server.model.clock import SystemClock
from ors_server.model.errors import StoreError
from ors_server.model.settings import Settings
from ors_server.model.trajectory import (
    EpisodeOrigin,
    EpisodeRecord,
    Fork,
    Step,
    StepStatus,
    Transition,
    first_summary,
)
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.sessions.manager import SessionManager
from ors_server.store.episode_updates import MAX_STEPS
from ors_server.store.memory import MemoryStore
from ors_server.testing import FakeClock

LIMIT = 10.0
PING = 10.0
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ORIGIN = EpisodeOrigin(
    session_id="s",
    environment="game",
    environment_version="1",
    server_version="1",
    task_spec={"a": [1, None]},
    task_hash="0" * 64,
    split="train",
    index=1,
    created_at=NOW,
    policy={"step_limit": 4, "of_a_later_version": True},
    credential_id="key",
    forked_from=Fork("other", 2),
    sandbox={"backend": "scripted", "gaps": ["all"]},
    seed=3,
    labels={"run": "a"},
    packages={"python": "3"},
)
ID = ORIGIN.episode_id


def make_step(number, **changes):
    fields = {
        "number": number,
        "call_id": f"c{number}",
        "tool": "do",
        "arguments": {"n": number},
        "status": StepStatus.GRADED,
        "blocks": (TextBlock(text="a\nb"), ImageBlock(data="AAAA", mimeType="image/png")),
        "reward": 0.5,
        "components": {"tool": 0.5},
        "finished": False,
        "error": None,
        "error_code": None,
        "metadata": {"deep": [1]},
        "started_at": NOW,
        "duration": 0.25,
    }
    return Step(**fields | changes)


class ScriptedStore(MemoryStore):
    """Fails when a test says so, and tells how often it was asked."""

    def __init__(self):
        super().__init__()
        self.error: BaseException | None = None
        self.asked = 0

    async def steps(self, *args):
        self.asked += 1
        if self.error is not None:
            raise self.error
        return await super().steps(*args)

    async def add(self, *numbers, **changes):
        for number in numbers:
            await self.append(ID, make_step(number, **changes), partial(first_summary, ORIGIN))

    def forget(self):
        self._episodes.clear()


class Reader:
    """A client of an event stream, without a socket."""

    def __init__(self, door, *, method="GET", path=f"/_ors/episodes/{ID}/events"):
        self.door = door
        self.scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"host", b"localhost")],
        }
        self.sent: list[Any] = []
        self._asked = False
        self._left = anyio.Event()
        self.served = anyio.Event()

    async def receive(self):
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b""}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.sent.append(message)

    async def read(self):
        await self.door(self.scope, self.receive, self.send)
        self.served.set()

    def leave(self):
        self._left.set()

    @property
    def text(self):
        return b"".join(message.get("body", b"") for message in self.sent).decode()

    @property
    def names(self):
        return [line.removeprefix("event: ") for line in self.text.splitlines() if line.startswith("event")]

    @property
    def is_over(self):
        return bool(self.sent) and self.sent[-1].get("more_body", False) is False and len(self.sent) > 1


@pytest.fixture
async def store():
    store = ScriptedStore()
    await store.open(ORIGIN)
    return store


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def handlers(store, clock):
    return EpisodeHandlers(store, clock=clock, ping_seconds=PING)


@pytest.fixture
def door(handlers):
    return ControlApp(cast("SessionManager", None), Keyring(), Settings(), episodes=handlers)


@pytest.fixture
async def reading(door):
    """Lets somebody read; whoever still reads at the end of the test leaves."""
    readers: list[Reader] = []
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:

            async def start(**kwargs):
                reader = Reader(door, **kwargs)
                readers.append(reader)
                tasks.start_soon(reader.read)
                await anyio.wait_all_tasks_blocked()
                return reader

            yield start
            for reader in readers:
                reader.leave()


async def test_each_step_is_sent_when_it_is_there_and_the_figures_at_the_end(reading, store, clock):
    await store.add(1)
    reader = await reading()
    assert reader.names == ["step", "summary"]
    await store.add(2)
    await clock.advance(1)
    assert reader.names == ["step", "summary", "step"]
    await store.close(ID, first_summary(ORIGIN))
    await clock.advance(1)
    assert reader.names == ["step", "summary", "step", "end"]
    assert reader.is_over
    await reader.served.wait()


async def test_changed_figures_are_sent(reading, store, clock):
    reader = await reading()
    moved = Transition(event="setup_done", phase="ready", stop_reason=None, at=NOW)
    changed = first_summary(ORIGIN)
    store.record_transition(ID, moved, changed)
    await clock.advance(1)
    assert reader.names == ["summary"]
    store.record_transition(ID, moved, replace(changed, phase="ready"))
    await clock.advance(1)
    assert reader.names == ["summary", "summary"]
    assert '"phase":"ready"' in reader.text


async def test_a_client_that_leaves_leaves_nothing_behind(reading, store, clock):
    reader = await reading()
    assert clock.sleepers == 1
    reader.leave()
    await reader.served.wait()
    assert clock.sleepers == 0
    asked = store.asked
    await clock.advance(100)
    assert store.asked == asked
    assert not reader.is_over


async def test_a_silent_stream_says_that_it_is_alive(reading, clock):
    reader = await reading()
    assert ": ping" not in reader.text
    await clock.advance(PING * 3 + 5)
    assert reader.text.count(": ping\n\n") == 3
    assert reader.names == ["summary"]


async def test_the_store_is_asked_less_often_while_nothing_happens(reading, store, clock):
    await reading()
    await clock.advance(100)
    assert store.asked <= 100 + 20
    before = store.asked
    await store.add(1)
    await clock.advance(1)
    await clock.advance(0.3)
    assert store.asked >= before + 3


async def test_a_long_record_is_sent_piece_by_piece(reading, store):
    await store.add(*range(1, 2 * MAX_STEPS + 2))
    await store.close(ID, first_summary(ORIGIN))
    reader = await reading()
    assert reader.names == [*["step"] * MAX_STEPS, "summary", *["step"] * (MAX_STEPS + 1), "end"]
    assert reader.text.count("\nid: ") == 2 * MAX_STEPS + 1


@pytest.mark.parametrize("count", [0, MAX_STEPS, 2 * MAX_STEPS])
async def test_a_record_of_whole_pieces_ends_too(reading, store, count):
    await store.add(*range(1, count + 1))
    await store.close(ID, first_summary(ORIGIN))
    reader = await reading()
    assert reader.names.count("step") == count
    assert reader.names[-1] == "end"


@pytest.mark.parametrize(
    ("error", "code"),
    [(StoreError("the disk is full"), "store_unavailable"), (RuntimeError("sesame"), "internal_error")],
)
async def test_a_failure_on_the_way_is_the_last_event(reading, store, clock, error, code):
    reader = await reading()
    store.error = error
    await clock.advance(1)
    assert reader.names == ["summary", "error"]
    problem = json.loads(reader.text.split("data: ")[-1])
    assert problem["code"] == code
    assert "sesame" not in reader.text
    assert reader.is_over


async def test_a_failure_before_the_first_event_is_an_answer(reading, store):
    async def fail(name):
        raise StoreError("the disk is full")

    store.find = fail
    reader = await reading()
    assert reader.sent[0]["status"] == 503
    assert "store_unavailable" in reader.text


async def test_an_episode_that_is_forgotten_ends_its_stream(reading, store, clock):
    reader = await reading()
    store.forget()
    await clock.advance(1)
    assert reader.names == ["summary", "error"]
    assert '"episode_not_found"' in reader.text


async def test_a_server_that_stops_ends_its_streams(reading, handlers, clock):
    reader = await reading()
    handlers.stop()
    await clock.advance(1)
    assert reader.names == ["summary", "error"]
    assert '"shutting_down"' in reader.text
    assert reader.is_over


async def test_what_is_no_json_ends_the_stream_and_blames_the_author(reading, store):
    await store.add(1, metadata={"x": float("nan")})
    reader = await reading()
    assert reader.names == ["error"]
    assert '"blame":"author"' in reader.text


async def test_so_many_follow_at_once_and_whoever_leaves_makes_room(reading, door, clock, monkeypatch):
    monkeypatch.setattr(control_episodes, "MAX_FOLLOWERS", 2)
    first, _ = await reading(), await reading()
    refused = await reading()
    await refused.served.wait()
    assert (refused.sent[0]["status"], json.loads(refused.text)["code"]) == (429, "capacity")
    first.leave()
    await first.served.wait()
    admitted = await reading()
    assert admitted.sent[0]["status"] == 200


async def test_whoever_reads_nothing_for_too_long_is_left(door, monkeypatch, handlers):
    monkeypatch.setattr(control_app, "READ_PATIENCE", 0.01)

    class Sleeper(Reader):
        async def send(self, message):
            await super().send(message)
            if message.get("body"):
                await anyio.sleep_forever()

    reader = Sleeper(door)
    with anyio.fail_after(LIMIT):
        await reader.read()
    assert len(reader.sent) == 2
    assert handlers._followers == 0


async def test_long_steps_are_written_one_after_another(reading, store):
    for number in range(1, 6):
        await store.add(number, blocks=(TextBlock(text="x" * 50_000),))
    reader = await reading()
    bodies = [message["body"] for message in reader.sent[1:]]
    assert reader.names == ["step"] * 5 + ["summary"]
    assert max(map(len, bodies)) < 2 * control_episodes.MAX_PIECE


async def test_the_real_clock_serves_as_well(store):
    await store.close(ID, first_summary(ORIGIN))
    handlers = EpisodeHandlers(store, clock=SystemClock(), ping_seconds=PING)
    reader = Reader(ControlApp(cast("SessionManager", None), Keyring(), Settings(), episodes=handlers))
    with anyio.fail_after(LIMIT):
        await reader.read()
    assert reader.names == ["summary", "end"]


RECORDS = {
    "full": EpisodeRecord(
        ORIGIN,
        first_summary(ORIGIN),
        (TextBlock(text="play", detail={"a": 1}), ImageBlock(data="AAAA", mimeType="image/png")),
        (Transition("delete", "deleted", "deleted", NOW),),
        is_closed=True,
    ),
    "bare": EpisodeRecord(
        EpisodeOrigin("s", "game", "1", "1", {}, "0" * 64, None, None, NOW, {}), first_summary(ORIGIN)
    ),
}


@pytest.mark.parametrize("name", RECORDS)
def test_what_is_shown_of_an_episode_is_the_whole_record(name):
    shown = EpisodeRecordView.of(RECORDS[name]).model_dump_json(by_alias=True)
    assert EpisodeRecordView.model_validate_json(shown).as_record() == RECORDS[name]


def test_what_is_shown_of_a_step_is_the_whole_step():
    for step in (make_step(1), make_step(2, reward=None, components={}, error="no", error_code="x")):
        assert TypeAdapter(Step).validate_json(encode(step)) == step
