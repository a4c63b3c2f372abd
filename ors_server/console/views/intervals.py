"""Intervals of means, of returns and of differences, at 95 %."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z = 1.959963984540054
"""Quantile of the normal distribution for 95 %."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and its interval."""

    value: float
    low: float
    high: float
    count: int


def mean_of(values: Sequence[float]) -> Mean | None:
    """Return the mean: with Wilson's interval where every value is 0.0 or 1.0, else the normal one.

    Whole numbers are counts, of which a 1 is no success.
    """
    count = len(values)
    if not count:
        return None
    mean = math.fsum(values) / count
    if all(type(value) is float and value in {0.0, 1.0} for value in values):
        centre = (mean + Z * Z / (2 * count)) / (1 + Z * Z / count)
        half = Z / (1 + Z * Z / count) * math.sqrt(mean * (1 - mean) / count + Z * Z / (4 * count * count))
        return Mean(mean, max(0.0, centre - half), min(1.0, centre + half), count)
    half = Z * standard_error(values, mean)
    return Mean(mean, mean - half, mean + half, count)


def standard_error(values: Sequence[float], mean: float) -> float:
    """Return the standard error of a mean; 0 for one value, of which it cannot be known."""
    if len(values) < 2:  # noqa: PLR2004  (a variance needs two)
        return 0.0
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
