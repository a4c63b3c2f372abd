"""Which texts count as a number, and which number they are."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server_tasks.math_word_problems.answers import AnswerError, parse_answer
from ors_server_tasks.math_word_problems.generator import SPLIT_SIZES, generate
from ors_server_tasks.math_word_problems.units import unit_words

READ = [
    ("12", "", 12),
    ("  12\n", "", 12),
    ("12.", "", 12),
    ("+12", "", 12),
    ("-12", "", -12),
    ("\u221212", "", -12),
    ("- 12", "", -12),
    ("007", "", 7),
    ("1,234", "", 1234),
    ("1,234,567.5", "", Fraction(2469135, 2)),
    ("12.50", "", Fraction(25, 2)),
    (".5", "", Fraction(1, 2)),
    ("7/2", "", Fraction(7, 2)),
    ("7 / 2", "", Fraction(7, 2)),
    ("-7/2.", "", Fraction(-7, 2)),
    ("14/4", "", Fraction(7, 2)),
    ("3 1/2", "", Fraction(7, 2)),
    ("-3 1/2", "", Fraction(-7, 2)),
    ("0 1/2", "", Fraction(1, 2)),
    ("$12.50", "$", Fraction(25, 2)),
    ("$ 12.50", "$", Fraction(25, 2)),
    ("-$12.50", "$", Fraction(-25, 2)),
    ("$-12.50", "$", Fraction(-25, 2)),
    ("$1,250", "$", 1250),
    ("12.50 dollars.", "$", Fraction(25, 2)),
    ("1 dollar", "$", 1),
    ("12.50$", "$", Fraction(25, 2)),
    ("12.50", "$", Fraction(25, 2)),
    ("15%", "%", 15),
    ("15 %", "%", 15),
    ("15 percent", "%", 15),
    ("15", "%", 15),
    ("5 apples", "apples", 5),
    ("1 apple.", "apples", 1),
    ("5 Apples", "apples", 5),
    ("2 peaches", "peaches", 2),
    ("1 peach", "peaches", 1),
    ("1 box", "boxes", 1),
    ("2.5 hours", "hours", Fraction(5, 2)),
    ("3 1/3 hours", "hours", Fraction(10, 3)),
    ("5km", "kilometers", 5),
    ("80 km/h", "kilometers per hour", 80),
    ("80 kilometers per hour", "kilometers per hour", 80),
    ("6 m\u00b2", "square meters", 6),
    ("6 square meters", "square meters", 6),
]

REFUSED = [
    ("", ""),
    (" . ", ""),
    ("twelve", ""),
    ("12 13", ""),
    ("x = 12", ""),
    ("The answer is 12", ""),
    ("\\boxed{12}", ""),
    ("12;", ""),
    ("12..", ""),
    ("--12", ""),
    ("\u221a2", ""),
    ("1e3", ""),
    ("1_000", ""),
    ("12,34", ""),
    ("1,2345", ""),
    ("0,123", ""),
    ("1234,567", ""),
    ("1.2.3", ""),
    ("7/2/1", ""),
    ("7/-2", ""),
    ("1.5/2", ""),
    ("7/0", ""),
    ("1 2/0", ""),
    ("3 5/2", ""),
    ("3 1/2 1/2", ""),
    ("2*6", ""),
    ("nan", ""),
    ("inf", ""),
    ("0x12", ""),
    ("\u0661\u0662", ""),
    ("\uff11\uff12", ""),
    ("\u00bd", ""),
    ("$12", ""),
    ("$12", "apples"),
    ("$12 dollars", "$"),
    ("$$12", "$"),
    ("\u20ac12", "$"),
    ("1250 cents", "$"),
    ("15%", ""),
    ("15%", "$"),
    ("15%%", "%"),
    ("15% percent", "%"),
    ("12 pears", "apples"),
    ("12 apples and 3 pears", "apples"),
    ("apples", "apples"),
    ("apples 12", "apples"),
    ("12 apples", ""),
    ("120 minutes", "hours"),
    ("6 square meters", "meters"),
    ("6 meters", "square meters"),
    ("1" * 101, ""),
    ("\ud800", ""),
    ("12\x00", ""),
]


@pytest.mark.parametrize(("text", "unit", "expected"), READ)
def test_a_number_is_read_with_or_without_its_unit(text, unit, expected):
    assert parse_answer(text, unit) == expected


@pytest.mark.parametrize(("text", "unit"), REFUSED)
def test_what_is_not_exactly_one_number_in_the_asked_unit_is_refused(text, unit):
    with pytest.raises(AnswerError):
        parse_answer(text, unit)


@given(st.fractions(max_denominator=10**9), st.sampled_from(["", "$", "%", "hours", "gift bags"]))
def test_every_fraction_is_read_back_as_written(value, unit):
    assert parse_answer(str(value), unit) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9))
def test_every_decimal_is_read_exactly_with_and_without_thousands_separators(value):
    plain, separated = f"{value:f}", f"{value:,f}"
    assert parse_answer(plain) == parse_answer(separated) == Fraction(plain)


def refusal(text: str, unit: str) -> str:
    """What is said against a text; empty if it is read."""
    try:
        assert isinstance(parse_answer(text, unit), Fraction)
    except AnswerError as error:
        return str(error)
    return ""


@given(st.text(max_size=120), st.sampled_from(["", "$", "%", "hours", "square meters"]))
def test_any_text_is_either_a_number_or_refused_in_plain_letters(text, unit):
    assert refusal(text, unit).isascii()


@given(st.text(alphabet="0123456789+-/., $%", max_size=30))
def test_what_looks_like_a_number_is_either_a_number_or_refused(text):
    assert refusal(text, "$").isascii()


def test_a_refusal_says_why():
    with pytest.raises(AnswerError, match="'twelve' is not a single number"):
        parse_answer("twelve")
    with pytest.raises(AnswerError, match="denominator must not be zero"):
        parse_answer("1/0")
    with pytest.raises(AnswerError, match="must be less than one"):
        parse_answer("1 3/2")
    with pytest.raises(AnswerError, match="has 200 characters"):
        parse_answer("1" * 200)


@pytest.mark.parametrize("split", SPLIT_SIZES)
def test_every_gold_answer_is_read_with_every_word_for_its_unit(split):
    for index in range(SPLIT_SIZES[split]):
        task = generate("math-word-problems-1", split, index)
        for word in unit_words(task["unit"]):
            assert parse_answer(f"{task['answer']} {word}", task["unit"]) == Fraction(task["answer"])
