"""The end of a session against a store that is slow or fails, and against requests that are cancelled."""

import anyio
import anyio.lowlevel
import pytest

from ors_server import ToolOutput
from ors_server.model.errors import SessionDeletedError, SessionNotFoundError, StoreError
from ors_server.sessions.session_call import Completed
from ors_server.sessions.session_request import SessionLimits

PATIENCE = 0.2
"""Seconds of real time that are longer than a session's end waits for a call that ignores it."""


def ignore_cancellation(stage, name: str, reward: float) -> anyio.Event:
    """Adds an act that pays once the event is set, whatever is cancelled."""
    gate = anyio.Event()

    async def ignore(*_args):
        with anyio.CancelScope(shield=True):
            await gate.wait()
        return ToolOutput(reward=reward)

    stage.acts[name] = ignore
    return gate


async def transitions(store, session) -> list[str]:
    return [transition.phase for transition in (await store.find(session)).transitions]


async def test_a_step_that_is_being_written_is_paid_once_and_told_to_its_caller(player, session, store):
    await player.call(session, "pay", reward=1.0)
    store.waits["append"] = anyio.Event()
    call = await player.engine.find(session).call("pay", {"reward": 2.0}, call_id="slow")
    await anyio.wait_all_tasks_blocked()
    async with anyio.create_task_group() as group:
        group.start_soon(player.delete, session)
        await anyio.sleep(PATIENCE)
        told_early = call.result
        store.waits["append"].set()
    assert told_early is None
    assert isinstance(call.result, Completed)
    assert store.appended == [(store.appended[0][0], 1), ("slow", 2)]
    record = await store.find(session)
    assert (record.summary.steps, record.summary.episode_return) == (2, 3.0)
    assert (record.summary.phase, record.summary.stop_reason, record.is_closed) == (
        "deleted",
        "deleted",
        True,
    )
    assert await transitions(store, session) == ["ready", "playing", "deleted"]


async def test_a_step_that_the_store_refuses_while_its_session_ends_is_pending_to_its_caller(
    player, session, store
):
    store.waits["append"] = anyio.Event()
    call = await player.engine.find(session).call("pay", {"reward": 2.0}, call_id="slow")
    await anyio.wait_all_tasks_blocked()
    async with anyio.create_task_group() as group:
        group.start_soon(player.delete, session)
        await anyio.sleep(PATIENCE)
        store.fails = {"append"}
        store.waits["append"].set()
    assert isinstance(call.result.error, StoreError)
    assert call.result.error.pending_call == "slow"
    record = await store.find(session)
    assert (record.summary.steps, record.summary.phase, record.is_closed) == (0, "deleted", False)


async def test_a_call_that_was_told_of_the_end_is_never_paid_while_another_is_written(
    open_player, stage, store
):
    gate = ignore_cancellation(stage, "hold", 5.0)
    async with open_player(lingering_time_limit=10.0) as player:
        session = await player.create()
        late = await player.engine.find(session).call("together", {"act": "hold"}, call_id="late")
        await anyio.wait_all_tasks_blocked()
        store.waits["append"] = anyio.Event()
        stage.acts["quick"] = lambda *_: ToolOutput(reward=1.0)
        quick = await player.engine.find(session).call("together", {"act": "quick"}, call_id="quick")
        await anyio.wait_all_tasks_blocked()
        async with anyio.create_task_group() as group:
            group.start_soon(player.delete, session)
            with anyio.fail_after(10):
                assert isinstance((await late.wait()).error, SessionDeletedError)
            gate.set()
            await anyio.sleep(PATIENCE)
            store.waits["append"].set()
        assert isinstance(quick.result, Completed)
    assert store.appended == [("quick", 1)]
    assert (await store.find(session)).summary.episode_return == 1.0


async def test_a_state_that_is_over_is_never_replaced(open_player, stage, store):
    gate = ignore_cancellation(stage, "hold", 5.0)
    async with open_player(lingering_time_limit=10.0) as player:
        session = await player.create()
        await player.engine.find(session).call("together", {"act": "hold"}, call_id="late")
        await anyio.wait_all_tasks_blocked()
        store.fails = {"append"}
        stage.acts["quick"] = lambda *_: ToolOutput(reward=1.0)
        await player.act(session, "quick", "together", call_id="quick")
        recorder = player.engine.find(session).recorder
        assert await player.delete(session)
        store.fails = set()
        gate.set()
        await anyio.sleep(PATIENCE)
        assert recorder.state.phase == "deleted"
    assert store.appended == []
    assert (await store.find(session)).summary.phase == "deleted"
    assert await transitions(store, session) == ["ready", "deleted"]


@pytest.mark.parametrize("leaves_at", ["teardown", "append"])
async def test_a_delete_that_is_cancelled_ends_the_session_and_its_quota_all_the_same(
    open_player, stage, store, leaves_at
):
    gate = stage.gate("teardown")
    async with open_player(limits=SessionLimits(sessions=1)) as player:
        session = await player.create()
        if leaves_at == "append":
            gate.set()
            gate = store.waits["append"] = anyio.Event()
            await player.engine.find(session).call("pay", {"reward": 1.0})
        async with anyio.create_task_group() as group:
            group.start_soon(player.engine.delete, session)
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        gate.set()
        await anyio.sleep(PATIENCE)
        assert await player.engine.sessions() == []
        with pytest.raises(SessionNotFoundError):
            player.engine.find(session)
        await player.create()


async def test_a_repeat_that_comes_while_the_session_ends_is_never_told_of_a_failure(
    open_player, stage, store
):
    ignore_cancellation(stage, "hold", 5.0)
    async with open_player(lingering_time_limit=0.2) as player:
        session = await player.create()
        live = player.engine.find(session)
        store.fails = {"append"}
        await player.call(session, "pay", "lost", reward=5.0)
        store.fails = set()
        await live.call("together", {"act": "hold"}, call_id="late")
        store.waits["append"] = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(player.delete, session)
            await anyio.lowlevel.checkpoint()
            repeat = await live.call("pay", {"reward": 5.0}, call_id="lost")
            await anyio.sleep(PATIENCE)
            store.waits["append"].set()
        assert isinstance(repeat.result, Completed)
    assert store.appended == [("lost", 1)]


async def test_a_repeat_of_a_pending_call_that_is_cancelled_still_gets_the_paid_answer(
    player, session, store
):
    store.fails = {"append"}
    await player.call(session, "pay", "lost", reward=5.0)
    store.fails, store.waits["append"] = set(), anyio.Event()
    live = player.engine.find(session)
    repeat = await live.call("pay", {"reward": 5.0}, call_id="lost")
    repeat.cancel()
    await anyio.wait_all_tasks_blocked()
    again = await live.call("pay", {"reward": 5.0}, call_id="lost")
    assert again is repeat
    store.waits["append"].set()
    with anyio.fail_after(10):
        assert isinstance(await repeat.wait(), Completed)
    assert (await player.call(session, "pay", "lost", reward=5.0)).output.reward == 5.0
    assert store.appended == [("lost", 1)]
