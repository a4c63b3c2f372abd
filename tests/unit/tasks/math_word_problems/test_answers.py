"""Which texts count as a number, and which number they are."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server_tasks.math_word_problems.answers import AnswerError, parse_answer
from ors_server_tasks.math_word_problems.generator import SPLIT_SIZES, generate
from ors_server_tasks.math_word_problems.units import unit_words
from tests.fixtures.case_tables import tables

TABLES = tables("answers")


REFUSED = [*TABLES["refused"], ("1" * 101, ""), ("\ud800", ""), ("12\x00", "")]


@pytest.mark.parametrize(("text", "unit", "expected"), TABLES["read"])
def test_a_number_is_read_with_or_without_its_unit(text, unit, expected):
    assert parse_answer(text, unit) == Fraction(expected)


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
