"""Letters of choices: an article is none, and one that is ruled out is no answer."""

import pytest

from ors_server.rewards.math import grade_math

PICKED = [
    ("A", "A"),
    ("A", "(A)"),
    ("A", "A."),
    ("A", "A) rectangle"),
    ("A", "A is correct."),
    ("A", "A, because it has four right angles"),
    ("B", "B Paris"),
    ("A", "The answer is A."),
    ("A", "The answer is A because the others fail."),
    ("A", "Option A is the right one."),
    ("C", "The answer is not B but option C."),
    ("B", "The answer is B. Option C is wrong."),
    ("C", r"\text{ C}"),
    ("C", r"\boxed{\text{ C}}"),
    ("C", r"\boxed{12 \text{ C}}"),
    ("C", r"The answer is $12 \text{ (C)}$."),
    ("J", r"\text{ J}"),
    (r"\textbf{(C)}", r"25 \text{ C}"),
]
NOT_PICKED = [
    ("A", "A rectangle"),
    ("A", "A careful analysis shows nothing."),
    ("A", "A is wrong."),
    ("A", "The answer is A rectangle."),
    ("A", r"\boxed{A rectangle}"),
    ("A", "It is A long way home."),
    ("C", "C is not correct"),
    ("C", "C is incorrect."),
    ("C", "(C) is wrong."),
    ("C", "C can't be right."),
    ("C", "The answer is not C."),
    ("C", "The answer isn't C."),
    ("C", "It is not option C."),
    ("C", "We can rule out option C."),
    ("C", "Option C is false."),
    ("C", "The answer is B. Option C is wrong."),
    ("C", "The answer is D rather than option C."),
    ("B", r"\boxed{12 \text{ C}}"),
    ("B", "The answer is not B but option C."),
]


@pytest.mark.parametrize(("gold", "answer"), PICKED)
def test_a_letter_that_is_picked_is_paid(gold, answer):
    verdict = grade_math(answer, gold)
    assert verdict.is_equal, verdict


@pytest.mark.parametrize(("gold", "answer"), NOT_PICKED)
def test_an_article_and_a_letter_that_is_ruled_out_are_not(gold, answer):
    verdict = grade_math(answer, gold)
    assert not verdict.is_equal, verdict
