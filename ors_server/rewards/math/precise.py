"""Complex numbers of 200 bits, over the pure functions of `mpmath.libmp`.

There is no context and no global precision. The constants that `libmp` caches (digits of π, e, ln 2) are
computed once on import, deeper than any call here needs, so that threads never see the cache change.

`libmp` is not public in mpmath, and only this module uses it. It was checked against mpmath 1.3.0;
`tests/contract/test_mpmath.py` names what another version changed.
"""

from fractions import Fraction
from typing import Any, Final

from mpmath import libmp  # pyright: ignore[reportMissingTypeStubs]  # mpmath ships no type stubs

from ors_server.rewards.math.limits import (
    ANGLE_BITS,
    BITS,
    MAGNITUDE,
    InexactError,
    LimitError,
    UndefinedError,
)

_lib: Any = libmp
Real = Any
"""A real number of libmp: a tuple of sign, mantissa, exponent and bit count."""
Complex = tuple[Real, Real]
"""Real and imaginary part."""

_ROUND: Final = "n"
for _fill in (_lib.mpf_pi, _lib.mpf_e, _lib.mpf_ln2, _lib.mpf_ln10):
    _fill(2 * MAGNITUDE + 4 * BITS, _ROUND)

ZERO: Final[Complex] = (_lib.fzero, _lib.fzero)
ONE: Final[Complex] = (_lib.fone, _lib.fzero)
I: Final[Complex] = (_lib.fzero, _lib.fone)  # noqa: E741  (its name in mathematics)
PI: Final[Complex] = (_lib.mpf_pi(BITS, _ROUND), _lib.fzero)
E: Final[Complex] = (_lib.mpf_e(BITS, _ROUND), _lib.fzero)


def from_rational(value: int | Fraction) -> Complex:
    """Round a rational number."""
    if isinstance(value, int):
        return _lib.from_int(value, BITS, _ROUND), _lib.fzero
    return _lib.from_rational(value.numerator, value.denominator, BITS, _ROUND), _lib.fzero


def is_real(value: Complex) -> bool:
    """Return whether the imaginary part is zero but for rounding."""
    return bool(value[1] == _lib.fzero) or magnitude((value[1], _lib.fzero)) < magnitude(value) - BITS // 2


def is_zero(value: Complex) -> bool:
    """Return whether a number is zero."""
    return bool(value[0] == _lib.fzero and value[1] == _lib.fzero)


def is_negative(value: Complex) -> bool:
    """Return whether the real part is below zero."""
    return bool(value[0][0])


def magnitude(value: Complex) -> int:
    """Return the binary logarithm of a number's size, rounded up; very low for zero."""
    return max((part[2] + part[3] if part[1] else -(1 << 60)) for part in value)


def whole(value: Complex) -> int | None:
    """Return the integer that a number is, or `None`."""
    if value[1] != _lib.fzero or value[0][2] < 0 or magnitude(value) > BITS:
        return None
    return int(_lib.to_int(value[0]))


def nearest(value: Complex) -> int:
    """Return the integer nearest to a real number.

    Raises:
        InexactError: It is not real, or so great that its integer is not known.
    """
    if not is_real(value) or magnitude(value) > BITS // 2:
        raise InexactError("an integer")
    return int(_lib.to_int(_lib.mpf_nint(value[0])))


def to_fraction(value: Complex, grain: int) -> Fraction:
    """Return a real number as a fraction with the denominator `grain`.

    Raises:
        InexactError: It is not real, or too great.
    """
    if not is_real(value) or magnitude(value) > BITS // 2:
        raise InexactError("a real number")
    scaled = _lib.mpf_mul(value[0], _lib.from_int(grain), BITS, _ROUND)
    return Fraction(int(_lib.to_int(_lib.mpf_nint(scaled))), grain)


def shorten(value: Complex) -> tuple[tuple[int, int], ...]:
    """Return mantissas and exponents, rounded to 80 bits, so that rounding errors vanish."""
    parts = (_lib.mpf_pos(part, 80, _ROUND) for part in value)
    return tuple((-int(part[1]) if part[0] else int(part[1]), int(part[2])) for part in parts)


def add(first: Complex, second: Complex) -> Complex:
    """Add two numbers."""
    imaginary = _lib.fzero
    if first[1] != _lib.fzero or second[1] != _lib.fzero:
        imaginary = _lib.mpf_add(first[1], second[1], BITS, _ROUND)
    return _lib.mpf_add(first[0], second[0], BITS, _ROUND), imaginary


def negative(value: Complex) -> Complex:
    """Return a number with the opposite sign."""
    return _lib.mpf_neg(value[0]), _lib.mpf_neg(value[1])


def subtract(first: Complex, second: Complex) -> Complex:
    """Subtract a number from another."""
    return add(first, negative(second))


def multiply(first: Complex, second: Complex) -> Complex:
    """Multiply two numbers."""
    if first[1] == _lib.fzero and second[1] == _lib.fzero:
        return _lib.mpf_mul(first[0], second[0], BITS, _ROUND), _lib.fzero
    return _as_complex(_lib.mpc_mul(first, second, BITS, _ROUND))


