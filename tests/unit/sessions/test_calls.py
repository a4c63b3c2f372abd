"""Calls: what is paid and counted, ids that never run twice, results that nobody may claim any more."""

import functools
import operator

import anyio
import pytest
from anyio.lowlevel import checkpoint

from ors_server import EpisodePolicy, ForbiddenActionError, TextBlock, ToolError, ToolOutput
from ors_server.model.errors import CallCancelledError, CallIdReusedError, UnknownCallError
from ors_server.model.trajectory import StepStatus
from ors_server.sessions.session_call import Call, Completed, Failure, Refusal, RefusalReason


async def test_the_return_is_the_float_sum_of_the_rewards_in_step_order(player, session):
    rewards = [0.1, 0.2, 0.3, -1e17, 1e17, 0.1, None, 0.7]
    paid = [(await player.call(session, "pay", reward=reward)).output.reward for reward in rewards]
    summary = await player.summary(session)
    assert paid == rewards
    assert summary.episode_return == functools.reduce(
        operator.add, [r for r in rewards if r is not None], 0.0
    )
    assert (summary.steps, summary.ungraded_steps) == (8, 1)


async def test_every_output_states_the_standing_after_its_step(open_player):
    policy = EpisodePolicy(step_limit=5, time_limit=100.0, invalid_call_penalty=0.25)
    async with open_player(policy=policy) as player:
        session = await player.create()
        await player.call(session, "pay", reward=1.0)
        output = (await player.call(session, "nonesuch")).output
    assert output.reward == -0.25
    assert output.metadata["episode"] == {
        "step": 2,
        "return": 0.75,
        "withheld": 0.0,
        "penalty_sum": -0.25,
        "penalties": {"invalid_call": -0.25},
        "unjudged_steps": 0,
        "steps_remaining": 3,
        "time_remaining": 100.0,
        "stop_reason": None,
        "components": {"invalid_call": -0.25},
        "refused": "not_found",
    }


async def test_an_authors_metadata_stays_beside_the_standing_which_wins(player, session, stage):
    stage.acts["report"] = lambda env, context: ToolOutput(metadata={"mine": 1, "episode": "fake"})
    metadata = (await player.act(session, "report")).output.metadata
    assert metadata["mine"] == 1
    assert metadata["episode"]["step"] == 1


async def test_a_repeated_id_gets_the_first_result_and_runs_nothing(player, session, stage):
    stage.acts["count"] = lambda env, context: ToolOutput.ongoing(
        str(stage.happened.count("count")), reward=1.0
    )
    first = await player.call(session, "do", "mine", act="count")
    again = await player.call(session, "do", "mine", act="count")
    assert first is again
    for tool_name, arguments in (("pay", {"reward": 5.0}), ("do", {"act": "other"}), ("do", {})):
        with pytest.raises(CallIdReusedError, match="'mine' is taken by a call of 'do'"):
            await player.call(session, tool_name, "mine", **arguments)
    assert stage.happened.count("count") == 1
    assert (await player.summary(session)).episode_return == 1.0


async def test_the_same_id_asked_for_at_once_runs_once(player, session, stage):
    gate = stage.gate("wait", ToolOutput.ongoing("done", reward=1.0))
    results = []

    async def ask():
        results.append(await player.call(session, "do", "mine", act="wait"))

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert len({id(result) for result in results}) == 1
    assert len(results) == 8
    assert len(await player.steps(session)) == 1


async def test_the_same_id_in_two_sessions_is_two_calls(player):
    one, two = await player.create(), await player.create()
    await player.call(one, "pay", "mine", reward=1.0)
    await player.call(two, "pay", "mine", reward=2.0)
    assert (await player.summary(one)).episode_return == 1.0
    assert (await player.summary(two)).episode_return == 2.0


async def test_a_repeated_id_is_answered_after_the_end_of_the_episode(player, session):
    last = await player.call(session, "pay", "last", reward=1.0, finished=True)
    late = await player.call(session, "pay", "late", reward=1.0)
    assert await player.call(session, "pay", "last", reward=1.0, finished=True) is last
    assert last.output.finished
    assert (late.reason, late.step) == (RefusalReason.EPISODE_FINISHED, None)
    assert (await player.summary(session)).episode_return == 1.0


async def test_no_answer_repeats_the_whole_of_a_long_name(player, session):
    name = "n" * 100_000
    refused = await player.call(session, name, "mine")
    with pytest.raises(CallIdReusedError) as reused:
        await player.call(session, f"{name}2", "mine")
    await player.call(session, "pay", "last", finished=True)
    late = await player.call(session, name, "late")
    assert late.reason is RefusalReason.EPISODE_FINISHED
    for text in (refused.error, str(reused.value), late.error):
        assert "'nnn" in text
        assert len(text) < 1_000


