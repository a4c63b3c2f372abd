"""Answers in tags and in tool calls: where they are found, and the form that they come in."""

import json

import pytest

from ors_server.rewards.agentfly.exact import (
    qa_em_format_reward,
    qa_em_reward,
    qa_em_reward_tool_call,
    read_form,
    tagged_answer,
)
from ors_server.rewards.result import RewardStatus
from ors_server.rewards.reward_trajectory import Step, Trajectory
from ors_server.rewards.scoring import score

THOUGHT = {"role": "assistant", "content": "<think>t</think>"}
TOOL = {"role": "tool", "content": "r"}
ALL = [qa_em_reward, qa_em_format_reward, qa_em_reward_tool_call]


def calling(arguments, *, is_flat=False):
    call = {"name": "submit", "arguments": arguments}
    call = call if is_flat else {"function": call}
    return [{"role": "assistant", "content": "", "tool_calls": [call]}]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer> Paris </answer>", "Paris"),
        ("<answer>a</answer><answer>b</answer>", "a"),
        ("</answer>x<answer>a</answer>", "a"),
        ("<answer>Paris", "<answer>Paris"),
        ("Paris</answer>", "Paris</answer>"),
        ("<answer></answer>", ""),
        ("", ""),
    ],
)
def test_the_first_pair_of_tags_holds_the_answer_else_all_of_it_does(text, answer):
    assert tagged_answer(text) == answer


def test_tags_without_an_end_are_read_in_one_go():
    assert len(tagged_answer("<answer>" * 500_000)) == 4_000_000


@pytest.mark.parametrize(
    ("messages", "handed_in"),
    [
        (calling({"answer": "Paris"}), "Paris"),
        (calling(json.dumps({"answer": "Paris"})), "Paris"),
        (calling({"answer": 4}, is_flat=True), "4"),
        (calling({"other": "Paris"}), None),
        (calling("no JSON with answer"), None),
        (calling("[" * 100_000), None),
        (calling('["answer"]'), None),
        ([{"role": "assistant", "content": "x", "tool_calls": []}], None),
        ([THOUGHT, {"role": "tool", "content": [{"type": "text", "text": "Paris"}]}], "Paris"),
        ([*calling({"answer": "Paris"}), THOUGHT], None),
    ],
)
def test_the_last_message_may_hand_an_answer_in(messages, handed_in):
    assert read_form("r", Trajectory(messages=messages)).handed_in == handed_in
    paid = score(
        qa_em_reward_tool_call, messages, final_response="Lyon", golden_answers=["Paris", "4"]
    ).reward
    assert paid == float(handed_in is not None)


@pytest.mark.parametrize(
    ("messages", "response", "paid"),
    [
        ([THOUGHT, TOOL, {"role": "assistant", "content": "last"}], "<answer>Paris</answer>", 1.0),
        ([THOUGHT, TOOL, {"role": "assistant", "content": "last"}], "<answer>Lyon</answer>", 0.1),
        ([THOUGHT, TOOL, {"role": "assistant", "content": "last"}], "Paris", 0.0),
        ([{"role": "assistant", "content": "no thought"}, TOOL, THOUGHT], "<answer>Paris</answer>", 0.0),
        ([{"role": "assistant", "content": ""}, TOOL, THOUGHT], "<answer>Paris</answer>", 1.0),
    ],
)
def test_the_form_is_worth_a_tenth_and_lets_the_answer_count(messages, response, paid):
    fields = {"final_response": response, "golden_answers": "Paris"}
    assert score(qa_em_format_reward, messages, **fields).reward == paid


def test_a_record_of_steps_will_do_for_a_conversation():
    steps = [Step(action="search", reasoning="<think>t</think>", result="r")]
    result = score(
        qa_em_reward, Trajectory(steps=steps, outcome="<answer>Paris</answer>"), golden_answers="Paris"
    )
    assert result.reward == 1.0
    assert (result.extras["fmt"], result.extras["fmt_tool"]) == (1.0, 1.0)
    bare = score(qa_em_reward, final_response="Paris", golden_answers=["Paris"])
    assert (bare.reward, bare.extras["fmt_tool"]) == (1.0, 0.0)


@pytest.mark.parametrize("asked", ALL)
@pytest.mark.parametrize("golds", [[], None, 4, ["Paris", None]])
def test_golds_that_are_none_are_bad(asked, golds):
    result = score(asked, [THOUGHT], final_response="Paris", golden_answers=golds)
    assert (result.reward, result.status) == (None, RewardStatus.BAD_GOLD)
    assert "Paris" not in str(result.reason)


@pytest.mark.parametrize("asked", ALL)
def test_an_empty_trajectory_is_an_error(asked):
    with pytest.raises(IndexError):
        asked(final_response="Paris", golden_answers=["Paris"], trajectory=[])
