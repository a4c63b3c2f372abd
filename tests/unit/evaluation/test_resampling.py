"""The bootstrap against SciPy's, and by its properties."""

import random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from ors_server.evaluation.resampling import MAX_DRAWS, MIN_RESAMPLES, Resampling, bca, bootstrap, quantile

KINDS = {
    "even": lambda source: source.random(),
    "skewed": lambda source: source.expovariate(1.0),
    "binary": lambda source: float(source.random() < 0.2),
}


def sample(kind, size, seed=5):
    source = random.Random(seed)  # noqa: S311  (no secret)
    return [KINDS[kind](source) for _ in range(size)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [12, 150])
def test_the_interval_is_that_of_scipy_s_bca_bootstrap(kind, size):
    values = sample(kind, size)
    found = bootstrap({"x": values}, Resampling(resamples=10_000))["x"]
    known = scipy.stats.bootstrap(
        (np.array(values),), np.mean, n_resamples=10_000, method="BCa", rng=np.random.default_rng(0)
    ).confidence_interval
    # Both draw at random: ends agree to a tenth of the interval's width.
    width = known.high - known.low
    assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=0.1 * width)
    assert found.method == "bca"


def test_the_same_resamples_give_scipy_s_interval_to_the_digit():
    values = sample("skewed", 9)
    drawn = np.random.default_rng(1).gamma(4.0, sum(values) / 36, 999)  # as means might lie, without ties
    known = scipy.stats.bootstrap(
        (np.array(values),),
        np.mean,
        n_resamples=0,
        bootstrap_result=type("Result", (), {"bootstrap_distribution": drawn})(),
        method="BCa",
    ).confidence_interval
    found = bca(values, list(drawn), 0.95)
    assert (found.low, found.high) == pytest.approx((known.low, known.high), rel=1e-9)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(0, 1))
def test_quantiles_are_numpy_s(values, share):
    assert quantile(sorted(values), share) == pytest.approx(
        float(np.quantile(values, share)), rel=1e-9, abs=1e-6
    )


@settings(max_examples=25)
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20), st.integers(0, 2**31))
def test_an_interval_lies_between_the_least_and_the_greatest_value(values, seed):
    found = bootstrap({"x": values}, Resampling(resamples=200, seed=seed))["x"]
    slack = 1e-9 * (max(values) - min(values))
    assert min(values) - slack <= found.low <= found.high <= max(values) + slack


@settings(max_examples=15)
@given(st.lists(st.integers(0, 8), min_size=3, max_size=12), st.floats(0.1, 100), st.floats(-50, 50))
def test_an_interval_moves_and_grows_with_its_values(counts, scale, shift):
    values = [count / 8 for count in counts]
    how = Resampling(resamples=300)
    plain = bootstrap({"x": values}, how)["x"]
    moved = bootstrap({"x": [scale * value + shift for value in values]}, how)["x"]
    expected = (scale * plain.low + shift, scale * plain.high + shift)
    assert (moved.low, moved.high) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_the_same_seed_gives_the_same_interval_and_another_one_another():
    values = sample("even", 40)
    first, second, other = (bootstrap({"x": values}, Resampling(1000, seed=seed)) for seed in (3, 3, 4))
    assert first == second != other


def test_a_figure_s_interval_does_not_depend_on_its_neighbours():
    values, others = sample("even", 30), sample("binary", 30)
    how = Resampling(500)
    assert bootstrap({"x": values, "y": others}, how)["x"] == bootstrap({"x": values}, how)["x"]


def test_tasks_without_a_figure_are_no_zeros():
    values = [1.0, 2.0, None, 3.0, None]
    found = bootstrap({"x": values, "y": [1.0] * 5}, Resampling(2000))
    assert 1.0 <= found["x"].low < 2.0 < found["x"].high <= 3.0
    assert (found["y"].low, found["y"].high, found["y"].method) == (1.0, 1.0, "percentile")


@pytest.mark.parametrize("values", [[], [1.0], [None, 1.0, None]], ids=["none", "one", "one-of-three"])
def test_fewer_than_two_tasks_have_no_interval(values):
    assert bootstrap({"x": values}, Resampling(100)) == {"x": None}


def test_resamples_that_all_lie_on_one_side_leave_the_plain_interval():
    found = bca([0.0, 1.0], [0.6, 0.7, 0.8], 0.9)
    assert found.method == "percentile"
    assert (found.low, found.high) == pytest.approx((0.61, 0.79))


def test_very_many_tasks_are_resampled_less_often_but_never_hardly_at_all():
    how = Resampling(10_000)
    assert how.resamples_of(1000) == 10_000
    assert how.resamples_of(10_000) == MAX_DRAWS // 10_000
    assert how.resamples_of(10_000_000) == MIN_RESAMPLES
    assert Resampling(50).resamples_of(10_000_000) == 50


def test_the_clustered_interval_covers_the_truth_as_often_as_it_says():
    # 200 made-up evaluations of 40 tasks x 3 attempts whose rate is known to be 0.5: a 90 % interval that
    # treats attempts as independent would cover far less often, because tasks differ.
    source = random.Random(11)  # noqa: S311  (no secret)
    covered = 0
    for number in range(200):
        eases = [source.choice((0.1, 0.9)) for _ in range(40)]
        means = [sum(source.random() < ease for _ in range(3)) / 3 for ease in eases]
        found = bootstrap({"x": means}, Resampling(400, confidence=0.9, seed=number))["x"]
        covered += found.low <= 0.5 <= found.high
    assert 168 <= covered <= 194  # binomial, 0.9 of 200, three and a half standard errors to each side
