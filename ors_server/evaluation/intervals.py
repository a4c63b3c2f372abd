"""Confidence intervals of a rate or a mean by formula. Confidences are in (0, 1).

The tests compare every function with SciPy; docs/decisions/0031-libraries.md says why the package does not
need it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

MIN_TASKS = 2
"""With fewer tasks, the variance of a mean cannot be estimated."""
_STANDARD = NormalDist()


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float
    method: str
    """`wilson`, `normal`, `t`, `bca` or `percentile`."""


def z_of(confidence: float) -> float:
    """Return half the width of a normal two-sided interval in standard errors, such as 1.96 for 0.95."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence must be between 0 and 1, got {confidence}")
    return _STANDARD.inv_cdf(0.5 + confidence / 2)


def wilson(rate: float, trials: float, confidence: float = 0.95) -> Interval:
    """Return the score interval of a rate in [0, 1] (Wilson 1927, J. Am. Stat. Assoc. 22, 209-212).

    It stays inside [0, 1], and is wider than a point if all trials had the same result. `trials` is above 0
    and need not be an integer.
    """
    z = z_of(confidence)
    shrink = 1.0 + z * z / trials
    middle = (rate + z * z / (2 * trials)) / shrink
    half = z / shrink * math.sqrt(rate * (1 - rate) / trials + (z / (2 * trials)) ** 2)
    # Exact at the ends, where rounding would leave a bound slightly off 0 or 1.
    return Interval(
        low=0.0 if rate <= 0.0 else max(0.0, middle - half),
        high=1.0 if rate >= 1.0 else min(1.0, middle + half),
        method="wilson",
    )


def standard_error(means: Sequence[float]) -> float | None:
    """Return the standard error of the mean of task means, clustered by task; `None` for fewer than two.

    Tasks, not attempts, are independent draws (Miller 2024, "Adding Error Bars to Evals", arXiv:2411.00640).
    Since every task weighs the same, it is the standard deviation of the task means over the root of their
    number.
    """
    count = len(means)
    if count < MIN_TASKS:
        return None
    middle = math.fsum(means) / count
    return math.sqrt(math.fsum((mean - middle) ** 2 for mean in means) / (count - 1) / count)


def normal(mean: float, error: float, confidence: float = 0.95) -> Interval:
    """Return the interval of a mean with a known standard error, by the normal distribution."""
    half = z_of(confidence) * error
    return Interval(mean - half, mean + half, "normal")


def effective_trials(rates: Sequence[float], attempts: Sequence[int]) -> float:
    """Return the number of independent attempts that would estimate the success rate equally well.

    Kish's design effect (Kish 1965, "Survey Sampling"): the variance of the rate by its clusters over the one
    of independent attempts. The result is at least the number of tasks and at most the number of attempts. If
    all attempts had the same result, it is the number of tasks, because nothing then shows whether they are
    independent.

    Args:
        rates: The success rate of each task, in [0, 1].
        attempts: The number of attempts of each, at least 1.
    """
    tasks, total = len(rates), sum(attempts)
    rate = math.fsum(rates) / tasks
    error = standard_error(rates)
    if error is None or error <= 0.0 or total == tasks:
        return float(tasks)
    # Rounding may push the estimate outside of what is possible.
    return min(float(total), max(float(tasks), rate * (1 - rate) / error**2))


def student_t(mean: float, error: float, count: int, confidence: float = 0.95) -> Interval:
    """Return the interval of the mean of `count` numbers, at least 2, by Student's distribution."""
    half = t_of(confidence, count - 1) * error
    return Interval(mean - half, mean + half, "t")


def t_of(confidence: float, freedom: int) -> float:
    """Return half the width of a two-sided interval of Student's distribution in standard errors."""
    low, high = 0.0, math.pi / 2
    for _ in range(80):  # bisection of an angle; 53 steps already exhaust a float's precision
        middle = (low + high) / 2
        if _inside(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _inside(angle: float, freedom: int) -> float:
    """Return the probability of |t| < sqrt(freedom) * tan(angle).

    Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4: a sum over powers of the
    cosine.
    """
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = term if freedom > 1 else 0.0
    for power in range(2 + odd, freedom - 1, 2):
        term *= cosine * cosine * (power - 1) / power
        total += term
    return (2 / math.pi) * (angle + sine * total) if odd else sine * total
