"""Values of expressions at points, to 200 bits, with an estimate of the error by cancellation."""

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import ClassVar, Final

from ors_server.rewards.math import precise, rationals
from ors_server.rewards.math.hash_numbers import hash_number
from ors_server.rewards.math.limits import BITS, RANGE, InexactError, LimitError, StepBudget, UndefinedError
from ors_server.rewards.math.precise import Complex
from ors_server.rewards.math.tree import (
    Add,
    Binder,
    Constant,
    Function,
    Multiply,
    Node,
    Number,
    Power,
    Quantity,
    Symbol,
    Unknown,
)

_CONSTANTS: Final = {"pi": precise.PI, "e": precise.E, "i": precise.I}
_DEGREE: Final = precise.divide(precise.PI, precise.from_rational(180))
_COSTS: Final = 24
"""Steps of the budget for one transcendental function."""
_NODES: Final = 60
"""Half the nodes of the rule that integrates between bounds."""
_DENSITY: Final = 16
"""Nodes of that rule per unit of its variable."""
_INTEGRAL_BITS: Final = 50
"""Bits to which that rule is trusted."""
_SERIES_BITS: Final = 100
"""Bits after the point at which a term ends a series; only series that fall that fast are summed."""
_LIMIT_BITS: Final = 36
"""Bits to which a limit is trusted; it is approached to within 2^-36, or to 2^72 on the way to infinity."""
_CANCELLED: Final = 50
"""Bits that a sum has to lose before the rest of it may be noise."""
NO_NOISE: Final = -(1 << 60)
"""The magnitude of zero."""


