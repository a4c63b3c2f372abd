"""How well a judge's numbers are probabilities of being right: Brier score and calibration error. Pure."""

import math
from bisect import bisect_left
from collections.abc import Sequence

from ors_server.rewards.reward_errors import JudgeSettingsError

BINS = 10
"""Default number of bins for the numbers from 0 to 1."""


def brier_score(predicted: Sequence[float], is_right: Sequence[bool]) -> float | None:
    """Return the mean squared distance of predictions in [0, 1] from the truth (Brier 1950).

    Returns:
        In [0, 1], the less the better; 0.25 for always predicting 0.5. `None` without predictions.

    Raises:
        JudgeSettingsError: A prediction is not in [0, 1], or the lengths differ.
    """
    _check(predicted, is_right)
    if not predicted:
        return None
    return math.fsum(
        (probability - right) ** 2 for probability, right in zip(predicted, is_right, strict=True)
    ) / len(predicted)


def calibration_error(predicted: Sequence[float], is_right: Sequence[bool], bins: int = BINS) -> float | None:
    """Return the expected calibration error: by how much a judge is too sure, or not sure enough.

    Predictions in [0, 1] are sorted into bins of equal width, each with its upper end and the first with 0
    too; the distances of their mean from the share of right answers are averaged by the bins' sizes (Guo et
    al. 2017, arXiv 1706.04599). Figures with different `bins` cannot be compared.

    Returns:
        In [0, 1], the less the better. `None` without predictions.

    Raises:
        JudgeSettingsError: A prediction is not in [0, 1], the lengths differ, or there is no bin.
    """
    _check(predicted, is_right)
    if bins < 1:
        raise JudgeSettingsError(f"expected at least one bin, got {bins}")
    if not predicted:
        return None
    ends = [number / bins for number in range(1, bins)]
    sums = [[0.0, 0] for _ in range(bins)]
    for probability, right in zip(predicted, is_right, strict=True):
        chosen = sums[bisect_left(ends, probability)]
        chosen[0] += probability
        chosen[1] += bool(right)
    return math.fsum(abs(confidence - right) for confidence, right in sums) / len(predicted)


def _check(predicted: Sequence[float], is_right: Sequence[bool]) -> None:
    if len(predicted) != len(is_right):
        raise JudgeSettingsError(
            f"expected as many labels as predictions, got {len(is_right)} and {len(predicted)}"
        )
    for probability in predicted:
        if not 0.0 <= probability <= 1.0:
            raise JudgeSettingsError(f"expected predictions in [0, 1], got {probability!r:.80}")
