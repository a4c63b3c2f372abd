"""Values of trees at places, in floats or to any precision; runs in a worker process.

A tree becomes a chain of closures, so that each node of an integrand is cheap. Work is counted by a budget of
steps, so that no decision depends on the machine's load.
"""

import cmath
import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, Final

from ors_server.rewards.math.algebra.functions import functions
from ors_server.rewards.math.algebra.mpmath_contexts import fp, mp
from ors_server.rewards.math.algebra.quadrature import integrate
from ors_server.rewards.math.algebra.sequences import (
    check_reach,
    index_of,
    is_of_sequences,
    member,
    sum_series,
)
from ors_server.rewards.math.algebra.unsure import FAILURES, UnsureError, unsure
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
    Unknown,
    children,
    contains,
    symbols,
)

Places = Mapping[str, Any]
Reader = Callable[[Places], Any]

DIGITS: Final = 30
_STEPS: Final = 150_000
_WEIGHTS: Final = {True: 12, False: 1}
"""Steps of one evaluation, by whether it is to any precision."""
_TERMS: Final = 2_000
_SERIES_TERMS: Final = 120
"""Terms from which a series is extrapolated."""
_SHIFT: Final = 7
"""Terms that the second of two summations adds one by one."""
_MAX_EXPONENT: Final = 4_000
_CELLS: Final = 64
_BITS: Final = 12_000
"""Bits of a written number, and of one power."""


