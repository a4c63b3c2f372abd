"""Indefinite integrals: two are the same if their derivatives are."""

from typing import Any, Final

from ors_server.rewards.math.algebra.evaluate import DIGITS, Evaluator, value_of
from ors_server.rewards.math.algebra.numbers import mp
from ors_server.rewards.math.algebra.places import agree, is_real, places_for
from ors_server.rewards.math.algebra.statements import free_names
from ors_server.rewards.math.algebra.unsure import UnsureError
from ors_server.rewards.math.tree import Add, Binder, Multiply, Node, children

_ENOUGH: Final = 2
_PART: Final = 1e-12


def is_indefinite(node: Node) -> bool:
    """Say whether an integral without bounds stands in a tree.

    Args:
        node: The tree.
    """
    if isinstance(node, Binder) and node.kind == "int" and not node.bounds:
        return True
    return any(map(is_indefinite, children(node)))


def _variable(node: Node) -> str | None:
    if isinstance(node, Binder) and node.kind == "int" and not node.bounds:
        return node.variable
    return next((name for child in children(node) if (name := _variable(child)) is not None), None)


def same_slope(gold: Node, answer: Node) -> bool:
    """Say whether two trees, at least one of them with an integral without bounds, differ by a constant.

    Args:
        gold: One tree.
        answer: The other.

    Raises:
        UnsureError: That cannot be said.
    """
    variable = _variable(gold) or _variable(answer)
    names = free_names(gold) | free_names(answer)
    if variable is None or variable not in names:
        raise UnsureError("an integral without its variable")
    if not all(is_indefinite(node) or _has_constant(node, variable) for node in (gold, answer)):
        return False
    agreed = 0
    with mp.workdps(DIGITS):
        for places in places_for(names, frozenset()):
            try:
                first, second = (_slope(node, variable, places) for node in (gold, answer))
            except UnsureError:
                continue
            if not (is_real(first) and is_real(second)):
                continue
            if not agree(first, second, _PART):
                return False
            agreed += 1
            if agreed == _ENOUGH:
                return True
    raise UnsureError("too few places at which both have a slope")


def _has_constant(node: Node, variable: str) -> bool:
    """Say whether a term without the variable is a letter: the constant of integration."""
    terms = node.terms if isinstance(node, Add) else (node,)
    return any(free_names(term) and variable not in free_names(term) for term in terms)


def _slope(node: Node, variable: str, places: dict[str, Any]) -> Any:
    match node:
        case Binder("int", name, (), body) if name == variable:
            return value_of(Evaluator().read(body), places)
        case Add(terms):
            return mp.fsum(_slope(term, variable, places) for term in terms)
        case Multiply(factors) if is_indefinite(node):
            inside = [factor for factor in factors if is_indefinite(factor)]
            others = [factor for factor in factors if not is_indefinite(factor)]
            if len(inside) != 1 or any(variable in free_names(other) for other in others):
                raise UnsureError("a product with an integral")
            product = _slope(inside[0], variable, places)
            for other in others:
                product = product * value_of(Evaluator().read(other), places)
            return product
        case _ if is_indefinite(node):
            raise UnsureError("a function of an integral")
        case _:
            return value_of(Evaluator().read(Binder("diff", variable, (), node)), places)
