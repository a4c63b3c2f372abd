"""The places at which trees are compared, and how their values are."""

import hashlib
from collections.abc import Iterator
from typing import Any, Final

from ors_server.rewards.math.algebra.numbers import mp, mpf
from ors_server.rewards.math.algebra.unsure import UnsureError
from ors_server.rewards.math.tree import Binder, Constant, Function, Node, Number, children

_RANGES: Final = ((0.15, 0.9), (1.1, 2.7), (0.3, 0.8), (2.2, 4.4))
_GROWING: Final = frozenset({"factorial", "factorial2", "binom", "permutations", "harmonic"})
_SERIES: Final = ("sum", "prod")


def places_for(names: frozenset[str], whole: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Give fixed places; one alone if there are no names.

    Args:
        names: The names.
        whole: Those that stand for whole numbers.
    """
    for number, (low, high) in enumerate(_RANGES if names else _RANGES[:1]):
        yield {
            name: mpf(2 + number + _mix(name, number) % 2)
            if name in whole
            else _between(name, number, low, high)
            for name in sorted(names)
        }


def _mix(name: str, number: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{number} {name}".encode(), digest_size=6).digest(), "big")


def _between(name: str, number: int, low: float, high: float) -> Any:
    return mpf(round(low + (high - low) * (_mix(name, number) % 997) / 997, 4))


def whole_names(node: Node) -> frozenset[str]:
    """Give the names that stand in the bounds of sums and products, or under factorials.

    Args:
        node: A tree.
    """
    found: set[str] = set()
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, Binder) and current.kind in _SERIES:
            found |= frozenset[str]().union(*map(_plain_names, current.bounds))
        elif isinstance(current, Function) and current.name in _GROWING:
            found |= frozenset[str]().union(*map(_plain_names, current.arguments))
        pending.extend(children(current))
    return frozenset(found)


def _plain_names(node: Node) -> frozenset[str]:
    name = getattr(node, "name", None)
    if isinstance(name, str) and not isinstance(node, Constant) and not children(node):
        return frozenset({name})
    return frozenset[str]().union(*map(_plain_names, children(node)))


def tolerance(*nodes: Node) -> float:
    """Say to what part of themselves the values of trees have to agree.

    Args:
        *nodes: The trees.
    """
    finest = max(map(_fineness, nodes))
    return min(finest, 1e-11) if any(isinstance(node, Number) and node.digits for node in nodes) else finest


def _fineness(node: Node) -> float:
    kinds = {current.kind for current in _below(node) if isinstance(current, Binder)}
    return 1e-9 if "int" in kinds else 1e-11 if kinds else 1e-18


def _below(node: Node) -> Iterator[Node]:
    yield node
    for child in children(node):
        yield from _below(child)


def has_unit(*nodes: Node) -> bool:
    """Say whether the imaginary unit stands in a tree."""
    return any(current == Constant("i") for node in nodes for current in _below(node))


def is_real(value: Any) -> bool:
    """Say whether a value is real but for noise."""
    return not abs(mp.im(value)) > mpf(10) ** -12 * max(abs(value), 1)


def agree(first: Any, second: Any, part: float) -> bool:
    """Say whether two values, or matrices of them, are the same but for rounding.

    Args:
        first: One.
        second: The other.
        part: How far they may differ, as a part of the greater, or of one thousandth.
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
        agree(one, other, max(part, 1e-15)) or abs(one - other) < mpf("1e-20")
        for one, other in zip(first, second, strict=True)
    )
