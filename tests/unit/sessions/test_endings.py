"""How sessions end: by deletion, by expiry, by shutdown; and what is answered until then."""

import asyncio
import logging
import threading

import anyio
import pytest

from ors_server import ToolOutput
from ors_server.model.errors import (
    CapacityError,
    EnvironmentFailedError,
    SessionDeletedError,
    SessionExistsError,
    SessionNotFoundError,
    ShuttingDownError,
)
from ors_server.sessions.session_call import Completed, Failure
from ors_server.sessions.session_request import SessionLimits, SessionRequest


async def test_deleting_stops_running_and_waiting_calls_before_teardown(player, session, stage):
    async def hang(env, context):
        try:
            await anyio.sleep_forever()
        finally:
            stage.happened.append("stopped")

    stage.acts["hang"] = hang
    running = await player.engine.find(session).call("do", {"act": "hang"})
    waiting = await player.engine.find(session).call("do", {"act": "never"})
    await anyio.wait_all_tasks_blocked()
    assert (await player.engine.status(session)).running_calls == 2
    await player.delete(session)
    for call in (running, waiting):
        assert isinstance(call.result.error, SessionDeletedError)
    assert stage.happened == ["made", "setup", "hang", "stopped", "teardown"]
    (step,) = await player.steps(session)
    assert (step.status, step.reward) == ("cancelled", None)


async def test_deleting_waits_for_a_blocking_tool_only_so_long_and_the_teardown_longer(open_player, stage):
    released = threading.Event()

    def hang(env, context):
        released.wait(10)
        stage.happened.append("ended")
        return ToolOutput()

    stage.acts["hang"] = hang
    async with open_player(lingering_time_limit=10.0) as player:
        session = await player.create()
        call = await player.engine.find(session).call("block", {"act": "hang"})
        await anyio.wait_all_tasks_blocked()
        assert await player.delete(session)
        assert isinstance(call.result, Failure)
        assert (await player.summary(session)).phase == "deleted"
        assert "teardown" not in stage.happened
        released.set()
    assert stage.happened[-2:] == ["ended", "teardown"]


async def test_a_tool_that_never_ends_is_left_behind_at_the_teardown(open_player, stage):
    released = threading.Event()
    stage.acts["hang"] = lambda env, context: released.wait(10) and ToolOutput()
    async with open_player() as player:
        session = await player.create()
        await player.engine.find(session).call("block", {"act": "hang"})
        await anyio.wait_all_tasks_blocked()
        assert await player.delete(session)
    assert stage.happened.count("teardown") == 1
    released.set()


async def test_an_async_tool_that_swallows_its_cancellation_keeps_nobody_waiting(open_player, stage):
    gate = anyio.Event()

    async def stubborn(env, context):
        while not gate.is_set():
            try:
                await gate.wait()
            except anyio.get_cancelled_exc_class():
                stage.happened.append("swallowed")
                if stage.happened.count("swallowed") > 10_000:
                    break
        return ToolOutput()

    stage.acts["stubborn"] = stubborn
    async with open_player() as player:
        session = await player.create()
        call = await player.engine.find(session).call("do", {"act": "stubborn"})
        await anyio.wait_all_tasks_blocked()
        assert await player.delete(session)
        gate.set()
        assert isinstance(call.result, Failure)
    assert "teardown" in stage.happened


async def test_whoever_deletes_at_once_waits_for_the_one_teardown(player, session, stage):
    gate = stage.gate("teardown")
    answers = []

    async def delete():
        answers.append(await player.delete(session))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(delete)
        await anyio.wait_all_tasks_blocked()
        assert answers == []
        with pytest.raises(SessionDeletedError):
            await player.engine.find(session).prompt()
        with pytest.raises(SessionDeletedError):
            await player.engine.find(session).tools()
        late = await player.engine.find(session).call("pay", {"reward": 1.0})
        with pytest.raises(SessionExistsError):
            await player.create(session_id=session)
        gate.set()
    with anyio.fail_after(10):
        assert isinstance((await late.wait()).error, SessionDeletedError)
    assert answers == [True] * 5
    assert stage.happened.count("teardown") == 1


