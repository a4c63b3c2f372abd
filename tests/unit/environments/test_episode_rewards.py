"""Rewards inside environments: what is filled in by name; groups, resources, snapshots and forks."""

import copy
from functools import partial
from typing import Any, ClassVar

import anyio
import pytest
from typing_extensions import override

from ors_server import (
    GroupCandidate,
    Message,
    TextBlock,
    ToolOutput,
    Toolset,
    efficiency_reward,
    graded_output,
    math_equal_reward,
    math_equal_reward_tool,
    task_success,
    tool,
)
from ors_server.environments.loading import define
from ors_server.model.errors import EnvironmentFailedError
from ors_server.testing import open_environment, play
from tests.fixtures.judged_environment import TASK, Sums, asking, ending


def test_a_tool_asks_a_reward_about_the_answer_and_the_task():
    with play(asking(math_equal_reward)) as episode:
        assert [episode.call("ask", guess=guess).reward for guess in ("41", "42.0")] == [0.0, 1.0]


def test_a_reward_sees_the_prompt_and_every_step_that_was_answered_but_not_the_running_one():
    seen = []

    def look(trajectory, step, metadata, final_response):
        seen.append((trajectory, step, metadata))
        return 0

    with play(asking(look)) as episode:
        episode.call("add", a=6, b=7)
        episode.call("err")
        episode.call("ask", guess="x" * 1500)
    ((trajectory, step, metadata),) = seen
    assert (step, metadata, trajectory.task) == (3, TASK, "Answer:\n\n6 * 7?")
    assert [(done.action, done.action_input, done.result) for done in trajectory.steps] == [
        ("add", {"a": 6, "b": 7}, "13"),
        ("err", {}, "no such thing"),
    ]
    assert [done.error for done in trajectory.steps] == [None, "no such thing"]
    assert (len(trajectory.outcome), len(trajectory.final_response)) == (1000, 1500)
    assert [message["role"] for message in trajectory] == ["user", *["assistant", "tool"] * 2, "assistant"]
    assert trajectory.metadata == TASK


def test_a_reward_of_tools_tells_whether_one_was_used():
    with play(asking(math_equal_reward_tool)) as episode:
        assert episode.call("ask", guess="42").reward == 0.0
        assert episode.call("ask", guess="42").reward == 1.0
        assert episode.call("ask", guess="41").reward == 0.1


def test_rewards_of_a_trajectory_alone_are_asked_about_the_session():
    with play(asking(efficiency_reward)) as episode:
        paid = [episode.call("ask", guess="").reward for _ in range(4)]
    assert paid == [1.0, 1.0, 0.9, 0.8]
    with play(asking(task_success)) as episode:
        episode.call("err")
        assert episode.call("ask", guess="").reward == 0.0


def test_fields_given_win_over_those_of_the_episode():
    given = {"answer": "7", "step": 99, "metadata": {"x": 1}}

    def look(answer, step, metadata):
        return {"reward": 1, "answer": answer, "step": step, **metadata}

    with play(asking(look, **given)) as episode:
        output = episode.call("ask", guess="")
    assert output.metadata is not None
    assert output.metadata["reward_extras"] == {"answer": "7", "step": 99, "x": 1}


def test_a_conversation_that_is_given_is_the_trajectory():
    said = [{"role": "user", "content": "Hm?"}, {"role": "assistant", "content": "Ah."}]

    def look(trajectory, final_response):
        return {"reward": len(trajectory), "task": trajectory.task, "said": final_response}

    class Given(Sums):
        @tool
        async def ask(self) -> ToolOutput:
            """Asks."""
            return graded_output(await self.grade(look, trajectory=said))

    with play(Given) as episode:
        output = episode.call("ask")
    assert (output.reward, output.metadata and output.metadata["reward_extras"]) == (
        2.0,
        {"task": "Hm?", "said": "Ah."},
    )


