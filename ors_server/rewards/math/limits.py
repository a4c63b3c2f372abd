"""Every bound of the math grader, and the errors that name the exceeded one.

Each bound is checked before the work that it limits is done, so that no input needs a clock, a signal or a
process to stop it.
"""

from typing import Final

RESPONSE_CHARS: Final = 100_000
"""Characters of a response that are used; of a longer one the end, where the answer is."""
ANSWER_CHARS: Final = 4_000
"""Characters of one extracted answer. Public gold answers have less than 400."""
TOKENS: Final = 1_500
"""Tokens of one extracted answer."""
DEPTH: Final = 60
"""Nested brackets, arguments and exponents of one answer."""
DIGITS: Final = 2_500
"""Digits of one written number (below CPython's own bound of 4,300 for reading an integer)."""
ITEMS: Final = 64
"""Members of a list, set or tuple, and cells of a matrix, that are compared."""
EXPANSIONS: Final = 16
"""Values that the ± signs of one answer may stand for."""
EXACT_BITS: Final = 64_000
"""Bits of the numerator and of the denominator of an exact number; 2024^4046 has 44,435."""
FACTORIAL: Final = 3_000
"""Greatest argument whose factorial, and greatest lower index whose binomial, is computed."""
RANGE: Final = 2_000
"""Terms of a finite sum or product."""
STEPS: Final = 12_000
"""Elementary operations on numbers of one comparison, all points together."""
BITS: Final = 200
"""Precision, in bits, of radicals, logarithms and the like (60 decimal digits)."""
MAGNITUDE: Final = 4_096
"""Greatest binary logarithm of a power, an exponential and the like in such a number."""
ANGLE_BITS: Final = 20
"""Greatest binary logarithm of a real angle, which loses as many bits of precision."""


class MathError(Exception):
    """Base of the errors that end a comparison; none of them leaves the grader."""


class SyntaxUnknownError(MathError):
    """The text is not a mathematical expression of this grammar."""


class LimitError(MathError):
    """A bound of this module was exceeded."""


class UndefinedError(MathError):
    """The expression has no value: a division by zero, a logarithm of zero, an index out of range."""


class InexactError(MathError):
    """The expression has a value, but not in this kind of arithmetic."""


class StepBudget:
    """Operations that one comparison may still spend."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = STEPS

    def spend(self, steps: int = 1) -> None:
        """Subtract some operations; raises `LimitError` if none are left."""
        self.left -= steps
        if self.left < 0:
            raise LimitError(f"more than {STEPS} operations")
