"""Calls whose step the store would not take: pending, counted, paid once, and run once."""

import anyio

from ors_server import ToolOutput
from ors_server.model.errors import StoreError
from ors_server.sessions.session_call import Completed, RefusalReason


async def test_a_step_that_cannot_be_stored_is_pending_and_the_summary_counts_it(player, session, store):
    await player.call(session, "pay", reward=1.0)
    store.fails = {"append"}
    lost = await player.call(session, "pay", "lost", reward=5.0, finished=True)
    assert (lost.error.pending_call, lost.step) == ("lost", None)
    assert "step 2 waits to be written: ask again under the call id 'lost'" in str(lost.error)
    status = await player.engine.status(session)
    assert (status.summary.steps, status.summary.episode_return, status.pending_steps) == (2, 6.0, 1)
    assert status.summary.phase == "finished"
    assert len(await player.steps(session)) == 1
    store.fails = set()
    assert (await player.call(session, "pay", "lost", reward=5.0, finished=True)).step == 2
    status = await player.engine.status(session)
    assert (status.summary.steps, status.summary.episode_return, status.pending_steps) == (2, 6.0, 0)


async def test_a_call_that_did_not_run_is_not_pending(player, session, store, stage):
    stage.acts.update(first=lambda *_: "one", second=lambda *_: "two")
    store.fails = {"append"}
    await player.act(session, "first", "say", call_id="first")
    second = await player.act(session, "second", "say", call_id="second")
    assert second.error.pending_call is None
    assert (await player.engine.status(session)).pending_steps == 1
    store.fails = set()
    assert (await player.act(session, "second", "say", call_id="second")).step == 2
    assert stage.happened.count("second") == 1


async def test_a_call_that_was_asked_for_often_and_written_by_another_does_not_run_again(
    player, session, store, stage
):
    stage.acts.update(first=lambda *_: "one", second=lambda *_: "two")
    store.fails = {"append"}
    for _ in range(3):
        await player.act(session, "first", "say", call_id="first")
    store.fails = set()
    assert (await player.act(session, "second", "say", call_id="second")).step == 2
    assert (await player.act(session, "first", "say", call_id="first")).step == 1
    assert stage.happened.count("first") == 1


async def test_calls_that_ran_at_once_are_all_written_later_and_none_runs_twice(
    player, session, store, stage
):
    gate = anyio.Event()

    async def wait(env, context):
        await gate.wait()
        return ToolOutput.ongoing(context.call_id, reward=1.0)

    stage.acts["wait"] = wait
    calls = [
        await player.engine.find(session).call("together", {"act": "wait"}, call_id=f"call-{n}")
        for n in range(3)
    ]
    await anyio.wait_all_tasks_blocked()
    store.fails = {"append"}
    gate.set()
    with anyio.fail_after(10):
        lost = [await call.wait() for call in calls]
    assert [each.error.pending_call for each in lost] == ["call-0", "call-1", "call-2"]
    status = await player.engine.status(session)
    assert (status.summary.steps, status.summary.episode_return, status.pending_steps) == (3, 3.0, 3)
    store.fails = set()
    written = [await player.act(session, "wait", "together", call_id=f"call-{n}") for n in reversed(range(3))]
    assert [result.step for result in written] == [3, 2, 1]
    assert stage.happened.count("wait") == 3


async def test_a_caller_without_ids_that_asks_again_gets_the_step_that_is_pending(
    player, session, store, stage
):
    stage.acts["work"] = lambda *_: "done"
    store.fails = {"append"}
    for _ in range(2):
        assert isinstance((await player.act(session, "work", "say")).error, StoreError)
    store.fails = set()
    assert (await player.act(session, "work", "say")).step == 1
    assert stage.happened.count("work") == 1
    assert (await player.act(session, "work", "say")).step == 2


