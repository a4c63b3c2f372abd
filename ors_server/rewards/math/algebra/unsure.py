"""What a judge of trees raises where it cannot say."""

from typing import Final


class UnsureError(Exception):
    """There is no value, or none that can be trusted; another judge may know."""


FAILURES: Final = (ArithmeticError, AttributeError, LookupError, NotImplementedError, TypeError, ValueError)
"""What mpmath and SymPy raise over values for which they have no rule, such as a matrix beside a number."""
MOST_OF_A_REASON: Final = 200
"""Characters of such an error that are kept."""


def unsure(error: Exception) -> UnsureError:
    """Return a package's error as one that says what is not known."""
    return UnsureError(f"{type(error).__name__}: {error}"[:MOST_OF_A_REASON])
