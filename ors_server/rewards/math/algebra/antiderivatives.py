"""Compares indefinite integrals: two are equal if their derivatives are."""

from typing import Any, Final

from ors_server.rewards.math.algebra.answer_statements import free_names
from ors_server.rewards.math.algebra.evaluate import DIGITS, TreeEvaluator, value_of
from ors_server.rewards.math.algebra.mpmath_contexts import mp
from ors_server.rewards.math.algebra.sample_places import agree, is_real, places_for
from ors_server.rewards.math.algebra.unsure import UnsureError
from ors_server.rewards.math.tree import Add, Binder, Multiply, Node, walk

_AGREEING_POINTS: Final = 2
_PART: Final = 1e-12


def is_indefinite(node: Node) -> bool:
    """Return whether a tree has an integral without bounds."""
    return _variable(node) is not None


def _variable(node: Node) -> str | None:
    integrals = (part for part in walk(node) if isinstance(part, Binder) and part.kind == "int")
    return next((part.variable for part in integrals if not part.bounds), None)


def same_slope(gold: Node, answer: Node) -> bool:
    """Return whether two trees, at least one with an integral without bounds, differ by a constant.

    Raises:
        UnsureError: That cannot be decided.
    """
    variable = _variable(gold) or _variable(answer)
    names = free_names(gold) | free_names(answer)
    if variable is None or variable not in names:
        raise UnsureError("an integral without its variable")
    for node in (gold, answer):
        terms = node.terms if isinstance(node, Add) else (node,)
        # The constant of integration is a letter in a term without the variable.
        has_constant = any(free_names(term) and variable not in free_names(term) for term in terms)
        if not is_indefinite(node) and not has_constant:
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
            if agreed == _AGREEING_POINTS:
                return True
    raise UnsureError("too few places at which both have a slope")


def _slope(node: Node, variable: str, places: dict[str, Any]) -> Any:
    match node:
        case Binder("int", name, (), body) if name == variable:
            return value_of(TreeEvaluator().read(body), places)
        case Add(terms):
            return mp.fsum(_slope(term, variable, places) for term in terms)
        case Multiply(factors) if is_indefinite(node):
            inside = [factor for factor in factors if is_indefinite(factor)]
            constant_factors = [factor for factor in factors if not is_indefinite(factor)]
            if len(inside) != 1 or any(variable in free_names(other) for other in constant_factors):
                raise UnsureError("a product with an integral")
            product = _slope(inside[0], variable, places)
            for other in constant_factors:
                product = product * value_of(TreeEvaluator().read(other), places)
            return product
        case _ if is_indefinite(node):
            raise UnsureError("a function of an integral")
        case _:
            return value_of(TreeEvaluator().read(Binder("diff", variable, (), node)), places)
