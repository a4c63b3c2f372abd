"""Rounds exact numbers the way that people are taught to: halves go up."""

from __future__ import annotations

from fractions import Fraction
from math import floor

HALF = Fraction(1, 2)


def is_half_way(value: Fraction) -> bool:
    """Whether the value lies half way between two whole numbers, where customs of rounding differ."""
    return value % 1 == HALF


def nearest(value: Fraction) -> int:
    """The whole number nearest to a positive value."""
    return floor(value + HALF)
