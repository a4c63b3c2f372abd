"""pass@k over tasks, from the rewards of groups of attempts."""

from itertools import combinations

import pytest

from ors_server.evaluation.figures import mean_pass_at_k


def drawn(rewards, k, threshold):
    """The share of all ways to draw k attempts in which one succeeds."""
    draws = list(combinations(rewards, k))
    return sum(any(one >= threshold for one in draw) for draw in draws) / len(draws)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("threshold", [1.0, 0.5])
def test_the_estimate_is_the_share_of_draws_with_a_success(k, threshold):
    groups = [[1.0, 0.0, 0.5, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 0.5, 0.5, 0.0]]
    expected = sum(drawn(group, k, threshold) for group in groups) / len(groups)
    assert mean_pass_at_k(groups, k, threshold) == pytest.approx(expected)


def test_attempts_without_a_reward_and_tasks_without_enough_attempts_are_left_out():
    assert mean_pass_at_k([[1.0, None, 0.0], [1.0]], 2) == 1.0
    assert mean_pass_at_k([[None, None], []], 1) is None
    assert mean_pass_at_k([], 1) is None


@pytest.mark.parametrize(
    ("k", "threshold", "reward"), [(0, 1.0, 1.0), (1, float("nan"), 1.0), (1, 1.0, float("nan"))]
)
def test_what_is_no_number_is_refused(k, threshold, reward):
    with pytest.raises(ValueError, match=r"k is at least 1|NaN"):
        mean_pass_at_k([[reward]], k, threshold)
