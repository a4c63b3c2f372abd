r"""Whether an answer is at least as evaluated as the gold answer. Pure.

`2^{10}` is equal to `1024`, and leaves the work to the reader. An answer is *settled* if nothing in it can be
computed that gives a simpler number: a number, a fraction, a root that is irrational, a sum of such terms. A
settled gold answer asks for a settled answer; of functions (`sin`, `log`, `max`), only those that the gold
answer has may stay.
"""

from fractions import Fraction
from math import isqrt
from typing import Final

from ors_server.rewards.math.tree import (
    Add,
    Binder,
    Function,
    Multiply,
    Node,
    Number,
    PlusMinus,
    Power,
    Quantity,
    Relation,
    children,
    contains,
)

_SYMBOLIC: Final = (Add, Multiply, Power, Function)
_ROOTS: Final = frozenset({"sqrt", "root", "cbrt"})


def is_as_evaluated(answer: Node, gold: Node) -> bool:
    """Return whether nothing is left to compute in an answer that is not left in the gold answer, too."""
    if isinstance(answer, Relation) and set(answer.operators) == {"="}:
        answer = answer.sides[-1]
    if functions_of(answer) - functions_of(gold) - _ROOTS:
        return False
    return is_settled(answer) or not is_settled(gold)


def functions_of(node: Node) -> frozenset[str]:
    """Return the names of the functions of numbers alone in an answer, and of its sums and integrals."""
    own = frozenset[str]()
    if isinstance(node, Binder):
        own = frozenset({node.kind})
    elif isinstance(node, Function) and _is_numeric(node):
        own = frozenset({node.name})
    return own.union(*map(functions_of, children(node)))


def is_settled(node: Node) -> bool:
    """Return whether no part of an answer that is made of numbers alone can be computed further."""
    if isinstance(node, _SYMBOLIC) and _is_numeric(node):
        return _is_settled_number(node)
    if isinstance(node, Multiply):
        numbers = [factor for factor in _factors(node) if isinstance(factor, Number)]
        if sum(factor.value not in (-1, 1) for factor in numbers) > 1:
            return False
    if isinstance(node, Add) and sum(isinstance(term, Number) for term in node.terms) > 1:
        return False
    return all(map(is_settled, children(node)))


def _is_numeric(node: Node) -> bool:
    return (
        isinstance(node, Number)
        or (isinstance(node, (*_SYMBOLIC, PlusMinus)) and all(map(_is_numeric, children(node))))
        or (isinstance(node, Quantity) and node.unit == "°" and _is_numeric(node.value))
    )


def _is_settled_number(node: Node) -> bool:  # noqa: PLR0911  (a table of kinds)
    match node:
        case Multiply():
            return _is_settled_product(_factors(node))
        case Add(terms):
            rational = sum(
                not contains(term, (Power, Function))
                or (
                    isinstance(term, Multiply)
                    and all(isinstance(f, Number) or _is_inverse(f) for f in term.factors)
                )
                for term in terms
            )
            return rational <= 1 and all(map(_is_settled_number, terms)) and len(terms) > 1
        case Power(Number(value), Number(-1)):
            return value not in (0, 1)
        case Power(base, Number(exponent)):
            return (
                isinstance(exponent, Fraction)
                and _is_settled_number(base)
                and not _is_perfect(base, exponent.denominator)
            )
        case Power(base, Multiply((*_, Power(Number(int(index)), Number(-1))))):
            return _is_settled_number(base) and not _is_perfect(base, index)
        case Function("sqrt", (radicand,)):
            return not _is_perfect(radicand, 2)
        case Function(name, (radicand, Number(int(index)))) if name == "root":
            return not _is_perfect(radicand, index)
        case _:
            return True  # functions are judged by their names


def _factors(product: Multiply) -> tuple[Node, ...]:
    r"""Return the factors of a product, and of the products in it (`\frac{20}{100} \cdot 330`)."""
    return tuple(
        inner
        for factor in product.factors
        for inner in (_factors(factor) if isinstance(factor, Multiply) else (factor,))
    )


def _is_settled_product(factors: tuple[Node, ...]) -> bool:
    tops = sum(isinstance(factor, Number) and factor.value != -1 for factor in factors)
    bottoms = sum(_is_inverse(factor) for factor in factors)
    if tops and bottoms and _divides(factors):
        return False
    inner = [factor for factor in factors if not isinstance(factor, Number) and not _is_inverse(factor)]
    return tops <= 1 and bottoms <= 1 and len(inner) <= 1 and all(map(_is_settled_number, inner))


def _divides(factors: tuple[Node, ...]) -> bool:
    """Return whether a quotient of integers is an integer."""
    top = next(factor.value for factor in factors if isinstance(factor, Number) and factor.value != -1)
    bottom = next(
        factor.base.value
        for factor in factors
        if isinstance(factor, Power) and isinstance(factor.base, Number)
    )
    return bool(bottom) and Fraction(top) % Fraction(bottom) == 0


def _is_inverse(node: Node) -> bool:
    return isinstance(node, Power) and isinstance(node.base, Number) and node.exponent == Number(-1)


def _is_perfect(node: Node, index: int) -> bool:
    """Return whether a root of a number is rational."""
    if not isinstance(node, Number) or node.value < 0 or index < 2:  # noqa: PLR2004  (a root)
        return not isinstance(node, Number)
    value = Fraction(node.value)
    for part in (value.numerator, value.denominator):
        near = 0
        if index == 2:  # noqa: PLR2004  (a square root)
            near = isqrt(part)
        elif part < 2**53:  # a float holds it exactly, and its root to within one
            near = round(part ** (1 / index))
        if not any((near + offset) ** index == part for offset in (-1, 0, 1)):
            return False
    return True