async def test_only_the_latest_refusals_after_the_end_are_kept(player, session):
    await player.call(session, "pay", "last", finished=True)
    for number in range(70):
        await player.call(session, "pay", f"late-{number}")
    with pytest.raises(UnknownCallError):
        await player.engine.find(session).resume("late-0")
    assert (await player.engine.find(session).resume("late-69")).is_done
    assert (await player.engine.find(session).resume("last")).is_done
    assert (await player.summary(session)).steps == 1


async def test_a_result_is_discarded_when_another_call_ended_the_episode(player, session, stage):
    gate = stage.gate("wait", ToolOutput.ongoing("late", reward=1.0))
    slow = await player.engine.find(session).call("together", {"act": "wait"})
    await anyio.wait_all_tasks_blocked()
    await player.call(session, "pay", reward=0.5, finished=True)
    gate.set()
    with anyio.fail_after(10):
        result = await slow.wait()
    assert isinstance(result, Refusal)
    assert "discarded" in result.error
    assert "was not run" not in result.error
    assert (await player.summary(session)).episode_return == 0.5


async def test_calls_that_waited_for_their_turn_do_not_run_after_the_end(player, session, stage):
    gate = stage.gate("end", ToolOutput.final("over", reward=1.0))
    first = await player.engine.find(session).call("do", {"act": "end"})
    second = await player.engine.find(session).call("do", {"act": "never"})
    await anyio.wait_all_tasks_blocked()
    gate.set()
    with anyio.fail_after(10):
        assert (await first.wait()).output.finished
        assert (await second.wait()).reason is RefusalReason.EPISODE_FINISHED
    assert "never" not in stage.happened


async def test_steps_are_numbered_in_the_order_of_their_ends_and_each_states_its_own_sum(
    player, session, stage
):
    gates = [stage.gate(f"wait{n}", ToolOutput.ongoing(reward=float(n))) for n in range(3)]
    calls = [await player.engine.find(session).call("together", {"act": f"wait{n}"}) for n in range(3)]
    await anyio.wait_all_tasks_blocked()
    for gate in reversed(gates):
        gate.set()
        await anyio.wait_all_tasks_blocked()
    standings = [call.result.output.metadata["episode"] for call in calls]
    assert [(s["step"], s["return"]) for s in standings] == [(3, 3.0), (2, 3.0), (1, 2.0)]
    assert [step.number for step in await player.steps(session)] == [1, 2, 3]


async def test_a_step_records_the_call_as_it_was(player, session, clock, stage):
    async def slow(env, context):
        clock.jump(2.5)
        return ToolOutput.ongoing("shown", reward=0.5, metadata={"why": "because"})

    stage.acts["slow"] = slow
    clock.jump(1.0)
    await player.call(session, "do", "mine", act="slow")
    (step,) = await player.steps(session)
    assert (step.call_id, step.tool, step.arguments) == ("mine", "do", {"act": "slow"})
    assert (step.status, step.reward, step.components) == (StepStatus.GRADED, 0.5, {"tool": 0.5})
    assert step.blocks == (TextBlock(text="shown"),)
    assert step.metadata["why"] == "because"
    assert (step.error, step.error_code, step.finished) == (None, None, False)
    assert step.duration == 2.5
    assert step.started_at.isoformat() == "2026-01-01T00:00:01+00:00"


async def test_an_invalid_call_is_a_step_that_nothing_ran_for(player, session, stage):
    unknown = await player.call(session, "nonesuch")
    wrong = await player.call(session, "pay", reward="much")
    assert unknown.reason is RefusalReason.NOT_FOUND
    assert unknown.error.startswith("'nonesuch' is not a valid tool; the tools are ")
    assert "pay" in unknown.error
    assert wrong.reason is RefusalReason.INPUT_VALIDATION
    assert wrong.error.startswith("Tool input validation error: ")
    steps = await player.steps(session)
    assert [(step.status, step.error_code) for step in steps] == [
        (StepStatus.REFUSED, "not_found"),
        (StepStatus.REFUSED, "input_validation"),
    ]
    assert [unknown.step, wrong.step] == [1, 2]


@pytest.mark.parametrize(
    ("error", "cause", "field"),
    [
        (ToolError("no such file"), "tool_error", "tool_error_penalty"),
        (ForbiddenActionError, "forbidden", "forbidden_penalty"),
    ],
)
async def test_a_tools_own_refusal_is_told_to_the_agent_and_may_cost(open_player, stage, error, cause, field):
    stage.fail("refuse", error)
    async with open_player(policy=EpisodePolicy(**{field: 0.5})) as player:
        session = await player.create()
        result = await player.act(session, "refuse")
        (step,) = await player.steps(session)
    assert result.is_error
    assert result.output.reward == -0.5
    assert result.output.metadata["error"]["code"] == cause
    assert step.components == {cause: -0.5}
    assert step.error == result.output.blocks[0].text


