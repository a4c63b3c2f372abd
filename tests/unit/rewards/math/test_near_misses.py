"""Formulas that differ by a brace, a letter's case or a sign."""

import pytest

from ors_server.rewards.math import grade_math

DIFFERENT = [
    ("2^{n-1}", "2^n-1"),
    (r"\sqrt{x+1}", r"\sqrt{x}+1"),
    (r"\frac{1}{2n}", r"\frac{1}{2}n"),
    (r"\frac{12}{3}", r"\frac{1}{23}"),
    ("x^2y", "x^{2y}"),
    ("10", "1*0"),
    ("R-r", "r-R"),
    (r"\frac{\Sigma}{\sigma}", r"\frac{\sigma}{\sigma}"),
    ("a_{n+1}", "a_n+1"),
    (r"\frac{T}{t}", r"\frac{t}{T}"),
    ("x^{2n}", "x^2n"),
    (r"\sqrt{2x}", r"\sqrt{2}x"),
    (r"\sqrt[3]{x}", r"3\sqrt{x}"),
    (r"\frac{a+b}{c}", r"a+\frac{b}{c}"),
    (r"\log_{2x} 3", r"\log_2 x3"),
    ("V", "v"),
    (r"\Delta", r"\delta"),
    ("AB", "Ab"),
    ("x_1y", "x_{1y}"),
    ("3.5", "35"),
    (r"\overline{AB}\perp\overline{CD}", r"\overline{ab}\perp\overline{cd}"),
    (r"P \Rightarrow Q", r"p \Rightarrow q"),
    (r"\{a_{n+1}\}\to\infty", r"\{a_n+1\}\to\infty"),
    (r"\oint_{C+1} F", r"\oint_C+1 F"),
]


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_a_near_miss_is_not_paid_from_either_side(gold, answer):
    assert not grade_math(answer, gold).is_equal
    assert not grade_math(gold, answer).is_equal
    assert not grade_math(rf"\boxed{{{answer}}}", rf"${gold}$").is_equal
