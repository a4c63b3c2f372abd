"""The functions of answers, in either of mpmath's contexts: floats (`fp`) or any precision (`mp`)."""

from collections.abc import Callable
from typing import Any, Final

from ors_server.rewards.math.algebra.unsure import UnsureError

Function = Callable[..., Any]
_MAX_WHOLE: Final = 3_000
"""Greatest argument of a factorial and the like."""


def _bounded(function: Function) -> Function:
    def call(*arguments: Any) -> Any:
        if any(abs(argument) > _MAX_WHOLE for argument in arguments):
            raise UnsureError("a factorial of a large number")
        return function(*arguments)

    return call


def _real(value: Any) -> Any:
    if isinstance(value, complex) or bool(getattr(value, "imag", 0.0)):
        if abs(value.imag) > 1e-12 * max(1, abs(value.real)):
            raise UnsureError("an order of complex numbers")
        return value.real
    return value


def _root(ctx: Any) -> Function:
    def root(radicand: Any, index: Any) -> Any:
        count = int(_real(index))
        if count != index or count == 0:
            return ctx.power(radicand, 1 / index)
        if count == 2:  # noqa: PLR2004  (a square root)
            return ctx.sqrt(radicand)
        if count % 2 and not getattr(radicand, "imag", 0) and _real(radicand) < 0:
            return -ctx.power(-_real(radicand), ctx.one / count)
        return ctx.power(radicand, ctx.one / count)

    return root


def _rounding(ctx: Any, name: str) -> Function:
    function: Function = getattr(ctx, name)

    def call(value: Any) -> Any:
        near = ctx.nint(_real(value))
        return near if abs(near - value) < 1e-9 else function(_real(value))  # noqa: PLR2004  (noise)

    return call


def _pick(choose: Callable[[Any], Any]) -> Function:
    return lambda *values: choose([_real(value) for value in values])


def _by_order(function: Function) -> Function:
    """Convert the first argument to an integer."""

    def call(order: Any, value: Any) -> Any:
        return function(int(_real(order)), value)

    return call


def _logarithm(ctx: Any, base: Any) -> Function:
    def call(value: Any, own: Any = None) -> Any:
        divisor = base if own is None else own
        return ctx.ln(value) if divisor is None else ctx.ln(value) / ctx.ln(divisor)

    return call


def _sign(ctx: Any) -> Function:
    def call(value: Any) -> Any:
        return ctx.sign(_real(value))

    return call


def _modulo(value: Any, modulus: Any) -> Any:
    return _real(value) % _real(modulus)


def functions(ctx: Any) -> dict[str, Function]:
    """Return the functions by name, in one of mpmath's contexts."""
    plain = (
        "sin cos tan sec csc cot sinh cosh tanh sech csch coth asin acos atan asec acsc acot asinh acosh "
        "atanh exp conj re im erf erfc erfi si ci ei li zeta altzeta sinc lambertw beta polylog besselj "
        "bessely besseli besselk harmonic digamma"
    )
    table = {name: getattr(ctx, name) for name in plain.split() if hasattr(ctx, name)}  # some lack in `fp`
    return table | {
        "ln": ctx.ln,
        "log": _logarithm(ctx, None),
        "lg": _logarithm(ctx, 10),
        "abs": abs,
        "sgn": _sign(ctx),
        "root": _root(ctx),
        "floor": _rounding(ctx, "floor"),
        "ceil": _rounding(ctx, "ceil"),
        "max": _pick(max),
        "min": _pick(min),
        "factorial": _bounded(ctx.factorial),
        "factorial2": _bounded(ctx.fac2),
        "gamma": _bounded(ctx.gamma),
        "binom": _bounded(ctx.binomial),
        "permutations": _bounded(ctx.ff),
        "mod": _modulo,
        "polygamma": _by_order(ctx.psi),
        "legendre": _by_order(ctx.legendre),
        "chebyt": ctx.chebyt,
        "chebyu": ctx.chebyu,
    }