class TreeEvaluator:
    """Converts trees to functions of the values of their names, in one of mpmath's contexts, `ctx`."""

    def __init__(self, ctx: Any = mp, parent: "TreeEvaluator | None" = None) -> None:
        self.ctx = ctx
        self.is_precise = ctx is mp
        self._functions = functions(ctx)
        # A list of one number, shared by reference: an integral inside a sum spends from the same budget.
        self._left: list[int] = [_STEPS] if parent is None else parent._left  # noqa: SLF001  (one budget for both)
        self._is_inner = parent is not None
        self._indices: frozenset[str] = frozenset() if parent is None else parent._indices  # noqa: SLF001  (of the same class)
        # A table of bound methods, built once: trees are read into closures, and only those run at each
        # place.
        self._readers: dict[type, Callable[[Any], Reader]] = {
            Number: self._number,
            Symbol: self._symbol,
            Constant: self._constant,
            Add: self._add,
            Multiply: self._multiply,
            Power: self._power,
            Function: self._function,
            Binder: self._binder,
            Matrix: self._matrix,
            Quantity: self._quantity,
            Unknown: self._unknown,
        }

    def spend(self) -> None:
        """Count one evaluation of a body; raises `UnsureError` if there have been too many."""
        # Arbitrary precision costs about twelve times as much as floats; the budget counts steps, not time.
        self._left[0] -= _WEIGHTS[self.is_precise]
        if self._left[0] < 0:
            raise UnsureError("too many evaluations")

    def read(self, node: Node) -> Reader:
        """Return the function of a tree; raises `UnsureError` if something in it has no value."""
        reader = self._readers.get(type(node))
        if reader is None:
            raise UnsureError(type(node).__name__)
        return reader(node)

    def _number(self, node: Number) -> Reader:
        top, bottom = node.value.numerator, node.value.denominator
        if max(top.bit_length(), bottom.bit_length()) > _BITS:
            raise UnsureError("a number of too many digits")
        value = self.ctx.mpf(top) / bottom
        return lambda _: value

    def _symbol(self, node: Symbol) -> Reader:
        name = node.name
        indexed = index_of(name, self._indices) if "_" in name and self._indices else None
        if indexed is not None:
            sequence, factor, variable = indexed
            return self._sequence(sequence, [lambda places: factor * places[variable]])

        def read(places: Places) -> Any:
            if name not in places:
                raise UnsureError(name)
            return places[name]

        return read

    def _unknown(self, node: Unknown) -> Reader:
        # `a_n` ends with an underscore; any other unknown function has no values.
        if not node.name.endswith("_"):
            raise UnsureError("a function that is not defined")
        check_reach(*node.arguments)
        return self._sequence(node.name, [self.read(argument) for argument in node.arguments])

    def _sequence(self, name: str, indices: list[Reader]) -> Reader:
        if not self.is_precise:
            raise UnsureError("a sequence within an integral")
        return lambda places: member(name, tuple(index(places) for index in indices))

    def _constant(self, node: Constant) -> Reader:
        constants = {"pi": self.ctx.pi, "e": self.ctx.e, "i": self.ctx.mpc(0, 1), "inf": self.ctx.inf}
        if node.name not in constants:
            raise UnsureError(node.name)
        # Unary plus evaluates the constant once, at the current precision.
        value = +constants[node.name]
        return lambda _: value

    def _add(self, node: Add) -> Reader:
        first, *rest = map(self.read, node.terms)

        def read(places: Places) -> Any:
            total = first(places)
            for term in rest:
                total = total + term(places)
            return total

        return read

    def _multiply(self, node: Multiply) -> Reader:
        first, *rest = map(self.read, node.factors)

        def read(places: Places) -> Any:
            total = first(places)
            for factor in rest:
                total = total * factor(places)
            return total

        return read

    def _power(self, node: Power) -> Reader:
        base, exponent = self.read(node.base), self.read(node.exponent)
        if node.exponent == Number(-1) and not contains(node.base, Matrix):
            return lambda places: 1 / base(places)
        if node.base == Constant("e"):
            return lambda places: self.ctx.exp(exponent(places))
        if isinstance(node.base, Matrix) and node.exponent == Symbol("T"):
            return lambda places: base(places).T
        return lambda places: self._raise(base(places), exponent(places))

    def _raise(self, base: Any, exponent: Any) -> Any:
        if isinstance(exponent, self.ctx.mpf) and exponent == int(exponent):
            exponent = int(exponent)
            # The result would have more than `_BITS` bits.
            if abs(exponent) > _MAX_EXPONENT and abs(base) > 2 ** (_BITS / _MAX_EXPONENT):
                raise UnsureError("a power that is too large")
        return base**exponent

    def _quantity(self, node: Quantity) -> Reader:
        value = self.read(node.value)
        scale = {"°": self.ctx.pi / 180, "%": self.ctx.one / 100}.get(node.unit)
        if scale is None:
            raise UnsureError(node.unit)
        return lambda places: value(places) * scale

    def _function(self, node: Function) -> Reader:
        arguments = [self.read(argument) for argument in node.arguments]
        if node.name in ("det", "abs", "trace") and len(arguments) == 1:
            return lambda places: self._measure(node.name, arguments[0](places))
        function = self._functions.get(node.name)
        if function is None:
            raise UnsureError(node.name)
        return lambda places: function(*[argument(places) for argument in arguments])

    def _measure(self, name: str, value: Any) -> Any:
        is_matrix = isinstance(value, self.ctx.matrix)
        if name == "trace" and is_matrix:
            return sum(value[index, index] for index in range(min(value.rows, value.cols)))
        if is_matrix:
            return mp.det(value)
        if name == "abs":
            return abs(value)
        raise UnsureError(f"{name} of a number")

    def _matrix(self, node: Matrix) -> Reader:
        if node.kind == "cases" or len({len(row) for row in node.rows}) != 1:
            raise UnsureError(node.kind)
        if sum(map(len, node.rows)) > _CELLS:
            raise UnsureError("a matrix of too many cells")
        rows = [[self.read(cell) for cell in row] for row in node.rows]
        return lambda places: self.ctx.matrix([[cell(places) for cell in row] for row in rows])

    # Integrals, sums, products, derivatives.

    def _binder(self, node: Binder) -> Reader:
        if node.kind == "at":
            point, body = self.read(node.bounds[0]), self.read(node.body)
            return lambda places: body({**places, node.variable: point(places)})
        # Without bounds an integral is an antiderivative, which has no value at a place.
        if node.kind == "int" and len(node.bounds) == 2:  # noqa: PLR2004  (a lower and an upper bound)
            return self._integral(node)
        if node.kind in ("sum", "prod"):
            return self._series(node)
        if node.kind == "diff":
            return self._derivative(node)
        if node.kind == "lim" and node.bounds == (Constant("inf"),) and _has_long_sum(node):
            term = self._body(node, self)
            return lambda places: limit_at_infinity(lambda value: term(places, value))
        raise UnsureError(node.kind)

    def _body(self, node: Binder, evaluator: "TreeEvaluator") -> Callable[[Places, Any], Any]:
        body, name = evaluator.read(node.body), node.variable

        def read(places: Places, value: Any) -> Any:
            # Each evaluation of a body counts, so nested sums and integrals share the bound.
            evaluator.spend()
            return body({**places, name: value})

        return read

    def _integral(self, node: Binder) -> Reader:
        low, high = map(self.read, node.bounds)
        # The integrand in floats: it is evaluated thousands of times.
        body = self._body(node, TreeEvaluator(fp, self))
        is_inner = self._is_inner

        def read(places: Places) -> Any:
            floats = {name: _to_float(value) for name, value in places.items()}
            value = integrate(
                lambda x: body(floats, x),
                _to_bound(low(places)),
                _to_bound(high(places)),
                is_inner=is_inner,
            )
            return self.ctx.convert(value)

        return read

    def _series(self, node: Binder) -> Reader:
        low, high = map(self.read, node.bounds)
        # The index is bound while the body is read, and only then.
        outer, self._indices = self._indices, self._indices | {node.variable}
        is_of_unknowns = is_of_sequences(node.body, self._indices)
        body = self._body(node, self)
        self._indices = outer
        is_sum = node.kind == "sum"
        if is_of_unknowns:
            check_reach(*node.bounds)

        def read(places: Places) -> Any:
            start, end = low(places), high(places)
            if self.ctx.isinf(start):
                raise UnsureError("a sum from minus infinity")
            start = _to_whole(start)
            # A series of undefined members is a finite sum by construction.
            if self.ctx.isinf(end) and is_of_unknowns and is_sum:
                return sum_series(lambda index: body(places, index), start)
            if self.ctx.isinf(end):
                return self._sum_up(lambda index: body(places, index), start, is_sum=is_sum)
            end = _to_whole(end)
            if end - start > _TERMS:
                raise UnsureError("a sum of too many terms")
            total = self.ctx.zero if is_sum else self.ctx.one
            for index in range(start, end + 1):
                value = body(places, self.ctx.mpf(index))
                total = total + value if is_sum else total * value
            return total

        return read

    def _sum_up(self, term: Callable[[Any], Any], start: int, *, is_sum: bool) -> Any:
        if not self.is_precise:
            raise UnsureError("a series within an integral")
        total = mp.nsum if is_sum else mp.nprod
        whole = total(term, [start, mp.inf], maxterms=_SERIES_TERMS)
        first = [term(mp.mpf(index)) for index in range(start, start + _SHIFT)]
        # Factors that move away from 1 mean that the product diverges.
        if not is_sum and abs(term(mp.mpf(start + 3 * _SHIFT)) - 1) > abs(first[-1] - 1):
            raise UnsureError("a product that diverges")
        rest = total(term, [start + _SHIFT, mp.inf], maxterms=_SERIES_TERMS)
        again = mp.fsum(first) + rest if is_sum else mp.fprod(first) * rest
        # Both summations extrapolate; that they agree is the only sign that the series converges.
        if not abs(whole - again) <= mp.mpf(10) ** -14 * max(abs(whole), mp.mpf(1) / 1000):
            raise UnsureError("a series that two summations give differently")
        return whole

    def _derivative(self, node: Binder) -> Reader:
        if not self.is_precise:
            raise UnsureError("a derivative within an integral")
        times, inner = 1, node.body
        # Nested derivatives by one variable are one derivative of higher order.
        while isinstance(inner, Binder) and inner.kind == "diff" and inner.variable == node.variable:
            times, inner = times + 1, inner.body
        body = self._body(Binder("diff", node.variable, (), inner), self)
        name = node.variable

        def read(places: Places) -> Any:
            if name not in places:
                raise UnsureError(name)
            return mp.diff(partial(body, places), places[name], times)

        return read


