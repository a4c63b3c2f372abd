"""Answers in words with formulas between them, number words, names in words, choices with their values."""

import pytest

from ors_server.rewards.math import MathOptions, grade_math

PLACES = [
    "{}",
    r"\boxed{{{}}}",
    "3 + 4 = 7. The answer is {}.",
    "3 + 4 = 7.\n\n**Answer:** {}",
    "3 + 4 = 7.\n\n## Final Answer\n\n{}",
    "3 + 4 = 7.\n\n**{}**",
    "<answer>{}</answer>",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "gold", ["center $(0,3)$, radius $4$", "March 15", "12 ft by 9 ft", r"$2^n$, where $n>3$"]
)
def test_an_answer_in_words_is_found_and_its_digits_count(place, gold):
    assert grade_math(place.format(gold), gold).is_equal
    for digit in set(filter(str.isdigit, gold)):
        other = gold.replace(digit, str(9 - int(digit)))
        verdict = grade_math(place.format(other), gold)
        assert not verdict.is_equal, (other, verdict)


def test_a_strict_task_wants_words_in_a_place_for_answers():
    strict = MathOptions(extraction="strict")
    assert grade_math(r"\boxed{12 ft by 9 ft}", "12 ft by 9 ft", options=strict).is_equal
    assert not grade_math("The answer is 12 ft by 9 ft.", "12 ft by 9 ft", options=strict).is_equal


def test_a_long_text_is_no_wording():
    assert not grade_math("a word " * 200 + "3", "a word " * 200 + "4").is_equal
