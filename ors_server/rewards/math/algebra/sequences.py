r"""Sequences that an answer does not define: the `a_n` of `\sum a_n x^n`.

Each gets arbitrary values, of which only the first are not zero, so that a series of them is a finite sum.
Two trees that agree for all values agree for these too. Numbers in bounds and indices are limited, so that
two trees do not agree merely because they differ where all members are zero.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from ors_server.rewards.math.algebra.mpmath_contexts import mp, mpf
from ors_server.rewards.math.algebra.unsure import UnsureError
from ors_server.rewards.math.hash_numbers import hash_number
from ors_server.rewards.math.tree import Node, Number, Symbol, Unknown, walk

_LAST: Final = 12
"""Index of the last member that is not zero."""
_TERMS: Final = 60
_NOTHING: Final = 20
"""Terms at the end of a series that must vanish."""
_MAX_SHIFT: Final = 6
"""Greatest number in an index or a bound: beyond it members might all be zero."""
_MULTIPLE: Final = re.compile(r"(\d?)([A-Za-z])")


def index_of(name: str, bound: frozenset[str]) -> tuple[str, int, str] | None:
    """Parse `a_n` and `a_{2n}`, n being one of the bound names: the sequence, the factor, and the variable.

    Raises:
        UnsureError: The index has another bound letter in it.
    """
    sequence, _, label = name.partition("_")
    multiple = _MULTIPLE.fullmatch(label)
    if multiple is not None and multiple[2] in bound:
        return f"{sequence}_", int(multiple[1] or 1), multiple[2]
    if any(letter in label for letter in bound):
        raise UnsureError("an index of several letters")
    return None


def check_reach(*nodes: Node) -> None:
    """Refuse bounds and indices with numbers beyond which members might all be zero.

    Raises:
        UnsureError: There is one.
    """
    for part in (part for node in nodes for part in walk(node)):
        if isinstance(part, Number) and not -_MAX_SHIFT <= float(part.value) <= _MAX_SHIFT:
            raise UnsureError("a sequence at a large index")


def is_of_sequences(node: Node, bound: frozenset[str]) -> bool:
    """Return whether a tree has a sequence that the answer does not define."""
    return any(
        isinstance(part, Unknown) or (isinstance(part, Symbol) and index_of(part.name, bound) is not None)
        for part in walk(node)
    )


def member(name: str, indices: tuple[Any, ...]) -> Any:
    """Return the value of a sequence's member; raises `UnsureError` if its indices are not integers."""
    whole = [int(mp.nint(mp.re(index))) for index in indices]
    if any(abs(index - near) > 1e-9 for index, near in zip(indices, whole, strict=True)):  # noqa: PLR2004  (noise)
        raise UnsureError("a sequence between its indices")
    if max(whole) > _LAST:
        return mp.zero
    return mpf(hash_number(f"{name} {whole}") % 9973 + 1000) / 7919


def sum_series(term: Callable[[Any], Any], start: int) -> Any:
    """Add up a series of which all but the first terms are zero.

    Raises:
        UnsureError: They are not zero.
    """
    terms = [term(mpf(index)) for index in range(start, start + _TERMS)]
    if any(terms[-_NOTHING:]):
        raise UnsureError("a series of an unknown sequence")
    return mp.fsum(terms)
