"""Expressions of SymPy: integrals, sums, limits and derivatives in closed form, and their values.

Expressions are built from this project's trees, node by node, with names of their own; no text reaches SymPy.
Only the worker process imports this module.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final

from ors_server.rewards.math.algebra.evaluate import DIGITS
from ors_server.rewards.math.algebra.mpmath_contexts import mpc, mpf
from ors_server.rewards.math.algebra.sequences import index_of
from ors_server.rewards.math.algebra.unsure import FAILURES, UnsureError, unsure
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
)

sympy: Any = import_module("sympy")
_MAX_BITS: Final = 12_000
_MAX_WHOLE: Final = 3_000
_MAX_EXPONENT: Final = 4_000


def _log(value: Any, base: Any = None) -> Any:
    return sympy.log(value) if base is None else sympy.log(value) / sympy.log(base)


def _root(radicand: Any, index: Any) -> Any:
    is_odd = index.is_Integer and index % 2 == 1
    return sympy.real_root(radicand, index) if is_odd and radicand.is_number else radicand ** (1 / index)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "ln": sympy.log,
    "log": _log,
    "lg": partial(_log, base=10),
    "abs": sympy.Abs,
    "sgn": sympy.sign,
    "root": _root,
    "ceil": sympy.ceiling,
    "binom": sympy.binomial,
    "permutations": sympy.ff,
    "max": sympy.Max,
    "min": sympy.Min,
    "conj": sympy.conjugate,
    "altzeta": sympy.dirichlet_eta,
    "si": sympy.Si,
    "ci": sympy.Ci,
    "ei": sympy.Ei,
    "lambertw": sympy.LambertW,
    "chebyt": sympy.chebyshevt,
    "chebyu": sympy.chebyshevu,
    "mod": sympy.Mod,
}
_LIKE_NAMED: Final = (
    "sin cos tan sec csc cot sinh cosh tanh sech csch coth asin acos atan asec acsc acot asinh acosh "
    "atanh exp re im floor factorial factorial2 gamma zeta erf erfc erfi li sinc beta polylog besselj "
    "bessely besseli besselk harmonic digamma polygamma legendre"
)
_FUNCTIONS.update((name, getattr(sympy, name)) for name in _LIKE_NAMED.split())
_CONSTANTS: Final = {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "inf": sympy.oo}
_GROWING: Final = frozenset({"factorial", "factorial2", "gamma", "binom", "permutations", "harmonic"})
_DIRECTIONS: Final = {"lim": "+-", "lim+": "+", "lim-": "-"}


class Builder:
    """Builds SymPy's expressions from trees; the names in `whole` are of integers, others are positive."""

    def __init__(self, whole: frozenset[str]) -> None:
        self._whole = whole
        self._bound: dict[str, Any] = {}
        self.names: dict[str, Any] = {}
        self._builders: dict[type, Callable[[Any], Any]] = {
            Number: self._number,
            Symbol: self._symbol,
            Constant: self._constant,
            Add: lambda node: sympy.Add(*map(self.build, node.terms)),
            Multiply: lambda node: sympy.Mul(*map(self.build, node.factors)),
            Power: self._power,
            Quantity: self._quantity,
            Function: self._function,
            Binder: self._binder,
        }

    def build(self, node: Node) -> Any:
        """Return the expression of a tree.

        Raises:
            UnsureError: Something in it has no expression, or is too large.
        """
        builder = self._builders.get(type(node))
        if builder is None:
            raise UnsureError(type(node).__name__)
        return builder(node)

    def _symbol(self, node: Symbol) -> Any:
        if "_" in node.name and index_of(node.name, frozenset(self._bound)) is not None:
            raise UnsureError("a sequence that is not defined")
        return self._bound.get(node.name) or self._free(node.name)

    def _constant(self, node: Constant) -> Any:
        if node.name not in _CONSTANTS:
            raise UnsureError(node.name)
        return _CONSTANTS[node.name]

    def _quantity(self, node: Quantity) -> Any:
        scale = {"°": sympy.pi / 180, "%": sympy.Rational(1, 100)}.get(node.unit)
        if scale is None:
            raise UnsureError(node.unit)
        return self.build(node.value) * scale

    def _number(self, node: Number) -> Any:
        top, bottom = node.value.numerator, node.value.denominator
        if max(top.bit_length(), bottom.bit_length()) > _MAX_BITS:
            raise UnsureError("a number of too many digits")
        return sympy.Rational(top, bottom)

    def _free(self, name: str) -> Any:
        if name not in self.names:
            kinds = {"integer": True} if name in self._whole else {}
            # Names of the answer never reach SymPy, where some have a meaning; positive, so that roots and
            # logarithms simplify.
            self.names[name] = sympy.Symbol(f"s{len(self.names)}", positive=True, **kinds)
        return self.names[name]

    def _power(self, node: Power) -> Any:
        base, exponent = self.build(node.base), self.build(node.exponent)
        # Checked before SymPy computes the number.
        if (
            exponent.is_number
            and base.is_number
            and base not in (0, 1, -1)
            and not abs(exponent) < _MAX_EXPONENT
        ):
            raise UnsureError("a power that is too large")
        return sympy.Pow(base, exponent)

    def _function(self, node: Function) -> Any:
        name, arguments = node.name, list(map(self.build, node.arguments))
        if name not in _FUNCTIONS:
            raise UnsureError(name)
        # SymPy evaluates these at once when they are built.
        is_large = any(argument.is_number and not abs(argument) < _MAX_WHOLE for argument in arguments)
        if name in _GROWING and is_large:
            raise UnsureError(f"{name} of a large number")
        return _FUNCTIONS[name](*arguments)

    def _binder(self, node: Binder) -> Any:
        bounds = [self.build(bound) for bound in node.bounds]
        if node.kind == "diff":
            body = self.build(node.body)
            # A derivative keeps its variable: its value is that at the place.
            return sympy.diff(body, self._bound.get(node.variable) or self._free(node.variable))
        outer = self._bound
        # A fresh variable, so that a bound name never collides with a free one.
        variable = sympy.Dummy(**_kinds(node.kind, bounds))
        self._bound = {**outer, node.variable: variable}
        body = self.build(node.body)
        self._bound = outer
        return _bind(node.kind, variable, bounds, body)


