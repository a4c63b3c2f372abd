"""What `rewards/math/precise.py` takes for granted of `mpmath.libmp`; a failure names what changed."""

import ast
import cmath
import inspect
import math
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from ors_server.rewards.math import precise

libmp: Any = import_module("mpmath.libmp")

ONE_ARGUMENT = (
    "exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "atanh",
)  # fmt: skip
"""Functions of one number that both forms have, at a point where all are real; acosh stands alone."""
CONSTANTS = {"mpf_pi": math.pi, "mpf_e": math.e, "mpf_ln2": math.log(2), "mpf_ln10": math.log(10)}
SIGNATURES = {
    "from_int": "n prec rnd",
    "from_rational": "p q prec rnd",
    "to_int": "s",
    "mpf_abs": "s",
    "mpf_neg": "s",
    "mpf_nint": "s",
    "mpf_pos": "s prec rnd",
    "mpf_add": "s t prec rnd",
    "mpf_mul": "s t prec rnd",
    "mpf_div": "s t prec rnd",
    "mpf_pow": "s t prec rnd",
    "mpf_pow_int": "s n prec rnd",
    "mpf_sqrt": "s prec rnd",
    "mpc_abs": "z prec rnd",
    "mpc_mul": "z w prec rnd",
    "mpc_div": "z w prec rnd",
    "mpc_pow": "z w prec rnd",
    "mpc_pow_int": "z n prec rnd",
    "mpc_sqrt": "z prec rnd",
    **{f"mpf_{name}": "x prec rnd" for name in (*ONE_ARGUMENT, "acosh")},
    **{f"mpc_{name}": "z prec rnd" for name in (*ONE_ARGUMENT, "acosh")},
    **dict.fromkeys(CONSTANTS, "prec rnd"),
}
VALUES = {"fzero", "fone", "ComplexResult"}
BITS, NEAREST = 200, "n"


def real(number: float) -> Any:
    return libmp.from_float(number)


def test_the_version_is_one_that_was_checked():
    message = "mpmath moved: check rewards/math/precise.py against it, then its docstring, pin and this test"
    assert version("mpmath").split(".")[:2] == ["1", "3"], message


def test_the_table_names_what_the_module_uses():
    tree = ast.parse(Path(precise.__file__).read_text())
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "_lib"
    }
    assert used == SIGNATURES.keys() | VALUES


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_function_takes_its_arguments_in_order(name):
    parameters = list(inspect.signature(getattr(libmp, name)).parameters)
    wanted = SIGNATURES[name].split()
    assert parameters[: len(wanted)] == wanted


def test_a_number_is_a_sign_a_mantissa_an_exponent_and_a_bit_count():
    assert libmp.fzero == (0, 0, 0, 0)
    assert libmp.fone == (0, 1, 0, 1)
    assert libmp.from_int(-6, BITS, NEAREST) == (1, 3, 1, 2)
    assert libmp.to_int(libmp.from_int(-6, BITS, NEAREST)) == -6


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_has_its_value_and_its_digits_are_kept(name):
    assert libmp.to_float(getattr(libmp, name)(BITS, NEAREST)) == pytest.approx(CONSTANTS[name], rel=1e-15)
    of_module = getattr(import_module("mpmath.libmp.libelefun"), f"{name.removeprefix('mpf_')}_fixed")
    inner = inspect.getclosurevars(of_module).nonlocals["f"]
    kept = inner.memo_prec
    getattr(libmp, name)(BITS, NEAREST)
    assert inner.memo_prec == kept > BITS


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_a_function_has_its_value_on_both_forms(name):
    assert libmp.to_float(getattr(libmp, f"mpf_{name}")(real(0.5), BITS, NEAREST)) == pytest.approx(
        getattr(math, name)(0.5), rel=1e-15
    )
    point = 0.5 + 0.25j
    found = getattr(libmp, f"mpc_{name}")((real(0.5), real(0.25)), BITS, NEAREST)
    assert complex(*map(libmp.to_float, found)) == pytest.approx(getattr(cmath, name)(point), rel=1e-15)


def test_the_inverse_hyperbolic_cosine_has_its_value():
    assert libmp.to_float(libmp.mpf_acosh(real(2.0), BITS, NEAREST)) == pytest.approx(math.acosh(2.0))
    found = libmp.mpc_acosh((real(2.0), real(1.0)), BITS, NEAREST)
    assert complex(*map(libmp.to_float, found)) == pytest.approx(cmath.acosh(2 + 1j))


@pytest.mark.parametrize(
    ("name", "at"), [("asin", 2.0), ("acos", 2.0), ("log", -1.0), ("acosh", 0.5), ("atanh", 2.0)]
)
def test_a_real_function_says_when_its_value_is_complex(name, at):
    with pytest.raises(libmp.ComplexResult):
        getattr(libmp, f"mpf_{name}")(real(at), BITS, NEAREST)


THREE, TWO = (libmp.from_float(number) for number in (3.0, 2.0))
FIRST, SECOND = (THREE, TWO), (TWO, THREE)
"""The complex numbers 3 + 2j and 2 + 3j."""


@pytest.mark.parametrize(
    ("name", "arguments", "value"),
    [
        ("mpf_add", (THREE, TWO), 5),
        ("mpf_mul", (THREE, TWO), 6),
        ("mpf_div", (THREE, TWO), 1.5),
        ("mpf_pow", (TWO, libmp.from_float(0.5)), pytest.approx(math.sqrt(2), rel=1e-15)),
        ("mpf_pow_int", (TWO, -2), 0.25),
        ("mpf_sqrt", (TWO,), pytest.approx(math.sqrt(2), rel=1e-15)),
        ("from_rational", (1, 3), 1 / 3),
        ("mpc_abs", (FIRST,), pytest.approx(abs(3 + 2j))),
        ("mpc_mul", (FIRST, SECOND), 13j),
        ("mpc_div", (FIRST, SECOND), pytest.approx((3 + 2j) / (2 + 3j))),
        ("mpc_pow_int", (FIRST, 2), 5 + 12j),
        ("mpc_pow", (FIRST, SECOND), pytest.approx((3 + 2j) ** (2 + 3j))),
        ("mpc_sqrt", (FIRST,), pytest.approx(cmath.sqrt(3 + 2j))),
    ],
)
def test_the_arithmetic_is_right(name, arguments, value):
    found = getattr(libmp, name)(*arguments, BITS, NEAREST)
    is_complex = name.startswith("mpc_") and name != "mpc_abs"
    assert (complex(*map(libmp.to_float, found)) if is_complex else libmp.to_float(found)) == value


def test_signs_and_roundings_are_right():
    assert libmp.to_float(libmp.mpf_neg(TWO)) == -2
    assert libmp.to_float(libmp.mpf_abs(libmp.mpf_neg(TWO))) == 2
    assert libmp.to_int(libmp.mpf_nint(real(2.6))) == 3
    assert libmp.to_float(libmp.mpf_pos(THREE, 80, NEAREST)) == 3
