"""Lists in which one member is zero: the others still count, however the list is written."""

import itertools

import pytest

from ors_server.rewards.math.grade import grade_math

ZEROS = ["0", "(1-1)(2)", "(2)(0)", r"0\pi", r"\frac{0}{3}"]
OTHERS = [r"\pi", r"\sqrt{2}", "(2)(5)", "|7|", r"\frac{1}{2}", "x^2", "(-3)(2)", "4!", r"\left(4\right)(2)"]
JOINERS = [" or ", " and ", " OR ", r"\text{ or }", r" \text{and} ", r"\ or\ ", r"\quad\text{or}\quad ", ", "]


@pytest.mark.parametrize("joiner", JOINERS)
def test_a_zero_does_not_make_another_member_right(joiner):
    paid = [
        (gold, answer)
        for zero in ZEROS
        for right, wrong in itertools.permutations(OTHERS, 2)
        for gold, answer in (
            (f"{zero}{joiner}{right}", f"{zero}{joiner}{wrong}"),
            (f"{right}{joiner}{zero}", f"{wrong}{joiner}{zero}"),
        )
        if grade_math(answer, gold).is_equal
    ]
    assert paid == []


@pytest.mark.parametrize("joiner", JOINERS)
def test_the_same_members_in_another_order_are_right(joiner):
    unpaid = [
        (gold, answer)
        for zero, other in itertools.product(ZEROS, OTHERS)
        for gold, answer in (
            (f"{zero}{joiner}{other}", f"{other}{joiner}0"),
            (f"0{joiner}{other}", f"0, {other}"),
        )
        if not grade_math(answer, gold).is_equal
    ]
    assert unpaid == []