def test_a_tasks_field_cannot_pass_for_what_the_agent_said():
    class Unasked(Sums):
        @tool
        async def ask(self) -> ToolOutput:
            """Asks without a response."""
            return graded_output(await self.grade(math_equal_reward))

    with play(Unasked, task_spec={**TASK, "final_response": "42", "trajectory": [], "step": 5}) as episode:
        output = episode.call("ask")
    assert output.reward is None
    assert "needs final_response" in (output.metadata or {})["reward_reason"]


def test_a_toolset_asks_as_its_environment_does():
    class Grader(Toolset):
        @tool
        async def judge(self, guess: str) -> ToolOutput:
            """Judges."""
            return graded_output(await self.grade(final_response=guess))

    with play(ending(math_equal_reward, toolsets=(Grader,))) as episode:
        assert episode.call("judge", guess="42").reward == 1.0


def test_concurrent_calls_know_their_own_numbers():
    seen = []

    def note(step):
        seen.append(step)
        return 0.0

    class Both(Sums):
        gate: ClassVar[anyio.Event]

        @tool(concurrent=True)
        async def ask(self, last: bool) -> ToolOutput:  # noqa: FBT001  (a tool's argument)
            """Asks when both run."""
            if last:
                self.gate.set()
            await self.gate.wait()
            return graded_output(await self.grade(note))

    async def run():
        Both.gate = anyio.Event()
        async with open_environment(Both) as client, anyio.create_task_group() as tasks:
            session = await client.create(split="train", index=0)
            await session.call("add", a=1, b=1)
            tasks.start_soon(partial(session.call, "ask", last=False))
            tasks.start_soon(partial(session.call, "ask", last=True))

    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(run)
    assert sorted(seen) == [2, 3]  # either may begin first


async def test_a_reward_may_be_asked_from_setup_to_teardown():
    seen = []

    def look(trajectory):
        return len(trajectory.steps)

    class Eager(Sums):
        async def _note(self) -> None:
            result = await self.grade(look)
            seen.append((result.reward, (await self.grade(lambda step: 1)).status.value))

        @override
        async def setup(self) -> None:
            await self._note()

        @override
        async def teardown(self) -> None:
            await self._note()

    async with open_environment(Eager) as client:
        session = await client.create(split="train", index=0)
        await session.call("add", a=1, b=2)
        await session.aclose()
    assert seen == [(0.0, "error"), (1.0, "error")]


async def test_an_instance_without_a_session_grades_with_its_task_and_what_is_given():
    environment = ending(math_equal_reward)(dict(TASK))
    assert (await environment.grade(final_response="42")).reward == 1.0
    result = await environment.grade(lambda trajectory: len(trajectory.steps), final_response="x")
    assert result.reward == 0.0


def test_a_copy_that_an_author_makes_of_the_instance_plays_the_same_episode():
    class Thinking(Sums):
        @override
        def __setattr__(self, name: str, value: Any) -> None:
            assert not name.startswith("_")
            super().__setattr__(name, value)

        @tool
        async def ask(self) -> ToolOutput:
            """Asks a copy."""
            return graded_output(await copy.deepcopy(self).grade(lambda trajectory: len(trajectory.steps)))

    with play(Thinking) as episode:
        episode.call("add", a=1, b=1)
        assert episode.call("ask").reward == 1.0


def candidates(*texts: str) -> list[GroupCandidate]:
    return [
        GroupCandidate(messages=[Message(role="assistant", blocks=[TextBlock(text=text)])]) for text in texts
    ]


def longest(rollouts, answer, metadata):
    most = max(len(rollout.final_response) for rollout in rollouts)
    return [{"reward": len(rollout.final_response) == most, "gold": answer} for rollout in rollouts]


