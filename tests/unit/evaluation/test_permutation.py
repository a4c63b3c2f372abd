"""The sign-flip test against SciPy's permutation test and binomial test."""

import random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from ors_server.evaluation.run_comparison import DRAWS, sign_flip_test


def exact(differences):
    return scipy.stats.permutation_test(
        (np.array(differences),), np.sum, permutation_type="samples", n_resamples=np.inf
    ).pvalue


@settings(max_examples=25)
@given(st.lists(st.integers(-12, 12), min_size=2, max_size=9), st.sampled_from([1, 3, 4, 10]))
def test_fractions_give_scipy_s_exact_p(counts, parts):
    differences = [count / parts for count in counts]
    found = sign_flip_test(differences)
    assert found.is_exact
    assert found.p == pytest.approx(exact(counts) if any(counts) else 1.0, rel=1e-9)


@settings(max_examples=20)
@given(st.integers(2, 9), st.integers(0, 10**6))
def test_few_differences_of_any_kind_give_scipy_s_exact_p(count, seed):
    source = random.Random(seed)  # noqa: S311  (no secret)
    differences = [source.gauss(0.2, 1.0) for _ in range(count)]
    found = sign_flip_test(differences)
    assert found.is_exact
    assert found.p == pytest.approx(exact(differences), rel=1e-9)


@pytest.mark.parametrize(("only_first", "only_second"), [(3, 9), (0, 5), (40, 61), (300, 350)])
def test_equal_differences_give_the_exact_binomial_p(only_first, only_second):
    found = sign_flip_test([-1.0] * only_first + [1.0] * only_second + [0.0] * 17)
    known = scipy.stats.binomtest(only_first, only_first + only_second).pvalue
    assert found.is_exact
    assert found.p == pytest.approx(known, rel=1e-9)


def test_many_differences_of_any_kind_are_drawn_from_a_seed():
    source = random.Random(2)  # noqa: S311  (no secret)
    differences = [source.gauss(0.12, 1.0) for _ in range(250)]
    found = sign_flip_test(differences, seed=1)
    # With so many, the sums of signs are as good as normal: the p-value of the t test, within four errors.
    known = scipy.stats.ttest_1samp(differences, 0.0).pvalue
    assert not found.is_exact
    assert found.p == pytest.approx(known, abs=4 * (known / DRAWS) ** 0.5 + 0.002)
    assert found == sign_flip_test(differences, seed=1)


def test_a_p_that_is_drawn_is_never_zero():
    differences = [1.0 + number / 7919 for number in range(60)]
    assert sign_flip_test(differences).p == 1 / (DRAWS + 1)


@pytest.mark.parametrize("differences", [[], [0.0, 0.0], [-0.0]], ids=["none", "zeros", "minus-zero"])
def test_no_difference_is_no_surprise(differences):
    assert sign_flip_test(differences).p == 1.0


@given(st.lists(st.integers(-30, 30), min_size=1, max_size=30), st.floats(1e-6, 1e6))
def test_neither_direction_nor_scale_matters(counts, scale):
    plain = sign_flip_test([count / 10 for count in counts])
    turned = sign_flip_test([-scale * count / 10 for count in counts])
    if plain.is_exact and turned.is_exact:
        assert turned.p == pytest.approx(plain.p, rel=1e-9)
    assert 0 < turned.p <= 1
