"""Equations and inequalities: their names, their values, and when two of them are equal.

Conventions: `x = 5`, `f(x) = 5`, `AB = 5`, `A:B = 5` name a value, and a side that names nothing is compared
with that value alone; a sum on the left (`x + z = 1`) names nothing. Two equations are equal if the
differences of their sides are, up to a constant factor; two inequalities, up to a positive one. A chain (`3 +
5 = 8`, `x = 1 + 1 = 2`) has a value only if it is true; its first side names the value, even if it is a sum
(`m + n = 7 + 9 = 16`). The text after `≈` is a remark.
"""

from collections.abc import Callable
from typing import Final

from ors_server.rewards.math import modular, precise
from ors_server.rewards.math.identity import real_points
from ors_server.rewards.math.limits import InexactError, LimitError, MathError, StepBudget, UndefinedError
from ors_server.rewards.math.numeric import SamplePoint, agree
from ors_server.rewards.math.realsets import FLIPPED, ORDERS
from ors_server.rewards.math.tree import (
    MINUS_ONE,
    Add,
    Binder,
    Brackets,
    Constant,
    Function,
    Listing,
    Multiply,
    Node,
    Power,
    Ratio,
    Relation,
    Symbol,
    Unknown,
    negate,
    symbols,
)

Same = Callable[[Node, Node], bool]
_REVERSED: Final = FLIPPED | {"=": "="}
_POINTS: Final = 4
"""Number of points at which the differences of sides are compared; undefined ones do not count."""
_MAX_NAME_PARTS: Final = 6
"""Maximum number of factors of a name such as `AB` or `P(A)`; a longer product is an expression."""
_QUOTIENT_BITS: Final = 90
"""Bits to which two quotients must agree."""
_QUOTIENT_NOISE: Final = -(1 << 60)
"""Binary magnitude below which a difference would be noise: none is, as quotients here are never zero."""


def is_name(node: Node) -> bool:
    r"""Return whether a node names a value.

    A symbol does, and `f(x)`, `AB`, `P(A)`, `∠ABC`, `A:B`, `dy/dx`, `\cos A`, a limit, an integral.
    """
    match node:
        case Symbol() | Unknown() | Binder("lim" | "int") | Constant("e" | "i"):
            return True
        case Ratio(parts):
            return all(map(is_name, parts))
        case Function(_, (inner,)):
            return is_name(inner)
        case Power(base, exponent):
            return exponent == MINUS_ONE and is_name(base)
        case Multiply(factors):
            return len(factors) <= _MAX_NAME_PARTS and _is_product_name(factors)
        case _:
            return False


def _is_product_name(factors: tuple[Node, ...]) -> bool:
    first = factors[0]
    if isinstance(first, Symbol) and (first.name[:1].isupper() or first.name[0] in "∠△" or first.name == "m"):
        return len(factors) == 2 or all(map(is_name, factors))  # noqa: PLR2004  (`P(A)`, `V(r)`)
    if first == Symbol("d"):
        return all(map(is_name, factors[1:]))
    inverses = sum(isinstance(factor, Power) for factor in factors)
    return inverses == 1 and all(map(is_name, factors))


def without_remark(node: Node) -> Node:
    """Drop what follows `≈`, unless only a name precedes it."""
    if not isinstance(node, Relation) or "≈" not in node.operators:
        return node
    cut = node.operators.index("≈")
    if cut == 0 and not is_name(node.sides[0]):
        return node.sides[0]
    if cut == 0:
        return Relation(("=",), node.sides[:2])
    return Relation(node.operators[:cut], node.sides[: cut + 1])


def split_name(node: Node, same: Same) -> tuple[Node | None, Node] | None:
    """Return the name and the value of an equation, or `None` if it states no value.

    A node that is not a relation is a value without a name. `same` compares the members of a chain.
    """
    if not isinstance(node, Relation):
        return None, node
    if set(node.operators) != {"="} and node.operators != ("≡",):
        return None
    sides = list(node.sides)
    name: Node | None = None
    if is_name(sides[0]) and not _repeats(sides[0], sides[-1]):
        name = sides.pop(0)
    elif len(sides) == 2 and is_name(sides[1]) and not is_name(sides[0]) and not _repeats(sides[1], sides[0]):  # noqa: PLR2004  (`2 = x`)
        name = sides.pop(1)
    if name is None and len(sides) > 2 and not symbols(Listing(tuple(sides[1:]), ",")):  # noqa: PLR2004  (`m + n = 7 + 9 = 16`)
        name = sides.pop(0)
    if name is None and symbols(node):
        return None
    if all(same(side, sides[-1]) for side in sides[:-1]):
        return name, sides[-1]
    return None