async def test_a_deleter_that_leaves_does_not_stop_the_teardown(player, session, stage):
    gate = anyio.Event()

    async def teardown(env):
        await gate.wait()
        stage.happened.append("ended")

    stage.acts["teardown"] = teardown
    async with anyio.create_task_group() as group:
        group.start_soon(player.delete, session)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    gate.set()
    await anyio.wait_all_tasks_blocked()
    assert "ended" in stage.happened
    assert not await player.delete(session)  # nobody waited, and the session is gone
    with pytest.raises(SessionNotFoundError):
        player.engine.find(session)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), asyncio.CancelledError()], ids=repr)
async def test_a_teardown_that_fails_ends_the_session_all_the_same(player, session, stage, error):
    stage.fail("teardown", error)
    assert await player.delete(session)
    assert (await player.summary(session)).phase == "deleted"


async def test_a_teardown_that_hangs_is_given_up(open_player, stage):
    stage.acts["teardown"] = lambda env: anyio.sleep_forever()
    async with open_player(teardown_time_limit=0.02) as player:
        session = await player.create()
        assert await player.delete(session)


async def test_an_idle_session_expires_and_an_asked_for_one_does_not(player, stage, clock):
    idle, pinged = await player.create(), await player.create()
    for _ in range(4):
        await clock.advance(400.0)
        player.engine.find(pinged)
    with pytest.raises(SessionNotFoundError):
        player.engine.find(idle)
    summary = await player.summary(idle)
    assert (summary.phase, summary.stop_reason) == ("expired", "expired")
    assert stage.happened.count("teardown") == 1


async def test_looking_at_sessions_does_not_keep_them_alive(player, session, clock):
    await anyio.wait_all_tasks_blocked()
    for _ in range(3):
        assert len(await player.engine.sessions()) == 1
        await player.engine.status(session)
        await clock.advance(290.0)
    await clock.advance(50.0)
    assert await player.engine.sessions() == []


async def test_a_running_call_or_setup_keeps_a_session_alive_and_its_end_counts_as_a_request(
    player, stage, clock
):
    gates = {"setup": anyio.Event(), "work": anyio.Event()}

    async def work(env, context):
        await gates["work"].wait()
        return ToolOutput()

    stage.acts |= {"setup": lambda env: gates["setup"].wait(), "work": work}
    session = await player.create()
    await clock.advance(2000.0)
    gates["setup"].set()
    await clock.advance(10.0)
    call = await player.engine.find(session).call("do", {"act": "work"})
    await clock.advance(2000.0)
    gates["work"].set()
    await clock.advance(10.0)
    assert call.is_done
    await clock.advance(880.0)
    player.engine.find(session)


async def test_a_session_that_is_asked_for_just_as_it_expires_stays(player, session, clock, stage):
    await anyio.wait_all_tasks_blocked()
    clock.jump(2000.0)
    manager = player.engine
    expiring = anyio.create_task_group()
    async with expiring:
        expiring.start_soon(manager._expire, manager._sessions[session])
        player.engine.find(session)
    assert isinstance(await player.call(session, "pay"), Completed)


async def test_a_slow_teardown_delays_no_other_expiry(player, stage, clock):
    gate = anyio.Event()

    async def teardown(env):
        if env is stage.instances[0]:
            await gate.wait()

    stage.acts["teardown"] = teardown
    slow, quick = await player.create(), await player.create()
    await anyio.wait_all_tasks_blocked()
    await clock.advance(1000.0)
    with pytest.raises(SessionNotFoundError):
        player.engine.find(quick)
    for _ in range(3):
        await clock.advance(10.0)
    assert len(await player.engine.sessions()) == 1
    gate.set()
    await anyio.wait_all_tasks_blocked()
    with pytest.raises(SessionNotFoundError):
        player.engine.find(slow)
    assert stage.happened.count("teardown") == 2


async def test_shutting_down_tears_every_session_down_once_and_refuses_new_ones(open_player, stage):
    gate = stage.gate("teardown")
    refused = []

    async def create_late(player):
        await anyio.wait_all_tasks_blocked()
        try:
            await player.create()
        except ShuttingDownError:
            refused.append(True)
        gate.set()

    async with anyio.create_task_group() as group, open_player() as player:
        for _ in range(3):
            await player.create()
        group.start_soon(create_late, player)
    assert refused == [True]
    assert stage.happened.count("teardown") == 3


