"""Values modulo a prime, which distinguish rational functions at random points, exactly, at any size.

Two different rational functions agree at a random point with a probability of at most their degree over the
prime (Schwartz 1980, Zippel 1979); the points are fixed, so every verdict is reproducible.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from ors_server.rewards.math import rationals
from ors_server.rewards.math.hash_numbers import hash_number
from ors_server.rewards.math.limits import InexactError, StepBudget, UndefinedError
from ors_server.rewards.math.tree import (
    Add,
    Constant,
    Function,
    Multiply,
    Node,
    Number,
    Power,
    Symbol,
    Unknown,
)

PRIME: Final = 2_305_843_009_213_693_921
"""2^61 - 31, congruent to 1 modulo 4, so that -1 has a square root."""
_POWER_STEPS: Final = 5
_ROOT_OF_MINUS_ONE: Final = 583_529_827_753_931_384


def evaluate(node: Node, budget: StepBudget, point: int) -> int:
    """Return the value of an expression at a numbered point, modulo the prime.

    Raises:
        InexactError: The expression is not a rational function of its symbols.
        UndefinedError: The point is a pole.
        LimitError: The comparison has spent its budget.
    """
    budget.spend()
    reader = _READERS.get(type(node))
    if reader is None:
        raise InexactError(type(node).__name__)
    return reader(node, budget, point)


def _reduce(value: int | Fraction) -> int:
    if isinstance(value, int):
        return value % PRIME
    return value.numerator * _inverse(value.denominator) % PRIME


def _inverse(value: int) -> int:
    if value % PRIME == 0:
        raise UndefinedError("a division by zero")
    return pow(value, -1, PRIME)


def _pick(name: str, point: int) -> int:
    return hash_number(f"{point} {name}", size=8) % PRIME


def _read_constant(node: Constant, _: StepBudget, __: int) -> int:
    if node.name != "i":
        raise InexactError(node.name)
    return _ROOT_OF_MINUS_ONE


def _read_sum(node: Add, budget: StepBudget, point: int) -> int:
    return sum(evaluate(term, budget, point) for term in node.terms) % PRIME


def _read_product(node: Multiply, budget: StepBudget, point: int) -> int:
    product = 1
    for factor in node.factors:
        product = product * evaluate(factor, budget, point) % PRIME
    return product


def _read_power(node: Power, budget: StepBudget, point: int) -> int:
    budget.spend(_POWER_STEPS)
    exponent = rationals.evaluate(node.exponent, budget)
    if not isinstance(exponent, int):
        raise InexactError("a root")
    base = evaluate(node.base, budget, point)
    if exponent < 0:
        base, exponent = _inverse(base), -exponent
    return pow(base, exponent % (PRIME - 1), PRIME) if base else int(exponent == 0)


def _read_unknown(node: Unknown, budget: StepBudget, point: int) -> int:
    values = [evaluate(argument, budget, point) for argument in node.arguments]
    return _pick(f"{node.name}({values})", point)


_READERS: Final[dict[type, Callable[[Any, StepBudget, int], int]]] = {
    Number: lambda node, _, __: _reduce(node.value),
    Symbol: lambda node, _, point: _pick(node.name, point),
    Constant: _read_constant,
    Add: _read_sum,
    Multiply: _read_product,
    Power: _read_power,
    Unknown: _read_unknown,
    Function: lambda node, budget, _: _reduce(rationals.evaluate(node, budget)),
}
