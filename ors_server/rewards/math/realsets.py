"""Subsets of the real line: intervals, finite sets, their unions, and the inequalities that describe them.

A set is a sorted list of disjoint spans with rational ends (rounded if they are irrational); two sets are
equal if their spans are.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from ors_server.rewards.math import precise, rationals
from ors_server.rewards.math.limits import InexactError, StepBudget
from ors_server.rewards.math.numeric import SamplePoint
from ors_server.rewards.math.tree import (
    Add,
    Brackets,
    Constant,
    Function,
    Listing,
    Multiply,
    Node,
    Number,
    Relation,
    Set,
    SetOperation,
    Symbol,
    Unknown,
    negate,
    symbols,
)

End = Fraction | float
_GRAIN: Final = 1 << 90
_ROUNDED: Final = 1 << 60
"""One over the least distance of distinct irrational ends."""
FLIPPED: Final = {"<": ">", ">": "<", "≤": "≥", "≥": "≤", "≠": "≠"}
"""Operators with their sides exchanged."""
ORDERS: Final = frozenset("<>≤≥")
"""Operators of inequalities."""


@dataclass(frozen=True, slots=True)
class Span:
    """All numbers between two ends; a single number if they are equal."""

    low: End
    is_low_in: bool
    high: End
    is_high_in: bool


Spans = list[Span]
_LINE: Final = Span(low=-math.inf, is_low_in=False, high=math.inf, is_high_in=False)


def read_set(node: Node, budget: StepBudget) -> Spans:
    """Return the set of real numbers of an interval, a set, a union, an inequality or a list of inequalities.

    Raises:
        InexactError: It is not such a set.
        MathError: Its ends have no value that the grader computes.
    """
    reader = _READERS.get(type(node))
    if reader is None:
        raise InexactError(type(node).__name__)
    return reader(node, budget)


def _unite(spans: Spans) -> Spans:
    united: Spans = []
    for span in sorted(spans, key=lambda span: (span.low, not span.is_low_in)):
        last = united[-1] if united else None
        if (
            last is None
            or span.low > last.high
            or (span.low == last.high and not (span.is_low_in or last.is_high_in))
        ):
            united.append(span)
        elif (span.high, span.is_high_in) > (last.high, last.is_high_in):
            united[-1] = Span(last.low, last.is_low_in, span.high, span.is_high_in)
    return united


def _complement(spans: Spans) -> Spans:
    rest: Spans = []
    low: End = -math.inf
    is_low_in = False
    for span in spans:
        if low < span.low or (low == span.low and is_low_in and not span.is_low_in):
            rest.append(Span(low, is_low_in, span.low, not span.is_low_in and span.low != -math.inf))
        low, is_low_in = span.high, not span.is_high_in
    if low < math.inf:
        rest.append(Span(low, is_low_in, math.inf, is_high_in=False))
    return rest


def _meet(first: Spans, second: Spans) -> Spans:
    return _complement(_unite(_complement(first) + _complement(second)))


def _end(node: Node, budget: StepBudget) -> End:
    if node == Constant("inf"):
        return math.inf
    match node:
        case Multiply((Number(-1), Constant("inf"))):
            return -math.inf
        case Add((Constant("inf"),)):
            return math.inf
        case _:
            return _rounded(_value(node, {}, budget))


def _rounded(end: Fraction) -> Fraction:
    return end if end.denominator < _ROUNDED else Fraction(round(end * _ROUNDED), _ROUNDED)


def _value(node: Node, values: dict[str, int], budget: StepBudget) -> Fraction:
    try:
        return Fraction(rationals.evaluate(node, budget, values))
    except InexactError:
        pass
    reals = {name: precise.from_rational(value) for name, value in values.items()}
    return precise.to_fraction(SamplePoint(reals, budget).read(node), _GRAIN)


def _read_group(node: Brackets, budget: StepBudget) -> Spans:
    if len(node.items) != 2:  # noqa: PLR2004  (an interval has two ends)
        raise InexactError("a tuple")
    low, high = (_end(item, budget) for item in node.items)
    is_low_in, is_high_in = node.opening == "[", node.closing == "]"
    if low > high or (low == high and not (is_low_in and is_high_in)):
        raise InexactError("no interval")
    return [Span(low, is_low_in and low != -math.inf, high, is_high_in and high != math.inf)]


def _read_finite(node: Set, budget: StepBudget) -> Spans:
    ends = [_end(item, budget) for item in node.items]
    return _unite([Span(end, is_low_in=True, high=end, is_high_in=True) for end in ends])


def _read_operation(node: SetOperation, budget: StepBudget) -> Spans:
    left, right = read_set(node.left, budget), read_set(node.right, budget)
    if node.operator == "∪":
        return _unite(left + right)
    return _meet(left, right if node.operator == "∩" else _complement(right))


def _read_difference(node: Add, budget: StepBudget) -> Spans:
    match node:
        case Add((left, Multiply((Number(-1), (Set() | SetOperation()) as right)))):
            return _meet(read_set(left, budget), _complement(read_set(right, budget)))
        case _:
            raise InexactError("a sum")


def _read_constant(node: Constant, _: StepBudget) -> Spans:
    if node.name == "reals":
        return [_LINE]
    if node.name == "empty":
        return []
    raise InexactError(node.name)


def _read_listing(node: Listing, budget: StepBudget) -> Spans:
    if not all(isinstance(item, Relation) and item.operators[0] in FLIPPED for item in node.items):
        raise InexactError("a list")
    if len(symbols(node)) != 1:
        raise InexactError("more than one variable")
    parts = [read_set(item, budget) for item in node.items]
    met = [_LINE]
    for part in parts:
        met = _meet(met, part)
    is_union = node.joiner == "or" or not met
    return _unite([span for part in parts for span in part]) if is_union else met


def _read_relation(node: Relation, budget: StepBudget) -> Spans:
    if node.operators == ("∈",):
        return read_set(node.sides[1], budget)
    if not set(node.operators) <= FLIPPED.keys():
        raise InexactError("a relation that is not an inequality")
    sides = _with_variable(node)
    spans = [_LINE]
    for operator, left, right in zip(node.operators, sides, sides[1:], strict=False):
        spans = _meet(spans, _solve(operator, left, right, budget))
    return spans


def _with_variable(node: Relation) -> tuple[Node, ...]:
    """Put a symbol in place of a bounded function value: `0 < f(x) < 1`."""
    if len(symbols(node)) != 1:
        raise InexactError("more than one variable")
    functions = [side for side in node.sides if isinstance(side, Unknown)]
    rest = Listing(tuple(side for side in node.sides if not isinstance(side, Unknown)), ",")
    if len(functions) == 1 and not symbols(rest):
        return tuple(Symbol("f") if isinstance(side, Unknown) else side for side in node.sides)
    return node.sides


def _solve(operator: str, left: Node, right: Node, budget: StepBudget) -> Spans:
    if isinstance(right, Function) and right.name == "abs":
        return _solve(FLIPPED[operator], right, left, budget)
    if isinstance(left, Function) and left.name == "abs":
        inner = left.arguments[0]
        above, below = (
            _solve(operator, inner, right, budget),
            _solve(FLIPPED[operator], inner, negate(right), budget),
        )
        return _meet(above, below) if operator in "<≤≠" else _unite(above + below)
    gap = Add((left, negate(right)))
    (name,) = symbols(gap) or ("",)
    at_zero, at_one, at_two = (_value(gap, {name: x}, budget) for x in range(3))
    slope = at_one - at_zero
    if (
        not name
        or slope == 0
        or abs(at_two - 2 * at_one + at_zero) * _GRAIN > 4 * (abs(at_two) + abs(at_one) + 1)
    ):
        raise InexactError("an inequality that is not linear")
    end = -at_zero / slope
    end = end if _is_plain(at_zero, slope) else Fraction(round(end * _ROUNDED), _ROUNDED)
    operator = operator if slope > 0 else FLIPPED[operator]
    left_part = Span(-math.inf, is_low_in=False, high=end, is_high_in=operator == "≤")
    right_part = Span(end, operator == "≥", math.inf, is_high_in=False)
    if operator == "≠":
        return [left_part, right_part]
    return [left_part] if operator in "<≤" else [right_part]


def _is_plain(*numbers: Fraction) -> bool:
    return all(number.denominator < _GRAIN >> 1 for number in numbers)


_READERS: Final[dict[type, Callable[..., Spans]]] = {
    Brackets: _read_group,
    Set: _read_finite,
    SetOperation: _read_operation,
    Add: _read_difference,
    Constant: _read_constant,
    Listing: _read_listing,
    Relation: _read_relation,
}
