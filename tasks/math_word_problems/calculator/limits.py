"""Limits of the calculator, and its error."""

LENGTH_LIMIT = 500
"""Longest expression, in characters."""

DEPTH_LIMIT = 50
"""Deepest nesting of parentheses, function calls, signs and powers."""

BITS_LIMIT = 4096
"""Longest numerator or denominator, in bits: 1,233 decimal digits."""

DIGITS_LIMIT = 50
"""Furthest decimal place to which `round` rounds, on either side of the point."""


class CalculatorError(ValueError):
    """An expression that cannot be computed; the message explains why and where."""

    def __init__(self, problem: str, position: int) -> None:
        """Makes the error for a problem at a position, counted from 1 in characters."""
        super().__init__(f"{problem} (at position {position})")
        self.position = position


def check_bits(bits: int, position: int) -> None:
    """Refuses a number before it is computed, by a bound on the bits of its numerator and denominator.

    Raises:
        CalculatorError: The number would be longer than `BITS_LIMIT`.
    """
    if bits > BITS_LIMIT:
        raise CalculatorError("the result would have more than 1,200 digits, which is too many", position)