def _has_long_sum(node: Binder) -> bool:
    """Return whether the number of terms of a sum, or of factors of a product, goes to infinity."""

    def is_long(part: Node) -> bool:
        if isinstance(part, Binder) and part.kind in ("sum", "prod"):
            return any(node.variable in symbols(bound) for bound in part.bounds)
        return any(map(is_long, children(part)))

    return is_long(node.body)


def _to_float(value: Any) -> Any:
    if getattr(value, "imag", 0):
        return complex(value)
    return float(value.real if hasattr(value, "real") else value)


def _to_bound(value: Any) -> float:
    bound = _to_float(value)
    if isinstance(bound, complex) or math.isnan(bound):
        raise UnsureError("an integral along a path")
    return float(bound)


def _to_whole(value: Any) -> int:
    near = round(float(value.real))
    if abs(value - near) > 1e-9:  # noqa: PLR2004  (noise)
        raise UnsureError("a sum between bounds that are not whole")
    return near


def value_of(reader: Reader, places: Places) -> Any:
    """Return a value at a place; raises `UnsureError` where it is undefined."""
    try:
        # At least `DIGITS`, but never less than a caller's higher precision.
        with mp.workdps(max(DIGITS, mp.dps)):
            value = reader(places)
            if not isinstance(value, mp.matrix) and (cmath.isnan(complex(value))):
                raise UnsureError("no number")
            return value
    except FAILURES as error:
        raise unsure(error) from error


_STARTS: Final = (6, 7)
_DOUBLINGS: Final = 8
_PART: Final = 1e-12


def limit_at_infinity(value: Callable[[Any], Any]) -> Any:
    """Return the limit of a series in 1/n (Richardson 1911), from two sequences that must agree.

    Raises:
        UnsureError: They do not agree, or there is no limit.
    """
    first, second = (
        _extrapolate([value(mp.mpf(start << step)) for step in range(_DOUBLINGS)]) for start in _STARTS
    )
    if not abs(first - second) <= _PART * max(abs(first), mp.mpf(1) / 1000):
        raise UnsureError("a limit that two sequences give differently")
    return second


def _extrapolate(values: list[Any]) -> Any:
    order = 1
    while len(values) > 1:
        scale = 2**order
        values = [(scale * fine - coarse) / (scale - 1) for coarse, fine in pairwise(values)]
        order += 1
    return values[0]
