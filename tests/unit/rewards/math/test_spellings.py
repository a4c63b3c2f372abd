"""Further ways of writing the same, and marks that tell answers apart."""

import pytest

from ors_server.rewards.math import grade_math

SAME = [
    (r"(-\infty,2)\cup(3,\infty)", r"(-\infty,2)U(3,\infty)"),
    (r"(-\infty,2]\cup\{3\}", r"(-\infty,2] U \{3\}"),
    (r"x \neq 1", r"x \not= 1"),
    (r"x \notin \{1\}", r"x \not\in \{1\}"),
    (r"x=\pm 2", r"\pm 2 = x"),
    (r"x\sqrt{3}", "xsqrt(3)"),
    (r"x\ln x", "xln(x)"),
    (r"\sin 20^\circ", "sin(20 degrees)"),
    (r"1.5\times 10^{-5}", "1.5 times 10^(-5)"),
    (r"25^\circ C", "25 degrees Celsius"),
    (r"2\sqrt{5} \approx 4.47 \text{ units}", r"2\sqrt{5} \approx 4.47"),
    (r"e=\frac{\sqrt{2}}{2}", r"\frac{\sqrt2}{2}"),
    ("①③", "③、①"),
    (r"17 \bmod 5", r"12 \bmod 5"),
    (r"\sum_{k=1}^{\infty} \frac{1}{k^2}", r"\sum_{n=1}^{\infty} \frac{1}{n^2}"),
    (r"x<-3 \text{ or } x>5", "x<-3 and x>5"),
    (r"\{x \in \mathbb{R}: x>2\}", r"(2,\infty)"),
]
DIFFERENT = [
    (r"(-\infty,2)\cup(3,\infty)", r"(-\infty,2)U(4,\infty)"),
    (r"x \neq 1", r"x = 1"),
    (r"x=\pm 2", r"2 = x"),
    (r"7 \bmod 12", r"7 \bmod 13"),
    (r"\frac{22}{7} \approx 3.14", r"\frac{22}{7} \approx 3.15"),
    (r"\sum_{n=0}^{\infty} \frac{x^{n}}{n!}", r"\sum_{m=0}^{\infty} \frac{x^{n}}{n!}"),
    ("(x-2)(x+5)", "[x-2)(x+5)"),
    (r"\ln(1+x)", r"\ln(1+x]"),
    ("x>5", "y>5"),
    ("①③", "13"),
    (r"e=\frac{\sqrt{2}}{2}", r"e=\frac{\sqrt3}{2}"),
    (r"-2\le x\le 7", r"-2\le t\le 7"),
    (r"x\geq 2 \text{ and } x\neq 3", r"x\geq 2 \text{ or } x\neq 3"),
    (r"x\geq 2 \text{ and } x\neq 3", r"y\geq 2 \text{ and } y\neq 3"),
    (r"\{x \in \mathbb{R}: x>2\}", r"\{x \in \mathbb{Z}: x>2\}"),
    (r"\{x \mid x>2\}", r"\{y \mid x>2\}"),
]


@pytest.mark.parametrize(("gold", "answer"), SAME)
def test_both_spellings_mean_the_same(gold, answer):
    verdict = grade_math(answer, gold)
    assert verdict.is_equal, verdict


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_what_a_mark_tells_apart_is_not_equal(gold, answer):
    verdict = grade_math(answer, gold)
    assert not verdict.is_equal, verdict


PARAMETERS = [
    (r"k\pi+\frac{\pi}{4}, k\in\mathbb{Z}", r"\frac{\pi}{4}+k\pi"),
    (r"x=\frac{\pi}{6}+k\pi(k\in\mathbf{Z})", r"x=\frac{\pi}{6}+k\pi"),
    (r"k\pi, k\in\mathbf{Z}", r"k\pi, k \text{ is an integer}"),
    (r"[k\pi, k\pi+1](k\in\mathbb{Z})", r"[k\pi, k\pi+1], k\in\mathbb{Z}"),
]


@pytest.mark.parametrize(("gold", "answer"), PARAMETERS)
def test_that_a_parameter_is_whole_goes_without_saying(gold, answer):
    verdict = grade_math(answer, gold)
    assert verdict.is_equal, verdict
    assert not grade_math(answer.replace("k", "2k", 1), gold).is_equal


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        (
            r"\begin{cases} 1, & n=1 \\ 2n, & n \ge 2 \end{cases}",
            r"\left\{\begin{array}{l}1, n=1 \\ 2n, n\ge 2.\end{array}\right.",
        ),
        (r"\forall x>0, \ln x \le x-1", r"\forall x>0, \ln(x)\leq x-1"),
        (r"v=\sqrt{2gh}", "v=sqrt(2 g h)"),
        (r"\lambda \ge 2", r"So the value is \(\lambda \geq 2\)."),
        (r"(-1)^n n! x", r"So the value is \((-1)^n n! x\)."),
    ],
)
def test_rows_quantifiers_and_letters_are_read(gold, answer):
    verdict = grade_math(answer, gold)
    assert verdict.is_equal, verdict
    assert not grade_math(answer.replace("2", "3").replace("1", "4"), gold).is_equal
