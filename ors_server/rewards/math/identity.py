"""Compares two expressions by value, for all values of their symbols.

Three methods in turn, each of which may abstain: exact rational arithmetic; rational functions modulo a
prime; values to 200 bits at fixed points. If all abstain (a sum without bounds, an unknown function), the
trees are compared up to the order of terms and factors.

Conventions: numbers are equal exactly, 10004 is not 10003.5; a decimal of at least 15 significant digits is a
rounded floating-point number; two expressions are equal if they are wherever both are defined and real with
all their parts; if that is nowhere, if their principal values are.
"""

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Final

from ors_server.rewards.math import modular, precise, rationals
from ors_server.rewards.math.hash_numbers import hash_number
from ors_server.rewards.math.limits import InexactError, LimitError, MathError, StepBudget, UndefinedError
from ors_server.rewards.math.numeric import SamplePoint, agree
from ors_server.rewards.math.tree import (
    Add,
    Binder,
    Constant,
    Multiply,
    Node,
    Number,
    Symbol,
    children,
    symbols,
    walk,
)

_FLOATING: Final = 15
"""Significant digits that make a decimal a printed float (DBL_DIG of IEEE 754 binary64)."""
_POINTS: Final = 3
"""Points modulo the prime."""
_MAX_SYMBOLS: Final = 12
_MARKS: Final = re.compile("•+")
_AGREEING_POINTS: Final = 5
"""Points at which two values to 200 bits have to agree, if so many are found."""
_RANGES: Final = (
    (1, 4, 1),
    (40, 240, 1),
    (1, 4, -1),
    (8, 60, -1),
    (8, 60, 1),
    (1, 4, -1),
    (1, 1, 1),
    (1, 1, -1),
    (1, 8, -1),
    (1, 4, 1),
)
"""Lower and upper bound, in quarters, and sign (-1: either) of the points' coordinates."""


def same_value(first: Node, second: Node, budget: StepBudget) -> bool:
    """Return whether two expressions are equal.

    Raises:
        LimitError: The comparison would take more than the grader spends.
    """
    if first == second:
        return True
    # From the cheapest and surest method to the most general; each may abstain, and a limit in one does not
    # end the comparison.
    limit: LimitError | None = None
    for judge in (_judge_exactly, _judge_modulo, _judge_numerically):
        try:
            verdict = judge(first, second, budget)
        except LimitError as error:
            limit, verdict = error, None
        if verdict is not None:
            return verdict
    # No method has values for an unknown function or a sum without bounds: equal spelling is left.
    if spell(first) == spell(second):
        return True
    if limit is not None:
        raise limit
    return False


def spell(node: Node) -> str:
    """Spell a tree so that the order of terms, factors and members does not matter."""
    if isinstance(node, Add | Multiply):
        # Neutral elements are dropped: `x + 0` is spelled like `x`.
        neutral = repr(Number(0 if isinstance(node, Add) else 1))
        parts = sorted(part for part in _flatten(node, type(node)) if part != neutral)
        return parts[0] if len(parts) == 1 else f"{type(node).__name__}({','.join(parts)})"
    below = children(node)
    if not below:
        return repr(Number(node.value)) if isinstance(node, Number) else repr(node)
    if isinstance(node, Binder):
        return _spell_binder(node)
    head = getattr(node, "name", None) or getattr(node, "kind", None) or getattr(node, "operators", "")
    return f"{type(node).__name__}:{head}({','.join(map(spell, below))})"


def _spell_binder(node: Binder) -> str:
    """Spell a sum or the like so that the name of its index does not matter."""
    body = spell(node.body)
    if not node.bounds:
        return f"{node.kind}:{node.variable}({body})"
    # A longer mark than any inside, so that nested indices stay apart.
    mark = "•" * (1 + max(map(len, _MARKS.findall(body)), default=0))
    body = body.replace(repr(Symbol(node.variable)), repr(Symbol(mark)))
    return f"{node.kind}({','.join(map(spell, node.bounds))};{body})"


def _flatten(node: Node, kind: type) -> Iterator[str]:
    for child in children(node):
        if isinstance(child, kind):
            yield from _flatten(child, kind)
        else:
            yield spell(child)


def number_of(node: Node, budget: StepBudget) -> "rationals.Rational | None":
    """Return an expression's exact value, or `None`."""
    try:
        return rationals.evaluate(node, budget)
    except MathError:
        return None


def _judge_exactly(first: Node, second: Node, budget: StepBudget) -> bool | None:
    try:
        first_value, second_value = rationals.evaluate(first, budget), rationals.evaluate(second, budget)
    except InexactError:
        return None
    # An undefined side equals nothing, not even another undefined one.
    except UndefinedError:
        return False
    return (
        first_value == second_value
        or _is_float_of(first, first_value, second_value)
        or _is_float_of(second, second_value, first_value)
    )


