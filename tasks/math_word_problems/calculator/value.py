"""Numbers of the calculator: exact fractions, some of which approximate a number."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

SIGNIFICANT_BITS = 192
"""Precision of rounded numbers, about 57 decimal digits."""


@dataclass(frozen=True, slots=True)
class Value:
    """A number and whether it is exact."""

    number: Fraction
    is_exact: bool = True


def bits(number: Fraction) -> int:
    """The length of the longer of numerator and denominator, in bits."""
    return max(number.numerator.bit_length(), number.denominator.bit_length())


def make_value(number: Fraction, *, is_exact: bool) -> Value:
    """Return the value of a computed number, rounded to `SIGNIFICANT_BITS` if it is not exact."""
    if is_exact or bits(number) <= SIGNIFICANT_BITS:
        return Value(number, is_exact)
    shift = SIGNIFICANT_BITS - number.numerator.bit_length() + number.denominator.bit_length()
    scale = Fraction(2) ** shift
    return Value(round(number * scale) / scale, is_exact)