def _repeats(name: Node, value: Node) -> bool:
    return isinstance(name, Symbol) and name.name in symbols(value)


def as_assignments(node: Node) -> Node:
    """Convert `(x, y) = (1, 2)` to `x = 1, y = 2`."""
    match node:
        case Relation(("=",), (Brackets(_, _, names), Brackets(_, _, values))) if len(names) == len(
            values
        ) and all(map(is_name, names)):
            pairs = zip(names, values, strict=True)
            return Listing(tuple(Relation(("=",), pair) for pair in pairs), ",")
        case _:
            return node


def same_relation(first: Relation, second: Relation, same: Same, budget: StepBudget) -> bool:
    """Return whether two relations are equal.

    Raises:
        LimitError: The comparison would take more than the grader spends.
    """
    if _same_sides(first, second, same) or _same_sides(first, _reverse(second), same):
        return True
    if len(first.operators) != 1 or len(second.operators) != 1:
        return False
    first_sides, second_sides = _ascending(first), _ascending(second)
    operator = first_sides.operators[0]
    if (
        operator != second_sides.operators[0]
        or operator not in "=<≤≠"
        or not symbols(first_sides)
        or not symbols(second_sides)
    ):
        return False
    gaps = [Add((node.sides[0], negate(node.sides[1]))) for node in (first_sides, second_sides)]
    try:
        return _proportional(gaps[0], gaps[1], budget, is_signed=operator in ORDERS)
    except LimitError:
        raise
    except MathError:
        return False


def _same_sides(first: Relation, second: Relation, same: Same) -> bool:
    return first.operators == second.operators and all(map(same, first.sides, second.sides))


def _reverse(node: Relation) -> Relation:
    operators = tuple(
        _REVERSED.get(operator, f"{operator} reversed") for operator in reversed(node.operators)
    )
    return Relation(operators, node.sides[::-1])


def _ascending(node: Relation) -> Relation:
    return _reverse(node) if node.operators[0] in ">≥" else node


def _proportional(first: Node, second: Node, budget: StepBudget, *, is_signed: bool) -> bool:
    try:
        if not _proportional_modulo(first, second, budget):
            return False
        if not is_signed:
            return True
    except InexactError:
        pass
    return _proportional_at_points(first, second, budget, is_signed=is_signed)


def _proportional_modulo(first: Node, second: Node, budget: StepBudget) -> bool:
    pairs: list[tuple[int, int]] = []
    for point in range(2 * _POINTS):
        try:
            pairs.append((modular.evaluate(first, budget, point), modular.evaluate(second, budget, point)))
        except UndefinedError:
            continue
        if len(pairs) == _POINTS:
            break
    # A difference that is zero at the first point is taken for zero everywhere: its relation states nothing.
    # Where one is undefined (a division by zero), the point shows nothing; the next is tried.
    if not pairs or 0 in pairs[0]:
        return False
    left, right = pairs[0]
    return all(
        (first_value * right - second_value * left) % modular.PRIME == 0
        for first_value, second_value in pairs
    )


def _proportional_at_points(first: Node, second: Node, budget: StepBudget, *, is_signed: bool) -> bool:
    names = sorted(symbols(first) | symbols(second))
    quotients: list[precise.Complex] = []
    for values in real_points(names):
        first_point, second_point = SamplePoint(values, budget), SamplePoint(values, budget)
        try:
            quotients.append(precise.divide(first_point.read(first), second_point.read(second)))
        except UndefinedError:
            continue
    if len(quotients) < _POINTS or precise.is_zero(quotients[0]):
        return False
    if is_signed and (not precise.is_real(quotients[0]) or precise.is_negative(quotients[0])):
        return False
    return all(agree(quotients[0], other, _QUOTIENT_NOISE, _QUOTIENT_BITS) for other in quotients[1:])
