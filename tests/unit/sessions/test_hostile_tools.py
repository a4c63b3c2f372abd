"""Tools that do everything wrong hurt only their own call."""

import asyncio
import re
import threading

import anyio
import pytest
from pydantic import BaseModel, field_validator

from ors_server import EpisodePolicy, ImageBlock, TextBlock, ToolError, ToolOutput, tool
from ors_server.model.episode import OutcomeKind
from ors_server.model.errors import ToolFailedError, ToolOutputError
from ors_server.model.trajectory import StepStatus
from ors_server.sessions.session_call import Completed, Failure
from tests.fixtures.single_task import SingleTask

EVERYTHING = [
    RuntimeError("kaboom"),
    RuntimeError(),
    SystemExit(3),
    KeyboardInterrupt(),
    asyncio.CancelledError(),
    GeneratorExit(),
    StopIteration(1),
    StopAsyncIteration(),
    BaseExceptionGroup("many", [KeyboardInterrupt(), ValueError("one")]),
    ExceptionGroup("many", [ValueError("one")]),
    MemoryError(),
    RecursionError("deep"),
    TimeoutError(),
]


def raising(error):
    def act(env, context):
        raise error

    return act


def raising_async(error):
    async def act(env, context):
        await anyio.lowlevel.checkpoint()
        raise error

    return act


@pytest.mark.parametrize("error", EVERYTHING, ids=repr)
@pytest.mark.parametrize("concurrency", ["do", "block", "awaiting"])
async def test_whatever_a_tool_raises_is_a_fault_of_its_call_alone(player, stage, error, concurrency):
    stage.acts["raise"] = raising_async(error) if concurrency == "awaiting" else raising(error)
    session, other = await player.create(), await player.create()
    result = await player.act(session, "raise", "block" if concurrency == "block" else "do")
    assert isinstance(result, Failure)
    assert isinstance(result.error, ToolFailedError)
    assert str(result.error)
    (step,) = await player.steps(session)
    assert (step.status, step.reward, step.error) == (StepStatus.FAILED, None, str(result.error))
    for everybody in (session, other):
        assert isinstance(await player.call(everybody, "pay", reward=1.0), Completed)
    assert (await player.summary(session)).failed_steps == 1


@pytest.mark.parametrize("error", EVERYTHING, ids=repr)
async def test_whatever_a_validator_raises_is_the_authors_fault_or_the_agents(open_player, error):
    class Picky(BaseModel):
        text: str

        @field_validator("text")
        @classmethod
        def check(cls, value):
            raise error

    class PickyEnv(SingleTask):
        WORDS = "pick"

        @tool
        async def pick(self, args: Picky) -> str:
            """Picks."""
            return args.text

    async with open_player(cls=PickyEnv) as player:
        session = await player.create()
        result = await player.call(session, "pick", text="x")
        assert isinstance(result.error, ToolFailedError)
        assert (await player.summary(session)).failed_steps == 1


async def test_a_tool_that_cancels_its_own_task_hurts_nobody(player, stage):
    async def cancel_and_wait(env, context):
        asyncio.current_task().cancel()
        await anyio.sleep_forever()

    async def cancel_and_return(env, context):
        asyncio.current_task().cancel()
        return ToolOutput.ongoing("anyway", reward=1.0)

    stage.acts |= {"wait": cancel_and_wait, "return": cancel_and_return}
    session, other = await player.create(), await player.create()
    assert isinstance(await player.act(session, "wait"), Failure)
    assert (await player.act(session, "return")).output.reward == 1.0
    for everybody in (session, other):
        assert isinstance(await player.call(everybody, "pay"), Completed)


@pytest.mark.parametrize("result", [42, None, "text", b"bytes", {"blocks": []}, [], ToolOutput], ids=repr)
async def test_a_tool_that_returns_something_else_fails(player, session, stage, result):
    stage.acts["return"] = lambda env, context: result
    error = (await player.act(session, "return")).error
    assert isinstance(error, ToolOutputError)
    assert "expected ToolOutput" in str(error)


