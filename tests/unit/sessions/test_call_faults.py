"""Calls that go wrong: illegal results, records that fail, failing tools, cancellation."""

import math

import anyio
import pytest

from ors_server import EpisodePolicy, TextBlock, ToolOutput, tool
from ors_server.model.errors import EnvironmentFailedError, ToolFailedError, ToolOutputError, UnknownCallError
from ors_server.model.trajectory import StepStatus
from ors_server.sessions.session_call import Completed, Failure, RefusalReason
from tests.fixtures.single_task import SingleTask


async def test_a_reward_out_of_range_is_the_authors_fault_or_clipped_where_the_policy_says_so(open_player):
    async with open_player(policy=EpisodePolicy(reward_range=(0.0, 1.0))) as player:
        session = await player.create()
        result = await player.call(session, "pay", reward=1.5)
        assert isinstance(result.error, ToolOutputError)
        summary = await player.summary(session)
        (step,) = await player.steps(session)
    assert (summary.episode_return, summary.failed_steps) == (0.0, 1)
    assert (step.status, step.reward, step.error_code) == (StepStatus.FAILED, None, "tool_output")
    async with open_player(policy=EpisodePolicy(reward_range=(0.0, 1.0), clip_rewards=True)) as player:
        session = await player.create()
        assert (await player.call(session, "pay", reward=1.5)).output.reward == 1.0
        assert (await player.call(session, "pay", reward=-3)).output.reward == 0.0


async def test_rewards_whose_sum_could_overflow_are_refused(player, session):
    result = await player.call(session, "pay", reward=1e308)
    assert isinstance(result, Failure)
    assert math.isfinite((await player.summary(session)).episode_return)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("nested", [False, True])
async def test_arguments_that_json_cannot_express_are_refused_and_recorded_as_text(
    player, session, value, nested
):
    payload = {"nested": [value]} if nested else value
    result = await player.call(session, "pay" if not nested else "keep", reward=payload, payload=payload)
    assert result.reason is RefusalReason.INPUT_VALIDATION
    (step,) = await player.steps(session)
    assert str(value).lower()[:3] in str(step.arguments).lower()


async def test_arguments_that_cannot_be_recorded_are_refused_and_others_recorded_as_they_were(
    player, session
):
    deep: dict = {}
    deep["self"] = deep
    result = await player.call(session, "keep", payload=deep)
    assert result.reason is RefusalReason.INPUT_VALIDATION
    assert "unreadable" in (await player.steps(session))[0].arguments
    payload = {"nested": {"value": 1}}
    await player.call(session, "keep", payload=payload)
    step = (await player.steps(session))[1]
    assert step.arguments == {"payload": {"nested": {"value": 1}}}
    assert payload == {"nested": {"value": 1}}


async def test_a_tool_cannot_change_its_output_after_it_was_paid(player, session, stage):
    output = ToolOutput(blocks=[TextBlock(text="one", detail={"k": [1]})], reward=1.0, metadata={"list": [1]})
    stage.acts["show"] = lambda env, context: output
    result = await player.act(session, "show")
    output.metadata["list"].append(2)
    output.blocks[0].detail["k"].append(2)
    output.blocks.append(TextBlock(text="two"))
    assert result.output.metadata["list"] == [1]
    assert result.output.blocks == [TextBlock(text="one", detail={"k": [1]})]
    assert (await player.steps(session))[0].metadata["list"] == [1]


async def test_a_refusal_repeats_little_of_a_huge_input(player, session):
    result = await player.call(session, "pay", reward="x" * 1_000_000)
    assert len(result.error) < 1_000


class Lists(SingleTask):
    name = "lists"
    WORDS = "list"

    @tool
    async def total(self, numbers: list[int]) -> str:
        """Adds."""
        return str(sum(numbers))


async def test_a_refusal_of_very_many_problems_only_counts_them(open_player, stage):

    async with open_player(cls=Lists) as player:
        session = await player.create()
        result = await player.call(session, "total", numbers=["x"] * 5_000)
    assert result.error == "Tool input validation error: 5000 problems; send what the tool's schema describes"


async def test_task_tools_are_found_only_where_the_task_offers_them(player, stage):
    session = await player.create()
    assert (await player.call(session, "secret_door")).reason is RefusalReason.NOT_FOUND
    stage.acts["task_tools"] = lambda env: ["secret_door"]
    session = await player.create()
    assert (await player.call(session, "secret_door")).output.blocks[0].text == "opened"
    listing = await player.engine.find(session).tools()
    assert listing.tools[-1].name == "secret_door"
    assert listing.terminal_tool.name == "submit"
    assert "submit" not in [spec.name for spec in listing.tools]


async def test_task_tools_are_asked_for_once_even_by_many_at_once(player, stage):
    stage.acts["task_tools"] = lambda env: ["secret_door"]
    session = await player.create()
    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(player.call, session, "secret_door")
            group.start_soon(player.engine.find(session).tools)
    assert stage.happened.count("task tools") == 1


@pytest.mark.parametrize("wrong", [None, "secret_door", ["nonesuch"], 5])
async def test_an_environment_that_misnames_its_task_tools_fails_that_call_as_a_step(player, stage, wrong):
    stage.acts["task_tools"] = lambda env: wrong
    session = await player.create()
    result = await player.call(session, "secret_door")
    assert isinstance(result.error, EnvironmentFailedError)
    assert (await player.steps(session))[0].status is StepStatus.FAILED
    with pytest.raises(EnvironmentFailedError):
        await player.engine.find(session).tools()
    assert isinstance(await player.call(session, "pay"), Completed)