def _kinds(kind: str, bounds: list[Any]) -> dict[str, bool]:
    if kind in ("sum", "prod"):
        # Assumptions on the variable let SymPy decide more sums and integrals.
        is_from_zero = bool(bounds) and bounds[0].is_nonnegative is True
        return {"integer": True, "nonnegative": True} if is_from_zero else {"integer": True}
    if kind == "int" and bounds and all(bound.is_nonnegative or bound is sympy.oo for bound in bounds):
        return {"positive": True}
    return {"real": True}


def _bind(kind: str, variable: Any, bounds: list[Any], body: Any) -> Any:
    match kind, bounds:
        case "at", [point]:
            return body.doit().subs(variable, point)
        case "int", []:
            raise UnsureError("an integral without bounds")
        case "int", [low, high]:
            return sympy.Integral(body, (variable, low, high))
        case "sum", [low, high]:
            return _sum(body, variable, low, high)
        case "prod", [low, high]:
            if (high - low).is_Integer and high - low > _MAX_WHOLE:
                raise UnsureError("a product of too many factors")
            return sympy.Product(body, (variable, low, high))
        case (("lim" | "lim+" | "lim-"), [point]):
            # At infinity there is one side only.
            direction = "-" if point is sympy.oo else "+" if point == -sympy.oo else _DIRECTIONS[kind]
            return _limit(body, variable, point, direction)
        case _:
            raise UnsureError(kind)


def _sum(body: Any, variable: Any, low: Any, high: Any) -> Any:
    """Make a sum; one of very many terms only if its closed form is a rational function."""
    span = high - low
    # SymPy would add up the terms one by one.
    if not (span.is_Integer and span > _MAX_WHOLE):
        return sympy.Sum(body, (variable, low, high))
    # The number of terms as a symbol, put in only when the sum is closed.
    last = sympy.Dummy(integer=True, positive=True)
    form = sympy.Sum(body.doit(), (variable, low, last)).doit()
    if not form.is_rational_function(last):
        raise UnsureError("a sum of too many terms")
    return form.subs(last, high)


def _limit(body: Any, variable: Any, point: Any, direction: str) -> Any:
    """Compute a limit at once; with a variable of unknown sign, since the place decides its sign."""
    plain = sympy.Dummy(real=True) if direction == "+-" else variable
    body = body.doit().subs(variable, plain)
    limit = sympy.limit(body, plain, point, direction)
    if limit.has(sympy.Limit, sympy.AccumBounds) or limit is sympy.nan:
        raise UnsureError("a limit that is not known")
    return limit


def closed_form(node: Node, whole: frozenset[str]) -> tuple[Any, dict[str, Any]]:
    """Return a tree's closed form, as far as SymPy can, and its names; those in `whole` are of integers.

    Raises:
        UnsureError: SymPy has no expression for it.
    """
    builder = Builder(whole)
    try:
        # `doit` computes what was built unevaluated.
        expression = builder.build(node).doit()
    except FAILURES as error:
        raise unsure(error) from error
    return expression, builder.names


def value_at(expression: Any, names: Mapping[str, Any], places: Mapping[str, Any]) -> Any:
    """Return the value, which may be infinite, of an expression of `closed_form` at a place.

    Raises:
        UnsureError: It has no value there.
    """
    substitutions = {
        symbol: sympy.Rational(str(places[name])) for name, symbol in names.items() if name in places
    }
    try:
        value = expression.subs(substitutions).evalf(DIGITS)
        if value in (sympy.oo, -sympy.oo):
            return mpf("inf") if value is sympy.oo else mpf("-inf")
        if not value.is_number or value.has(sympy.nan, sympy.zoo):
            raise UnsureError("no value")
        real, imaginary = value.as_real_imag()
        if not (real.is_Float or real.is_Rational) or not (imaginary.is_Float or imaginary.is_Rational):
            raise UnsureError("no number")
        parts = [mpf(str(sympy.N(part, DIGITS))) for part in (real, imaginary)]
        return mpc(*parts) if parts[1] else parts[0]
    except FAILURES as error:
        raise unsure(error) from error
