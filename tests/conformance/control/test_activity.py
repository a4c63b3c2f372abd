"""The stream of everything that happens, and how a reader that was away comes back to it."""

import json

import anyio
import anyio.lowlevel
import pytest

from ors_server.doors.control import activity
from ors_server.sessions import activity as feeds
from tests.conformance.control.test_episodes import asgi_get, played, read_events

FOLLOWING = "following"


class Follower:
    """A reader of the stream, which leaves when it has read a text."""

    def __init__(self, control, query="", last_id=None):
        self.control = control
        self.scope = asgi_get("/_ors/events", query)
        if last_id is not None:
            self.scope["headers"].append((b"last-event-id", last_id.encode()))
        self.requests = [{"type": "http.request", "body": b"", "more_body": False}]
        self.text = ""
        self.status = None
        self.news = anyio.Event()
        self.is_done = anyio.Event()

    async def receive(self):
        if self.requests:
            return self.requests.pop()
        await self.is_done.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        self.status = message.get("status", self.status)
        self.text += message.get("body", b"").decode()
        self.news.set()

    async def until(self, text, times=1):
        with anyio.fail_after(60):
            while self.text.count(text) < times:
                self.news = anyio.Event()
                await self.news.wait()

    async def read(self, play=None, end="event: closed", times=1):
        """Read until the text `end` has come so many times; `play` begins once the stream has begun."""
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.control.app, self.scope, self.receive, self.send)
                await self.until(FOLLOWING)
                if play is not None:
                    await play()
                await self.until(end, times)
                self.is_done.set()
        return read_events(self.text)

    @property
    def last_id(self):
        return [line for line in self.text.splitlines() if line.startswith("id: ")][-1].removeprefix("id: ")


async def test_a_reader_that_comes_back_gets_exactly_what_it_missed(control):
    first = Follower(control)
    before = await first.read(lambda: played(control, 0.25))
    missed_one = await played(control, 0.5)
    missed_two = await played(control, 0.75, labels={"run": "a"})
    after = await Follower(control, last_id=first.last_id).read(times=2)
    assert [kind for kind, _, _ in after] == ["opened", "call", "step", "closed"] * 2
    assert [data["episode_id"] for _, data, _ in after] == [missed_one] * 4 + [missed_two] * 4
    assert before[-1][2] == first.last_id
    only = await Follower(control, "label=run=a", before[0][2]).read()
    assert {data["episode_id"] for _, data, _ in only} == {missed_two}


async def test_a_reader_without_an_event_comes_back_with_the_id_of_the_beginning(control):
    first = Follower(control)
    assert await first.read(end=FOLLOWING) == []
    name = await played(control, 0.25)
    after = await Follower(control, last_id=first.last_id).read()
    assert {data["episode_id"] for _, data, _ in after} == {name}


async def test_a_reader_learns_how_many_events_are_not_kept_any_more(control, monkeypatch):
    monkeypatch.setattr(feeds, "MAX_WAITING", 4)
    first = Follower(control)
    await first.read(end=FOLLOWING)
    await played(control, *[0.0] * 5)
    after = await Follower(control, last_id=first.last_id).read()
    assert [kind for kind, _, _ in after] == ["missed", "step", "call", "step", "closed"]
    assert after[0][1] == 2 + 2 * 5 - 4


async def test_a_reader_of_an_earlier_process_is_told_that_events_may_be_missing(control):
    name = ""

    async def play():
        nonlocal name
        name = await played(control, 0.25)

    after = await Follower(control, last_id="h0.00000000.7").read(play)
    assert [kind for kind, _, _ in after] == ["missed", "opened", "call", "step", "closed"]
    assert after[0][1] is None
    assert {data["episode_id"] for _, data, _ in after[1:]} == {name}


@pytest.mark.parametrize("last_id", ["7", "h0.xyz.1", "h0.00000000.1,", "h0.00000000.1\nh1", "9" * 60_000])
async def test_an_id_that_no_event_has_is_refused(control, last_id):
    answer = await control.get("/events?seconds=0", headers={"Last-Event-ID": last_id.replace("\n", " ")})
    assert (answer.status_code, json.loads(answer.text)["code"]) == (422, "invalid_request")


async def test_nothing_is_kept_when_nobody_has_followed_for_a_while(control, monkeypatch):
    monkeypatch.setattr(activity, "KEPT_SECONDS", 0.0)
    first = Follower(control)
    await first.read(end=FOLLOWING)
    await anyio.lowlevel.checkpoint()  # the call that forgets is the loop's next one
    await played(control, 0.25)
    after = await Follower(control, last_id=first.last_id).read(end="event: missed")
    assert [(kind, data) for kind, data, _ in after] == [("missed", None)]


async def test_so_many_follow_at_once(control, monkeypatch):
    monkeypatch.setattr(activity, "MAX_FOLLOWERS", 0)
    answer = await control.get("/events?seconds=0")
    assert (answer.status_code, answer.json()["code"]) == (429, "capacity")
