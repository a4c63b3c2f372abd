"""Limits of sums with more and more terms, by extrapolation."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from ors_server.rewards.math.algebra.mpmath_contexts import mp
from ors_server.rewards.math.algebra.unsure import UnsureError

_STARTS: Final = (6, 7)
_DOUBLINGS: Final = 8
_PART: Final = 1e-12


def limit_at_infinity(value: Callable[[Any], Any]) -> Any:
    """Return the limit of a series in 1/n (Richardson 1911), from two sequences that must agree.

    Raises:
        UnsureError: They do not agree, or there is no limit.
    """
    first, second = (
        _extrapolate([value(mp.mpf(start << step)) for step in range(_DOUBLINGS)]) for start in _STARTS
    )
    if not abs(first - second) <= _PART * max(abs(first), mp.mpf(1) / 1000):
        raise UnsureError("a limit that two sequences give differently")
    return second


def _extrapolate(values: list[Any]) -> Any:
    order = 1
    while len(values) > 1:
        scale = 2**order
        values = [(scale * fine - coarse) / (scale - 1) for coarse, fine in pairwise(values)]
        order += 1
    return values[0]