async def test_a_reward_that_takes_rollouts_scores_groups_and_ends_no_episode():
    environment = ending(longest, toolsets=("submit",))
    assert define(environment).listing.supports_score_group
    async with open_environment(environment) as client:
        session = await client.create(split="train", index=0)
        scores = await session.score_group(candidates("a", "bc", "de"))
        assert [score.reward for score in scores] == [0.0, 1.0, 1.0]
        assert scores[0].metadata == {"reward_extras": {"gold": "42"}}
        output = await session.call("submit", answer="x")
        assert (output.reward, output.finished) == (None, True)
        assert "reward_status" not in (output.metadata or {})
        session = await client.create(split="train", index=0)
        assert (await session.call("finish", answer="x")).reward is None


async def test_a_group_that_could_not_be_judged_is_a_failure_and_no_score():
    def broken(rollouts):
        return [1.0, float("nan")]

    async with open_environment(ending(broken)) as client:
        session = await client.create(split="train", index=0)
        with pytest.raises(EnvironmentFailedError, match=r"did not judge candidate 1 \(error\)"):
            await session.score_group(candidates("a", "b"))


async def test_an_environments_own_scoring_goes_before_its_reward():
    environment = ending(longest, score_group=lambda self, group: [0.5 for _ in group])
    async with open_environment(environment) as client:
        session = await client.create(split="train", index=0)
        assert [score.reward for score in await session.score_group(candidates("a"))] == [0.5]


def test_a_reward_of_single_rollouts_scores_no_groups():
    assert not define(ending(math_equal_reward)).listing.supports_score_group


# Resources, snapshots, forks
async def test_a_sessions_tools_and_rewards_share_one_context_which_ends_after_teardown():
    seen: list[Any] = []

    class Shared(Sums):
        @tool
        async def ask(self) -> ToolOutput:
            """Asks."""
            seen.append(self.context)
            return graded_output(await self.grade(lambda context: float(context is seen[0])))

        @override
        def teardown(self) -> None:
            seen.append(self.context._closed)

    async with open_environment(Shared) as client:
        first, other = [await client.create(split="train", index=0) for _ in range(2)]
        assert (await first.call("ask")).reward == 1.0
        assert (await other.call("ask")).reward == 0.0
        assert (seen[0].rollout_id, seen[1].rollout_id) == (first.id, other.id)
        await first.aclose()
        assert seen[2] is None
        assert seen[0]._closed.is_set()
        assert seen[1]._closed is None


async def test_a_reward_that_takes_the_context_finds_the_messages_so_far_in_it():
    roles: list[list[str]] = []

    async def count(context):
        roles.append([message["role"] for message in context.trajectory])
        return 1.0

    class Counted(Sums):
        @tool
        async def ask(self) -> ToolOutput:
            """Asks."""
            return graded_output(await self.grade(count))

    async with open_environment(Counted) as client:
        session = await client.create(split="train", index=0)
        for _ in range(2):
            assert (await session.call("ask")).reward == 1.0
        assert roles == [["user"], ["user", "assistant", "tool"]]


def test_an_instance_without_a_session_has_no_context():
    with pytest.raises(RuntimeError, match="no context here"):
        _ = Sums(dict(TASK)).context


class Copied(Sums):
    """Can be copied."""

    reward = efficiency_reward

    @override
    def save_state(self) -> dict[str, Any]:
        return {}

    @override
    def load_state(self, state: dict[str, Any]) -> None:
        pass

    @tool
    async def ask(self) -> ToolOutput:
        """Asks."""
        return graded_output(await self.grade(lambda trajectory: len(trajectory.steps)))


async def test_a_fork_grades_the_steps_that_it_shares_and_its_own():
    async with open_environment(Copied) as client:
        session = await client.create(split="train", index=0)
        await session.call("add", a=1, b=1)
        (copy,) = await session.fork()
        await session.call("add", a=1, b=1)
        assert (await copy.call("ask")).reward == 1.0
        assert (await session.call("ask")).reward == 2.0
        assert (await copy.call("finish", answer="")).reward == 0.9
        snapshot = await client.engine.find(session.id).snapshots.keep()
        await client.engine.find(session.id).snapshots.restore(snapshot.id)
        assert (await session.call("ask")).reward == 3.0