async def test_a_named_call_is_never_taken_for_one_without_a_name(player, session, store, stage):
    stage.acts["work"] = lambda *_: "done"
    store.fails = {"append"}
    await player.act(session, "work", "say", call_id="mine")
    store.fails = set()
    assert (await player.act(session, "work", "say")).step == 2
    assert stage.happened.count("work") == 2


async def test_a_tool_that_fails_for_a_record_of_its_own_has_failed_once_and_for_all(player, session, stage):
    stage.fail("fail", StoreError("the tool's own database is gone"))
    for _ in range(2):
        failed = await player.act(session, "fail", call_id="mine")
        assert (failed.error.pending_call, failed.step) == (None, 1)
    assert stage.happened.count("fail") == 1


async def test_a_step_that_could_not_be_stored_is_written_when_it_is_asked_for_again(
    player, session, store, stage
):
    stage.acts["work"] = lambda *_: "done"
    store.fails = {"append"}
    for _ in range(2):
        assert isinstance((await player.act(session, "work", "say", call_id="lost")).error, StoreError)
    store.fails = set()
    written = await player.act(session, "work", "say", call_id="lost")
    assert written.step == 1
    assert await player.act(session, "work", "say", call_id="lost") is written
    assert stage.happened.count("work") == 1


async def test_no_tool_runs_before_the_step_before_it_is_on_record(player, session, store, stage):
    stage.acts.update(first=lambda *_: "one", second=lambda *_: "two")
    store.fails = {"append"}
    await player.act(session, "first", "say", call_id="first")
    assert isinstance((await player.act(session, "second", "say", call_id="second")).error, StoreError)
    assert "second" not in stage.happened
    store.fails = set()
    second = await player.act(session, "second", "say", call_id="second")
    first = await player.act(session, "first", "say", call_id="first")
    assert (first.step, second.step) == (1, 2)
    assert [step.call_id for step in await player.engine.steps(session)] == ["first", "second"]
    assert (stage.happened.count("first"), stage.happened.count("second")) == (1, 1)


async def test_an_end_that_could_not_be_stored_ends_the_episode_before_the_next_call(player, session, store):
    store.fails = {"append"}
    await player.call(session, "pay", "end", reward=5.0, finished=True)
    store.fails = set()
    assert (await player.call(session, "pay", reward=1.0)).reason is RefusalReason.EPISODE_FINISHED
    assert (await player.call(session, "pay", "end", reward=5.0, finished=True)).output.reward == 5.0
    assert (await player.summary(session)).episode_return == 5.0


async def test_a_step_that_could_not_be_stored_is_written_before_its_session_ends(player, session, store):
    store.fails = {"append"}
    await player.call(session, "pay", reward=5.0)
    store.fails = set()
    await player.engine.delete(session)
    summary = (await player.engine.status(session)).summary
    assert (summary.steps, summary.episode_return, summary.phase) == (1, 5.0, "deleted")


async def test_a_record_whose_last_step_is_missing_is_never_closed(player, session, store):
    store.fails = {"append"}
    await player.call(session, "pay", reward=5.0)
    await player.engine.delete(session)
    record = await store.find(session)
    assert (record.is_closed, record.summary.steps, record.summary.phase) == (False, 0, "deleted")


async def test_a_refusal_that_cannot_be_stored_is_no_refusal(player, session, store):
    store.fails = {"append"}
    assert isinstance((await player.call(session, "nonesuch")).error, StoreError)
    assert (await player.engine.status(session)).pending_steps == 1
    assert not await player.steps(session)


async def test_a_defect_of_the_store_is_told_as_a_defect_of_ours_and_hurts_only_its_call(
    player, session, store
):
    store.fails, store.error = {"append"}, KeyError("oops")
    result = await player.call(session, "pay", reward=1.0)
    assert result.error.code == "internal_error"
    assert "oops" not in str(result.error)
    store.fails = set()
    assert isinstance(await player.call(session, "pay", reward=1.0), Completed)
