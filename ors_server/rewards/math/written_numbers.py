"""Written numbers and labels."""

from fractions import Fraction
from typing import Final

from ors_server.rewards.math.limits import LimitError
from ors_server.rewards.math.tree import MINUS_ONE, Constant, Multiply, Node, Number, Power, Quantity, Symbol

_MAX_ZEROS: Final = 3_600
"""Greatest power of ten of a written number; beyond it, CPython could not read the digits back (4,300)."""


def to_number(written: str) -> Number:
    """Return a written number exactly: digits with at most one point and one exponent.

    Raises:
        LimitError: Its exponent is greater than the grader computes.
    """
    mantissa, _, exponent = written.lower().partition("e")
    whole, _, places = mantissa.partition(".")
    value: int | Fraction = int((whole + places) or "0")
    power = int(exponent or "0") - len(places)
    if abs(power) > _MAX_ZEROS:
        raise LimitError(f"a power of ten beyond {_MAX_ZEROS}")
    value = value * 10**power if power >= 0 else Fraction(value, 10**-power)
    if isinstance(value, Fraction) and value.denominator == 1:
        value = value.numerator
    is_decimal = bool(places) and not exponent
    return Number(value, len(places) if is_decimal else 0, len((whole + places).lstrip("0")) if places else 0)


def to_fraction(node: Node) -> Fraction | None:
    """Return a written quotient of two integers, or `None`."""
    match node:
        case Multiply((Number(int(top)), Power(Number(int(bottom)), exponent))) if exponent == MINUS_ONE:
            return Fraction(top, bottom) if top >= 0 < bottom else None
        case _:
            return None


def mix(whole: Node, part: Node) -> Node | None:
    """Return the mixed number of an integer and a fraction, perhaps with a percent sign, or `None`."""
    if isinstance(part, Quantity):
        mixed = mix(whole, part.value)
        return None if mixed is None else Quantity(mixed, part.unit)
    fraction = to_fraction(part)
    return Number(whole.value + fraction) if isinstance(whole, Number) and fraction is not None else None


def is_label(node: Node) -> bool:
    """Return whether an index is a mere label: letters and digits, nothing that is computed."""
    return not isinstance(node, Multiply) or all(
        isinstance(part, Symbol | Number | Constant) for part in node.factors
    )


def label(node: Node) -> str:
    """Spell a label."""
    match node:
        case Number(value):
            return str(value)
        case Symbol(name) | Constant(name):
            return name
        case Multiply(factors):
            return "".join(map(label, factors))
        case _:
            return "?"


def repeat(written: str, period: str) -> Number:
    """Return a repeating decimal: `written` are the digits before the period, with the point, as in `0.8`."""
    whole, _, fixed = written.partition(".")
    shift = 10 ** len(fixed)
    repeating = Fraction(int(period), (10 ** len(period) - 1) * shift)
    return Number(Fraction(int((whole or "0") + fixed), shift) + repeating)