async def test_a_sessions_toolset_is_made_once_on_its_first_call(player, stage):
    session = await player.create(toolset="extra")
    assert "toolset made" not in stage.happened
    for _ in range(2):
        assert (await player.call(session, "extra")).output.blocks[0].text == "task"
    assert stage.happened.count("toolset made") == 1
    assert "extra" in [spec.name for spec in (await player.engine.find(session).tools()).tools]


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(1), KeyboardInterrupt()])
async def test_a_toolset_that_cannot_be_made_fails_only_its_call(player, stage, error):
    stage.fail("toolset", error)
    session = await player.create(toolset="extra")
    assert isinstance((await player.call(session, "extra")).error, EnvironmentFailedError)
    assert isinstance(await player.call(session, "pay"), Completed)


async def test_progress_reaches_whoever_listens_and_a_listener_that_left_is_no_failure(
    player, session, stage
):
    heard = []

    async def listener(progress, total, message):
        heard.append((progress, total, message))
        if progress > 1:
            raise ConnectionError("gone")

    async def report(env, context):
        for progress in (1.0, 2.0, 3.0):
            await context.report_progress(progress, 3.0, "on")
        return ToolOutput.ongoing("done")

    stage.acts["report"] = report
    with anyio.fail_after(10):
        call = await player.engine.find(session).call("do", {"act": "report"}, listener=listener)
        assert isinstance(await call.wait(), Completed)
    assert heard == [(1.0, 3.0, "on"), (2.0, 3.0, "on")]


async def test_a_tool_knows_its_call(player, stage):
    seen = []

    async def look(env, context):
        seen.append((context.session_id, context.call_id, context.step, context.task_spec))
        context.task_spec["changed"] = True
        await context.log("info", "a line that nobody takes")
        return ToolOutput()

    stage.acts["look"] = look
    session = await player.create(task_spec={"id": "t"})
    await player.call(session, "do", "mine", act="look")
    assert seen == [(session, "mine", 1, {"id": "t", "changed": True})]
    assert (await player.engine.status(session)).origin.task_spec == {"id": "t"}


async def test_a_cancelled_call_is_a_step_without_a_judgement(player, session, stage):
    stage.acts["hang"] = lambda env, context: anyio.sleep_forever()
    call = await player.engine.find(session).call("do", {"act": "hang"}, call_id="mine")
    await anyio.wait_all_tasks_blocked()
    call.cancel()
    with anyio.fail_after(10):
        result = await call.wait()
    assert result.error.code == "call_cancelled"
    (step,) = await player.steps(session)
    assert (step.status, step.reward, step.error_code) == (StepStatus.CANCELLED, None, "call_cancelled")
    assert isinstance(await player.call(session, "pay"), Completed)


async def test_a_call_that_is_cancelled_before_it_began_never_runs(player, session, stage):
    call = await player.engine.find(session).call("do", {"act": "never"})
    call.cancel()
    with anyio.fail_after(10):
        result = await call.wait()
    assert isinstance(result, Failure)
    assert "never" not in stage.happened
    assert (await player.summary(session)).steps == 0
    call.cancel()  # once more does no harm


async def test_a_call_that_is_cancelled_while_it_waits_for_its_turn_frees_its_place(player, session, stage):
    gate = stage.gate("wait", ToolOutput.ongoing("first"))
    first = await player.engine.find(session).call("do", {"act": "wait"})
    second = await player.engine.find(session).call("alone", {"act": "never"})
    third = await player.engine.find(session).call("pay", {"reward": 1.0})
    await anyio.wait_all_tasks_blocked()
    second.cancel()
    gate.set()
    with anyio.fail_after(10):
        assert isinstance(await second.wait(), Failure)
        assert isinstance(await first.wait(), Completed)
        assert isinstance(await third.wait(), Completed)
    assert "never" not in stage.happened


async def test_an_ended_call_lets_go_of_its_caller(player, session):
    class Caller:
        def can(self, ability):
            return False

    caller = Caller()
    call = await player.engine.find(session).call("pay", {}, client=caller)
    with anyio.fail_after(10):
        await call.wait()
    assert call.client is not caller
    assert call.listeners == []


async def test_text_alone_becomes_one_block(player, session, stage):
    stage.acts["speak"] = lambda env, context: "hello"
    result = await player.act(session, "speak", "say")
    assert result.output.blocks == [TextBlock(text="hello")]


async def test_an_error_that_is_ours_but_raised_by_a_tool_is_a_fault_of_that_call(player, session, stage):
    async def ask(env, context):
        return await context.elicit("your name?", {})

    stage.acts["ask"] = ask
    result = await player.act(session, "ask")
    assert "does not offer elicitation" in str(result.error)
    assert not isinstance(result.error, ToolFailedError)
    assert (await player.steps(session))[0].status is StepStatus.FAILED


async def test_a_running_call_can_be_withdrawn_through_the_engine(player, session, stage):
    stage.acts["hang"] = lambda env, context: anyio.sleep_forever()
    call = await player.engine.find(session).call("do", {"act": "hang"}, call_id="mine")
    await anyio.wait_all_tasks_blocked()
    with anyio.fail_after(10):
        assert await player.engine.find(session).cancel("mine")
        assert isinstance(await call.wait(), Failure)
        assert not await player.engine.find(session).cancel("mine")
    with pytest.raises(UnknownCallError):
        await player.engine.find(session).cancel("nosuch")
