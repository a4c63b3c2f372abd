"""Sentences about numbers, by the rule that reads them: the number that is paid, and the one that is not."""

import tomllib
from pathlib import Path

import pytest

from ors_server.rewards.math import MathOptions, grade_math

PATH = Path(__file__).parents[3] / "data" / "cases" / "number_statements.toml"
CASES = [
    pytest.param(*case, id=f"{rule}-{number}")
    for rule, table in tomllib.loads(PATH.read_text(encoding="utf-8")).items()
    for number, case in enumerate(table["cases"])
]


@pytest.mark.parametrize(("response", "paid", "unpaid"), CASES)
def test_a_rule_pays_the_number_that_a_sentence_asserts_and_no_other(response, paid, unpaid):
    assert paid or unpaid
    assert not paid or grade_math(response, paid).is_equal
    assert not unpaid or not grade_math(response, unpaid).is_equal


def test_the_table_has_two_sentences_of_each_rule():
    tables = tomllib.loads(PATH.read_text(encoding="utf-8"))
    assert all(len(table["cases"]) > 1 for table in tables.values())
    assert sum(len(table["cases"]) for table in tables.values()) >= 50


@pytest.mark.parametrize("boxes", ["last", "agree"])
@pytest.mark.parametrize(
    "response", ["\\boxed{58}\nThis is wrong.", "Not \\boxed{58}.", "The answer is over 58."]
)
def test_a_denied_box_and_a_bound_earn_nothing_whatever_boxes_must_agree(response, boxes):
    assert not grade_math(response, "58", options=MathOptions(boxes=boxes)).is_equal
