"""Near misses and rewrites by the thousand: how many are paid, and how fast.

The seeds have two halves. The grader was made with the development half; the bounds hold on the test half.
"""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from ors_server.rewards.math import grade_math
from tests.fixtures.math_answers import pairs
from tests.fixtures.math_grammars import formula
from tests.fixtures.math_reader import UnreadableError, read_formula, slips
from tests.fixtures.math_trees import compare, seeded
from tests.fixtures.math_writing import Style, write

PAIRS = json.loads((Path(__file__).parents[3] / "data" / "math_equiv.json").read_text())["items"]
LABELS = frozenset("ABCDEFGHIJ")
"""Golds that are the letters of choices, whose case is a matter of convention."""
WITH_UNIT = re.compile(r"[A-Za-z]{2} ?[A-Za-z]*\Z|\d\s[A-Za-z]\Z")
"""Golds whose unit may be left out."""
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


def golds_with_slips(count):
    """The project's golds and generated ones, each with slips of the pen, labelled by their values."""
    texts = sorted({pair["gold"].strip("$ ") for pair in PAIRS if len(pair["gold"]) < 80})
    rngs = [seeded(f"test {place}") for place in range(count)]
    texts += [write(formula(rng)[1], Style.any(rng)) for rng in rngs]
    for place, gold in enumerate(texts):
        if gold.strip("()") in LABELS or WITH_UNIT.search(gold):
            continue
        rng = seeded(f"test slips {place}")
        others = list(slips(gold))
        for name, answer in rng.sample(others, min(6, len(others))):
            try:
                label = compare(read_formula(gold), read_formula(answer), place)
            except UnreadableError:
                continue
            if label is not None:
                yield label, name, gold, answer


def test_a_slip_of_the_pen_in_a_gold_is_paid_only_where_the_value_stays():
    seen: Counter[bool] = Counter()
    wrong: list[tuple[bool, str, str, str]] = []
    for label, name, gold, answer in golds_with_slips(500):
        verdict = grade_math(answer, gold)
        seen[label] += 1
        if verdict.is_equal != label:
            wrong.append((label, name, gold, answer))
    assert min(seen[True], seen[False]) > 300
    paid = [pair for pair in wrong if not pair[0]]
    assert len(paid) <= 0.002 * seen[False], paid
    assert len(wrong) - len(paid) <= 0.01 * seen[True], wrong


def test_the_judge_tells_values_apart_without_the_grader():
    x, one, two = ("sym", "x"), ("num", 1), ("num", 2)
    assert compare(("pow", two, ("add", x, one)), ("mul", two, ("pow", two, x)))
    assert compare(("pow", two, ("add", x, one)), ("add", ("pow", two, x), one)) is False
    assert compare(("root", ("neg", x), two), x) is None
