"""Writes the value of an expression."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

    from ors_server_tasks.math_word_problems.calculator.value import Value

_DECIMAL_PLACES = 30
"""Maximum number of decimal places of a number that is written as an exact decimal."""

_SHOWN = Context(prec=15)
"""Significant digits of a rounded number."""

_PLAIN_EXPONENTS = range(-6, 16)
"""Powers of ten between which a rounded number is written without an exponent."""


def render(value: Value) -> str:
    """Writes a value: "12.5", "10/3 (~3.33333333333333)" or "~1.41421356237310"."""
    if not value.is_exact:
        return rounded(value.number)
    return decimal(value.number) or f"{value.number} ({rounded(value.number)})"


def decimal(number: Fraction) -> str:
    """The number as an exact decimal; empty if that needs more than thirty decimal places."""
    places = _places(number.denominator)
    if places is None:
        return ""
    digits = str(abs(number.numerator) * 10**places // number.denominator).zfill(places + 1)
    text = f"{digits[:-places]}.{digits[-places:]}" if places else digits
    return f"-{text}" if number < 0 else text


def _places(denominator: int) -> int | None:
    """The fewest decimal places in which 1/denominator can be written; `None` if they are too many."""
    return next((places for places in range(_DECIMAL_PLACES + 1) if 10**places % denominator == 0), None)


def rounded(number: Fraction) -> str:
    """The number rounded to fifteen significant digits, after the mark of a rounded number."""
    quotient = _SHOWN.divide(Decimal(number.numerator), Decimal(number.denominator))
    return f"~{quotient:f}" if quotient.adjusted() in _PLAIN_EXPONENTS else f"~{quotient}"
