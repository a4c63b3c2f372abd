"""The calculator: right on everything that it computes, and readable about everything that it does not."""

import math
import operator
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ors_server_tasks.math_word_problems.calculator import CalculatorError, calculate

VALUES = [
    ("12 * (3 + 1/4)", "39"),
    ("1 - 2 - 3", "-4"),
    ("2 * 3 + 4 * 5", "26"),
    ("8 / 2 / 2", "2"),
    ("0.1 + 0.2", "0.3"),
    (".5 + 1.", "1.5"),
    ("7 // 2", "3"),
    ("-7 // 2", "-4"),
    ("7 % 3", "1"),
    ("-7 % 3", "2"),
    ("7 % -3", "-2"),
    ("7.5 % 2", "1.5"),
    ("-2 ** 2", "-4"),
    ("(-2) ** 2", "4"),
    ("2 ** 3 ** 2", "512"),
    ("2 ** -1", "0.5"),
    ("2 ^ 10", "1024"),
    ("0 ** 0", "1"),
    ("0 ** 5", "0"),
    ("(-1) ** 99999999999999999999", "-1"),
    ("1 ** (9 ** 99)", "1"),
    ("2 * -3", "-6"),
    ("+3", "3"),
    ("----1", "1"),
    ("3 \u00d7 4 \u00f7 2 \u2212 1 \u00b7 2", "4"),
    ("10 / 3", "10/3 (~3.33333333333333)"),
    ("-1 / 3", "-1/3 (~-0.333333333333333)"),
    ("1 / 8", "0.125"),
    ("1 / 1024", "0.0009765625"),
    ("10 ** 30 / 7", "1000000000000000000000000000000/7 (~1.42857142857143E+29)"),
    ("1\n+\t2", "3"),
    ("sqrt(144)", "12"),
    ("sqrt(9/4)", "1.5"),
    ("sqrt(2)", "~1.41421356237310"),
    ("sqrt(0)", "0"),
    ("sqrt(2) * 0", "~0"),
    ("floor(sqrt(2))", "~1"),
    ("abs(-3.5)", "3.5"),
    ("min(3, 1/2, 2)", "0.5"),
    ("max(1,234)", "234"),
    ("round(2.5)", "3"),
    ("round(-2.5)", "-3"),
    ("round(2.345, 2)", "2.35"),
    ("round(1234, -2)", "1200"),
    ("round(2.4)", "2"),
    ("floor(-1.5)", "-2"),
    ("ceil(-1.5)", "-1"),
    ("gcd(12, 18, 27)", "3"),
    ("lcm(4, 6, 10)", "60"),
    ("lcm(4, 0)", "0"),
    ("gcd(-4)", "4"),
    ("min(max(1, 2), 3)", "2"),
]

MISTAKES = [
    ("", "the expression is empty (at position 1)"),
    ("  ", "the expression is empty (at position 1)"),
    ("1 +", "the expression ends too early (at position 4)"),
    ("(1", "the expression ends too early (at position 3)"),
    ("1)", "')' is not expected here (at position 2)"),
    ("()", "')' is not expected here (at position 2)"),
    ("* 2", "'*' is not expected here (at position 1)"),
    ("(2)(3)", "'(' is not expected here (at position 4)"),
    ("2(3)", "an operator is missing: write 2*(3) for 2(3) and 5*10**3 for 5e3 (at position 2)"),
    ("1e5", "an operator is missing: write 2*(3) for 2(3) and 5*10**3 for 5e3 (at position 2)"),
    ("1.2.3", "an operator is missing: write 2*(3) for 2(3) and 5*10**3 for 5e3 (at position 4)"),
    ("1_000", "an operator is missing: write 2*(3) for 2(3) and 5*10**3 for 5e3 (at position 2)"),
    ("1,234 + 1", "a comma is not allowed in a number: write 1234 for 1,234 (at position 2)"),
    ("(1,234)", "a comma is not allowed in a number: write 1234 for 1,234 (at position 3)"),
    (
        "20% of 50",
        "% is the remainder of a division and needs a number after it; write 20/100 for 20% (at position 3)",
    ),
    (
        "50 * 20%",
        "% is the remainder of a division and needs a number after it; write 20/100 for 20% (at position 8)",
    ),
    (
        "20% + 5",
        "% is the remainder of a division and needs a number after it; write 20/100 for 20% (at position 3)",
    ),
    ("$5", "'$' is not allowed here: leave out the currency sign (at position 1)"),
    ("2 + 2 = 4", "'=' is not allowed here: write one expression without an equals sign (at position 7)"),
    ("[1]", "'[' is not allowed here: use round parentheses (at position 1)"),
    ("..", "'.' is not allowed here: a number has one decimal point, with a digit beside it (at position 1)"),
    ("\u0663", "'\\u0663' is not allowed here: use digits, + - * / // % ** and parentheses (at position 1)"),
    ("\ud800", "'\\ud800' is not allowed here: use digits, + - * / // % ** and parentheses (at position 1)"),
    ("x", "'x' has no value: names stand only for functions, as in sqrt(2) (at position 1)"),
    ("__import__('os')", '"\'" is not allowed here'),
    ("__import__(0)", "there is no function '__import__'; there are sqrt, abs,"),
    ("().__class__", "'.' is not allowed here"),
    ("lambda: 0", "':' is not allowed here"),
    ("sqrt()", "')' is not expected here (at position 6)"),
    ("sqrt(1,234)", "sqrt takes 1 argument, not 2; a comma separates arguments, so write 1234 for 1,234"),
    ("round(1, 2, 3)", "round takes 1 or 2 arguments, not 3;"),
    ("round(1, 51)", "round takes a whole number of decimal places from -50 to 50 (at position 1)"),
    ("round(1, 1/2)", "round takes a whole number of decimal places from -50 to 50 (at position 1)"),
    ("sqrt(-1)", "a negative number has no square root here (at position 1)"),
    ("gcd(1.5, 2)", "gcd and lcm take whole numbers only (at position 1)"),
    ("1 / 0", "division by zero (at position 3)"),
    ("1 // (2 - 2)", "division by zero (at position 3)"),
    ("1 % 0", "division by zero (at position 3)"),
    ("0 ** -1", "division by zero (at position 3)"),
    ("2 ** 0.5", "an exponent must be a whole number; use sqrt for square roots (at position 3)"),
]

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


@pytest.mark.parametrize(("expression", "expected"), VALUES)
def test_an_expression_has_its_value(expression, expected):
    assert calculate(expression) == expected


@pytest.mark.parametrize(("expression", "message"), MISTAKES)
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
