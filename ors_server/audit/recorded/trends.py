"""Whether figures grow with time: Spearman's correlation with a permutation test, Theil and Sen's slope."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

PERMUTATIONS = 999
_ENOUGH = 20
"""Permutations with so great a correlation after which p is not small, and no more are made."""
MAX_FIGURES = 500
"""Figures that are tested; of more, these are evenly spaced."""
_SLOPES = 200
"""Figures of which every pair gives a slope."""


@dataclass(frozen=True, slots=True)
class Trend:
    """How figures change with time."""

    correlation: float
    """Spearman's, in [-1, 1]."""
    p: float
    """One-sided, that it would be so great without growth, in (0, 1]."""
    slope: float
    """The median of the slopes of all pairs, times the number of figures: the change from first to last."""


def trend_of(figures: Sequence[float], seed: int = 0) -> Trend:
    """Return the trend of figures in the order of time.

    The observed order counts as one permutation, so that p is never 0 (Phipson and Smyth 2010,
    Stat. Appl. Genet. Mol. Biol. 9, 39). Permutations end early where p is not small (Besag and Clifford
    1991, Biometrika 78, 301).
    """
    chosen = spread_out(figures, MAX_FIGURES)
    ranks = _ranks(chosen)
    count = len(ranks)
    middle = (count - 1) / 2
    spread = sum((rank - middle) ** 2 for rank in ranks)
    if count < 3 or spread <= 0:  # noqa: PLR2004  (a trend needs three)
        return Trend(0.0, 1.0, 0.0)
    times = [place - middle for place in range(count)]
    observed = sum(time * rank for time, rank in zip(times, ranks, strict=True))
    source = random.Random(seed)  # noqa: S311  (no secret)
    greater = made = 0
    shuffled = list(ranks)
    while made < PERMUTATIONS and greater < _ENOUGH:
        made += 1
        source.shuffle(shuffled)
        greater += sum(time * rank for time, rank in zip(times, shuffled, strict=True)) >= observed
    whole = (spread * sum(time * time for time in times)) ** 0.5
    return Trend(observed / whole, (greater + 1) / (made + 1), _slope(chosen))


def spread_out(figures: Sequence[float], most: int) -> list[float]:
    """Return at most so many figures, evenly spaced."""
    if len(figures) <= most:
        return list(figures)
    return [figures[place * len(figures) // most] for place in range(most)]


def _ranks(figures: Sequence[float]) -> list[float]:
    """Return ranks from 0; equal figures share their mean rank."""
    order = sorted(range(len(figures)), key=lambda place: figures[place])
    ranks = [0.0] * len(figures)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and figures[order[end + 1]] == figures[order[start]]:
            end += 1
        for place in order[start : end + 1]:
            ranks[place] = (start + end) / 2
        start = end + 1
    return ranks


def _slope(figures: Sequence[float]) -> float:
    few = spread_out(figures, _SLOPES)
    slopes = [
        (few[later] - few[earlier]) / (later - earlier) for earlier, later in combinations(range(len(few)), 2)
    ]
    return median(slopes) * (len(few) - 1)
