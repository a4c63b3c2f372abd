"""How far a judge's numbers are probabilities of being right: Brier score and calibration error. Pure."""

import math
from bisect import bisect_left
from collections.abc import Sequence

from ors_server.rewards.judges.errors import JudgeSettingsError

BINS = 10
"""Into which the numbers from 0 to 1 are sorted, unless it is chosen otherwise."""


def brier_score(predicted: Sequence[float], is_right: Sequence[bool]) -> float | None:
    """Return the mean squared distance of predictions from what was the case (Brier 1950).

    Args:
        predicted: Numbers in [0, 1].
        is_right: What was the case, in the same order.

    Returns:
        In [0, 1], the less the better; 0.25 for always saying 0.5. `None` for nothing.

    Raises:
        JudgeSettingsError: A prediction is not in [0, 1], or the two are not as long.
    """
    _check(predicted, is_right)
    if not predicted:
        return None
    return math.fsum((one - right) ** 2 for one, right in zip(predicted, is_right, strict=True)) / len(
        predicted
    )


def calibration_error(predicted: Sequence[float], is_right: Sequence[bool], bins: int = BINS) -> float | None:
    """Return the expected calibration error: by how much a judge is too sure, or not sure enough.

    Predictions are sorted into bins of equal width, each with its upper end and the first with 0 too; the
    distances of their mean from the share that was right are averaged by the bins' sizes (Guo et al. 2017,
    arXiv 1706.04599).

    Args:
        predicted: Numbers in [0, 1].
        is_right: What was the case, in the same order.
        bins: At least 1. The figure depends on it: compare what has the same.

    Returns:
        In [0, 1], the less the better. `None` for nothing.

    Raises:
        JudgeSettingsError: A prediction is not in [0, 1], the two are not as long, or there is no bin.
    """
    _check(predicted, is_right)
    if bins < 1:
        raise JudgeSettingsError(f"there is at least one bin, not {bins}")
    if not predicted:
        return None
    ends = [number / bins for number in range(1, bins)]
    sums = [[0.0, 0] for _ in range(bins)]
    for one, right in zip(predicted, is_right, strict=True):
        chosen = sums[bisect_left(ends, one)]
        chosen[0] += one
        chosen[1] += bool(right)
    return math.fsum(abs(confidence - right) for confidence, right in sums) / len(predicted)


def _check(predicted: Sequence[float], is_right: Sequence[bool]) -> None:
    if len(predicted) != len(is_right):
        raise JudgeSettingsError(f"{len(predicted)} predictions and {len(is_right)} labels came")
    for one in predicted:
        if not 0.0 <= one <= 1.0:
            raise JudgeSettingsError(f"a prediction is a number in [0, 1], not {one!r:.80}")
