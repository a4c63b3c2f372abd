"""Sessions from creation to their one teardown, whatever happens between."""

import asyncio
import threading

import anyio
import pytest

from ors_server import EpisodePolicy
from ors_server.model.errors import (
    EnvironmentFailedError,
    InvalidRequestError,
    SessionDeletedError,
    SessionExistsError,
    SessionExpiredError,
    SessionNotFoundError,
    StoreError,
    UnknownEnvironmentError,
    UnknownSplitError,
    UnknownTaskError,
)
from ors_server.model.recording import task_digest
from ors_server.sessions.session_call import Completed
from ors_server.sessions.session_request import IDS_KEPT, RecentIds, SessionLimits


async def test_a_session_is_made_set_up_played_and_torn_down_in_this_order(player, session, stage):
    await player.call(session, "pay", reward=1.0)
    assert await player.delete(session)
    assert stage.happened == ["made", "setup", "teardown"]
    with pytest.raises(SessionNotFoundError):
        player.engine.find(session)
    assert not await player.delete(session)


async def test_the_record_outlives_the_session(player):
    session = await player.create(split="train", index=1, credential_id="me")
    await player.call(session, "pay", reward=1.0)
    await player.delete(session)
    status = await player.engine.status(session)
    assert (status.origin.split, status.origin.index, status.origin.credential_id) == ("train", 1, "me")
    assert (status.summary.phase, status.summary.stop_reason) == ("deleted", "deleted")
    assert (status.idle_seconds, status.running_calls) == (None, 0)
    assert [step.reward for step in await player.steps(session)] == [1.0]
    assert status.origin.task_hash == task_digest({"id": "train-1", "nested": {"list": [1]}})


async def test_an_unknown_session_has_neither_status_nor_steps(player):
    with pytest.raises(SessionNotFoundError):
        await player.engine.status("nobody")
    with pytest.raises(SessionNotFoundError):
        await player.engine.steps("nobody")
    with pytest.raises(SessionNotFoundError):
        player.engine.find("nobody")


async def test_an_episode_that_finished_keeps_its_reason_when_its_session_is_deleted(player, session):
    await player.call(session, "pay", reward=1.0, finished=True)
    await player.delete(session)
    summary = await player.summary(session)
    assert (summary.phase, summary.stop_reason) == ("deleted", "completed")


async def test_an_id_can_be_used_again_after_deletion(player, stage):
    await player.create(session_id="mine")
    with pytest.raises(SessionExistsError):
        await player.create(session_id="mine")
    await player.delete("mine")
    await player.create(session_id="mine")
    assert (await player.summary("mine")).steps == 0
    assert stage.happened.count("made") == 2


async def test_of_many_creations_of_one_id_exactly_one_makes_an_instance(player, stage):
    outcomes = []

    async def create():
        try:
            outcomes.append(await player.create(session_id="mine"))
        except SessionExistsError:
            outcomes.append(None)

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(create)
    assert sorted(outcomes, key=str) == [None] * 7 + ["mine"]
    assert stage.happened.count("made") == 1


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"environment": "nosuch"}, UnknownEnvironmentError),
        ({"split": "nosuch", "index": 0}, UnknownSplitError),
        ({"split": "train", "index": 3}, UnknownTaskError),
        ({"split": "train", "index": -4}, UnknownTaskError),
        ({"split": "train"}, InvalidRequestError),
        ({"toolset": "nosuch"}, InvalidRequestError),
        ({"policy": {"step_limit": 0}}, InvalidRequestError),
        ({"policy": {"reward_range": None}}, InvalidRequestError),
        ({"task_spec": {"nan": float("nan")}}, InvalidRequestError),
        ({"task_spec": {"object": len}}, InvalidRequestError),
    ],
    ids=str,
)
async def test_a_wrong_order_makes_nothing(player, stage, wish, error):
    with pytest.raises(error):
        await player.create(session_id="mine", **wish)
    assert stage.happened == []
    await player.create(session_id="mine")


async def test_negative_indices_count_from_the_end(player, stage):
    await player.create(split="train", index=-1)
    assert stage.instances[0].task_spec["id"] == "train-2"


