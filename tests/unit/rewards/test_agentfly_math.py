"""Golds of the math rewards as datasets hold them: texts and numbers, and nothing else."""

import pytest

from ors_server.rewards import math_equal_reward, math_equal_reward_tool, score


@pytest.mark.parametrize(
    ("gold", "response", "wanted"),
    [
        (42, "42", 1.0),
        (42.0, r"\boxed{42}", 1.0),
        (42, "43", 0.0),
        (0.5, r"\frac12", 1.0),
        (-3, "the answer is -3", 1.0),
        (10**20, "100000000000000000000", 1.0),
        (1e20, "100000000000000000000", 1.0),
        ("1{,}000", "1000", 1.0),
    ],
)
def test_a_number_is_a_gold(gold, response, wanted):
    result = score(math_equal_reward, final_response=response, answer=gold)
    assert (result.reward, result.status) == (wanted, "graded")


@pytest.mark.parametrize("gold", [None, True, ["42"], {"answer": 42}, float("nan"), float("inf")])
@pytest.mark.parametrize(
    "reward", [math_equal_reward, math_equal_reward_tool], ids=lambda reward: reward.name
)
def test_anything_else_is_a_bad_gold(reward, gold):
    result = score(reward, [{"role": "tool", "content": "4"}], final_response="42", answer=gold)
    assert (result.reward, result.status) == (None, "bad_gold")
    assert "as text or a finite number" in (result.reason or "")


TOOL = [{"role": "tool", "content": "4"}]


@pytest.mark.parametrize(
    "answer",
    [
        "1e999999999",
        "100000!",
        "7" * 4001,
        "7" * 3000,
        "1" + "+1" * 3000,
        "(" * 500 + "1" + ")" * 500,
        "9^{9^{9^{9}}}",
        r"\cos(2^{40})+1",
        "x" * 100_001,
    ],
)
def test_an_answer_that_is_beyond_the_grader_is_wrong_and_says_why(answer):
    result = score(math_equal_reward, final_response=answer, answer="5")
    assert (result.reward, result.status) in ((0.0, "graded"), (0.0, "unparsed_answer"))
    assert result.status == "unparsed_answer" or result.reason
    with_tool = score(math_equal_reward_tool, TOOL, final_response=answer, answer="5")
    assert with_tool.reward == score(math_equal_reward_tool, TOOL, final_response="6", answer="5").reward


@pytest.mark.parametrize("gold", ["1e999999999", "100000!", "7" * 4001, r"1+\cos(2^{41})", r"\frac{1}{"])
def test_a_gold_that_is_beyond_the_grader_leaves_no_number(gold):
    result = score(math_equal_reward, final_response="6", answer=gold)
    assert (result.reward, result.status) == (None, "bad_gold")
