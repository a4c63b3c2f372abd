"""Extras of many results as figures to log."""

from ors_server.rewards.metrics import summarise_extras
from ors_server.rewards.result import RewardResult, RewardStatus


def test_numbers_have_a_mean_a_greatest_and_a_least():
    results = [
        RewardResult(1.0, extras={"f1": 0.5, "em": 0}),
        RewardResult(0.0, extras={"f1": 1.0, "em": True}),
    ]
    assert summarise_extras(results) == {
        "reward_extra/em/mean": 0.5,
        "reward_extra/em/max": 1.0,
        "reward_extra/em/min": 0.0,
        "reward_extra/f1/mean": 0.75,
        "reward_extra/f1/max": 1.0,
        "reward_extra/f1/min": 0.5,
    }


def test_each_key_is_summed_up_over_the_results_that_have_it():
    found = summarise_extras([{"a": 1.0}, {"a": 3.0, "b": 5}, {}])
    assert found["reward_extra/a/mean"] == 2.0
    assert found["reward_extra/b/mean"] == found["reward_extra/b/min"] == 5.0


def test_what_is_no_finite_number_is_passed_over():
    odd = {"text": "x", "none": None, "list": [1], "nan": float("nan"), "inf": float("inf"), "huge": 10**400}
    assert summarise_extras([odd]) == {}
    assert summarise_extras([]) == {}


def test_a_result_without_a_reward_is_counted_too():
    failed = RewardResult.without(RewardStatus.ERROR, "no", {"judge_tokens": 7})
    assert summarise_extras([failed])["reward_extra/judge_tokens/max"] == 7.0


def test_a_mean_does_not_overflow():
    assert summarise_extras([{"a": 1.7e308}, {"a": 1.7e308}])["reward_extra/a/mean"] == 1.7e308
