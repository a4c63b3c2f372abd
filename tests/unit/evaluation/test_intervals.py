"""Intervals by formula against SciPy, and by their properties."""

import math

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from ors_server.evaluation.intervals import (
    effective_trials,
    normal,
    standard_error,
    student_t,
    t_of,
    wilson,
    z_of,
)

CONFIDENCES = st.sampled_from([0.8, 0.9, 0.95, 0.99])
COUNTS = st.integers(1, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@given(COUNTS, CONFIDENCES)
def test_wilson_s_interval_is_scipy_s(counts, confidence):
    n, c = counts
    found = wilson(c / n, n, confidence)
    known = scipy.stats.binomtest(c, n).proportion_ci(confidence, method="wilson")
    assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=1e-12)
    assert found.method == "wilson"


def test_wilson_s_interval_has_a_published_example():
    # Newcombe 1998, Statistics in Medicine 17, 857-872, table I: 81 of 263 and 15 of 148.
    for successes, trials, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605)):
        found = wilson(successes / trials, trials)
        assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


@given(COUNTS)
def test_wilson_s_interval_holds_the_rate_and_lies_in_the_unit_interval(counts):
    n, c = counts
    found = wilson(c / n, n)
    assert 0 <= found.low <= c / n <= found.high <= 1
    assert found.high > found.low


@given(st.integers(1, 500), CONFIDENCES)
def test_student_s_quantile_is_scipy_s(freedom, confidence):
    assert t_of(confidence, freedom) == pytest.approx(
        scipy.stats.t.ppf(0.5 + confidence / 2, freedom), rel=1e-9
    )


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=30))
def test_the_standard_error_and_student_s_interval_are_scipy_s(values):
    error = standard_error(values)
    assert error == pytest.approx(float(scipy.stats.sem(values)), rel=1e-9, abs=1e-12)
    mean = math.fsum(values) / len(values)
    found = student_t(mean, error, len(values))
    assert found.high - mean == pytest.approx(error * scipy.stats.t.ppf(0.975, len(values) - 1), rel=1e-9)
    assert mean - found.low == pytest.approx(found.high - mean, abs=1e-9)


def test_the_error_of_task_means_is_the_clustered_one_of_all_attempts():
    # Miller 2024: SE^2 = sum over tasks and pairs of attempts of the products of deviations, over n^2; where
    # tasks have the same number of attempts, that is the error of task means but for the factor n / (n - 1).
    tasks = [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]]
    every = [value for task in tasks for value in task]
    mean = sum(every) / len(every)
    clustered = sum((a - mean) * (b - mean) for task in tasks for a in task for b in task) / len(every) ** 2
    error = standard_error([sum(task) / 3 for task in tasks])
    assert error is not None
    assert error**2 == pytest.approx(clustered * 4 / 3)


def test_one_task_says_nothing_of_the_error():
    assert standard_error([0.5]) is None
    assert standard_error([]) is None


def test_a_normal_interval_reaches_1_96_errors_to_each_side():
    found = normal(1.0, 0.5)
    assert (found.low, found.high) == pytest.approx((1 - 0.979982, 1 + 0.979982), abs=1e-6)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.5, 95.0])
def test_what_is_no_confidence_is_refused(confidence):
    with pytest.raises(ValueError, match="between 0 and 1"):
        z_of(confidence)


class TestEffectiveTrials:
    def test_one_attempt_each_is_independent(self):
        assert effective_trials([1.0, 0.0, 1.0], [1, 1, 1]) == 3

    def test_attempts_that_always_agree_within_a_task_count_once(self):
        assert effective_trials([1.0, 0.0, 1.0, 0.0], [10, 10, 10, 10]) == pytest.approx(4)

    def test_attempts_that_all_went_alike_count_as_their_tasks(self):
        assert effective_trials([1.0, 1.0], [8, 8]) == 2

    def test_a_single_task_counts_once(self):
        assert effective_trials([0.5], [8]) == 1

    def test_they_are_the_variance_of_independent_attempts_over_the_clustered_one(self):
        rates = [0.9, 0.5, 0.1, 0.7]
        rate, error = 0.55, standard_error(rates)
        assert error is not None
        assert effective_trials(rates, [20] * 4) == pytest.approx(rate * (1 - rate) / error**2)

    @given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 8)), min_size=1, max_size=12))
    def test_they_lie_between_the_tasks_and_the_attempts(self, tasks):
        sizes = [max(successes, size) for successes, size in tasks]
        rates = [successes / size for (successes, _), size in zip(tasks, sizes, strict=True)]
        assert len(tasks) <= effective_trials(rates, sizes) <= sum(sizes)
