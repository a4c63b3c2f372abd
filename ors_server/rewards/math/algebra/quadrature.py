"""Numerical integration of floats, with a check of the result.

Two rules with different nodes must agree, or there is no value: an integral that diverges, or oscillates
without end, gives none.
"""

import cmath
import functools
import math
from collections.abc import Callable
from typing import Final

from ors_server.rewards.math.algebra.unsure import UnsureError

Integrand = Callable[[float], complex]
Rule = tuple[tuple[float, float], ...]

_TOLERANCE: Final = 1e-10
_SPLIT: Final = 0.381966011250105
"""Where an interval is cut for the second rule: a place where a pole is unlikely."""
_RANGE: Final = 3.6
"""The tanh-sinh rule runs from minus to plus this; beyond it a float's nodes coincide with the ends."""
_MAX_DEPTH: Final = 40
_PIECES: Final = 160


@functools.cache
def _tanh_sinh(count: int) -> Rule:
    """Return distances from the nearer end and weights on (-1, 1), right half (Takahasi and Mori 1974)."""
    step = _RANGE / count
    nodes: list[tuple[float, float]] = []
    for index in range(count + 1):
        x = math.pi / 2 * math.sinh(index * step)
        weight = math.pi / 2 * math.cosh(index * step) / math.cosh(x) ** 2 * step
        nodes.append((2 / (math.exp(2 * x) + 1), weight))
    return tuple(nodes)


@functools.cache
def _gauss(count: int) -> Rule:
    """Return the nodes and weights of the Gauss-Legendre rule on (-1, 1), by Newton's method."""
    nodes: list[tuple[float, float]] = []
    for index in range(count):
        x = math.cos(math.pi * (index + 0.75) / (count + 0.5))
        slope = 1.0
        for _ in range(100):
            before, value = 1.0, x
            for degree in range(2, count + 1):
                before, value = value, ((2 * degree - 1) * x * value - (degree - 1) * before) / degree
            slope = count * (x * value - before) / (x * x - 1)
            change = value / slope
            x -= change
            if abs(change) < 1e-16:  # noqa: PLR2004  (the precision of a float)
                break
        nodes.append((x, 2 / ((1 - x * x) * slope * slope)))
    return tuple(nodes)


def _read(function: Integrand, x: float) -> complex:
    """Return the value at a node, or 0 where it is out of range, which the second rule has to confirm."""
    try:
        value = function(x)
    except (OverflowError, ZeroDivisionError):
        return 0.0
    return value if cmath.isfinite(value) else 0.0


def _by_ends(function: Integrand, low: float, high: float, count: int) -> complex:
    half = (high - low) / 2
    total: complex = 0.0
    for index, (distance, weight) in enumerate(_tanh_sinh(count)):
        if weight * half == 0.0:
            break
        total += weight * _read(function, low + half * distance)
        if index:
            total += weight * _read(function, high - half * distance)
    return total * half


def _by_gauss(function: Integrand, low: float, high: float, count: int) -> complex:
    middle, half = (low + high) / 2, (high - low) / 2
    return half * sum(weight * _read(function, middle + half * node) for node, weight in _gauss(count))


def is_close(first: complex, second: complex) -> bool:
    """Return whether two values differ by at most 1e-10 of the greater one, or of one thousandth."""
    return abs(first - second) <= _TOLERANCE * max(abs(first), abs(second), 1e-3)


def integrate(function: Integrand, low: float, high: float, *, is_inner: bool = False) -> complex:
    """Integrate between two bounds, either of which may be infinite.

    `is_inner` marks an integral within another one, at each node of which fewer nodes are used.

    Raises:
        UnsureError: Two rules disagree.
    """
    if low == high:
        return 0.0
    if low > high:
        return -integrate(function, high, low, is_inner=is_inner)
    if math.isinf(low) or math.isinf(high):
        return _over_line(function, low, high, is_inner=is_inner)
    return _between(function, low, high, is_inner=is_inner)


def _over_line(function: Integrand, low: float, high: float, *, is_inner: bool) -> complex:
    if math.isinf(low) and math.isinf(high):
        below = _over_line(lambda x: function(-x), 0.0, math.inf, is_inner=is_inner)
        return below + _over_line(function, 0.0, math.inf, is_inner=is_inner)
    if math.isinf(low):
        return _over_line(lambda x: function(-x), -high, math.inf, is_inner=is_inner)
    first, second = (_from(function, low, scale) for scale in (1.0, 1.7))
    if not is_close(first, second):
        raise UnsureError("an integral to infinity that two rules give differently")
    return second


def _from(function: Integrand, low: float, scale: float) -> complex:
    """Integrate from `low` to infinity: up to `low + scale`, and beyond it with x = low + scale / t."""

    def behind(x: float) -> complex:
        value = function(low + scale / x)
        return value * scale / x / x if value else 0.0

    return _by_ends(function, low, low + scale, 80) + _by_ends(behind, 0.0, 1.0, 160)


def _between(function: Integrand, low: float, high: float, *, is_inner: bool) -> complex:
    coarse, fine = (_by_gauss(function, low, high, count) for count in ((11, 16) if is_inner else (15, 24)))
    if is_inner:
        return fine if is_close(coarse, fine) else _by_pieces(function, low, high, 1e-9)
    cut = low + _SPLIT * (high - low)
    if is_close(coarse, fine):
        parts = _by_gauss(function, low, cut, 12) + _by_gauss(function, cut, high, 12)
        if is_close(fine, parts):
            return fine
    whole = _by_ends(function, low, high, 60)
    parts = _by_ends(function, low, cut, 45) + _by_ends(function, cut, high, 45)
    return parts if is_close(whole, parts) else _by_pieces(function, low, high, _TOLERANCE)


def _by_pieces(function: Integrand, low: float, high: float, tolerance: float) -> complex:
    """Halve an interval where two rules disagree: for kinks, steps and mild poles inside."""
    pending = [(low, high, 0)]
    total: complex = 0.0
    doubt = 0.0
    pieces = 0
    while pending:
        start, end, depth = pending.pop()
        pieces += 1
        coarse, fine = (_by_gauss(function, start, end, count) for count in (8, 15))
        gap = abs(coarse - fine)
        if gap <= tolerance * 1e-3 * max(abs(fine), 1e-6) or (depth and gap < 1e-14 * max(abs(total), 1.0)):
            total += fine
            doubt += gap
        elif depth == _MAX_DEPTH or pieces > _PIECES:
            raise UnsureError("an integral that does not settle")
        else:
            middle = (start + end) / 2
            pending += [(start, middle, depth + 1), (middle, end, depth + 1)]
    if doubt > tolerance * max(abs(total), 1e-3):
        raise UnsureError("an integral that does not settle")
    return total
