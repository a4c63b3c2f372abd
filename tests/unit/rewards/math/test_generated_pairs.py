"""Near misses and rewrites by the thousand: how many are paid, and how fast.

The seeds have two halves. The grader was made with the development half; the bounds hold on the test half.
"""

from collections import Counter

import pytest

from ors_server.rewards.math import grade_math
from tests.fixtures.math_answers import pairs
from tests.fixtures.math_trees import compare

GOLDS = 420
MANY_GOLDS = 6000


def judge(half, count):
    """How many different and equal pairs came, and those that were judged otherwise."""
    seen: Counter[bool] = Counter()
    wrong: dict[bool, list[tuple[str, str, str, str]]] = {True: [], False: []}
    for label, kind, gold, answer in pairs(half, count):
        seen[label] += 1
        verdict = grade_math(answer, gold)
        if verdict.is_equal != label:
            wrong[label].append((kind, gold, answer, verdict.reason))
    return seen, wrong


def check_rates(half, count):
    seen, wrong = judge(half, count)
    assert seen[True] > count
    assert seen[False] > count
    assert len(wrong[False]) <= 0.001 * seen[False], wrong[False]
    assert len(wrong[True]) <= 0.01 * seen[True], wrong[True]


def test_1_in_1000_near_misses_is_paid_and_99_in_100_rewrites_are():
    check_rates("test", GOLDS)


@pytest.mark.stress
@pytest.mark.timeout(1800)
def test_1_in_1000_near_misses_is_paid_and_99_in_100_rewrites_are_among_many():
    check_rates("test", MANY_GOLDS)


def test_the_judge_tells_values_apart_without_the_grader():
    x, one, two = ("sym", "x"), ("num", 1), ("num", 2)
    assert compare(("pow", two, ("add", x, one)), ("mul", two, ("pow", two, x)))
    assert compare(("pow", two, ("add", x, one)), ("add", ("pow", two, x), one)) is False
    assert compare(("root", ("neg", x), two), x) is None
