"""Brier score and calibration error of judges."""

import random

import anyio
import pytest

from ors_server.rewards.define import as_reward
from ors_server.rewards.judges import (
    JudgeSettingsError,
    Labelled,
    brier_score,
    calibrate,
    calibration_error,
)


def binned(predicted, labels, bins):
    """The calibration error as its formula stands, bin by bin."""
    total = 0.0
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        inside = [
            (p, y)
            for p, y in zip(predicted, labels, strict=True)
            if low < p <= high or (number == 0 and p == 0)
        ]
        if inside:
            mean = sum(p for p, _ in inside) / len(inside)
            share = sum(y for _, y in inside) / len(inside)
            total += len(inside) / len(predicted) * abs(mean - share)
    return total


def test_known_figures():
    assert brier_score([1.0, 0.0], [True, False]) == 0.0
    assert brier_score([0.5] * 4, [True, False, True, False]) == 0.25
    assert brier_score([0.0], [True]) == 1.0
    assert calibration_error([0.9] * 10, [True] * 9 + [False]) == pytest.approx(0.0, abs=1e-12)
    assert calibration_error([0.9] * 10, [False] * 10) == pytest.approx(0.9)
    assert calibration_error([1.0, 0.0], [False, True]) == 1.0


def test_the_error_is_that_of_its_formula_whatever_the_bins():
    draw = random.Random(7)  # noqa: S311  (repeatable, not secret)
    for bins in (1, 3, 7, 10, 15):
        predicted = [draw.choice((draw.random(), draw.randrange(bins + 1) / bins)) for _ in range(200)]
        labels = [draw.random() < one for one in predicted]
        assert calibration_error(predicted, labels, bins) == pytest.approx(binned(predicted, labels, bins))


def test_of_nothing_there_is_no_figure():
    assert brier_score([], []) is None
    assert calibration_error([], []) is None


@pytest.mark.parametrize("figure", [brier_score, calibration_error])
@pytest.mark.parametrize("wrong", [float("nan"), -0.1, 1.1, float("inf")])
def test_what_is_no_probability_is_refused(figure, wrong):
    with pytest.raises(JudgeSettingsError):
        figure([0.5, wrong], [True, False])
    with pytest.raises(JudgeSettingsError):
        figure([0.5], [True, False])


def test_there_is_at_least_one_bin():
    with pytest.raises(JudgeSettingsError):
        calibration_error([0.5], [True], 0)


def test_a_calibration_has_both_figures():
    def sure(final_response):
        return float(final_response)

    labelled = [Labelled("0.9", is_right=True), Labelled("0.9", is_right=False), Labelled("x", is_right=True)]
    measured = anyio.run(calibrate, as_reward(sure), labelled)
    assert measured.unjudged == 1
    assert measured.brier == pytest.approx((0.01 + 0.81) / 2)
    assert measured.calibration_error == pytest.approx(0.4)
    far = anyio.run(calibrate, as_reward(lambda final_response: 2.0), labelled)
    assert (far.brier, far.calibration_error) == (None, None)
