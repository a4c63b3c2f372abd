"""The places at which trees are compared, and properties of their values."""

from collections.abc import Iterator
from typing import Any, Final

from ors_server.rewards.math.algebra.mpmath_contexts import mp, mpf
from ors_server.rewards.math.algebra.unsure import UnsureError
from ors_server.rewards.math.hash_numbers import hash_number
from ors_server.rewards.math.tree import Binder, Constant, Function, Node, Number, children, walk

_RANGES: Final = ((0.15, 0.9), (1.1, 2.7), (0.3, 0.8), (2.2, 4.4))
_GROWING: Final = frozenset({"factorial", "factorial2", "binom", "permutations", "harmonic"})
_SERIES: Final = ("sum", "prod")


def places_for(names: frozenset[str], whole: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Return fixed places for the names, of which some are of integers; only one place without names."""
    for number, (low, high) in enumerate(_RANGES if names else _RANGES[:1]):
        yield {
            name: mpf(2 + number + hash_number(f"{number} {name}") % 2)
            if name in whole
            else mpf(round(low + (high - low) * (hash_number(f"{number} {name}") % 997) / 997, 4))
            for name in sorted(names)
        }


def whole_names(node: Node) -> frozenset[str]:
    """Return the names in the bounds of sums and products, or in factorials."""
    names: set[str] = set()
    for current in walk(node):
        if isinstance(current, Binder) and current.kind in _SERIES:
            names |= frozenset[str]().union(*map(_plain_names, current.bounds))
        elif isinstance(current, Function) and current.name in _GROWING:
            names |= frozenset[str]().union(*map(_plain_names, current.arguments))
    return frozenset(names)


def _plain_names(node: Node) -> frozenset[str]:
    name = getattr(node, "name", None)
    if isinstance(name, str) and not isinstance(node, Constant) and not children(node):
        return frozenset({name})
    return frozenset[str]().union(*map(_plain_names, children(node)))


def tolerance(*nodes: Node) -> float:
    """Return the relative difference that the values of trees may have."""
    kinds = {current.kind for node in nodes for current in walk(node) if isinstance(current, Binder)}
    finest = 1e-9 if "int" in kinds else 1e-11 if kinds else 1e-18
    return min(finest, 1e-11) if any(isinstance(node, Number) and node.digits for node in nodes) else finest


def has_unit(*nodes: Node) -> bool:
    """Return whether the imaginary unit is in a tree."""
    return any(current == Constant("i") for node in nodes for current in walk(node))


def is_real(value: Any) -> bool:
    """Return whether a value is real but for rounding."""
    return not abs(mp.im(value)) > mpf(10) ** -12 * max(abs(value), 1)


def agree(first: Any, second: Any, part: float) -> bool:
    """Return whether two values, or matrices, are equal but for rounding.

    They may differ by `part` of the greater one, or of one thousandth.
    """
    if isinstance(first, mp.matrix) or isinstance(second, mp.matrix):
        return _agree_by_cell(first, second, part)
    if mp.isinf(first) or mp.isinf(second):
        return bool(first == second)
    least = mpf("1e-3") if part > 1e-12 else mpf(10) ** -200  # noqa: PLR2004  (integrals and series have noise)
    return bool(abs(first - second) <= part * max(abs(first), abs(second), least))


def _agree_by_cell(first: Any, second: Any, part: float) -> bool:
    if not (isinstance(first, mp.matrix) and isinstance(second, mp.matrix)):
        raise UnsureError("a matrix and a number")
    if (first.rows, first.cols) != (second.rows, second.cols):
        return False
    return all(
        agree(left, right, max(part, 1e-15)) or abs(left - right) < mpf("1e-20")
        for left, right in zip(first, second, strict=True)
    )
