"""The in-process client, async and not."""

import anyio
import anyio.lowlevel
import pytest

from ors_server import GroupCandidate, Message, TextBlock
from ors_server.environments.loading import define
from ors_server.model.errors import CallIdReusedError, NotSupportedError, ToolFailedError, UnknownTaskError
from ors_server.sessions.session_call import RefusalReason
from ors_server.sessions.session_request import SessionLimits
from ors_server.sessions.session_services import SessionOptions
from ors_server.testing import CallRefusedError, FakeClock, open_environment, play

REFENV = "tests/fixtures/refenv.py"


async def test_a_session_is_played_and_summed():
    async with open_environment(f"{REFENV}:RefEnv") as client:
        session = await client.create(split="train", index=0)
        assert await session.prompt() == "Call the `echo` tool with text='hello' to win."
        assert [message.role for message in await session.messages()] == ["user"]
        assert "hint" in [tool.name for tool in (await session.tools()).tools]
        assert (await session.call("echo", text="no")).reward == 0.0
        output = await session.call("echo", text="hello")
        assert (output.reward, output.finished) == (1.0, True)
        assert [step.tool for step in await session.steps()] == ["echo", "echo"]
        await session.aclose()
        summary = await session.summary()
        assert (summary.phase, summary.episode_return, summary.stop_reason) == ("deleted", 1.0, "completed")


async def test_a_call_that_is_not_run_says_why():
    async with open_environment(f"{REFENV}:RefEnv") as client:
        session = await client.create(split="train", index=0)
        for tool, arguments, reason in (
            ("nope", {}, RefusalReason.NOT_FOUND),
            ("add", {"a": "one"}, RefusalReason.INPUT_VALIDATION),
        ):
            with pytest.raises(CallRefusedError) as refused:
                await session.call(tool, **arguments)
            assert refused.value.reason is reason
        with pytest.raises(ToolFailedError, match="kaboom"):
            await session.call("boom")
        await session.call("finish", reward=1.0)
        with pytest.raises(CallRefusedError) as refused:
            await session.call("count")
        assert refused.value.reason is RefusalReason.EPISODE_FINISHED


async def test_the_same_call_id_never_runs_twice():
    async with open_environment(f"{REFENV}:RefEnv") as client:
        session = await client.create(split="train", index=0)
        first = await session.submit("count", {}, call_id="c")
        again = await session.submit("count", {}, call_id="c")
        assert first == again
        assert (await session.summary()).steps == 1


async def test_a_group_is_scored_and_its_id_is_not_free_for_a_tool_call():
    async with open_environment(f"{REFENV}:TermEnv") as client:
        session = await client.create(split="train", index=0)
        candidate = GroupCandidate(messages=[Message(role="assistant", blocks=[TextBlock(text="4")])])
        (score,) = await session.score_group([candidate])
        assert score.reward == 0.5
        scoring = await client.engine.find(session.id).score_group([candidate], call_id="g")
        await scoring.wait()
        with pytest.raises(CallIdReusedError, match="score_group"):
            await session.submit("submit", {"answer": "4"}, call_id="g")


async def test_what_an_environment_cannot_do_is_raised():
    async with open_environment(f"{REFENV}:RefEnv", f"{REFENV}:TermEnv") as client:
        session = await client.create(split="train", index=0)
        with pytest.raises(NotSupportedError):
            await session.score_group([])
        with pytest.raises(UnknownTaskError):
            await client.create(split="train", index=99)
        group = await client.create(environment="termenv", split="train", index=0)
        with pytest.raises(Exception, match="no candidates"):
            await group.score_group([])


async def test_sessions_expire_by_the_clock_of_the_test(good):
    clock = FakeClock()
    options = SessionOptions(limits=SessionLimits(idle_seconds=60.0, reap_seconds=5.0))
    async with open_environment(define(good), options=options, clock=clock) as client:
        session = await client.create(split="train", index=0)
        await clock.until_sleeping()
        await clock.advance(59)
        assert (await session.summary()).phase == "ready"
        await clock.advance(66)
        with anyio.fail_after(10):
            while (await session.summary()).phase != "expired":
                await anyio.lowlevel.checkpoint()


def test_a_test_that_is_not_async_plays_too(good):
    with play(good, split="test", index=2) as episode:
        assert episode.prompt == "Guess the word of test-2."
        assert [tool.name for tool in episode.tools.tools] == ["guess"]
        assert episode.call("guess", word="word2").reward == 1.0
        assert episode.summary.episode_return == 1.0
        assert [step.number for step in episode.steps] == [1]


def test_a_task_may_be_given_by_value_and_the_first_one_is_the_default(good):
    with play(good, task_spec={"id": "mine", "answer": "a"}) as episode:
        assert episode.prompt == "Guess the word of mine."
    with play(good) as episode:
        assert episode.prompt == "Guess the word of train-0."


def test_secrets_and_policies_are_passed_along():
    with play(f"{REFENV}:RefEnv", secrets={"A": "b"}, policy={"step_limit": 1}) as episode:
        output = episode.call("whoami")
        assert output.finished
        assert getattr(output.blocks[0], "text", "") == '{"A": "b"}'
