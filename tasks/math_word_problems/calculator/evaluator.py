"""Computes the value of a tree, and refuses numbers that would be too large before it computes them."""

from __future__ import annotations

from fractions import Fraction
from math import floor, log2
from typing import TYPE_CHECKING

from ors_server_tasks.math_word_problems.calculator.functions import apply
from ors_server_tasks.math_word_problems.calculator.limits import CalculatorError, check_bits
from ors_server_tasks.math_word_problems.calculator.tree import Call, Expression, Negation, Number, Operation
from ors_server_tasks.math_word_problems.calculator.value import Value, bits, make_value

if TYPE_CHECKING:
    from collections.abc import Callable


def evaluate(tree: Expression) -> Value:
    """Computes the value of a tree.

    The left operands of a chain are computed in a loop, so the recursion is as deep as the text is nested.

    Raises:
        CalculatorError: A part of the tree has no value, or one that is too large.
    """
    chain: list[Operation] = []
    while isinstance(tree, Operation):
        chain.append(tree)
        tree = tree.left
    value = _leaf(tree)
    for operation in reversed(chain):
        value = _operate(operation, value, evaluate(operation.right))
    return value


def _leaf(tree: Number | Negation | Call) -> Value:
    if isinstance(tree, Number):
        return Value(tree.value)
    if isinstance(tree, Negation):
        operand = evaluate(tree.operand)
        return Value(-operand.number, operand.is_exact)
    return apply(tree.function, [evaluate(argument) for argument in tree.arguments], tree.position)


def _operate(operation: Operation, left: Value, right: Value) -> Value:
    number = _OPERATORS[operation.operator](left.number, right.number, operation.position)
    return make_value(number, is_exact=left.is_exact and right.is_exact)


def _add(left: Fraction, right: Fraction, position: int) -> Fraction:
    check_bits(bits(left) + bits(right) + 1, position)
    return left + right


def _subtract(left: Fraction, right: Fraction, position: int) -> Fraction:
    return _add(left, -right, position)


def _multiply(left: Fraction, right: Fraction, position: int) -> Fraction:
    check_bits(bits(left) + bits(right), position)
    return left * right


def _divisible(left: Fraction, right: Fraction, position: int) -> None:
    if right == 0:
        raise CalculatorError("division by zero", position)
    check_bits(bits(left) + bits(right), position)


def _divide(left: Fraction, right: Fraction, position: int) -> Fraction:
    _divisible(left, right, position)
    return left / right


def _floor_divide(left: Fraction, right: Fraction, position: int) -> Fraction:
    _divisible(left, right, position)
    return Fraction(left // right)


def _remainder(left: Fraction, right: Fraction, position: int) -> Fraction:
    _divisible(left, right, position)
    return left % right


def _power(base: Fraction, exponent: Fraction, position: int) -> Fraction:
    if exponent.denominator != 1:
        raise CalculatorError("an exponent must be a whole number; use sqrt for square roots", position)
    if base == 0 and exponent < 0:
        raise CalculatorError("division by zero", position)
    if abs(base) not in {0, 1}:
        check_bits(abs(exponent.numerator), position)  # each factor adds at least one bit
        check_bits(floor(abs(exponent.numerator) * log2(_longer_part(base))), position)
        return base**exponent.numerator
    return _power_of_unit(base, exponent.numerator)


def _longer_part(number: Fraction) -> int:
    return max(abs(number.numerator), number.denominator)


def _power_of_unit(base: Fraction, exponent: int) -> Fraction:
    """The power of 0, 1 or -1, for any size of exponent."""
    return base ** (exponent % 2 + 2 if exponent else 0)


_OPERATORS: dict[str, Callable[[Fraction, Fraction, int], Fraction]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "//": _floor_divide,
    "%": _remainder,
    "**": _power,
}
