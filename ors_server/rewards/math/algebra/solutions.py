r"""Compares sets of real numbers described by conditions: `x^2 < 4`, `\{x : x^3 = x\}`, intervals, unions.

Both become predicates, which are compared at every place where either may change, and between these places.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

from ors_server.rewards.math.algebra.answer_statements import AnswerStatement, free_names
from ors_server.rewards.math.algebra.evaluate import DIGITS, TreeEvaluator, value_of
from ors_server.rewards.math.algebra.mpmath_contexts import mp, mpf
from ors_server.rewards.math.algebra.sample_places import is_real
from ors_server.rewards.math.algebra.symbolic import Builder
from ors_server.rewards.math.algebra.unsure import UnsureError
from ors_server.rewards.math.tree import (
    Add,
    Brackets,
    Constant,
    Multiply,
    Node,
    Relation,
    Set,
    SetOperation,
    negate,
)

sympy: Any = import_module("sympy")
Predicate = Callable[[Any], bool]
_ROOT_TOLERANCE: Final = mpf(10) ** -9
"""Distance of two roots, or of a value from 0, that may come from rounding."""
_MAX_PLACES: Final = 60
_MAX_DEGREE: Final = 12
_SCAN: Final = (-30.0, 30.0, 2400)
_SIGNS: Final[dict[str, Callable[[int], bool]]] = {
    "=": lambda sign: sign == 0,
    "≠": lambda sign: sign != 0,
    "<": lambda sign: sign < 0,
    ">": lambda sign: sign > 0,
    "≤": lambda sign: sign <= 0,
    "≥": lambda sign: sign >= 0,
}


class _RealSet:
    """One side: a predicate, and the places at which it may change."""

    def __init__(self, statement: AnswerStatement, variable: str) -> None:
        self._variable = variable
        self.places: list[Any] = []
        self.holds = self._read_all(statement)

    def _read_all(self, statement: AnswerStatement) -> Predicate:
        if statement.kind == "values" and not statement.is_ordered:
            return self._values(statement.items)
        if statement.kind == "values":
            return self._read(Brackets("(", ")", statement.items))
        if statement.kind == "equation":
            return self._read(Relation(("=",), statement.items))
        parts = [self._read(item) for item in statement.items]
        return lambda value: all(part(value) for part in parts)

    def _read(self, node: Node) -> Predicate:
        match node:
            case Relation():
                return self._relation(node)
            case Brackets(_, _, (_, _)):
                return self._interval(node)
            case Set(items):
                return self._values(items)
            case SetOperation(operator, left, right):
                return self._operation(operator, self._read(left), self._read(right))
            case _:
                return self._read_other(node)

    def _read_other(self, node: Node) -> Predicate:
        match node:
            case Add((left, Multiply((_, (Set() | SetOperation()) as right)))):
                return self._operation("∖", self._read(left), self._read(right))
            case Constant("reals" | "empty" as name):
                return lambda _: name == "reals"
            case _:
                raise UnsureError(type(node).__name__)

    def _operation(self, operator: str, left: Predicate, right: Predicate) -> Predicate:
        if operator == "∪":
            return lambda value: left(value) or right(value)
        if operator == "∩":
            return lambda value: left(value) and right(value)
        return lambda value: left(value) and not right(value)

    def _number(self, node: Node) -> Any:
        value = value_of(TreeEvaluator().read(node), {})
        if not is_real(value):
            raise UnsureError("a set of complex numbers")
        return mp.re(value)

    def _values(self, items: tuple[Node, ...]) -> Predicate:
        values = [self._number(item) for item in items]
        self.places += values
        return lambda x: any(abs(x - value) < _ROOT_TOLERANCE for value in values)

    def _interval(self, node: Brackets) -> Predicate:
        start, end = map(self._number, node.items)
        opening, closing = node.opening, node.closing
        self.places += [end_point for end_point in (start, end) if not mp.isinf(end_point)]

        def holds(x: Any) -> bool:
            above = _sign(x - start) > 0 or (opening == "[" and _sign(x - start) == 0)
            below = _sign(x - end) < 0 or (closing == "]" and _sign(x - end) == 0)
            return above and below

        return holds

    def _relation(self, node: Relation) -> Predicate:
        if node.operators == ("∈",):
            return self._read(node.sides[1])
        if not set(node.operators) <= _SIGNS.keys():
            raise UnsureError("a relation that is not an inequality")
        parts = [
            self._comparison(operator, Add((left, negate(right))))
            for operator, left, right in zip(node.operators, node.sides, node.sides[1:], strict=False)
        ]
        return lambda x: all(part(x) for part in parts)

    def _comparison(self, operator: str, gap: Node) -> Predicate:
        self.places += _changes(gap, self._variable)
        reader = TreeEvaluator().read(gap)

        def holds(x: Any) -> bool:
            try:
                value = value_of(reader, {self._variable: x})
            except UnsureError:
                return False
            return not mp.isinf(value) and is_real(value) and _SIGNS[operator](_sign(mp.re(value)))

        return holds


def _sign(value: Any) -> int:
    return 0 if abs(value) < _ROOT_TOLERANCE else 1 if value > 0 else -1


def _changes(gap: Node, variable: str) -> Iterator[Any]:
    """Yield the roots and the poles of an expression."""
    builder = Builder(frozenset())
    expression = builder.build(gap)
    symbol = builder.names.get(variable)
    if symbol is None:
        return
    real = sympy.Dummy(real=True)
    for part in sympy.fraction(sympy.together(expression.subs(symbol, real))):
        if part.is_polynomial(real):
            polynomial = sympy.Poly(part, real)
            if polynomial.degree() > _MAX_DEGREE or polynomial.free_symbols_in_domain:
                raise UnsureError("a polynomial of too high a degree")
            for root in polynomial.nroots(n=DIGITS, maxsteps=200) if polynomial.degree() > 0 else ():
                if abs(sympy.im(root)) < 1e-9:  # noqa: PLR2004  (noise; a place more does no harm)
                    yield mpf(str(sympy.re(root)))
        else:
            yield from _scan(gap, variable)
            return


def _scan(gap: Node, variable: str) -> Iterator[Any]:
    """Search changes of sign on a grid, and halve the steps with a change."""
    reader = TreeEvaluator().read(gap)

    def sign(x: Any) -> int | None:
        try:
            value = value_of(reader, {variable: x})
        except UnsureError:
            return None
        return (1 if mp.re(value) > 0 else -1) if is_real(value) and value else 0 if not value else None

    low, high, count = _SCAN
    before: tuple[Any, int | None] = (mpf(low), sign(mpf(low)))
    for index in range(1, count + 1):
        x = mpf(low) + (mpf(high) - mpf(low)) * index / count
        now = sign(x)
        if now == 0:
            yield x
        elif now != before[1] and before[1] != 0:
            yield _halve(sign, before[0], x)
        before = x, now


def _halve(sign: Callable[[Any], int | None], low: Any, high: Any) -> Any:
    at_low = sign(low)
    for _ in range(60):
        middle = (low + high) / 2
        if sign(middle) == at_low:
            low = middle
        else:
            high = middle
    return high


def same_set(gold: AnswerStatement, answer: AnswerStatement) -> bool:
    """Return whether two conditions describe the same numbers.

    Raises:
        UnsureError: That cannot be decided.
    """
    names = {name for statement in (gold, answer) for item in statement.items for name in free_names(item)}
    if len(names) != 1:
        raise UnsureError("a condition on other than one variable")
    (variable,) = names
    with mp.workdps(DIGITS):
        first, second = _RealSet(gold, variable), _RealSet(answer, variable)
        places = sorted({mp.nstr(x, 12): x for x in first.places + second.places}.values())
        if len(places) > _MAX_PLACES:
            raise UnsureError("too many places")
        return all(first.holds(x) == second.holds(x) for x in _around(places))


def _around(places: list[Any]) -> Iterator[Any]:
    if not places:
        yield from (mpf(-1), mpf(0), mpf(1))
        return
    yield places[0] - mpf("1.37")
    for x, following in zip(places, [*places[1:], places[-1] + mpf("2.74")], strict=True):
        yield x
        yield (x + following) / 2
