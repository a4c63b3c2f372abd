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
    assert "a text or a finite number" in (result.reason or "")
