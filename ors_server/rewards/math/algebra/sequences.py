r"""Sequences that an answer does not define: the `a_n` of `\sum a_n x^n`.

Each gets arbitrary values, of which only the first are not zero, so that a series of them is a finite sum.
Two trees that agree whatever the values are agree for these too. Numbers in bounds and indices are kept
small, so that no two agree because they differ only where all members are zero.
"""

import hashlib
import re
from collections.abc import Callable
from typing import Any, Final

from ors_server.rewards.math.algebra.numbers import mp, mpf
from ors_server.rewards.math.algebra.unsure import UnsureError
from ors_server.rewards.math.tree import Node, Number, Symbol, Unknown, children

_LAST: Final = 12
"""Index of the last member that is not zero."""
_TERMS: Final = 60
_NOTHING: Final = 20
"""Terms at the end of a series that must vanish."""
_MOST_SHIFT: Final = 6
"""Greatest number in an index or a bound: one that is larger might part members that are all zero."""
_MULTIPLE: Final = re.compile(r"(\d?)([A-Za-z])")


def index_of(name: str, bound: frozenset[str]) -> tuple[str, int, str] | None:
    """Read `a_n` and `a_{2n}` where n is bound: the sequence, the factor, and the variable.

    Args:
        name: Of a symbol.
        bound: Names of indices that are bound around it.

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
    for node in nodes:
        if isinstance(node, Number) and not -_MOST_SHIFT <= float(node.value) <= _MOST_SHIFT:
            raise UnsureError("a sequence at a large index")
        check_reach(*children(node))


def is_of_sequences(node: Node, bound: frozenset[str]) -> bool:
    """Say whether a sequence stands in a tree that the answer does not define.

    Args:
        node: The tree.
        bound: Names of indices that are bound around it.
    """
    if isinstance(node, Unknown) or (isinstance(node, Symbol) and index_of(node.name, bound) is not None):
        return True
    return any(is_of_sequences(child, bound) for child in children(node))


def member(name: str, indices: tuple[Any, ...]) -> Any:
    """Give the value of a sequence's member.

    Args:
        name: The sequence.
        indices: Its indices, numbers.

    Raises:
        UnsureError: They are not whole.
    """
    whole = [int(mp.nint(mp.re(index))) for index in indices]
    if any(abs(index - near) > 1e-9 for index, near in zip(indices, whole, strict=True)):  # noqa: PLR2004  (noise)
        raise UnsureError("a sequence between its indices")
    if max(whole) > _LAST:
        return mp.zero
    mixed = hashlib.blake2b(f"{name} {whole}".encode(), digest_size=6).digest()
    return mpf(int.from_bytes(mixed, "big") % 9973 + 1000) / 7919


def sum_series(term: Callable[[Any], Any], start: int) -> Any:
    """Add up a series whose terms vanish from some on.

    Args:
        term: Gives a term.
        start: The first index.

    Raises:
        UnsureError: They do not vanish.
    """
    terms = [term(mpf(index)) for index in range(start, start + _TERMS)]
    if any(terms[-_NOTHING:]):
        raise UnsureError("a series of an unknown sequence")
    return mp.fsum(terms)
