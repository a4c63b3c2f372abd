"""Formulas that differ by a brace, a letter's case or a sign, and the same ones in everyday spacing."""

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
SAME = [
    ("4t", "4 t"),
    ("4 t", "4t"),
    *((f"7{letter}", f"7 {letter}") for letter in "ghlmstJLNVW"),
    *((f"7 {letter}", f"7{letter}") for letter in "ghlmstJLNVW"),
    *((f"e^{{2{letter}}}", f"e^{{2 {letter}}}") for letter in "ghlmstJLNVW"),
    *(
        (f"x^{{{pair}}}", f"x^{{{pair[0]} {pair[1]}}}")
        for pair in ("at", "be", "in", "is", "it", "on", "or", "pi", "to", "as", "we", "no", "an", "by", "go")
    ),
    *(
        (f"{pair}+2", f"2+{pair[0]} {pair[1]}")
        for pair in ("at", "be", "in", "is", "it", "on", "or", "to", "as", "we", "no", "an", "by")
    ),
    (r"\frac{at}{2}", r"\frac{a t}{2}"),
    ("e^{it}", "e^{i t}"),
    ("-49t/5", "-49 t / 5"),
    (r"-\frac{49t}{5}", "-49 t / 5"),
    (r"\frac{(1-5t)^{2/3}}{10}", "(1-5 t)^{2 / 3} / 10"),
    (r"\frac{\alpha}{\gamma}", r"\alpha\gamma^{-1}"),
    (
        r"\begin{cases}x+1 & x>0\\ 2 & x\le 0\end{cases}",
        r"\begin{cases}1+x & x>0\\ 2 & x\le 0\end{cases}",
    ),
    (
        r"\begin{cases}x+1 & x>0\\ 2 & x\le 0\end{cases}",
        r"\begin{cases}2 & x\le 0\\ x+1 & x>0\end{cases}",
    ),
    (
        r"\begin{cases}x+1 & \text{if } x>0\\ 2 & \text{otherwise}\end{cases}",
        r"\begin{cases}1+x, & \text{if } x>0,\\ 2, & \text{otherwise}\end{cases}",
    ),
    (r"13\pi\text{ s}", r"13\pi"),
    (r"13\pi", r"13\pi\text{ s}"),
    (r"13\pi\text{ s}", r"13\pi\ \mathrm{s}"),
    ("320000", "3.2 x 10^5"),
    (r"3.2\times 10^5", "3.2 x 10^5"),
    (r"\$15", "USD 15"),
    ("15", "USD 15"),
    ("204_5", "204 (base 5)"),
    ("204_5", "204 base 5"),
    ("31", "0x1F"),
    ("1000000", "one million"),
    ("23", "twenty-three"),
    ("3", "exactly three solutions"),
    (r"\emptyset", "the empty set"),
    ("the empty set", r"\varnothing"),
    (r"9.8\text{ m/s}^2", r"9.8\ \mathrm{m\,s^{-2}}"),
    (r"9.8\ \mathrm{m\,s^{-2}}", "9.8 m/s^2"),
    ("March 5", "March 5th"),
    ("March 5th", "5 March"),
    ("2.5 hours", "2 hours and 30 minutes"),
    ("2 hours and 30 minutes", "2 hours 30 minutes"),
]


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_a_near_miss_is_not_paid_from_either_side(gold, answer):
    assert not grade_math(answer, gold).is_equal
    assert not grade_math(gold, answer).is_equal
    assert not grade_math(rf"\boxed{{{answer}}}", rf"${gold}$").is_equal


@pytest.mark.parametrize(("gold", "answer"), SAME)
def test_the_same_in_everyday_spacing_is_paid(gold, answer):
    verdict = grade_math(answer, gold)
    assert verdict.is_equal, verdict
    verdict = grade_math(rf"\boxed{{{answer}}}", gold)
    assert verdict.is_equal, verdict