@pytest.mark.parametrize(
    "output",
    [
        ToolOutput.model_construct(blocks=None, reward=None, finished=False, metadata=None),
        ToolOutput.model_construct(blocks=[1], reward=None, finished=False, metadata=None),
        ToolOutput.model_construct(blocks=[], reward=float("nan"), finished=False, metadata=None),
        ToolOutput.model_construct(blocks=[], reward="much", finished=False, metadata=None),
        ToolOutput(metadata={"nan": float("nan")}),
        ToolOutput(metadata={"many": [0] * 60_000}),
        ToolOutput(blocks=[TextBlock(text="")] * 10_001),
        ToolOutput(metadata={"object": object()}),
        ToolOutput(blocks=[TextBlock(text="x", detail={"set": {1}})]),
        ToolOutput(blocks=[ImageBlock.model_construct(data="é", mimeType="image/png")]),
        ToolOutput(blocks=[ImageBlock.model_construct(data="", mimeType="\ud800")]),
        ToolOutput(blocks=[TextBlock(text="h" * 50_000_000)]),
        ToolOutput(blocks=[TextBlock(text="é" * 5_000_000)]),
        ToolOutput(blocks=[TextBlock(text="")] * 200_000),
        ToolOutput(metadata={"big": "x" * 9_000_000}),
    ],
    ids=range(15),
)
async def test_an_illegal_or_oversized_output_fails_its_call_and_pays_nothing(player, session, stage, output):
    stage.acts["return"] = lambda env, context: output
    error = (await player.act(session, "return")).error
    assert isinstance(error, ToolOutputError)
    assert len(str(error)) < 1_000
    assert (await player.summary(session)).episode_return == 0.0


async def test_metadata_becomes_what_json_makes_of_it_or_fails(player, session, stage):
    metadata: dict = {}
    metadata["self"] = metadata
    stage.acts["return"] = lambda env, context: ToolOutput.model_construct(
        blocks=[], reward=None, finished=False, metadata=metadata
    )
    assert isinstance((await player.act(session, "return")).error, ToolOutputError)
    stage.acts["return"] = lambda env, context: ToolOutput(metadata={"t": (1, 2), "lone": "a\ud800b"})
    metadata = (await player.act(session, "return")).output.metadata
    assert (metadata["t"], metadata["lone"]) == ([1, 2], "a?b")


async def test_texts_and_error_messages_are_kept_encodable_and_messages_short(player, session, stage):
    stage.acts["return"] = lambda env, context: ToolOutput.ongoing("é\ud800!", "é", "plain")
    blocks = (await player.act(session, "return")).output.blocks
    assert [block.text for block in blocks] == ["é?!", "é", "plain"]
    stage.acts["long"] = raising(RuntimeError("x" * 50_000_000))
    stage.acts["lone"] = raising(ToolError("a\ud800b"))
    assert len(str((await player.act(session, "long")).error)) < 10_000
    assert (await player.act(session, "lone")).output.blocks[0].text == "a?b"


async def test_an_error_whose_text_cannot_be_made_is_told_by_its_name(player, session, stage):
    class MuteError(Exception):
        def __str__(self):
            raise SystemExit(1)

    stage.acts["mute"] = raising(MuteError())
    assert re.fullmatch(
        r"MuteError \(.*test_hostile_tools\.py:\d+\)", str((await player.act(session, "mute")).error)
    )


async def test_endless_recursion_fails_its_call(player, session, stage):
    def recurse(env, context):
        return recurse(env, context)

    stage.acts["recurse"] = recurse
    for concurrency in ("do", "block"):
        assert isinstance((await player.act(session, "recurse", concurrency)).error, ToolFailedError)


async def test_a_tool_that_hangs_is_stopped_and_costs_what_the_policy_says(open_player, stage):
    stage.acts["hang"] = lambda env, context: anyio.sleep_forever()
    async with open_player(policy=EpisodePolicy(timeout_penalty=0.5)) as player:
        session = await player.create()
        result = await player.act(session, "hang", "hurried")
        (step,) = await player.steps(session)
    assert result.is_error
    assert result.output.reward == -0.5
    assert "did not return within 0.02 seconds" in result.output.blocks[0].text
    assert step.error_code == OutcomeKind.TIMEOUT