async def test_an_environment_cannot_change_its_tasks(player, stage):
    def spoil(env):
        env.task_spec["nested"]["list"].append("spoilt")
        del env.task_spec["id"]

    stage.acts["make"] = spoil
    session = await player.create(split="train", index=0)
    await player.create(split="train", index=0)
    assert (await player.engine.status(session)).origin.task_spec == {
        "id": "train-0",
        "nested": {"list": [0]},
    }


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt()], ids=repr)
async def test_a_constructor_that_raises_leaves_nothing_behind(open_player, stage, error):
    stage.fail("make", error)
    async with open_player(limits=SessionLimits(sessions=1)) as player:
        for _ in range(2):
            with pytest.raises(EnvironmentFailedError, match=type(error).__name__):
                await player.create(session_id="mine")
        del stage.acts["make"]
        await player.create(session_id="mine")
    assert stage.happened.count("teardown") == 1


async def test_a_constructor_that_hangs_is_given_up(open_player, stage):
    released = threading.Event()
    stage.acts["make"] = lambda env: released.wait(10)
    async with open_player(policy=EpisodePolicy(setup_time_limit=0.02)) as player:
        with pytest.raises(EnvironmentFailedError, match="constructor did not end within"):
            await player.create(session_id="mine")
        released.set()


async def test_a_record_that_cannot_be_opened_tears_the_instance_down(player, stage, store):
    store.fails = {"open"}
    with pytest.raises(StoreError):
        await player.create(session_id="mine")
    assert stage.happened == ["made", "teardown"]
    store.fails = set()
    await player.create(session_id="mine")


async def test_a_record_that_cannot_be_closed_ends_the_session_all_the_same(player, session, stage, store):
    store.fails = {"close"}
    assert await player.delete(session)
    store.error = KeyError("a defect")
    other = await player.create()
    assert await player.delete(other)
    with pytest.raises(SessionNotFoundError):
        player.engine.find(session)
    assert stage.happened.count("teardown") == 2


async def test_a_call_during_setup_waits_for_it_and_the_task_tools_do_not(player, stage):
    gate = stage.gate("setup")
    session = await player.create()
    call = await player.engine.find(session).call("pay", {"reward": 1.0})
    await anyio.wait_all_tasks_blocked()
    assert not call.is_done
    player.engine.find(session)
    assert (await player.engine.find(session).tools()).tools
    assert (await player.summary(session)).phase == "created"
    gate.set()
    with anyio.fail_after(10):
        assert (await call.wait()).output.reward == 1.0
    assert (await player.engine.find(session).prompt())[0].text == "play"


@pytest.mark.parametrize(
    "error", [RuntimeError("setup broke"), SystemExit(2), asyncio.CancelledError()], ids=repr
)
async def test_a_failed_setup_fails_every_request_but_not_the_ping(player, stage, error):
    async def fail(env):
        await anyio.lowlevel.checkpoint()
        raise error

    stage.acts["setup"] = fail
    session = await player.create()
    early = await player.engine.find(session).call("pay", {})
    with anyio.fail_after(10):
        assert isinstance((await early.wait()).error, EnvironmentFailedError)
    errors = []
    found = player.engine.find(session)
    for ask in (found.prompt, found.messages, found.tools):
        with pytest.raises(EnvironmentFailedError, match=type(error).__name__) as raised:
            await ask()
        errors.append(raised.value)
    with pytest.raises(EnvironmentFailedError):
        await player.engine.find(session).call("pay", {})
    assert len({id(e) for e in errors}) == 3, "an error that is raised again and again collects traceback"
    player.engine.find(session)
    status = await player.engine.status(session)
    assert (status.summary.phase, status.summary.stop_reason) == ("failed", "failed")
    assert type(error).__name__ in status.setup_error
    await player.delete(session)
    assert stage.happened.count("teardown") == 1


async def test_a_setup_is_waited_for_within_its_limit_or_without_one(open_player, stage):
    stage.acts["setup"] = lambda env: anyio.sleep_forever()
    async with open_player(policy=EpisodePolicy(setup_time_limit=0.02)) as player:
        session = await player.create()
        with (
            anyio.fail_after(10),
            pytest.raises(EnvironmentFailedError, match=r"did not end within 0\.02 seconds"),
        ):
            await player.engine.find(session).prompt()
    gate = stage.gate("setup")
    async with open_player(policy=EpisodePolicy(setup_time_limit=None)) as player:
        session = await player.create()
        await anyio.wait_all_tasks_blocked()
        gate.set()
        assert isinstance(await player.call(session, "pay"), Completed)


