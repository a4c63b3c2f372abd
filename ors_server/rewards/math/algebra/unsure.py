"""The error of a comparison that cannot decide."""

from typing import Final


class UnsureError(Exception):
    """There is no value, or none that can be trusted; another comparison may decide."""


FAILURES: Final = (ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)
"""What mpmath and SymPy raise for values without a rule, such as a matrix and a number."""
MAX_OF_A_REASON: Final = 200
"""Characters of such an error that are kept."""


def unsure(error: Exception) -> UnsureError:
    """Convert a package's error."""
    return UnsureError(f"{type(error).__name__}: {error}"[:MAX_OF_A_REASON])
