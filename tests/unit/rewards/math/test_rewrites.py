"""What must not change a verdict, what must, and what may be thrown at the grader: generated, not listed."""

import math
import operator
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ors_server.rewards.math import grade_math
from tests.fixtures.case_tables import tables

TABLES = tables("math_pairs")


def spread(text):
    """Put spaces around signs, where no digits are grouped and no command would be cut."""
    return re.sub(r"(?<![\\\d])([=+<>])", r" \1 ", text)


REWRITES = [
    lambda text: text,
    lambda text: text.replace(r"\frac", r"\dfrac"),
    lambda text: text.replace(r"\frac", r"\tfrac"),
    lambda text: text if r"\left" in text else text.replace("(", r"\left(").replace(")", r"\right)"),
    lambda text: text.replace("-", "\N{MINUS SIGN}"),
    lambda text: text.replace(r"\pi", "\N{GREEK SMALL LETTER PI}").replace(r"\infty", "\N{INFINITY}"),
    lambda text: re.sub(r"\\le(?![a-z])", r"\\leq", text),
    lambda text: text.replace(",", r",\,"),
    lambda text: text.replace(",", ", "),
    lambda text: r"\displaystyle " + text,
    lambda text: text.replace(r"^\circ", "^{\\circ}"),
    lambda text: text.replace("pmatrix", "bmatrix"),
    lambda text: re.sub(r"\^(\d)", r"^{\1}", text),
    spread,
]

golds = st.sampled_from(TABLES["golds"])
wrappers = st.sampled_from(TABLES["wrappers"])
rewrites = st.lists(st.sampled_from(REWRITES), max_size=4)

NOTATION = r"""
{ } ( ) [ ] | ^ _ + - * / = < > , ; : ! % $ & ' 1 2 10 0 9999 0.5 1e6 x y n e i cm #### ** dx and or
\frac \sqrt \left \right \{ \} \le \pm \cup \in \begin{pmatrix} \end{pmatrix} \\ \text{ \pi \infty
\sum_{k=1}^{10} \int_0^1 \lim_{x\to0} ^\circ \$ \boxed{ \log \sin \binom \gcd \lfloor \mod \emptyset
\mathbb{R} \overline{3} \begin{cases} \end{cases} \zzz \det \over \choose
"""
PIECES = [
    *NOTATION.split(),
    "\N{SQUARE ROOT}",
    "\N{SUPERSCRIPT TWO}",
    "\N{VULGAR FRACTION ONE HALF}",
    "answer is ",
    "\n",
    " ",
    "\x00",
    "\ud800",
]
TEXTS = {
    "unicode": st.text(max_size=80),
    "pieces": st.lists(st.sampled_from(PIECES), max_size=12).map("".join),
    "many pieces": st.lists(st.sampled_from(PIECES), max_size=40).map(" ".join),
    "repetition": st.builds(operator.mul, st.sampled_from(PIECES), st.integers(0, 500)),
}


@settings(max_examples=200)
@given(gold=golds, wrapper=wrappers, changes=rewrites)
def test_rewriting_an_answer_keeps_it_equal(gold, wrapper, changes):
    answer = gold
    for change in changes:
        answer = change(answer)
    verdict = grade_math(wrapper.format(answer), gold)
    assert verdict.is_equal, (gold, answer, verdict)


@settings(max_examples=200)
@given(gold=golds, wrapper=wrappers, data=st.data())
def test_changing_a_digit_makes_an_answer_wrong(gold, wrapper, data):
    places = [place for place, char in enumerate(gold) if char.isdigit()]
    place = data.draw(st.sampled_from(places)) if places else None
    if place is None:
        return
    digit = data.draw(st.sampled_from([digit for digit in "123456789" if digit != gold[place]]))
    answer = gold[:place] + digit + gold[place + 1 :]
    if gold == r"\binom{9}{4}" and answer == r"\binom{9}{5}":
        return  # a coefficient is that of its complement
    verdict = grade_math(wrapper.format(answer), gold)
    assert not verdict.is_equal, (gold, answer, verdict)


@settings(max_examples=100)
@given(first=golds, second=golds)
def test_bare_answers_are_judged_alike_from_both_sides(first, second):
    assert grade_math(first, second).is_equal == grade_math(second, first).is_equal


@settings(max_examples=150)
@given(top=st.integers(-(10**9), 10**9), bottom=st.integers(1, 10**6), other=st.integers(-(10**9), 10**9))
def test_fractions_are_equal_exactly_if_they_are(top, bottom, other):
    gold = rf"\frac{{{top}}}{{{bottom}}}"
    assert grade_math(f"{3 * top}/{3 * bottom}", gold).is_equal
    assert grade_math(f"{other}/{bottom}", gold).is_equal == (other == top)


@settings(max_examples=100)
@given(
    roots=st.lists(st.integers(-9, 9), min_size=1, max_size=4),
    changed=st.integers(-9, 9),
    place=st.integers(0, 3),
)
def test_polynomials_are_equal_if_their_roots_are(roots, changed, place):
    gold = "".join(f"(x-({root}))" for root in roots)
    others = [*roots[: place % len(roots)], changed, *roots[place % len(roots) + 1 :]]
    coefficients = [1]
    for root in others:
        coefficients = [
            left - root * right for left, right in zip([*coefficients, 0], [0, *coefficients], strict=True)
        ]
    degree = len(others)
    answer = "+".join(f"({number})x^{{{degree - step}}}" for step, number in enumerate(coefficients))
    assert grade_math(answer, gold).is_equal == (sorted(roots) == sorted(others))


def check_verdict(kind, data):
    answer = data.draw(TEXTS[kind])
    gold = data.draw(st.one_of(TEXTS[kind], golds))
    verdict = grade_math(answer, gold)
    assert verdict.is_equal in (True, False)
    assert verdict.status == "ok" or not verdict.is_equal
    assert math.isfinite(float(verdict.is_equal))


@pytest.mark.parametrize("kind", TEXTS)
@settings(max_examples=150)
@given(data=st.data())
def test_whatever_comes_a_verdict_comes_back(kind, data):
    check_verdict(kind, data)


@pytest.mark.stress
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", TEXTS)
@settings(max_examples=20_000)
@given(data=st.data())
def test_however_much_comes_a_verdict_comes_back(kind, data):
    check_verdict(kind, data)
