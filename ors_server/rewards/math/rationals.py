"""Exact values: integers and fractions; every bound is checked before the work is done."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from ors_server.rewards.math.limits import (
    EXACT_BITS,
    FACTORIAL,
    RANGE,
    InexactError,
    LimitError,
    StepBudget,
    UndefinedError,
)
from ors_server.rewards.math.tree import (
    Add,
    Binder,
    Constant,
    Function,
    Matrix,
    Multiply,
    Node,
    Number,
    Power,
    Quantity,
    Symbol,
)

Rational = int | Fraction
_FLOAT_BITS: Final = 500
"""Bits of a numerator and a denominator whose quotient is surely a float."""
_BITS_PER_STEP: Final = 128
_PERCENT: Final = 100
_SMALL_EXPONENT: Final = 1 << 40


def evaluate(node: Node, budget: StepBudget, values: dict[str, int] | None = None) -> Rational:
    """Return the exact value of an expression, given the values of symbols.

    Raises:
        InexactError: The value is not rational, or the expression has free symbols.
        UndefinedError: There is no value.
        LimitError: The value is greater than the grader computes.
    """
    # Each node costs a step; long numbers cost more in `_check_size`.
    budget.spend()
    reader = _READERS.get(type(node))
    if reader is None:
        raise InexactError(type(node).__name__)
    return reader(node, budget, values or {})


def _check_size(value: Rational, budget: StepBudget) -> Rational:
    # Called after each operation, so that no number can grow beyond one step past the limit.
    """Return a number if it is not too long; a long one is charged to the budget."""
    length = _length(value)
    if length > EXACT_BITS:
        raise LimitError(f"a number of more than {EXACT_BITS} bits")
    budget.spend(length // _BITS_PER_STEP)
    return value


def _length(value: Rational) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def power(base: Rational, exponent: Rational) -> Rational:
    """Raise a number to a power, if the result is rational.

    Raises:
        InexactError: The result is not rational, or not real.
        UndefinedError: Zero is raised to a negative power.
        LimitError: The result is too long.
    """
    if exponent.denominator != 1:
        # The root first: the power of an irrational root is never computed.
        return power(_root(base, exponent.denominator), exponent.numerator)
    whole = exponent.numerator
    if base == 0 and whole < 0:
        raise UndefinedError("a division by zero")
    # Powers of 0, 1 and -1 have any exponent, however long.
    if base in (0, 1, -1) and abs(whole) > 1:
        return base if whole % 2 else base * base
    # The length of the result is known before it is computed.
    if (_length(base) - 1) * abs(whole) > EXACT_BITS:
        raise LimitError(f"a power of more than {EXACT_BITS} bits")
    return _simple(Fraction(base) ** whole)


def _root(base: Rational, index: int) -> Rational:
    if index > EXACT_BITS:
        raise InexactError("a root")
    if base < 0:
        raise InexactError("a root of a negative number")
    top, bottom = _integer_root(base.numerator, index), _integer_root(base.denominator, index)
    # The integer root is rounded; only an exact one is rational.
    if top**index != base.numerator or bottom**index != base.denominator:
        raise InexactError("a root that is not rational")
    return _simple(Fraction(top, bottom))


def _integer_root(number: int, index: int) -> int:
    if number < 2:  # noqa: PLR2004  (zero and one are their own roots)
        return number
    if index == 2:  # noqa: PLR2004  (the square root has a faster algorithm)
        return math.isqrt(number)
    # By bisection: floats would round roots of long numbers.
    low, high = 1, 1 << (number.bit_length() // index + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**index <= number:
            low = middle
        else:
            high = middle - 1
    return low


def _simple(value: Fraction) -> Rational:
    return value.numerator if value.denominator == 1 else value


def _whole(value: Rational) -> int:
    if value.denominator != 1:
        raise UndefinedError("expected a whole number")
    return value.numerator


def factorial(number: Rational) -> int:
    """Return the factorial of an integer.

    Raises:
        UndefinedError: It is negative or not an integer.
        LimitError: The factorial is too long.
    """
    whole = _whole(number)
    if whole < 0:
        raise UndefinedError("a factorial of a negative number")
    if whole > FACTORIAL:
        raise LimitError(f"a factorial beyond {FACTORIAL}")
    return math.factorial(whole)


def binomial(upper: Rational, lower: Rational) -> Rational:
    """Return a binomial coefficient; the upper index may be any number.

    Raises:
        UndefinedError: The lower index is not an integer.
        LimitError: The coefficient is too long.
    """
    below = _whole(lower)
    if below < 0:
        return 0
    if isinstance(upper, int) and upper >= 0:
        # The symmetric index is the cheaper one: C(n, k) = C(n, n - k).
        below = min(below, max(upper - below, -1))
    if below < 0:
        return 0
    # A bound on the length of the result, before the work.
    if below > FACTORIAL or below * max(upper.numerator.bit_length(), 1) > EXACT_BITS:
        raise LimitError(f"a binomial beyond {EXACT_BITS} bits")
    if isinstance(upper, int) and upper >= 0:
        return math.comb(upper, below)
    if below > FACTORIAL // 10:
        raise LimitError(f"a binomial of a number that is not whole, beyond {FACTORIAL // 10}")
    product = Fraction(1)
    for step in range(below):
        product = product * (upper - step) / (step + 1)
    return _simple(product)


def _gcd(*numbers: Rational) -> Rational:
    # Of fractions: the greatest number of which all are multiples.
    below = math.lcm(*(number.denominator for number in numbers))
    return _simple(Fraction(math.gcd(*(int(number * below) for number in numbers)), below))


def _modulo(number: Rational, modulus: Rational) -> Rational:
    if modulus == 0:
        raise UndefinedError("a remainder modulo zero")
    return number % modulus


def _logarithm(number: Rational, base: Rational) -> Rational:
    if number <= 0 or base <= 0 or base == 1:
        raise InexactError("a logarithm")
    if number == 1:
        return 0
    # A float finds the candidate, an exact power confirms it.
    if max(_length(number), _length(base)) < _FLOAT_BITS:
        whole = round(math.log2(number.numerator / number.denominator) / math.log2(base))
        if whole and power(base, whole) == number:
            return whole
    raise InexactError("a logarithm")


def _real_root(number: Rational, index: Rational) -> Rational:
    whole = _whole(index)
    if whole <= 0:
        raise UndefinedError("a root without a positive index")
    return -_root(-number, whole) if number < 0 and whole % 2 else _root(number, whole)


_OF_ONE: Final[dict[str, Callable[[Rational], Rational]]] = {
    "abs": lambda number: -number if number < 0 else number,
    "round": lambda number: math.floor(number + Fraction(1, 2)),
    "sgn": lambda number: (number > 0) - (number < 0),
}
_FUNCTIONS: Final[dict[str, Callable[..., Rational]]] = {
    **_OF_ONE,
    "floor": math.floor,
    "ceil": math.ceil,
    "factorial": factorial,
    "root": _real_root,
    "binom": binomial,
    "gcd": _gcd,
    "lcm": lambda *numbers: math.lcm(*map(_whole, numbers)),
    "max": lambda *numbers: max(numbers),
    "min": lambda *numbers: min(numbers),
    "mod": _modulo,
    "log": _logarithm,
    "re": Fraction,
    "conj": Fraction,
}
_ARITY: Final = {"binom": 2, "root": 2, "mod": 2, "log": 2, "gcd": 0, "lcm": 0, "max": 0, "min": 0}
"""Number of arguments of each; 0 is any number but none; 1 for the others."""


def has_arity(name: str, count: int) -> bool:
    """Return whether a function takes so many arguments."""
    expected = _ARITY.get(name, 1)
    return count >= 1 if expected == 0 else count == expected or (name == "log" and count == 1)


def _read_symbol(node: Symbol, _: StepBudget, values: dict[str, int]) -> Rational:
    if node.name not in values:
        raise InexactError(node.name)
    return values[node.name]


def _read_sum(node: Add, budget: StepBudget, values: dict[str, int]) -> Rational:
    total: Rational = 0
    for term in node.terms:
        total = _check_size(total + evaluate(term, budget, values), budget)
    return _simple(Fraction(total))


def _read_product(node: Multiply, budget: StepBudget, values: dict[str, int]) -> Rational:
    product: Rational = 1
    for factor in node.factors:
        product = _check_size(product * evaluate(factor, budget, values), budget)
    return _simple(Fraction(product))


def _read_power(node: Power, budget: StepBudget, values: dict[str, int]) -> Rational:
    base, exponent = evaluate(node.base, budget, values), evaluate(node.exponent, budget, values)
    if exponent.numerator.bit_length() > _SMALL_EXPONENT.bit_length() and base not in (0, 1, -1):
        raise LimitError("a power too long to compute")
    return _check_size(power(base, exponent), budget)


def _read_function(node: Function, budget: StepBudget, values: dict[str, int]) -> Rational:
    if node.name == "det":
        return _determinant(node.arguments[0], budget, values)
    function = _FUNCTIONS.get(node.name)
    if function is None or not has_arity(node.name, len(node.arguments)):
        raise InexactError(node.name)
    arguments = [evaluate(argument, budget, values) for argument in node.arguments]
    if node.name == "log" and len(arguments) == 1:
        raise InexactError("a natural logarithm")
    return _check_size(function(*arguments), budget)


def _determinant(matrix: Node, budget: StepBudget, values: dict[str, int]) -> Rational:
    if not isinstance(matrix, Matrix):
        raise InexactError("det")
    rows = [[Fraction(evaluate(cell, budget, values)) for cell in row] for row in matrix.rows]
    size = len(rows)
    if size > 8 or any(len(row) != size for row in rows):  # noqa: PLR2004  (no answer is larger)
        raise UndefinedError("a determinant of something that is not square, or too big")
    # Gaussian elimination in fractions, which is exact.
    result = Fraction(1)
    for column in range(size):
        pivot = next((row for row in range(column, size) if rows[row][column]), None)
        if pivot is None:
            return 0
        if pivot != column:
            rows[column], rows[pivot] = rows[pivot], rows[column]
            result = -result
        result *= rows[column][column]
        for row in range(column + 1, size):
            factor = rows[row][column] / rows[column][column]
            rows[row] = [left - factor * right for left, right in zip(rows[row], rows[column], strict=True)]
    return _check_size(_simple(result), budget)


def _read_quantity(node: Quantity, budget: StepBudget, values: dict[str, int]) -> Rational:
    if node.unit != "%":
        raise InexactError(node.unit)
    return _simple(Fraction(evaluate(node.value, budget, values), _PERCENT))


def _read_binder(node: Binder, budget: StepBudget, values: dict[str, int]) -> Rational:
    # Integrals, limits and derivatives are not rational arithmetic.
    if node.kind not in ("sum", "prod"):
        raise InexactError(node.kind)
    low, high = (_whole(evaluate(bound, budget, values)) for bound in node.bounds)
    if high - low >= RANGE:
        raise LimitError(f"more than {RANGE} terms")
    total: Rational = 0 if node.kind == "sum" else 1
    for index in range(low, high + 1):
        term = evaluate(node.body, budget, {**values, node.variable: index})
        total = _check_size(total + term if node.kind == "sum" else total * term, budget)
    return total


def _read_constant(node: Constant, _: StepBudget, __: dict[str, int]) -> Rational:
    raise InexactError(node.name)


_READERS: Final[dict[type, Callable[[Any, StepBudget, dict[str, int]], Rational]]] = {
    Number: lambda node, _, __: node.value,
    Symbol: _read_symbol,
    Constant: _read_constant,
    Add: _read_sum,
    Multiply: _read_product,
    Power: _read_power,
    Function: _read_function,
    Quantity: _read_quantity,
    Binder: _read_binder,
}
