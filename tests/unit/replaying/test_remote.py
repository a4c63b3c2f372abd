"""Replays at a running server: the same as here, with sessions that are deleted again."""

import json
import urllib.request
from dataclasses import replace

import anyio
import pytest

from ors_server.client.connection import Patience
from ors_server.replaying.replay import ReplayRequest, replay_episode
from ors_server.replaying.replay_result import ReplayVerdict, StepVerdict
from ors_server.replaying.stage import open_server_stage
from tests.unit.replaying.conftest import Casino

LIMIT = 30.0
"""Seconds that one replay may take."""


class Tavern(Casino):
    """Declares what is volatile, and has other rules and tasks."""

    name = "tavern"
    volatile = (r"rolled \d+",)
    policy = Casino.policy.model_copy(update={"invalid_call_penalty": 0.5})

    @classmethod
    def list_tasks(cls, split):
        return [{"id": "another"}]


class Shut(Casino):
    """Cannot be entered."""

    name = "shut"

    async def setup(self) -> None:
        raise RuntimeError("closed today")


@pytest.fixture(scope="module")
def server(serve_live):
    return serve_live(Casino, Tavern, Shut)


def ask(server, path):
    with urllib.request.urlopen(f"{server.url}/_ors{path}") as answer:
        return json.load(answer)


@pytest.fixture
def there(server):
    async def play(episode, url=None, environment=None, **wish):
        with anyio.fail_after(LIMIT):
            async with open_server_stage(
                url or server.url, environment=environment, patience=Patience(seconds=2.0, attempts=1)
            ) as stage:
                return await replay_episode(episode, stage, ReplayRequest(**wish))

    return play


async def test_what_is_the_same_there_is_identical(record, there, casino, server):
    episode = await record(casino, ["fair", "cheat", "fly", "crash", ("say", {"text": "a"}), "leave"])
    replay = await there(episode)
    assert replay.verdict is ReplayVerdict.IDENTICAL
    assert replay.count(StepVerdict.SAME) == 6
    assert ask(server, "/sessions")["sessions"] == []


async def test_what_differs_there_is_found_and_what_is_volatile_there_is_not(record, there, casino):
    episode = await record(casino, ["foul"])
    assert (await there(episode)).verdict is ReplayVerdict.DIFFERENT
    assert (await there(episode, volatile=(r"\d+",))).verdict is ReplayVerdict.IDENTICAL
    replay = await there(episode, environment="tavern")
    assert replay.verdict is ReplayVerdict.IDENTICAL
    told = "\n".join(replay.notes)
    assert "the server's own invalid_call_penalty is another, and it cannot be overridden" in told
    assert "task 0 of split 'train' is another one there; the recorded one was played" in told
    assert "the environment was casino and is tavern" in told
    assert "the policy's invalid_call_penalty was 0.0 and is 0.5" in told


async def test_session_ids_differ_there_and_are_not_compared(record, there, casino):
    episode = await record(casino, ["who"], secrets={"door": "sesame"})
    assert (await there(episode, secrets={"door": "sesame"})).verdict is ReplayVerdict.IDENTICAL
    assert (await there(episode)).verdict is ReplayVerdict.DIFFERENT


async def test_rules_that_a_session_may_have_are_asked_for(record, there, casino):
    episode = await record(casino, ["fair", "fair", "fair"], policy={"step_limit": 2})
    replay = await there(episode)
    assert (replay.verdict, replay.count(StepVerdict.SAME)) == (ReplayVerdict.IDENTICAL, 2)


async def test_a_call_id_that_comes_twice_runs_twice(record, there, altered, casino):
    episode = await record(casino, ["fair", "fair"])
    episode = altered(episode, 2, call_id=episode.steps[0].call_id)
    assert (await there(episode)).verdict is ReplayVerdict.IDENTICAL


async def test_an_episode_that_ends_too_early_there_is_found(record, there, altered, casino):
    episode = altered(await record(casino, ["leave"]), 1, finished=False)
    longer = replace(episode, steps=(*episode.steps, replace(episode.steps[0], number=2)))
    replay = await there(longer)
    assert [step.verdict.value for step in replay.steps] == ["different", "different"]


async def test_a_setup_that_fails_there_is_found(record, there, casino):
    for prompt in (True, False):
        replay = await there(await record(casino, ["fair"], prompt=prompt), environment="shut")
        assert [(each.field, "closed today" in each.now) for each in replay.differences] == [("setup", True)]


async def test_a_task_that_is_not_there_is_told(record, there, casino):
    episode = await record(casino, ["fair"])
    origin = replace(episode.record.origin, index=99)
    replay = await there(replace(episode, record=replace(episode.record, origin=origin)))
    assert (
        "the server's environment has no task 99 of split 'train'; the recorded one was played"
        in replay.notes
    )


async def test_what_is_not_there_cannot_be_replayed(record, there, casino, unused_port):
    episode = await record(casino, ["fair"])
    unknown = await there(episode, environment="nosuch")
    assert (unknown.verdict, "nosuch" in unknown.failure) == (ReplayVerdict.FAILED, True)
    nobody = await there(episode, url=f"http://127.0.0.1:{unused_port}")
    assert (nobody.verdict, "not answered" in nobody.failure) == (ReplayVerdict.FAILED, True)


@pytest.fixture
def unused_port() -> int:
    return 9  # discard (RFC 863), which nothing serves on loopback here