async def test_a_session_that_is_made_during_shutdown_is_torn_down(open_player, stage):
    running, released = stage.hold("make")
    told = []

    async def create(player):
        with pytest.raises(ShuttingDownError):
            await player.create()
        told.append(True)

    async def release():
        await anyio.wait_all_tasks_blocked()
        released.set()

    async with anyio.create_task_group() as group, open_player() as player:
        group.start_soon(create, player)
        with anyio.fail_after(10):
            await running.wait()
        group.start_soon(release)
    assert told == [True]
    assert stage.happened == ["made", "teardown"]


async def test_shutting_down_leaves_a_task_behind_that_ignores_its_cancellation(open_player, stage):
    gate = anyio.Event()

    async def stubborn(env, context):
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0.001)  # noqa: TID251  (so that swallowing does not starve the loop)
        return ToolOutput()

    stage.acts["stubborn"] = stubborn
    with anyio.fail_after(10):
        async with open_player() as player:
            session = await player.create()
            await player.engine.find(session).call("do", {"act": "stubborn"})
            await anyio.wait_all_tasks_blocked()
    gate.set()
    await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize(
    ("limits", "wishes"),
    [
        ({"sessions": 2}, [{}, {}, {}]),
        ({"sessions_per_environment": 2}, [{}, {}, {}]),
        (
            {"sessions_per_credential": 2},
            [{"credential_id": "a"}, {"credential_id": "a"}, {"credential_id": "a"}],
        ),
    ],
    ids=["all", "environment", "credential"],
)
async def test_no_limit_is_passed_even_by_asking_for_many_at_once(open_player, stage, limits, wishes):
    refused, made = [], []

    async with open_player(limits=SessionLimits(**limits)) as player:

        async def create(wish):
            try:
                made.append(await player.create(**wish))
            except CapacityError as error:
                refused.append(str(error))

        async with anyio.create_task_group() as group:
            for wish in wishes:
                group.start_soon(create, wish)
        assert len(made) == 2
        assert ["maximum capacity" in text for text in refused] == [True]
        await player.delete(made[0])
        await player.create(**wishes[0])
        if "credential" in str(limits):
            await player.create(credential_id="b")
            await player.create()


async def test_no_secret_and_no_task_is_in_a_repr_or_a_log_line(player, stage, caplog):
    caplog.set_level(logging.DEBUG)
    order = SessionRequest(task_spec={"answer": "forty-two"}, secrets={"KEY": "s3cr3t-value"})
    status = await player.engine.create(order)
    session = status.origin.session_id
    stage.acts["raise"] = lambda env, context: 1 / 0
    await player.act(session, "raise")
    await player.delete(session)
    shown = repr(order) + repr(status) + caplog.text
    assert "s3cr3t-value" not in shown
    assert "forty-two" not in shown


async def test_what_an_environment_offers_is_answered_only_by_name(player, session):
    with pytest.raises(Exception, match="offers no prompt"):
        await player.engine.find(session).offered_prompt("nosuch", {})
    with pytest.raises(Exception, match="offers no resource"):
        await player.engine.find(session).read_resource("nosuch://x")
    with pytest.raises(Exception, match="does not implement score_group"):
        await player.engine.find(session).score_group([])


@pytest.mark.parametrize("prompt", [None, 5, [5], {"text": "x"}, b"x"], ids=repr)
async def test_a_prompt_of_another_kind_is_the_authors_fault(player, stage, prompt):
    stage.acts["prompt"] = lambda env: prompt
    session = await player.create()
    for ask in (player.engine.find(session).prompt, player.engine.find(session).messages):
        with pytest.raises(EnvironmentFailedError, match="get_prompt must return"):
            await ask()


async def test_a_prompt_may_be_text_or_blocks_or_both(player, stage):
    stage.acts["prompt"] = lambda env: ["one", "two\ud800"]
    session = await player.create()
    assert [block.text for block in await player.engine.find(session).prompt()] == ["one", "two?"]
    (message,) = await player.engine.find(session).messages()
    assert (message.role, len(message.blocks)) == ("user", 2)
