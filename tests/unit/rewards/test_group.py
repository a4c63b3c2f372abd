"""Rewards of a group: one judgement per rollout, in order, and no failure that is a number."""

import anyio
import pytest

from ors_server import RewardStatus, Trajectory, reward, score_group_with
from ors_server.model.wire import GroupCandidate, Message, TextBlock, ToolCallBlock, ToolResultBlock
from ors_server.rewards import evaluate_group
from ors_server.rewards.define import as_reward
from ors_server.rewards.group import is_group_reward, takes_group


@reward(range=(0.0, 1.0))
def shortest_reward(rollouts):
    """Pays the shortest final response."""
    least = min(len(rollout.final_response) for rollout in rollouts)
    return [float(len(rollout.final_response) == least) for rollout in rollouts]


def test_every_rollout_gets_its_number_in_order():
    results = score_group_with(shortest_reward, ["long one", "one", "two"])
    assert [result.reward for result in results] == [0.0, 1.0, 1.0]
    assert {result.status for result in results} == {RewardStatus.GRADED}


def test_rollouts_come_in_every_form_that_a_trajectory_has():
    forms = ["ab", Trajectory(outcome="a"), {"outcome": "abc"}, [{"role": "assistant", "content": "abcd"}]]
    assert [result.reward for result in score_group_with(shortest_reward, forms)] == [0.0, 1.0, 0.0, 0.0]


def test_other_fields_come_by_name():
    def nearest(rollouts, answer):
        return [{"reward": float(item.final_response == answer), "n": len(rollouts)} for item in rollouts]

    results = score_group_with(nearest, ["4", "5"], answer="5")
    assert [(result.reward, dict(result.extras)) for result in results] == [(0.0, {"n": 2}), (1.0, {"n": 2})]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([1.0], "1 judgements for 2 rollouts"),
        ([1.0, 0.0, 0.0], "3 judgements for 2 rollouts"),
        (1.0, "one judgement per rollout, got a float"),
        ("10", "one judgement per rollout, got a str"),
        (None, "one judgement per rollout, got a NoneType"),
    ],
)
def test_no_judgement_per_rollout_judges_none(said, why):
    results = score_group_with(lambda rollouts: said, ["a", "b"])
    assert [(result.reward, result.status) for result in results] == [(None, RewardStatus.ERROR)] * 2
    assert all(why in (result.reason or "") for result in results)


def test_a_judgement_that_is_no_number_is_the_error_of_its_own_rollout():
    ranged = reward(range=(0.0, 1.0))(lambda rollouts: [1.0, float("nan"), 2.0, None, "1"])
    results = score_group_with(ranged, ["a"] * 5)
    assert [result.reward for result in results] == [1.0, None, None, None, None]
    assert [result.status.value for result in results] == ["graded"] + ["error"] * 4


def test_a_reward_that_raises_judges_none():
    def broken(rollouts):
        raise ZeroDivisionError("oops")

    results = score_group_with(broken, ["a", "b"])
    assert [(result.reward, result.reason) for result in results] == [(None, "ZeroDivisionError: oops")] * 2


def test_a_rollout_that_is_none_judges_none():
    results = score_group_with(shortest_reward, ["a", 7])
    assert [result.status for result in results] == [RewardStatus.ERROR] * 2


def test_an_empty_group_has_no_results():
    assert score_group_with(lambda rollouts: [], []) == ()


def test_an_async_group_reward_is_awaited_inside_and_outside_of_a_loop():
    async def all_good(rollouts):
        return [1] * len(rollouts)

    assert [result.reward for result in score_group_with(all_good, ["a"])] == [1.0]
    assert [result.reward for result in anyio.run(evaluate_group, all_good, ["a", "b"], {})] == [1.0, 1.0]


def test_a_group_reward_is_told_by_its_field():
    assert is_group_reward(shortest_reward)
    both = as_reward(lambda final_response, rollouts=(): 1.0)
    assert takes_group(both)
    assert not is_group_reward(both)
    assert not takes_group(as_reward(lambda final_response, **rest: 1.0))


def test_a_candidate_of_the_wire_is_read_with_its_tool_calls():
    seen = []
    candidate = GroupCandidate(
        messages=[
            Message(role="user", blocks=[TextBlock(text="2 + 2?")]),
            Message(role="assistant", blocks=[ToolCallBlock(id="c1", name="add", input={"a": 2})]),
            Message(
                role="user",
                blocks=[ToolResultBlock(tool_call_id="c1", blocks=[TextBlock(text="bad")], is_error=True)],
            ),
            Message(role="assistant", blocks=[TextBlock(text="4"), TextBlock(text="!")]),
        ],
        metadata={"sampler": 3},
    )

    def look(rollouts):
        seen.extend(rollouts)
        return [0.0]

    score_group_with(look, [candidate])
    (rollout,) = seen
    assert (rollout.task, rollout.final_response, rollout.metadata) == ("2 + 2?", "4\n!", {"sampler": 3})
    assert [(step.action, step.result, step.error) for step in rollout.steps] == [("add", "bad", "bad")]
    assert [message["role"] for message in rollout] == ["user", "assistant", "tool", "assistant"]
    assert rollout[1]["tool_calls"] == [{"id": "c1", "name": "add", "arguments": {"a": 2}}]
