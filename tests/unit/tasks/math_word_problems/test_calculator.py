"""The calculator: right on everything that it computes, and readable about everything that it does not."""

import math
import operator
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ors_server_tasks.math_word_problems.calculator import CalculatorError, calculate
from tests.fixtures.case_tables import tables

TABLES = tables("calculator")


SURROGATE = (
    "\ud800",
    "'\\ud800' is not allowed here: use digits, + - * / // % ** and parentheses (at position 1)",
)

TOO_MUCH = {
    "a tower of powers": "9**9**9",
    "a higher tower": "9**9**9**9**9",
    "a large power": "2**4097",
    "a small power": "2**-4097",
    "a long exponent": "2**" + "9" * 400,
    "a fraction to a power": "(1/3)**9999",
    "a product of powers": "10**1000 * 10**1000",
    "a sum of far fractions": "1/(10**700+1) + 1/(10**700+3)",
    "repeated squares": "((((((9**99)**2)**2)**2)**2)**2)**2",
    "a common multiple": "lcm(10**700+1, 10**700+3)",
    "a remainder of far numbers": "(10**1000) % (1/10**1000)",
    "10,000 parentheses": "(" * 10_000,
    "10,000 closed parentheses": "(" * 5_000 + "1" + ")" * 5_000,
    "parentheses in the length": "(" * 240 + "1" + ")" * 240,
    "signs": "-" * 499 + "1",
    "functions": "abs(" * 90 + "1" + ")" * 90,
    "powers in a row": "1" + "**1" * 160,
    "a long text": "1+" * 100_000 + "1",
}


@pytest.mark.parametrize(("expression", "expected"), TABLES["values"])
def test_an_expression_has_its_value(expression, expected):
    assert calculate(expression) == expected


@pytest.mark.parametrize(("expression", "message"), [*TABLES["mistakes"], SURROGATE])
def test_a_mistake_is_told_with_its_place(expression, message):
    with pytest.raises(CalculatorError) as caught:
        calculate(expression)
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith(f"(at position {caught.value.position})")


@pytest.mark.parametrize("expression", TOO_MUCH.values(), ids=TOO_MUCH)
def test_what_would_be_too_much_is_refused_before_it_is_computed(expression):
    with pytest.raises(CalculatorError, match=r"too many|nested more than 50|at most 500"):
        calculate(expression)


def test_the_largest_numbers_are_computed_and_written():
    assert calculate("2**4095") == str(2**4095)
    assert calculate("9**1000") == str(9**1000)
    assert len(calculate("1/3**2500")) > 1000


def test_a_long_chain_needs_no_nesting():
    assert calculate("1" + "+1" * 249) == "250"
    assert calculate("1" + "*1" * 249) == "1"


def test_powers_of_rounded_numbers_stay_short():
    assert calculate("sqrt(2)" + "*sqrt(2)" * 49) == "~33554432.0000000"
    assert calculate("sqrt(2) / 10**1000") == "~1.41421356237310E-1000"


NUMBERS = st.one_of(
    st.integers(0, 10**6).map(str),
    st.decimals(0, 10**4, places=3, allow_nan=False, allow_infinity=False).map(lambda value: f"{value:f}"),
)
EXPRESSIONS = st.recursive(
    NUMBERS.map(lambda text: (text, Fraction(text))),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-*/"), inner, inner).map(
            lambda parts: joined(*parts),
        ),
        inner.map(lambda part: part and (f"-({part[0]})", -part[1])),
    ),
    max_leaves=12,
)
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def joined(sign, left, right):
    """An expression of two others with its value; `None` where it has none."""
    if left is None or right is None or (sign == "/" and right[1] == 0):
        return None
    return f"({left[0]}) {sign} ({right[0]})", OPERATORS[sign](left[1], right[1])


def value_of(text: str) -> Fraction:
    """The exact value that a result says."""
    return Fraction(text.split(" ", 1)[0])


@given(EXPRESSIONS)
def test_arithmetic_agrees_with_fractions(expression):
    assume(expression is not None)
    text, value = expression
    assume(len(text) <= 500)
    assert value_of(calculate(text)) == value


@given(
    st.lists(st.tuples(st.sampled_from(["+", "-", "*", "//", "%"]), st.integers(1, 99)), max_size=20),
    st.integers(0, 99),
)
def test_precedence_agrees_with_python(steps, start):
    text = str(start) + "".join(f" {sign} {number}" for sign, number in steps)
    assert calculate(text) == str(eval(text))  # noqa: S307 - the text is made of digits and five operators


@given(st.integers(-20, 20), st.integers(-20, 20))
def test_powers_agree_with_fractions(base, exponent):
    assume(base or exponent >= 0)
    assert value_of(calculate(f"({base}) ** ({exponent})")) == Fraction(base) ** exponent


@given(st.integers(0, 10**12))
def test_square_roots_agree_with_the_standard_library(number):
    root = calculate(f"sqrt({number})")
    if math.isqrt(number) ** 2 == number:
        assert root == str(math.isqrt(number))
    else:
        assert root.startswith("~")
        assert math.isclose(float(root[1:]), math.sqrt(number))


@given(st.text(alphabet="0123456789.+-*/%^(), esqrtmaxround\u00d7", max_size=60))
def test_any_text_of_its_alphabet_gives_a_value_or_a_readable_error(text):
    judge(text)


@given(st.text(max_size=600))
def test_any_text_gives_a_value_or_a_readable_error(text):
    judge(text)


def judge(text: str) -> None:
    position = 1
    try:
        assert calculate(text)
    except CalculatorError as error:
        position = error.position
    assert 1 <= position <= len(text) + 1


@given(st.text(alphabet="0123456789.+-*/%^(), esqrt\u00d7\u0663\ud800", max_size=40))
def test_errors_are_plain_letters(text):
    message = ""
    try:
        calculate(text)
    except CalculatorError as error:
        message = str(error)
    assert message.isascii()
