"""Confidence intervals by a seeded bootstrap of many means over the same tasks, without numpy.

All figures of a task are packed into one integer, 64 bits each, so that one sum over the drawn tasks is the
sum of every figure. Sums are exact; figures are rounded to less than 2**-38 of their range.

Invariants of the packing: a field holds a number that is not negative and has so few bits that the sum over
all tasks fits into its 64 bits, so that no field carries into the next one. The draws depend on the seed and
the number of tasks only: all figures share them, and the same attempts give the same intervals.
"""

import math
import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

from ors_server.evaluation.intervals import MIN_TASKS, Interval

RESAMPLES = 10_000
"""Number of resamples by default."""
MAX_DRAWS = 20_000_000
"""Number of drawn tasks in all, above which fewer resamples are made."""
MIN_RESAMPLES = 1_000
"""Lowest number of resamples, for any number of tasks."""
_FIELD = 64
"""Bits of one sum."""
_MAX_BITS = 40
"""Maximum number of bits of one rounded figure."""
_STANDARD = NormalDist()

Column: TypeAlias = Sequence[float | None]
"""One figure of every task, in the order of the tasks; `None` for a task that does not have it."""


@dataclass(frozen=True, slots=True)
class Resampling:
    """How intervals are resampled."""

    resamples: int = RESAMPLES
    confidence: float = 0.95
    seed: int = 0

    def resamples_of(self, tasks: int) -> int:
        """Return the number of resamples for a number of tasks, at least 1."""
        return min(self.resamples, max(MIN_RESAMPLES, MAX_DRAWS // tasks))


def bootstrap(columns: Mapping[str, Column], how: Resampling) -> dict[str, Interval | None]:
    """Return the interval of the mean over tasks of each figure; `None` if fewer than two tasks have it.

    Tasks are drawn with all their attempts, so intervals are clustered by task. They are corrected for bias
    and skewness (BCa; Efron 1987, J. Am. Stat. Assoc. 82, 171-185), except if all resamples are on one side
    of the mean, where BCa is not defined and the interval is the percentile one.
    """
    tasks = max((len(column) for column in columns.values()), default=0)
    packed = _Packed({name: column for name, column in columns.items() if _known(column) >= MIN_TASKS}, tasks)
    intervals: dict[str, Interval | None] = dict.fromkeys(columns)
    if not packed.names:
        return intervals
    means = packed.resampled_means(random.Random(how.seed), how.resamples_of(tasks))  # noqa: S311  (no secret)
    for name, resampled in zip(packed.names, means, strict=True):
        values = [value for value in columns[name] if value is not None]
        intervals[name] = bca(values, resampled, how.confidence)
    return intervals


def bca(values: Sequence[float], resampled: Sequence[float], confidence: float) -> Interval:
    """Return the interval of the mean of at least two values, given the means of resamples in any order."""
    rising = sorted(resampled)
    tail = (1 - confidence) / 2
    tails = _corrected(values, rising, tail)
    low, high = tails or (tail, 1 - tail)
    return Interval(quantile(rising, low), quantile(rising, high), "percentile" if tails is None else "bca")


def quantile(rising: Sequence[float], share: float) -> float:
    """Return a quantile of sorted values, at least one, interpolated as numpy does by default."""
    position = (len(rising) - 1) * share
    below = math.floor(position)
    above = min(below + 1, len(rising) - 1)
    return rising[below] + (rising[above] - rising[below]) * (position - below)


def _known(column: Column) -> int:
    return sum(value is not None for value in column)


def _corrected(values: Sequence[float], rising: Sequence[float], tail: float) -> tuple[float, float] | None:
    mean = math.fsum(values) / len(values)
    reach = max(abs(value - mean) for value in values)
    if reach <= 0.0:
        return None
    # With all values the same there is no interval to correct.
    near = reach * 2.0**-30  # within rounding, a resample lies on neither side
    below = sum(value < mean - near for value in rising)
    ties = sum(abs(value - mean) <= near for value in rising)
    share = (below + ties / 2) / len(rising)
    if not 0.0 < share < 1.0:
        return None
    bias = _STANDARD.inv_cdf(share)
    # The jackknife's leave-one-out means differ from the mean by these, up to a factor that cancels.
    away = [(value - mean) / reach for value in values]
    skew = math.fsum(part**3 for part in away) / (6 * math.fsum(part**2 for part in away) ** 1.5)
    z = _STANDARD.inv_cdf(tail)
    low, high = (_STANDARD.cdf(bias + (bias + end) / (1 - skew * (bias + end))) for end in (z, -z))
    return low, high


class _Packed:
    """Columns packed into one integer per task; a column with gaps has a second field, for the task count."""

    def __init__(self, columns: Mapping[str, Column], tasks: int) -> None:
        self.names = tuple(columns)
        self._tasks = tasks
        # The sum of a column over all tasks must fit into its field.
        bits = min(_MAX_BITS, _FIELD - 1 - tasks.bit_length())
        self._scales: list[tuple[float, float]] = []
        self._counts: list[int | None] = []
        """For each column, the index of the field that counts its tasks; `None` if it has no gaps."""
        fields: list[Sequence[int]] = []
        for column in columns.values():
            present = [value for value in column if value is not None]
            least = min(present)
            unit = (max(present) - least) / 2**bits
            self._scales.append((least, unit))
            fields.append([_rounded(value, least, unit) for value in column])
            whole = len(present) == tasks
            self._counts.append(None if whole else len(fields))
            if not whole:
                fields.append([int(value is not None) for value in column])
        self._width = len(fields)
        self._rows = [
            sum(value << (_FIELD * index) for index, value in enumerate(row))
            for row in zip(*fields, strict=True)
        ]

    def resampled_means(self, source: random.Random, resamples: int) -> list[list[float]]:
        """Return the means of each column over `resamples` draws of as many tasks as there are."""
        unpack = struct.Struct(f"<{self._width}Q").unpack
        rows, tasks, size = self._rows, self._tasks, 8 * self._width
        sums = [unpack(sum(source.choices(rows, k=tasks)).to_bytes(size, "little")) for _ in range(resamples)]
        by_field = list(zip(*sums, strict=True))
        return [self._means(by_field, index) for index in range(len(self.names))]

    def _means(self, by_field: Sequence[Sequence[int]], column: int) -> list[float]:
        least, unit = self._scales[column]
        counter = self._counts[column]
        # Columns with gaps before this one have two fields each.
        before = sum(count is not None for count in self._counts[:column])
        totals = by_field[column + before]
        if counter is None:
            return [least + unit * (total / self._tasks) for total in totals]
        # A resample that drew no task with the figure has no mean.
        return [
            least + unit * (total / count)
            for total, count in zip(totals, by_field[counter], strict=True)
            if count
        ]


def _rounded(value: float | None, least: float, unit: float) -> int:
    return 0 if value is None or unit <= 0.0 else round((value - least) / unit)