class SamplePoint:
    """Values of the symbols at which expressions are evaluated.

    Attributes:
        noise: Binary magnitude of the error that cancellation may have left in place of zero.
        agreement: Bits to which two equal values agree here; a limit is known to fewer.
        is_off_reals: Whether a part had no real value although its operands have: the root of -1.
    """

    def __init__(self, values: dict[str, Complex], budget: StepBudget) -> None:
        self.values = values
        self.indices = frozenset[str]()
        self.budget = budget
        self.noise = NO_NOISE
        self.agreement = BITS // 2
        self.is_off_reals = False

    def read(self, node: Node) -> Complex:
        """Return an expression's value here.

        Raises:
            UndefinedError: It is undefined here.
            InexactError: It has no value anywhere.
            LimitError: It is beyond the grader's range, or the budget is spent.
        """
        self.budget.spend()
        # Every node costs a step, so that the bound counts work and not time: a verdict never depends on the
        # load.
        reader = self._READERS.get(type(node))
        if reader is None:
            raise InexactError(type(node).__name__)
        return reader(self, node)

    def _read_symbol(self, node: Symbol) -> Complex:
        """Read a symbol; one with a bound index is a member of a sequence: `a_k` in a sum over k."""
        # `a_k` in a sum over k is a function of k; elsewhere a label is part of the name.
        head, _, label = node.name.partition("_")
        if inside := tuple(Symbol(index) for index in sorted(self.indices) if index in label):
            return self._read_unknown(Unknown(f"{head}_" if label in self.indices else node.name, inside))
        if node.name not in self.values:
            raise InexactError(node.name)
        return self.values[node.name]

    def _read_number(self, node: Number) -> Complex:
        return precise.from_rational(node.value)

    def _read_constant(self, node: Constant) -> Complex:
        if node.name not in _CONSTANTS:
            raise InexactError(node.name)
        return _CONSTANTS[node.name]

    def _read_sum(self, node: Add) -> Complex:
        total, greatest = precise.ZERO, NO_NOISE
        for term in node.terms:
            value = self.read(term)
            greatest = max(greatest, precise.magnitude(value))
            total = precise.add(total, value)
        # Nearly equal terms have cancelled: what is left may be their rounding errors, up to this magnitude.
        if precise.magnitude(total) < greatest - _CANCELLED:
            self.noise = max(self.noise, greatest - BITS + _CANCELLED)
        return total

    def _read_product(self, node: Multiply) -> Complex:
        product = precise.ONE
        for factor in node.factors:
            product = precise.multiply(product, self.read(factor))
        return product

    def _read_power(self, node: Power) -> Complex:
        self.budget.spend(_COSTS)
        base, exponent = self.read(node.base), self.read(node.exponent)
        if node.base == Constant("e"):
            return precise.apply("exp", exponent)
        return self._note_off_reals(precise.power(base, exponent), base, exponent)

    def _note_off_reals(self, value: Complex, *parts: Complex) -> Complex:
        # A value off the real line counts only if the whole comparison finds no point where both are real.
        if not precise.is_real(value) and all(map(precise.is_real, parts)):
            self.is_off_reals = True
        return value

    def _read_quantity(self, node: Quantity) -> Complex:
        value = self.read(node.value)
        if node.unit == "%":
            return precise.divide(value, precise.from_rational(100))
        if node.unit == "°":
            return precise.multiply(value, _DEGREE)
        raise InexactError(node.unit)

    def _read_unknown(self, node: Unknown) -> Complex:
        """Return a number for an unknown function that depends only on its name and arguments."""
        # A pseudo-random number, the same for the same name and arguments: two expressions with an unknown
        # function agree only if they apply it alike. Rounded arguments, so that equal ones written
        # differently agree too.
        arguments = [self.read(argument) for argument in node.arguments]
        rounded = [precise.shorten(argument) for argument in arguments]
        number = hash_number(f"{node.name} {rounded}")
        return precise.from_rational(Fraction(number + 1, 1 << 47))

    def _read_function(self, node: Function) -> Complex:
        self.budget.spend(_COSTS)
        if node.name == "det":
            # A determinant is computed exactly or not at all.
            return precise.from_rational(rationals.evaluate(node, self.budget))
        arguments = [self.read(argument) for argument in node.arguments]
        if node.name in precise.ELEMENTARY and len(arguments) == 1:
            return self._note_off_reals(precise.apply(node.name, arguments[0]), *arguments)
        function = _FUNCTIONS.get(node.name)
        if function is None or not rationals.has_arity(node.name, len(arguments)):
            raise InexactError(node.name)
        return self._note_off_reals(function(*arguments), *arguments)

    def _read_binder(self, node: Binder) -> Complex:
        if node.kind in ("lim", "diff"):
            return self._approach(node) if node.kind == "lim" else self._differentiate(node)
        if len(node.bounds) != 2:  # noqa: PLR2004  (a lower and an upper bound)
            raise InexactError("an integral without bounds")
        if node.kind == "int":
            return self._integrate(node)
        return self._repeat(node)

    def _repeat(self, node: Binder) -> Complex:
        if node.bounds[1] == Constant("inf") and node.kind == "sum":
            return self._sum_series(node)
        low, high = (precise.whole(self.read(bound)) for bound in node.bounds)
        if low is None or high is None:
            raise UndefinedError("a sum between bounds that are not whole")
        if high - low >= RANGE:
            raise LimitError(f"more than {RANGE} terms")
        total = precise.ZERO if node.kind == "sum" else precise.ONE
        for index in range(low, high + 1):
            term = self._read_at(node, precise.from_rational(index))
            total = precise.add(total, term) if node.kind == "sum" else precise.multiply(total, term)
        return total

    def _sum_series(self, node: Binder) -> Complex:
        low = precise.whole(self.read(node.bounds[0]))
        total = precise.ZERO
        for index in range(low or 0, (low or 0) + BITS):
            term = self._read_at(node, precise.from_rational(index))
            total = precise.add(total, term)
            # Only series that fall geometrically reach this within `BITS` terms; others are for the algebra.
            if not precise.is_zero(term) and precise.magnitude(term) < -_SERIES_BITS:
                self.agreement = min(self.agreement, _INTEGRAL_BITS)
                return total
        raise InexactError("a series that converges slowly")

    def _read_at(self, node: Binder, value: Complex) -> Complex:
        # A separate point for the body, so that the bound variable hides an outer one of the same name; what
        # it learns about errors holds for the whole.
        inner = SamplePoint({**self.values, node.variable: value}, self.budget)
        inner.indices = self.indices if node.kind in ("int", "diff") else self.indices | {node.variable}
        result = inner.read(node.body)
        self.noise = max(self.noise, inner.noise)
        self.agreement = min(self.agreement, inner.agreement)
        self.is_off_reals |= inner.is_off_reals
        return result

    def _integrate(self, node: Binder) -> Complex:
        low, high = (self.read(bound) for bound in node.bounds)
        middle = precise.divide(precise.add(low, high), precise.from_rational(2))
        half = precise.divide(precise.subtract(high, low), precise.from_rational(2))
        total = precise.ZERO
        # Tanh-sinh copes with singular ends; its error is not estimated, so the result is trusted to 50 bits
        # only.
        for position, weight in _nodes():
            value = self._read_at(node, precise.add(middle, precise.multiply(half, position)))
            total = precise.add(total, precise.multiply(weight, value))
        self.agreement = min(self.agreement, _INTEGRAL_BITS)
        return precise.multiply(total, half)

    def _differentiate(self, node: Binder) -> Complex:
        self.agreement = min(self.agreement, _LIMIT_BITS)
        position = self._read_symbol(Symbol(node.variable))
        # A central difference with a step of 2^-36 has an error of about 2^-72 in exact arithmetic of 200
        # bits.
        step = precise.from_rational(Fraction(1, 1 << _LIMIT_BITS))
        before = self._read_at(node, precise.subtract(position, step))
        after = self._read_at(node, precise.add(position, step))
        return precise.divide(
            precise.subtract(after, before), precise.multiply(step, precise.from_rational(2))
        )

    def _approach(self, node: Binder) -> Complex:
        self.agreement = min(self.agreement, _LIMIT_BITS)
        self.noise = max(self.noise, -_LIMIT_BITS)
        if node.bounds[0] == Constant("inf"):
            # Infinity is 2^72: a term 1/x is then below the trusted bits.
            return self._read_at(node, precise.from_rational(1 << 2 * _LIMIT_BITS))
        position, step = self.read(node.bounds[0]), precise.from_rational(Fraction(1, 1 << _LIMIT_BITS))
        before = self._read_at(node, precise.subtract(position, step))
        after = self._read_at(node, precise.add(position, step))
        # A limit must be the same from both sides.
        if not agree(before, after, self.noise, _LIMIT_BITS // 2):
            raise UndefinedError("a limit from two sides")
        return precise.divide(precise.add(before, after), precise.from_rational(2))

    _READERS: ClassVar[dict[type, Callable[..., Complex]]] = {
        Number: _read_number,
        Symbol: _read_symbol,
        Constant: _read_constant,
        Add: _read_sum,
        Multiply: _read_product,
        Power: _read_power,
        Quantity: _read_quantity,
        Function: _read_function,
        Unknown: _read_unknown,
        Binder: _read_binder,
    }


def agree(first: Complex, second: Complex, noise: int, bits: int) -> bool:
    """Return whether two values agree to some bits, or differ by less than a binary magnitude, the noise."""
    gap = precise.magnitude(precise.subtract(first, second))
    # Relative to the greater value, or absolute where both may be nothing but noise.
    return gap <= max(max(precise.magnitude(first), precise.magnitude(second)) - bits, noise)


# Computed once: 121 nodes of 200 bits.
@functools.cache
def _nodes() -> tuple[tuple[Complex, Complex], ...]:
    """Return places in (-1, 1) and weights of the tanh-sinh rule (Takahasi and Mori 1974)."""
    half = precise.divide(precise.PI, precise.from_rational(2))
    nodes: list[tuple[Complex, Complex]] = []
    for count in range(-_NODES, _NODES + 1):
        position = precise.from_rational(Fraction(count, _DENSITY))
        inner = precise.multiply(half, precise.apply("sinh", position))
        slope = precise.multiply(half, precise.apply("cosh", position))
        square = precise.power(precise.apply("cosh", inner), precise.from_rational(2))
        weight = precise.divide(slope, precise.multiply(square, precise.from_rational(_DENSITY)))
        nodes.append((precise.apply("tanh", inner), weight))
    return tuple(nodes)


def _choose(pick: Callable[[Complex, Complex], bool], first: Complex, *rest: Complex) -> Complex:
    for other in rest:
        if not (precise.is_real(first) and precise.is_real(other)):
            raise UndefinedError("an order of complex numbers")
        first = other if pick(other, first) else first
    return first


def _is_less(first: Complex, second: Complex) -> bool:
    return precise.is_negative(precise.subtract(first, second))


def _round_down(value: Complex) -> Complex:
    near = precise.from_rational(precise.nearest(value))
    gap = precise.subtract(value, near)
    # Rounding errors must not turn 3 into 2 under `floor`.
    if not precise.is_zero(gap) and precise.magnitude(gap) < -BITS // 2:
        return near
    return precise.add(near, precise.from_rational(-1)) if precise.is_negative(gap) else near


def _logarithm(value: Complex, base: Complex = precise.E) -> Complex:
    return precise.divide(precise.apply("log", value), precise.apply("log", base))


def _exactly(function: Callable[..., rationals.Rational]) -> Callable[..., Complex]:
    def call(*arguments: Complex) -> Complex:
        integers = [precise.whole(argument) for argument in arguments]
        # Functions of integers are exact; for anything else another method must decide.
        if any(integer is None for integer in integers):
            raise InexactError("a function of integers")
        return precise.from_rational(function(*integers))

    return call


def _binomial(upper: Complex, lower: Complex) -> Complex:
    below = precise.whole(lower)
    # The product formula works for a real upper index, but its length is that of the lower one.
    if below is None or below < 0 or below > RANGE // 8:
        return _exactly(rationals.binomial)(upper, lower)
    product = precise.ONE
    for step in range(below):
        term = precise.add(upper, precise.from_rational(-step))
        product = precise.divide(precise.multiply(product, term), precise.from_rational(step + 1))
    return product


def _root(radicand: Complex, index: Complex) -> Complex:
    # An integral index is a real root, as in school; any other one is a power.
    count = precise.whole(index)
    if count is None or not 1 <= count <= RANGE:
        return precise.power(radicand, precise.divide(precise.ONE, index))
    return precise.root(radicand, count)


def _over(name: str) -> Callable[[Complex], Complex]:
    return lambda value: precise.divide(precise.ONE, precise.apply(name, value))


def _of_inverse(name: str) -> Callable[[Complex], Complex]:
    return lambda value: precise.apply(name, precise.divide(precise.ONE, value))


def _modulo(value: Complex, modulus: Complex) -> Complex:
    times = _round_down(precise.divide(value, modulus))
    return precise.subtract(value, precise.multiply(times, modulus))


_OF_ONE: Final[dict[str, Callable[[Complex], Complex]]] = {
    "lg": lambda value: _logarithm(value, precise.from_rational(10)),
    "ceil": lambda value: precise.negative(_round_down(precise.negative(value))),
    "conj": lambda value: (value[0], precise.negative(value)[1]),
    "re": lambda value: (value[0], precise.ZERO[0]),
    "im": lambda value: (value[1], precise.ZERO[0]),
    "acot": lambda value: precise.subtract(
        precise.divide(precise.PI, precise.from_rational(2)), precise.apply("atan", value)
    ),
}
_FUNCTIONS: Final[dict[str, Callable[..., Complex]]] = {
    **_OF_ONE,
    "sec": _over("cos"),
    "csc": _over("sin"),
    "cot": _over("tan"),
    "sech": _over("cosh"),
    "csch": _over("sinh"),
    "coth": _over("tanh"),
    "asec": _of_inverse("acos"),
    "acsc": _of_inverse("asin"),
    "ln": _logarithm,
    "log": _logarithm,
    "abs": precise.absolute,
    "root": _root,
    "floor": _round_down,
    "factorial": _exactly(rationals.factorial),
    "binom": _binomial,
    "mod": _modulo,
    "max": lambda *values: _choose(lambda left, right: _is_less(right, left), *values),
    "min": lambda *values: _choose(_is_less, *values),
}
