r"""Unknown sequences, renamed constants and parameters, long sums, bases: what is the same, what is not."""

import random

import pytest

from ors_server.rewards.math import grade_math
from ors_server.rewards.math.algebra.answer_statements import read_statement
from ors_server.rewards.math.algebra.judge import judge

SAME = [
    (r"\sum_{n=0}^{\infty} a_n x^n", r"\sum_{k=0}^{\infty} a_k x^k"),
    (r"\sum_{n=1}^\infty n a_n x^{n-1}", r"\sum_{n=0}^\infty (n+1)a_{n+1}x^n"),
    (r"\sum_{n=2}^\infty n(n-1)a_n x^{n-2}", r"\sum_{n=0}^\infty (n+2)(n+1)a_{n+2}x^n"),
    (r"\int_0^1\int_0^2 xy\,dy\,dx", r"1"),
    (r"\iint_{[0,1]\times[0,2]} xy\,dA", r"1"),
    (r"\frac{1}{1-x}", r"\prod_{k=0}^{\infty}(1+x^{2^k})"),
    (r"\prod_{k=0}^{\infty}\left(1+x^{2^k}\right)", r"\frac{1}{1-x}"),
    (r"y=\tan(x+C)", r"y=\tan(x-C)"),
    (r"y=\tan(x+C)", r"y = \tan(x - K)"),
    (r"y=\tan(x^2+C)", r"y=\tan(x^2-c)"),
    (r"y=\sin(x+C)", r"y=\cos(x+C)"),
    (r"T=20+Ae^{-kt}", r"T = 20 + Ce^{-kt}"),
    (r"T(t)=20+Ce^{-kt}", r"T=20+Ae^{-kt}"),
    (
        r"\begin{pmatrix}1\\2\\3\end{pmatrix}+t\begin{pmatrix}1\\0\\1\end{pmatrix}",
        r"\begin{pmatrix}1\\2\\3\end{pmatrix}+s\begin{pmatrix}1\\0\\1\end{pmatrix}",
    ),
    (r"(1+t, 2, 3+t)", r"(1+s,2,3+s)"),
    (r"(1+2t, 3-t, t)", r"(1+2s, 3-s, s)"),
    (
        r"s\begin{pmatrix}1\\0\\1\end{pmatrix}+t\begin{pmatrix}0\\1\\1\end{pmatrix}",
        r"a\begin{pmatrix}1\\0\\1\end{pmatrix}+b\begin{pmatrix}0\\1\\1\end{pmatrix}",
    ),
    (r"a_n=A2^n+B(-1)^n", r"a_n=C_1 2^n+C_2(-1)^n"),
    (r"a_n = A\cdot 2^n + B\cdot 3^n", r"a_n = c_1 2^n + c_2 3^n"),
    (r"\frac{\ln 2}{2}", r"\lim_{n\to\infty}\sum_{k=1}^n\frac{k}{n^2+k^2}"),
    (r"\lim_{n\to\infty}\sum_{k=1}^n \frac{k}{n^2+k^2}", r"\frac12\ln 2"),
    (r"\lim_{n\to\infty}\sum_{k=1}^{n}\frac{n}{n^2+k^2}", r"\frac{\pi}{4}"),
    (r"\ln 2", r"\lim_{n\to\infty}\sum_{k=1}^n\frac{1}{n+k}"),
    (r"(204)_5", r"204_5"),
    (r"204_5", r"(204)_{5}"),
]
DIFFERENT = [
    (r"\sum_{n=0}^{\infty} a_n x^n", r"\sum_{k=1}^{\infty} a_k x^k"),
    (r"\sum_{n=0}^{\infty} a_n x^n", r"\sum_{k=0}^{\infty} b_k x^k"),
    (r"\sum_{n=1}^\infty n a_n x^{n-1}", r"\sum_{n=0}^\infty (n+1)a_{n}x^n"),
    (r"\sum_{n=0}^\infty a_n x^n", r"\sum_{n=0}^\infty a_n x^{2n}"),
    (r"\iint_D f(x,y)\,dA", r"\iint_R f(x,y)\,dA"),
    (r"\iint_D f(x,y)\,dA", r"\iint_D f(x,y)^2\,dA"),
    (r"\frac{1}{1-x}", r"\prod_{k=1}^{\infty}(1+x^{2^k})"),
    (r"\frac{1}{1+x}", r"\prod_{k=0}^{\infty}(1+x^{2^k})"),
    (r"y=\tan(x+C)", r"y=\tan(x)+C"),
    (r"y=\tan(x+C)", r"y=\tan(2x+C)"),
    (r"y=\tan(x+C)", r"y=C\tan x"),
    (r"y=\tan(x+C)", r"y=\tan(Cx)"),
    (r"T=20+Ae^{-kt}", r"T = 20+Ae^{kt}/t"),
    (r"T=20+Ae^{-kt}", r"T = 25 + Ae^{-kt}"),
    (r"T=20+Ae^{-kt}", r"T = 20 + Ae^{-kt^2}"),
    (r"T=20+Ae^{-kt}", r"T = 20 + e^{-kt}"),
    (r"T=20+Ae^{-kt}", r"T = 20 + Ae^{-t}"),
    (r"T=20+Ae^{-kt}", r"T = 20 + Ae^{-2kt}"),
    (r"T=20+Ae^{-kt}", r"T = 20 + Ae^{kt}"),
    (r"(1+t, 2, 3+t)", r"(1+s,2,3-s)"),
    (r"(1+t, 2, 3+t)", r"(1+s,2,4+s)"),
    (r"(1+t, 2, 3+t)", r"(1,2,3)"),
    (r"(t, t^2)", r"(s, s^3)"),
    (r"(2t, t^2)", r"(2s, s^2+1)"),
    (r"(\cos t,\sin t)", r"(\cos t, 2\sin t)"),
    (r"a_n=A2^n+B(-1)^n", r"a_n=A2^n+B"),
    (r"a_n=A2^n+B(-1)^n", r"a_n=A2^n+A(-1)^n"),
    (r"a_n=A2^n+B(-1)^n", r"a_n=A3^n+B(-1)^n"),
    (r"a_n=A2^n+B(-1)^n", r"a_n=A2^n+B(-1)^n+1"),
    (r"a_n=2^n+(-1)^n", r"a_n=2^n-(-1)^n"),
    (r"\frac{\ln 2}{2}", r"\lim_{n\to\infty}\sum_{k=1}^n\frac{n}{n^2+k^2}"),
    (r"\frac{\ln 3}{2}", r"\lim_{n\to\infty}\sum_{k=1}^n\frac{k}{n^2+k^2}"),
    (r"(204)_5", r"(204)_6"),
    (r"(204)_5", r"(203)_5"),
    (r"54", r"(204)_6"),
    (r"(205)_5", r"55"),
    (r"y=Ax+B", r"y=Ax-B+x^2"),
    (r"E=mc^2+k", r"E=mc^2+b"),
    (r"ax+b", r"cx+d"),
    (r"y=ax+b", r"y=cx+d"),
    (r"(a, b)", r"(c, d)"),
    (r"(x+t,y)", r"(x+s,y)"),
    (r"(t,2t)", r"(s,3s)"),
    (r"\sum_{n=0}^{\infty} a_n x^n", r"\sum_{n=0}^{30} a_n x^n"),
    (r"\sum_{n=0}^{\infty} a_n x^n", r"\sum_{n=0}^{\infty} a_{n+30} x^n"),
    (r"\sum_{k=1}^n a_k", r"n a_k"),
    (r"T=20+Ae^{-kt}", r"T=20+Ce^{-2kt}"),
    (r"T=20+Ae^{-kt}", r"T=20+Cke^{-kt}"),
    (r"I=\frac{A}{R}", r"I=\frac{C}{R}"),
    (r"v=\frac{A}{m}t", r"v=\frac{C}{m}t"),
    (r"(t,2t)", r"(a,b)"),
    (r"(t,2t)", r"(2t,4t)"),
    (r"(s+t,s-t)", r"(a,b)"),
    (r"\lim_{n\to\infty} a_n", r"a_n"),
    (r"\ln 2", r"\lim_{n\to\infty}\sum_{k=1}^n\frac{1}{2n+k}"),
    (r"(1011)_2", r"(1101)_2"),
    (r"(204)_{15}", r"(204)_5"),
]
SHARED = [
    (r"a_n=A2^n+B(-1)^n", r"a_n=A2^n-B(-1)^n"),
    (r"a_n=A2^n+B(-1)^n", r"a_n=B2^n+A(-1)^n"),
    (
        r"t\begin{pmatrix}1\\-1\\0\end{pmatrix}+s\begin{pmatrix}1\\0\\-1\end{pmatrix}",
        r"t\begin{pmatrix}-1\\1\\0\end{pmatrix}+s\begin{pmatrix}0\\1\\-1\end{pmatrix}",
    ),
]
"""Letters that both sides have mean the same to both, whatever other choice they might stand for."""


