"""What means the same as a gold: `math_pairs.toml` by topic and `math_equiv.json`."""

import json
import os
from functools import cache
from pathlib import Path

import pytest

from ors_server.rewards.math import MathOptions, grade_math
from tests.fixtures.case_tables import tables

TABLES = tables("math_pairs")
UNITS = "ghlmstJLNVW"
"""Letters that are units too."""
WORDS = ("at", "be", "in", "is", "it", "on", "or", "to", "as", "we", "no", "an", "by")
"""Two letters that are a word too."""
SPACED = [
    *((f"7{letter}", f"7 {letter}") for letter in UNITS),
    *((f"7 {letter}", f"7{letter}") for letter in UNITS),
    *((f"e^{{2{letter}}}", f"e^{{2 {letter}}}") for letter in UNITS),
    *((f"x^{{{word}}}", f"x^{{{' '.join(word)}}}") for word in (*WORDS, "pi", "go")),
    *((f"{word}+2", f"2+{' '.join(word)}") for word in WORDS),
]


def pairs(verdict):
    return pytest.mark.parametrize(
        ("gold", "answer"),
        [
            pytest.param(*pair, id=f"{topic}-{'-'.join(pair)}")
            for topic, rows in TABLES[verdict].items()
            for pair in rows
        ],
    )


def check(answer, gold, *, is_equal, **options):
    verdict = grade_math(answer, gold, options=MathOptions(**options))
    assert verdict.is_equal is is_equal, verdict


@pairs("same")
def test_what_means_the_same_is_paid(gold, answer):
    check(answer, gold, is_equal=True)


@pairs("same_either_way")
def test_another_form_of_the_same_is_paid_from_either_side(gold, answer):
    check(answer, gold, is_equal=True)
    check(gold, answer, is_equal=True)


@pairs("different")
def test_what_means_something_else_is_not_paid(gold, answer):
    check(answer, gold, is_equal=False)


@pairs("different_either_way")
def test_what_only_looks_alike_is_not_paid_from_either_side(gold, answer):
    check(answer, gold, is_equal=False)
    check(gold, answer, is_equal=False)


@pytest.mark.parametrize(("gold", "answer"), [*SPACED, *TABLES["in_a_box_too"]])
def test_the_same_in_everyday_spacing_is_paid_in_a_box_too(gold, answer):
    check(answer, gold, is_equal=True)
    check(rf"\boxed{{{answer}}}", gold, is_equal=True)


@pytest.mark.parametrize(("gold", "answer"), TABLES["near_misses"])
def test_a_near_miss_is_not_paid_from_either_side(gold, answer):
    check(answer, gold, is_equal=False)
    check(gold, answer, is_equal=False)
    check(rf"\boxed{{{answer}}}", rf"${gold}$", is_equal=False)


@pytest.mark.parametrize(("gold", "answer"), TABLES["whole_parameters"])
def test_that_a_parameter_is_whole_goes_without_saying(gold, answer):
    check(answer, gold, is_equal=True)
    check(answer.replace("k", "2k", 1), gold, is_equal=False)


@pytest.mark.parametrize(("gold", "answer"), TABLES["rows_and_quantifiers"])
def test_rows_quantifiers_and_letters_are_read(gold, answer):
    check(answer, gold, is_equal=True)
    check(answer.replace("2", "3").replace("1", "4"), gold, is_equal=False)


@pytest.mark.parametrize(("gold", "answer", "options", "is_equal"), TABLES["options"])
def test_what_a_task_chooses_decides(gold, answer, options, is_equal):
    choices = tuple(options.get("choices", ()))
    check(answer, gold, is_equal=is_equal, **{**options, "choices": choices})


PAIRS = json.loads((Path(__file__).parents[3] / "data" / "math_equiv.json").read_text())["items"]
PLAIN = [pair for pair in PAIRS if not pair["contested"]]
HOSTILE = [pair for pair in PAIRS if pair["category"].startswith("adversarial")]


@cache
def judged(answer, gold):
    """The verdict on a pair; three tests ask for it."""
    return grade_math(answer, gold)


def test_98_in_100_uncontested_pairs_are_judged_as_labelled_and_3_in_1500_are_paid_though_wrong():
    verdicts = [(pair, judged(pair["prediction"], pair["gold"])) for pair in PLAIN]
    wrong = [(pair, verdict) for pair, verdict in verdicts if verdict.is_equal != pair["equal"]]
    paid = [pair["id"] for pair, verdict in wrong if verdict.is_equal]
    assert len(paid) <= 3 * len(PLAIN) / 1500, paid
    assert len(wrong) <= 0.02 * len(PLAIN), [pair["id"] for pair, _ in wrong]


@pytest.mark.parametrize("pair", HOSTILE, ids=[pair["id"] for pair in HOSTILE])
def test_a_hostile_answer_runs_no_code_and_is_not_paid(pair, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    verdict = grade_math(pair["prediction"], pair["gold"])
    assert pair["equal"] or not verdict.is_equal
    assert os.listdir(tmp_path) == []  # noqa: PTH208  (names are enough)


def test_bare_pairs_are_judged_alike_from_both_sides():
    bare = [pair for pair in PLAIN if pair["kind"] == "answer" and pair not in HOSTILE]
    kept = [pair for pair in bare if judged(pair["prediction"], pair["gold"]).is_equal == pair["equal"]]
    turned = [pair for pair in kept if judged(pair["gold"], pair["prediction"]).is_equal != pair["equal"]]
    assert len(turned) <= 0.03 * len(kept), [(pair["gold"], pair["prediction"]) for pair in turned]


def test_no_verdict_of_another_status_than_ok_pays():
    for pair in PAIRS:
        verdict = judged(pair["prediction"], pair["gold"])
        assert verdict.status == "ok" or not verdict.is_equal
