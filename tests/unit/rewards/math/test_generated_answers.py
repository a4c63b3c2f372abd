"""Trees rendered in many ways: what is rewritten stays equal, what is changed does not.

The labels come from the trees, whose values are computed here, to 30 digits at fixed places, without the
grader.
"""

import operator

import mpmath
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ors_server.rewards.math import grade_math

DIGITS = mpmath.MPContext()
DIGITS.dps = 30
PLACES = [{"x": DIGITS.mpf(a) / 7, "a": DIGITS.mpf(b) / 11} for a, b in ((3, 20), (11, 5), (30, 41))]
FUNCTIONS = {"sin": DIGITS.sin, "cos": DIGITS.cos, "ln": DIGITS.ln, "arctan": DIGITS.atan}
COMPUTED = {
    "pi": lambda: +DIGITS.pi,
    "sum": operator.add,
    "difference": operator.sub,
    "product": operator.mul,
    "quotient": operator.truediv,
    "power": operator.pow,
    "root": DIGITS.sqrt,
    **FUNCTIONS,
}
RENDERED = {
    "pi": ["\\pi ", "π"],
    "sum": ["{0}+{1}", "{1} + {0}"],
    "difference": ["{0}-({1})", "{0} - \\left({1}\\right)", "-({1})+{0}"],
    "product": ["({0})({1})", r"({1}) \cdot ({0})", r"({0}) \times ({1})"],
    "quotient": [r"\frac{{{}}}{{{}}}", r"\dfrac{{{}}}{{{}}}", "(({})/({}))"],
    "power": ["{}^{{{}}}", "{}^{}"],
    "root": [r"\sqrt{{{}}}", "√({})", "({})^{{1/2}}"],
    **{name: [rf"\{name}({{}})", rf"\{name}\left({{}}\right)", f"{name}({{}})"] for name in FUNCTIONS},
}
GREATEST = 10**9

numbers = st.integers(1, 30).map(lambda number: ("number", number))
leaves = st.one_of(
    numbers,
    numbers,
    st.sampled_from([("name", "x"), ("name", "a"), ("pi",)]),
    st.sampled_from([2, 3, 5, 7, 11]).map(lambda number: ("root", ("number", number))),
)


def extend(trees):
    return st.one_of(
        st.tuples(st.just("sum"), trees, trees),
        st.tuples(st.just("difference"), trees, trees),
        st.tuples(st.just("product"), trees, trees),
        st.tuples(st.just("quotient"), trees, trees),
        st.tuples(st.just("power"), trees, st.sampled_from([("number", 2), ("number", 3)])),
        st.tuples(st.just("root"), trees),
        st.tuples(st.sampled_from(sorted(FUNCTIONS)), trees),
    )


trees = st.recursive(leaves, extend, max_leaves=6)


def value(tree, place):
    """Compute a tree, no part of which may be complex or large: a quotient by sin(pi) is both, by chance."""
    kind, *parts = tree
    if kind == "number":
        return DIGITS.mpf(parts[0])
    if kind == "name":
        return place[parts[0]]
    found = COMPUTED[kind](*(value(part, place) for part in parts))
    if not (isinstance(found, DIGITS.mpf) and abs(found) < GREATEST):
        raise ValueError(found)
    return found


def values(tree):
    """Compute a tree at all places; the example is dropped where it has no real value of moderate size."""
    try:
        return [value(tree, place) for place in PLACES]
    except (ZeroDivisionError, ValueError):
        assume(condition=False)


def latex(tree, draw):
    kind, *parts = tree
    if kind in ("number", "name"):
        return str(parts[0])
    shown = [latex(part, draw) for part in parts]
    if kind == "power" and parts[0][0] not in ("number", "name"):
        shown[0] = draw(["({})", r"\left({}\right)"]).format(shown[0])
    return draw(RENDERED[kind]).format(*shown)


