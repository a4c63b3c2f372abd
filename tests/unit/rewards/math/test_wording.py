"""Answers in words with formulas between them, number words, names in words, choices with their values."""

import pytest

from ors_server.rewards.math import MathOptions, grade_math

SAME = [
    ("center $(0,0)$, radius $\\frac{1}{2}$", "Center (0, 0), radius 0.5"),
    ("12 ft by 9 ft", "$12$ feet by $9$ feet"),
    ("March 15", r"\text{March 15}"),
    (r"$2n$ if $n$ is odd", r"$n+n$ if $n$ is odd"),
    (r"\text{Domain: } (-\infty,3]", r"domain: \((-\infty, 3]\)"),
    ("All primes of the form $4k+1$", "all primes of the form 1+4k"),
    (r"\text{three}", "3"),
    ("10", "ten"),
    ("slope = 2", "m = 2"),
    (r"\text{Area} = 12", "A=12"),
    ("No solution!", "no solution"),
    (r"\textbf{(D) } 12", "D"),
    (r"\textbf{(D) } 12", "(D) 12"),
    (r"\textbf{(D) } \frac12", "the answer is D. 0.5"),
]
DIFFERENT = [
    ("center $(0,0)$, radius $\\frac{1}{2}$", "center (0, 0), radius 0.6"),
    ("center $(0,0)$, radius $3$", "focus $(0,0)$, radius $3$"),
    ("12 ft by 9 ft", "9 ft by 12 ft"),
    ("March 15", "May 15"),
    ("March 15", "15"),
    ("All primes of the form $4k+1$", "all primes"),
    (r"\text{three}", "4"),
    ("slope = 2", "slope = 3"),
    ("x = 2", "y = 2"),
    (r"\textbf{(D) } 12", "(D) 13"),
    (r"\textbf{(D) } 12", "(C) 12"),
    (r"\textbf{(D) } 12", "the answer is D. 13"),
    (r"\textbf{(D) } 12", r"so the answer is \(\textbf{(D) } 52\) after all."),
    ("n!", "n"),
    ("10!", "10"),
    ("f'", "f"),
    (".35625", "35625"),
]
PLACES = [
    "{}",
    r"\boxed{{{}}}",
    "3 + 4 = 7. The answer is {}.",
    "3 + 4 = 7.\n\n**Answer:** {}",
    "3 + 4 = 7.\n\n## Final Answer\n\n{}",
    "3 + 4 = 7.\n\n**{}**",
    "<answer>{}</answer>",
]


@pytest.mark.parametrize(("gold", "answer"), SAME)
def test_the_same_in_other_words_is_equal(gold, answer):
    verdict = grade_math(answer, gold)
    assert verdict.is_equal, verdict


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_other_words_or_other_values_are_not(gold, answer):
    verdict = grade_math(answer, gold)
    assert not verdict.is_equal, verdict


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
