"""What the parser refuses, and the bounds that hold before anything is computed."""

import pytest

from ors_server.rewards.math import grade_math
from tests.fixtures.case_tables import tables


@pytest.mark.parametrize("answer", tables("math_pairs")["unreadable"])
def test_what_is_no_mathematics_is_refused(answer):
    assert grade_math(answer, "7").status == "unparsed_answer"


@pytest.mark.parametrize(
    "answer",
    [
        "(-1)^{" * 70 + "1" + "}" * 70,
        ",".join("1" for _ in range(200)),
        "1e999999",
        "5000!",
        r"\binom{10000000}{5000000}",
        r"\sum_{k=1}^{100000} \sin k",
        r"\prod_{k=1}^{10^8} k",
        r"\sin(10^{10000}\pi)",
        r"2^{x^{x^{x^{200}}}} \cdot \sqrt{2^{2^{2000}}}",
        "(" + ",".join(r"\pm 1" for _ in range(8)) + ")",
        "+".join(f"\\sqrt{{x_{{{n}}}}}" for n in range(20)),
        r"\text{" * 70 + "1+" + "}" * 70,
        ",".join(rf"\sqrt{{{n}}}" for n in range(2, 60)),
    ],
)
def test_what_is_too_much_meets_a_bound_before_it_is_computed(answer):
    gold = (
        ",".join(rf"\sqrt{{{n}}}" for n in range(61, 119))
        if "," in answer and "sqrt" in answer
        else r"\sqrt 7"
    )
    assert grade_math(answer, gold).status in ("limit", "ok", "unparsed_answer")
    assert not grade_math(answer, gold).is_equal


def test_long_lists_of_numbers_are_compared_at_once():
    numbers = [str(7 * n) for n in range(60)]
    assert grade_math(", ".join(reversed(numbers)), ", ".join(numbers)).is_equal
    assert not grade_math(", ".join([*numbers[1:], "1"]), ", ".join(numbers)).is_equal