async def test_a_forbidden_action_may_end_the_episode(open_player, stage):
    stage.fail("refuse", ForbiddenActionError("rm -rf"))
    async with open_player(policy=EpisodePolicy(forbidden_ends=True)) as player:
        session = await player.create()
        result = await player.act(session, "refuse")
        assert result.output.finished
        assert (await player.summary(session)).stop_reason == "blocked"


async def test_an_episode_ends_with_the_last_step_of_its_limit_and_overlong_steps_cost(open_player):
    async with open_player(policy=EpisodePolicy(step_limit=2)) as player:
        session = await player.create()
        assert not (await player.call(session, "pay", reward=1.0)).output.finished
        ended = await player.call(session, "nonesuch")
        assert isinstance(ended, Completed)
        assert ended.output.finished
        assert (await player.call(session, "pay", reward=1.0)).reason is RefusalReason.EPISODE_FINISHED
        summary = await player.summary(session)
    assert (summary.steps, summary.stop_reason, summary.phase) == (2, "step_limit", "finished")
    async with open_player(policy=EpisodePolicy(overlong_after=1, overlong_penalty=0.1)) as player:
        session = await player.create()
        paid = [(await player.call(session, "pay", reward=r)).output.reward for r in (1.0, 1.0, None)]
        summary = await player.summary(session)
    assert paid == [1.0, 0.9, -0.1]
    assert summary.penalties == {"overlong": -0.2}
    assert summary.reward_sum == 2.0


async def test_time_that_lapses_between_calls_ends_the_episode_at_its_deadline(open_player, clock):
    async with open_player(policy=EpisodePolicy(time_limit=10.0)) as player:
        session = await player.create()
        await player.call(session, "pay", reward=1.0)
        await clock.advance(25.0)
        for _ in range(2):  # looking changes nothing
            summary = await player.summary(session)
            assert (summary.phase, summary.stop_reason) == ("finished", "time_limit")
            assert (summary.finished_at - summary.started_at).total_seconds() == 10.0
        late = await player.call(session, "pay", reward=1.0)
        assert late.reason is RefusalReason.EPISODE_FINISHED
        assert "time_limit" in late.error
        await player.delete(session)
        assert (await player.summary(session)).stop_reason == "time_limit"


async def test_a_call_that_passes_the_deadline_is_paid_whether_or_not_somebody_looks(
    open_player, clock, stage
):
    async with open_player(policy=EpisodePolicy(time_limit=10.0)) as player:
        session = await player.create()
        gate = stage.gate("wait", ToolOutput.ongoing(reward=1.0))
        call = await player.engine.find(session).call("do", {"act": "wait"})
        await anyio.wait_all_tasks_blocked()
        clock.jump(11.0)
        await player.summary(session)
        gate.set()
        with anyio.fail_after(10):
            result = await call.wait()
        assert result.output.finished
        assert result.output.metadata["episode"]["time_remaining"] == 0.0
        assert (await player.summary(session)).stop_reason == "time_limit"


async def test_what_is_left_of_the_episode_shortens_a_calls_limit(open_player, stage):
    async with open_player(policy=EpisodePolicy(time_limit=0.02, call_time_limit=60.0)) as player:
        session = await player.create()
        stage.acts["hang"] = lambda env, context: anyio.sleep_forever()
        result = await player.act(session, "hang")
    assert result.output.metadata["error"]["code"] == "timeout"


async def test_a_session_may_be_played_under_stricter_rules_only(player):
    session = await player.create(policy={"step_limit": 1})
    assert (await player.call(session, "pay", reward=1.0)).output.finished
    status = await player.engine.status(session)
    assert status.origin.policy["step_limit"] == 1


RESULT = Failure(CallCancelledError("withdrawn"))


async def write(call):
    with call.seal():
        await checkpoint()
        call.resolve(RESULT)


async def test_a_wish_to_stop_does_not_interrupt_the_writing_and_comes_too_late_during_it():
    call = Call("c", "echo", {})
    with anyio.CancelScope() as call.scope, call.seal():
        call.cancel()
        await checkpoint()
        call.resolve(RESULT)
    assert call.result is RESULT
    call = Call("c", "echo", {})
    with anyio.CancelScope() as call.scope:
        call.cancel()
        await write(call)
    assert call.result is RESULT


async def test_everybody_who_waited_is_told_and_nothing_is_kept_of_the_waiting():
    call = Call("c", "echo", {})
    told = []

    async def listen():
        told.append(await call.wait())

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            group.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            await write(call)
    assert told == [RESULT, RESULT]
    assert call._readers is None


async def test_who_waits_for_a_while_only_is_let_go_and_may_wait_again():
    call = Call("c", "pay", {})
    with anyio.fail_after(10):
        assert await call.wait_for(0.0) is None
        async with anyio.create_task_group() as group:
            group.start_soon(call.wait_for, 10.0)
            await anyio.wait_all_tasks_blocked()
            assert len(call._readers) == 1
            group.cancel_scope.cancel()
        assert call._readers == []
        call.resolve(RESULT)
        assert await call.wait_for(0.0) is RESULT