def _is_float_of(node: Node, value: rationals.Rational, other: rationals.Rational) -> bool:
    if not (isinstance(node, Number) and node.digits >= _FLOATING and node.places):
        return False
    # Only a fraction that no decimal holds is rounded by a float: 0.333333333333333 is 1/3, but a decimal
    # near 0.5 is not 0.5.
    rest = other.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest != 1 and abs(value - other) * 10**node.places <= 1


def _judge_modulo(first: Node, second: Node, budget: StepBudget) -> bool | None:
    # Two different rational functions agree at a random point with negligible probability, so three points
    # decide.
    judged = 0
    for point in range(2 * _POINTS):
        try:
            if modular.evaluate(first, budget, point) != modular.evaluate(second, budget, point):
                return False
        except InexactError:
            return None
        # A pole of one side says nothing; another point may have values.
        except UndefinedError:
            continue
        judged += 1
        if judged == _POINTS:
            break
    return True if judged else None


def _judge_numerically(first: Node, second: Node, budget: StepBudget) -> bool | None:
    names = sorted(symbols(first) | symbols(second))
    if len(names) > _MAX_SYMBOLS:
        raise LimitError(f"more than {_MAX_SYMBOLS} symbols")
    # Without symbols there is one point only.
    if not names:
        return _judge_at(first, second, SamplePoint({}, budget), SamplePoint({}, budget))[0]
    verdict = _judge_at_points(first, second, budget, real_points(names))
    return _judge_at_points(first, second, budget, whole_points(names)) if verdict is None else verdict


def _judge_at_points(
    first: Node, second: Node, budget: StepBudget, points: Iterable[dict[str, precise.Complex]]
) -> bool | None:
    agreed = 0
    elsewhere: list[bool] = []
    limit: LimitError | None = None
    has_unit = any(node == Constant("i") for tree in (first, second) for node in walk(tree))
    for values in points:
        try:
            verdict, is_real = _judge_at(
                first, second, SamplePoint(values, budget), SamplePoint(values, budget)
            )
        except LimitError as error:
            if budget.left < 0:
                raise
            verdict, is_real, limit = None, False, error  # only this point was too far out
        # Off the real line the principal values count only if no real point decides.
        if verdict is not None and not is_real and not has_unit:
            elsewhere.append(verdict)
        elif verdict is not None:
            if not verdict:
                return False
            agreed += 1
        # Enough agreement: a difference that shows at none of these points is not found by more.
        if agreed == _AGREEING_POINTS:
            break
    return _sum_up(agreed, elsewhere, limit)


def _sum_up(agreed: int, elsewhere: list[bool], limit: LimitError | None) -> bool | None:
    # Every point was beyond the range, so nothing was compared.
    if limit is not None and not agreed and not elsewhere:
        raise limit
    return True if agreed else all(elsewhere) if elsewhere else None


def _judge_at(
    first: Node, second: Node, point: SamplePoint, second_point: SamplePoint
) -> tuple[bool | None, bool]:
    try:
        left, right = point.read(first), second_point.read(second)
    except (InexactError, UndefinedError):
        return None, False
    # A printed float agrees to its printed digits.
    if any(isinstance(node, Number) and node.digits >= _FLOATING and node.places for node in (first, second)):
        return _is_near(first, left, right) or _is_near(second, right, left), True
    noise, bits = max(point.noise, second_point.noise), min(point.agreement, second_point.agreement)
    is_real = not (point.is_off_reals or second_point.is_off_reals)
    return agree(left, right, noise, bits), is_real and precise.is_real(left) and precise.is_real(right)


def _is_near(node: Node, value: precise.Complex, other: precise.Complex) -> bool:
    if not (isinstance(node, Number) and node.digits >= _FLOATING):
        return False
    gap = precise.absolute(precise.subtract(value, other))
    unit = precise.from_rational(Fraction(1, 10**node.places))
    return precise.is_negative(precise.subtract(gap, unit))


def real_points(names: list[str]) -> Iterator[dict[str, precise.Complex]]:
    """Yield fixed points for the names, positive ones first."""
    # Fixed points, so that the verdict is reproducible.
    for number, (low, high, sign) in enumerate(_RANGES):
        point: dict[str, precise.Complex] = {}
        for name in names:
            # By name, so that the value does not depend on the other names of the expression.
            mixed = hash_number(f"{number} {name}")
            value = Fraction(low, 4)
            if low == high:
                value *= Fraction(mixed % 997 + 1, 1000)
            else:
                value += Fraction(high - low, 4) * Fraction(mixed % 99_991, 99_991)
            point[name] = precise.from_rational(-value if sign < 0 and mixed >> 40 & 1 else value)
        yield point


def whole_points(names: list[str]) -> Iterator[dict[str, precise.Complex]]:
    """Yield fixed points of small integer coordinates."""
    for number in range(_AGREEING_POINTS + 2):
        yield {
            name: precise.from_rational(number + 2 + hash_number(f"{number} {name}") % 3) for name in names
        }
