"""The functions of the calculator, on exact numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, gcd, isqrt, lcm
from typing import TypeAlias

from ors_server_tasks.math_word_problems.calculator.limits import DIGITS_LIMIT, CalculatorError, check_bits
from ors_server_tasks.math_word_problems.calculator.value import SIGNIFICANT_BITS, Value, make_value

Numbers: TypeAlias = Sequence[Fraction]

_MAX_ANY_ARGUMENTS = 500
"""More arguments than an expression of the longest length can have."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function and the number of arguments that it takes."""

    compute: Callable[[Numbers, int], Value]
    """Takes the arguments and the position of the call. Raises `CalculatorError` where it is not defined."""
    takes: str = "1 argument"
    """The number of arguments in words."""
    max_arguments: int = 1
    """The largest number of arguments; the smallest is 1, which the grammar already demands."""


def apply(name: str, arguments: Sequence[Value], position: int) -> Value:
    """Computes a function; the value is exact only if all arguments are.

    Raises:
        CalculatorError: There is no such function, it takes fewer arguments, or it is not defined for these.
    """
    function = FUNCTIONS.get(name)
    if function is None:
        message = f"unknown function {name!r}; expected one of {', '.join(FUNCTIONS)}"
        raise CalculatorError(message, position)
    if len(arguments) > function.max_arguments:
        message = (
            f"{name} takes {function.takes}, got {len(arguments)}; "
            "a comma separates arguments, so write 1234 for 1,234"
        )
        raise CalculatorError(message, position)
    value = function.compute([argument.number for argument in arguments], position)
    is_exact = value.is_exact and all(argument.is_exact for argument in arguments)
    return make_value(value.number, is_exact=is_exact)


def _square_root(numbers: Numbers, position: int) -> Value:
    number = numbers[0]
    if number < 0:
        raise CalculatorError("a negative number has no square root here", position)
    above, below = isqrt(number.numerator), isqrt(number.denominator)
    if above**2 == number.numerator and below**2 == number.denominator:
        return Value(Fraction(above, below))
    squared = number.numerator * number.denominator
    shift = max(0, SIGNIFICANT_BITS - squared.bit_length() // 2)
    return Value(Fraction(isqrt(squared << 2 * shift), number.denominator << shift), is_exact=False)


def _rounded(numbers: Numbers, position: int) -> Value:
    digits = numbers[1] if len(numbers) > 1 else Fraction(0)
    if digits.denominator != 1 or abs(digits) > DIGITS_LIMIT:
        message = f"round takes a whole number of decimal places from -{DIGITS_LIMIT} to {DIGITS_LIMIT}"
        raise CalculatorError(message, position)
    scale = Fraction(10) ** digits.numerator
    size = floor(abs(numbers[0]) * scale + Fraction(1, 2)) / scale
    return Value(size if numbers[0] >= 0 else -size)


def _whole(numbers: Numbers, position: int) -> list[int]:
    if any(number.denominator != 1 for number in numbers):
        raise CalculatorError("gcd and lcm take whole numbers only", position)
    return [number.numerator for number in numbers]


def _least_common_multiple(numbers: Numbers, position: int) -> Value:
    multiple = 1
    for number in _whole(numbers, position):
        check_bits(multiple.bit_length() + number.bit_length(), position)
        multiple = lcm(multiple, number)
    return Value(Fraction(multiple))


FUNCTIONS = {
    "sqrt": Function(_square_root),
    "abs": Function(lambda numbers, _: Value(abs(numbers[0]))),
    "min": Function(lambda numbers, _: Value(min(numbers)), "any number of arguments", _MAX_ANY_ARGUMENTS),
    "max": Function(lambda numbers, _: Value(max(numbers)), "any number of arguments", _MAX_ANY_ARGUMENTS),
    "round": Function(_rounded, "1 or 2 arguments", 2),
    "floor": Function(lambda numbers, _: Value(Fraction(floor(numbers[0])))),
    "ceil": Function(lambda numbers, _: Value(Fraction(ceil(numbers[0])))),
    "gcd": Function(
        lambda numbers, position: Value(Fraction(gcd(*_whole(numbers, position)))),
        "any number of arguments",
        _MAX_ANY_ARGUMENTS,
    ),
    "lcm": Function(_least_common_multiple, "any number of arguments", _MAX_ANY_ARGUMENTS),
}
"""Functions by name, in the order in which a message lists them."""
