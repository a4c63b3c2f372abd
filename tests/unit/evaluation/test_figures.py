"""pass@k, pass^k and best-of-k against their definitions, by every draw, and over tasks of groups."""

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server.evaluation.figures import EVERY_K, best_of_k, chosen_ks, mean_pass_at_k, pass_at_k, pass_hat_k

COUNTS = st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))
RETURNS = st.lists(st.floats(-5, 5), min_size=1, max_size=7)


@given(COUNTS)
def test_pass_at_k_is_the_quotient_of_binomials(counts):
    n, c = counts
    expected = [1 - math.comb(n - c, k) / math.comb(n, k) for k in range(1, n + 1)]
    assert pass_at_k(n, c) == pytest.approx(expected, abs=1e-12)


@given(COUNTS)
def test_pass_hat_k_is_the_quotient_of_binomials(counts):
    n, c = counts
    expected = [math.comb(c, k) / math.comb(n, k) for k in range(1, n + 1)]
    assert pass_hat_k(n, c) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("c", range(7))
def test_every_draw_of_six_attempts_gives_the_same_numbers(c):
    outcomes = [True] * c + [False] * (6 - c)
    for k in range(1, 7):
        draws = list(combinations(outcomes, k))
        assert pass_at_k(6, c)[k - 1] == pytest.approx(sum(map(any, draws)) / len(draws), abs=1e-12)
        assert pass_hat_k(6, c)[k - 1] == pytest.approx(sum(map(all, draws)) / len(draws), abs=1e-12)


@given(RETURNS)
def test_best_of_k_is_the_mean_greatest_of_every_draw(returns):
    ks = range(1, len(returns) + 1)
    expected = [math.fsum(map(max, combinations(returns, k))) / math.comb(len(returns), k) for k in ks]
    assert best_of_k(returns, ks) == pytest.approx(expected, abs=1e-9)


@given(COUNTS)
def test_more_attempts_pass_more_often_at_least_once_and_less_often_always(counts):
    some, every = pass_at_k(*counts), pass_hat_k(*counts)
    assert some == sorted(some)
    assert every == sorted(every, reverse=True)
    assert some[0] == pytest.approx(every[0], abs=1e-12) == pytest.approx(counts[1] / counts[0])
    assert all(0 <= value <= 1 for value in some + every)


def test_many_attempts_neither_overflow_nor_cancel():
    found = pass_at_k(100_000, 1)
    assert found[0] == pytest.approx(1e-5, rel=1e-9)
    assert found[49_999] == pytest.approx(0.5, rel=1e-9)
    assert found[-1] == 1.0


def test_a_worked_example_of_the_codex_paper_s_estimator_holds():
    # n = 5, c = 2: 1 - C(3, k) / C(5, k) is 2/5, 7/10, 9/10, 1, 1.
    assert pass_at_k(5, 2) == pytest.approx([0.4, 0.7, 0.9, 1.0, 1.0])
    assert pass_hat_k(5, 2) == pytest.approx([0.4, 0.1, 0.0, 0.0, 0.0])


@pytest.mark.parametrize(("n", "c"), [(3, 4), (3, -1)])
def test_impossible_counts_are_refused(n, c):
    with pytest.raises(ValueError, match="between 0 and 3"):
        pass_at_k(n, c)
    with pytest.raises(ValueError, match="between 0 and 3"):
        pass_hat_k(n, c)


@pytest.mark.parametrize("k", [0, 3])
def test_the_best_of_more_than_there_are_is_refused(k):
    with pytest.raises(ValueError, match="between 1 and 2"):
        best_of_k([0.0, 1.0], [k])


def test_no_attempts_have_no_figures():
    assert pass_at_k(0, 0) == pass_hat_k(0, 0) == best_of_k([], []) == []
    assert chosen_ks(0) == ()


def test_every_k_is_looked_at_up_to_a_limit_and_then_powers_of_two():
    assert chosen_ks(EVERY_K) == tuple(range(1, EVERY_K + 1))
    assert chosen_ks(100) == (1, 2, 4, 8, 16, 32, 64, 100)
    assert chosen_ks(128) == (1, 2, 4, 8, 16, 32, 64, 128)


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
    with pytest.raises(ValueError, match=r"k must be at least 1|NaN"):
        mean_pass_at_k([[reward]], k, threshold)