async def test_deleting_during_setup_stops_it_and_tears_down_once(player, stage):
    stage.acts["setup"] = lambda env: anyio.sleep_forever()
    session = await player.create()
    call = await player.engine.find(session).call("pay", {})
    waiting = []

    async def prompt():
        with pytest.raises(SessionDeletedError):
            await player.engine.find(session).prompt()
        waiting.append("told")

    async with anyio.create_task_group() as group:
        group.start_soon(prompt)
        await anyio.wait_all_tasks_blocked()
        await player.delete(session)
    with anyio.fail_after(10):
        assert isinstance((await call.wait()).error, SessionDeletedError)
    assert waiting == ["told"]
    assert stage.happened == ["made", "setup", "teardown"]
    assert (await player.summary(session)).started_at is None


async def test_teardown_waits_for_a_blocking_setup(open_player, stage, playground):
    released, running = threading.Event(), anyio.Event()
    loop = asyncio.get_running_loop()

    class Blocking(playground()):
        def setup(self):
            loop.call_soon_threadsafe(running.set)
            released.wait(10)
            stage.happened.append("setup ended")

    async with open_player(cls=Blocking, lingering_time_limit=10.0) as player:
        session = await player.create()
        with anyio.fail_after(10):
            await running.wait()
        async with anyio.create_task_group() as group:
            group.start_soon(player.delete, session)
            await anyio.wait_all_tasks_blocked()
            assert "teardown" not in stage.happened
            released.set()
    assert stage.happened == ["made", "setup ended", "teardown"]


async def test_a_blocking_setup_that_never_ends_is_left_behind(open_player, stage, playground):
    released = threading.Event()

    class Blocking(playground()):
        def setup(self):
            released.wait(10)

    async with open_player(cls=Blocking) as player:
        session = await player.create()
        await anyio.wait_all_tasks_blocked()
        assert await player.delete(session)
        released.set()
    assert stage.happened == ["made", "teardown"]


async def test_deleting_while_a_session_is_made_leaves_nothing_behind(player, stage):
    running, released = stage.hold("make")
    outcomes = []

    async def create():
        with pytest.raises(SessionDeletedError):
            await player.create(session_id="mine")
        outcomes.append("told")

    async def delete():
        outcomes.append(await player.delete("mine"))

    async with anyio.create_task_group() as group:
        group.start_soon(create)
        with anyio.fail_after(10):
            await running.wait()
        group.start_soon(delete)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(SessionExistsError):
            await player.create(session_id="mine")
        released.set()
    assert sorted(outcomes, key=str) == [True, "told"]
    assert stage.happened == ["made", "teardown"]


async def test_a_creator_that_leaves_loses_no_instance(player, stage):
    running, released = stage.hold("make")
    async with anyio.create_task_group() as group:
        group.start_soon(player.create)
        with anyio.fail_after(10):
            await running.wait()
        group.cancel_scope.cancel()
        released.set()
    live = await player.engine.sessions()
    for status in live:
        await player.delete(status.origin.session_id)
    assert stage.happened.count("made") == stage.happened.count("teardown") == 1


async def test_what_expired_is_told_apart_from_what_never_was(player, session, clock):
    for _ in range(3):
        await clock.advance(1000.0)
    with pytest.raises(SessionExpiredError, match="expired after 900 s idle"):
        player.engine.find(session)
    with pytest.raises(SessionNotFoundError) as unknown:
        player.engine.find("nobody")
    assert type(unknown.value) is SessionNotFoundError
    await player.create(session_id=session)
    player.engine.find(session)
    assert await player.delete(session)
    with pytest.raises(SessionNotFoundError) as deleted:
        player.engine.find(session)
    assert type(deleted.value) is SessionNotFoundError


async def test_only_the_latest_ids_are_remembered():
    ids = RecentIds()
    for number in range(IDS_KEPT + 1):
        ids.add(str(number))
    ids.discard("5")
    ids.discard("never")
    assert ("0" in ids, "1" in ids, "5" in ids, str(IDS_KEPT) in ids) == (False, True, False, True)