def changed(tree, draw):
    """Change one number, or, where there is none, the sign of everything."""
    kind, *parts = tree
    if kind == "number":
        return ("number", draw([number for number in range(1, 31) if number != parts[0]]))
    inner = [place for place, part in enumerate(parts) if isinstance(part, tuple) and "number" in str(part)]
    if not inner:
        return ("difference", tree, ("product", ("number", 2), tree))
    place = draw(inner)
    return (kind, *parts[:place], changed(parts[place], draw), *parts[place + 1 :])


def drawer(data):
    return lambda choices: data.draw(st.sampled_from(choices))


@pytest.mark.parametrize("place", ["{}", r"\boxed{{{}}}", "So the value is $y={}$."])
@settings(max_examples=60)
@given(tree=trees, data=st.data())
def test_a_tree_rendered_in_two_ways_is_one_answer(place, tree, data):
    values(tree)
    gold, answer = latex(tree, drawer(data)), latex(tree, drawer(data))
    verdict = grade_math(place.format(answer), gold)
    assert verdict.is_equal, (gold, answer, verdict)


@settings(max_examples=200)
@given(tree=trees, data=st.data())
def test_a_tree_of_another_value_is_another_answer(tree, data):
    other = changed(tree, drawer(data))
    mine, theirs = values(tree), values(other)
    assume(any(abs(one - two) > 1e-9 * (1 + abs(one)) for one, two in zip(mine, theirs, strict=True)))
    gold, answer = latex(tree, drawer(data)), latex(other, drawer(data))
    verdict = grade_math(answer, gold)
    assert not verdict.is_equal, (gold, answer, verdict)


KINDS = {
    "point": lambda parts, _: f"({', '.join(parts)})",
    "set": lambda parts, draw: r"\{" + ",".join(draw([parts, parts[::-1]])) + r"\}",
    "list": lambda parts, draw: draw([", ", r" \text{ and } ", " or "]).join(draw([parts, parts[::-1]])),
}


def test_an_angle_may_be_large_and_is_reduced_exactly():
    assert grade_math(r"\cos(9261)", r"\cos(21^{3})").is_equal
    assert grade_math(r"\sin(1000 + 2\pi)", r"\sin(1000)").is_equal
    assert not grade_math(r"\cos(9261.0000000001)", r"\cos(21^{3})").is_equal
    assert grade_math(r"\cos(2^{40})+1", r"7").status == "limit"
    assert grade_math(r"\cos(2^{40})+1", r"1+\cos(2^{41})").status == "bad_gold"


@pytest.mark.parametrize(
    "product",
    [r"(3)(\frac{1}{2})", r"3(\frac{1}{2})", "3(1/2)", "(3)(1/2)", r"3\left(\frac12\right)", r"(3)\frac12"],
)
def test_brackets_make_a_product_and_no_mixed_number(product):
    assert grade_math(product, r"\frac{3}{2}").is_equal
    assert not grade_math(product, r"\frac{7}{2}").is_equal
    assert grade_math(r"\{1," + product + r"\}", r"\{\frac{3}{2},1\}").is_equal
    assert grade_math(r"3\frac{1}{2}", r"\frac{7}{2}").is_equal


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60)
@given(first=trees, second=trees, data=st.data())
def test_structures_are_equal_exactly_if_their_members_are(kind, first, second, data):
    draw = drawer(data)
    mine, theirs = values(first), values(second)
    assume(any(abs(one - two) > 1e-9 * (1 + abs(one)) for one, two in zip(mine, theirs, strict=True)))
    # Of names alone, "p and q" and "p or q" are two statements.
    assume(kind != "list" or not first[0] == second[0] == "name")
    render = KINDS[kind]
    gold = render([latex(first, draw), latex(second, draw)], draw)
    verdict = grade_math(render([latex(first, draw), latex(second, draw)], draw), gold)
    assume(verdict.status != "limit")  # a cosine of a large power, which no number tells
    assert verdict.is_equal, (gold, verdict)
    doubled = render([latex(first, draw), latex(first, draw)], draw)
    assert not grade_math(doubled, gold).is_equal
