"""Replaces `±` by the values that it stands for."""

from itertools import product

from ors_server.rewards.math.limits import EXPANSIONS, LimitError
from ors_server.rewards.math.tree import (
    Add,
    Brackets,
    Function,
    Listing,
    Multiply,
    Node,
    PlusMinus,
    Power,
    Quantity,
    Relation,
    Set,
    contains,
    negate,
)


def expand(node: Node) -> Node:
    """Return the list of values of a node with `±`; a node without one is returned unchanged.

    `±` and `∓` of one expression go together: `1 ± a ∓ b` is `1 + a - b` and `1 - a + b`.

    Raises:
        LimitError: It stands for too many values.
    """
    if not contains(node, PlusMinus):
        return node
    match node:
        case Listing(items, joiner):
            return Listing(tuple(_members(items)), joiner)
        case Set(items):
            return Set(tuple(_members(items)))
        case Relation(("=" | "≠" as sign,), (name, value)):
            return _expand_relation(sign, name, value) or node
        case _:
            return node if isinstance(node, Relation) else Listing(tuple(_values(node)), "±")


def _expand_relation(sign: str, name: Node, value: Node) -> Listing | None:
    """Return `x = 1, x = -1` for `x = ±1` and for `±1 = x`; `None` if both sides have a `±`."""
    if contains(name, PlusMinus):
        name, value = value, name
    if contains(name, PlusMinus):
        return None
    joiner = "," if sign == "=" else "and"
    return Listing(tuple(Relation((sign,), (name, member)) for member in _values(value)), joiner)


def _members(items: tuple[Node, ...]) -> list[Node]:
    members: list[Node] = []
    for item in items:
        expanded = expand(item)
        members += expanded.items if isinstance(expanded, Listing) else [expanded]
        if len(members) > EXPANSIONS * EXPANSIONS:
            raise LimitError(f"more than {EXPANSIONS * EXPANSIONS} values")
    return members


def _values(node: Node) -> list[Node]:
    if isinstance(node, Brackets):
        choices = [_values(item) for item in node.items]
        _check(choices)
        return [Brackets(node.opening, node.closing, tuple(items)) for items in product(*choices)]
    return [_choose(node, 1), _choose(node, -1)] if contains(node, PlusMinus) else [node]


def _check(choices: list[list[Node]]) -> None:
    count = 1
    for values in choices:
        count *= len(values)
    if count > EXPANSIONS:
        raise LimitError(f"more than {EXPANSIONS} values")


def _choose(node: Node, sign: int) -> Node:
    match node:
        case PlusMinus(term, own):
            inner = _choose(term, sign)
            return inner if own == sign else negate(inner)
        case Add(parts) | Multiply(parts):
            return type(node)(tuple(_choose(part, sign) for part in parts))
        case Power(base, exponent):
            return Power(_choose(base, sign), _choose(exponent, sign))
        case Function(name, arguments):
            return Function(name, tuple(_choose(argument, sign) for argument in arguments))
        case Quantity(value, unit):
            return Quantity(_choose(value, sign), unit)
        case _:
            return node
