"""The labelled pairs of `math_equiv.json`: how many are judged as labelled, and that none does harm."""

import json
import os
from functools import cache
from pathlib import Path

import pytest

from ors_server.rewards.math import grade_math

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