def divide(first: Complex, second: Complex) -> Complex:
    """Divide two numbers; raises `UndefinedError` if the divisor is zero."""
    if is_zero(second):
        raise UndefinedError("a division by zero")
    if first[1] == _lib.fzero and second[1] == _lib.fzero:
        return _lib.mpf_div(first[0], second[0], BITS, _ROUND), _lib.fzero
    return _as_complex(_lib.mpc_div(first, second, BITS, _ROUND))


def absolute(value: Complex) -> Complex:
    """Return a number's size."""
    if value[1] == _lib.fzero:
        return _lib.mpf_abs(value[0]), _lib.fzero
    return _lib.mpc_abs(value, BITS, _ROUND), _lib.fzero


def power(base: Complex, exponent: Complex) -> Complex:
    """Raise a number to a power (principal value).

    Raises:
        UndefinedError: Zero is raised to a power that is not positive.
        LimitError: The result is beyond the grader's range.
    """
    if is_zero(exponent):
        return ONE
    if is_zero(base) and (not is_real(exponent) or is_negative(exponent)):
        raise UndefinedError("a division by zero")
    if is_zero(base):
        return ZERO
    bits = MAGNITUDE.bit_length()
    if magnitude(exponent) > bits and magnitude(multiply(exponent, apply("log", base))) > 2 * bits:
        raise LimitError("a power beyond the range of the grader")  # the logarithm itself is always cheap
    count = whole(exponent)
    if base[1] == _lib.fzero and count is not None:
        return _lib.mpf_pow_int(base[0], count, BITS, _ROUND), _lib.fzero
    if count is not None:
        return _as_complex(_lib.mpc_pow_int(base, count, BITS, _ROUND))
    if base[1] == _lib.fzero and exponent[1] == _lib.fzero and not is_negative(base):
        return _lib.mpf_pow(base[0], exponent[0], BITS, _ROUND), _lib.fzero
    return _as_complex(_lib.mpc_pow(base, exponent, BITS, _ROUND))


def _as_complex(value: Any) -> Complex:
    return value[0], value[1]


def root(radicand: Complex, index: int) -> Complex:
    """Return a root; an odd root of a negative number is negative, as in school."""
    if radicand[1] == _lib.fzero and is_negative(radicand) and index % 2:
        return negative(root(negative(radicand), index))
    if index == 2:  # noqa: PLR2004  (the square root has a faster algorithm)
        if radicand[1] == _lib.fzero and not is_negative(radicand):
            return _lib.mpf_sqrt(radicand[0], BITS, _ROUND), _lib.fzero
        return _as_complex(_lib.mpc_sqrt(radicand, BITS, _ROUND))
    return power(radicand, from_rational(Fraction(1, index)))


_REAL: Final = {
    "exp": _lib.mpf_exp,
    "log": _lib.mpf_log,
    "sin": _lib.mpf_sin,
    "cos": _lib.mpf_cos,
    "tan": _lib.mpf_tan,
    "sinh": _lib.mpf_sinh,
    "cosh": _lib.mpf_cosh,
    "tanh": _lib.mpf_tanh,
    "asin": _lib.mpf_asin,
    "acos": _lib.mpf_acos,
    "atan": _lib.mpf_atan,
    "asinh": _lib.mpf_asinh,
    "acosh": _lib.mpf_acosh,
    "atanh": _lib.mpf_atanh,
}
_COMPLEX: Final = {
    "exp": _lib.mpc_exp,
    "log": _lib.mpc_log,
    "sin": _lib.mpc_sin,
    "cos": _lib.mpc_cos,
    "tan": _lib.mpc_tan,
    "sinh": _lib.mpc_sinh,
    "cosh": _lib.mpc_cosh,
    "tanh": _lib.mpc_tanh,
    "asin": _lib.mpc_asin,
    "acos": _lib.mpc_acos,
    "atan": _lib.mpc_atan,
    "asinh": _lib.mpc_asinh,
    "acosh": _lib.mpc_acosh,
    "atanh": _lib.mpc_atanh,
}
_CIRCULAR: Final = frozenset({"sin", "cos", "tan"})
_UNBOUNDED: Final = frozenset({"log", "atan", "asinh", "acosh", "tanh"})
ELEMENTARY: Final = frozenset(_REAL)
"""Names of the functions of `apply`."""


def apply(name: str, value: Complex) -> Complex:
    """Apply an elementary function (principal value).

    Raises:
        UndefinedError: The argument is a pole.
        LimitError: The argument is beyond the grader's range.
    """
    is_angle = name in _CIRCULAR and value[1] == _lib.fzero
    max_bits = ANGLE_BITS if is_angle else MAGNITUDE.bit_length()
    if magnitude(value) > max_bits and name not in _UNBOUNDED:
        raise LimitError(f"{name} of a number beyond the range of the grader")
    if name == "log" and is_zero(value):
        raise UndefinedError("a logarithm of zero")
    try:
        if value[1] == _lib.fzero:
            try:
                return _REAL[name](value[0], BITS, _ROUND), _lib.fzero
            except _lib.ComplexResult:
                pass
        return _as_complex(_COMPLEX[name](value, BITS, _ROUND))
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise UndefinedError(name) from error