async def test_a_tool_that_answers_after_it_was_stopped_is_too_late(player, session, stage):
    async def stubborn(env, context):
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            return ToolOutput.final("anyway", reward=1.0)

    async def furious(env, context):
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            raise RuntimeError("how dare you") from None

    stage.acts |= {"stubborn": stubborn, "furious": furious}
    for act in ("stubborn", "furious"):
        result = await player.act(session, act, "hurried")
        assert result.output.metadata["error"]["code"] == "timeout"
        assert result.output.reward is None
    assert (await player.summary(session)).phase == "playing"


async def test_a_blocking_tool_that_outlives_its_limit_keeps_the_turn_until_it_ends(player, stage):
    running, released = stage.hold("hang", ToolOutput.ongoing("late", reward=1.0))
    session, other = await player.create(), await player.create()
    result = await player.act(session, "hang", "block_hurried")
    assert result.output.metadata["error"]["code"] == "timeout"
    waiting = await player.engine.find(session).call("pay", {"reward": 2.0})
    assert isinstance(await player.call(other, "pay"), Completed)
    with anyio.fail_after(10):
        await running.wait()
        await anyio.wait_all_tasks_blocked()
        assert not waiting.is_done
        released.set()
        assert (await waiting.wait()).output.reward == 2.0
    assert (await player.summary(session)).episode_return == 2.0


async def test_a_blocking_tool_that_never_got_a_thread_keeps_no_turn(open_player, stage):
    released = threading.Event()
    stage.acts["hang"] = lambda env, context: released.wait(10) and ToolOutput()
    stage.acts["never"] = lambda env, context: pytest.fail("must not run")
    async with open_player(worker_threads=1) as player:
        session, other = await player.create(), await player.create()
        first = await player.engine.find(other).call("block", {"act": "hang"})
        await anyio.wait_all_tasks_blocked()
        starved = await player.engine.find(session).call("block_hurried", {"act": "never"}, call_id="starved")
        await anyio.wait_all_tasks_blocked()
        assert await player.engine.find(session).cancel("starved")
        assert isinstance(starved.result, Failure)
        assert isinstance(await player.call(session, "pay"), Completed)
        released.set()
        with anyio.fail_after(10):
            assert isinstance(await first.wait(), Completed)


async def test_a_blocking_tool_does_not_stall_the_event_loop(player, stage):
    released = threading.Event()
    stage.acts["hang"] = lambda env, context: released.wait(10) and ToolOutput()
    session, other = await player.create(), await player.create()
    slow = await player.engine.find(session).call("block", {"act": "hang"})
    for _ in range(3):
        assert isinstance(await player.call(other, "pay"), Completed)
    assert not slow.is_done
    released.set()
    with anyio.fail_after(10):
        await slow.wait()


async def test_a_blocking_tool_that_gives_an_awaitable_is_awaited(player, session, stage):
    async def later():
        return ToolOutput.ongoing("later")

    stage.acts["later"] = lambda env, context: later()
    assert (await player.act(session, "later", "block")).output.blocks[0].text == "later"


async def test_a_tool_that_leaves_a_cancel_scope_open_hurts_only_its_session(player, stage):
    async def leave_open(env, context):
        env.scope = anyio.CancelScope()
        env.scope.__enter__()
        return ToolOutput()

    stage.acts["leave"] = leave_open
    session, other = await player.create(), await player.create()
    assert isinstance(await player.act(session, "leave"), Failure)
    assert isinstance(await player.call(other, "pay"), Completed)
    assert isinstance(await player.call(session, "pay"), Completed)


async def test_a_setup_that_leaves_a_cancel_scope_open_hurts_only_its_session(player, stage):
    async def leave_open(env):
        env.scope = anyio.CancelScope()
        env.scope.__enter__()

    stage.acts["setup"] = leave_open
    broken = await player.create()
    await anyio.wait_all_tasks_blocked()
    del stage.acts["setup"]
    other = await player.create()
    assert isinstance(await player.call(other, "pay"), Completed)
    assert (await player.engine.status(broken)).setup_error is not None
    assert await player.delete(broken)