@pytest.mark.parametrize(("gold", "answer"), SAME)
def test_another_form_of_the_same_is_paid_from_either_side(gold, answer):
    for mine, theirs in ((gold, answer), (answer, gold)):
        verdict = grade_math(theirs, mine)
        assert verdict.is_equal, verdict


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT + SHARED)
def test_what_only_looks_alike_is_not_paid_from_either_side(gold, answer):
    for mine, theirs in ((gold, answer), (answer, gold)):
        verdict = grade_math(theirs, mine)
        assert not verdict.is_equal, verdict


def judged(gold, answer):
    return judge(read_statement(gold), read_statement(answer)).is_equal


def line(place, direction, name):
    terms = [f"{one}+({two}){name}" for one, two in zip(place, direction, strict=True)]
    return f"({','.join(terms)})"


def test_lines_are_the_same_exactly_if_their_points_are():
    rng = random.Random(41)  # noqa: S311  (test data)
    for _ in range(150):
        place, direction = ([rng.randint(-4, 4) or 5 for _ in range(3)] for _ in range(2))
        shift, scale = rng.randint(-3, 3), rng.choice((-2, -1, 1, 2, 3))
        other = [one + shift * two for one, two in zip(place, direction, strict=True)]
        along = [scale * two for two in direction]
        gold = line(place, direction, "t")
        assert judged(gold, line(other, along, "s")) is True
        axis = rng.randrange(3)
        other[axis] += 1
        assert judged(gold, line(other, along, "s")) is not True
        other[axis] -= 1
        along[axis] += 1
        assert judged(gold, line(other, along, "s")) is not True
        assert judged(gold, line(place, along, "t")) is not True


