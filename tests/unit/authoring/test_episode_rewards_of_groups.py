"""Rewards of groups inside environments, and what rewards share with resources, snapshots and forks."""

from typing import Any

import pytest
from typing_extensions import override

from ors_server import (
    GroupCandidate,
    Message,
    TextBlock,
    ToolOutput,
    efficiency_reward,
    graded_output,
    math_equal_reward,
    tool,
)
from ors_server.authoring.loading import define
from ors_server.errors import EnvironmentFailedError
from ors_server.testing import open_environment
from tests.fixtures.judged_environment import TASK, Sums, ending


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