def series(start, factor, index, power):
    return rf"\sum_{{n={start}}}^\infty {factor} a_{{{index}}} x^{{{power}}}"


def terms(start, slope, offset, index, power):
    """Give the coefficient and the member at each power of x."""
    return {
        n + power: (slope * n + offset, n + index) for n in range(start, start + 40) if slope * n + offset
    }


def signed(shift):
    return "n" if not shift else f"n{shift:+d}"


def test_series_of_an_unknown_sequence_are_the_same_exactly_if_their_terms_are():
    rng = random.Random(42)  # noqa: S311  (test data)
    found = {True: 0, False: 0}
    for _ in range(300):
        start, offset = rng.randint(0, 2), rng.randint(0, 2)
        shift = rng.randint(-start, 2)
        mine = (start, 1, offset, 0, 0)
        theirs = [start - shift, 1, offset + shift, shift, shift]
        if rng.random() < 0.7:
            theirs[rng.choice((0, 2, 3, 4))] += rng.choice((-1, 1))
        if theirs[0] < 0:
            continue
        one, two = terms(*mine), terms(*theirs)
        is_same = all(one.get(power) == two.get(power) for power in range(-3, 30))
        texts = [
            series(begin, f"(n{add:+d})" if add else "n", signed(index), signed(power))
            for begin, _, add, index, power in (mine, theirs)
        ]
        found[is_same] += 1
        assert (judged(*texts) is True) == is_same, texts
    assert min(found.values()) > 40
