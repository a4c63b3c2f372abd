"""Matches by pattern within bounds, the strict siblings of ARISE's, and what they share."""

import sys

import pytest

from ors_server.rewards.arise import answer_match_reward, task_success
from ors_server.rewards.reading.optional_packages import load_package
from ors_server.rewards.reward_errors import MissingPackageError, RewardDefinitionError, RewardFieldError
from ors_server.rewards.reward_trajectory import Trajectory
from ors_server.rewards.scoring import score
from ors_server.rewards.text import matches, texts
from ors_server.rewards.text.matches import (
    regex_match_reward,
    strict_answer_match_reward,
)
from ors_server.rewards.text.texts import (
    BadGoldError,
    normalise_golds,
    read_golds,
)
from tests.fixtures.case_tables import tables

TABLES = tables("patterns_and_strict_matches")


def paid(reward, response, gold, **options):
    result = score(reward, final_response=response, answer=gold, **options)
    assert result.status == "graded", result
    return result.reward


@pytest.mark.parametrize(
    ("response", "pattern", "options", "wanted"),
    [
        ("it is 14", r"\b4\b", {}, 0),
        ("it is 4", r"\b4\b", {}, 1),
        ("it is 4", r"\d", {"mode": "fullmatch"}, 0),
        ("4", r"\d", {"mode": "fullmatch"}, 1),
        ("YES", "yes", {}, 0),
        ("YES", "yes", {"ignore_case": True}, 1),
        ("", "a", {}, 0),
    ],
)
def test_a_pattern_is_found_or_not(response, pattern, options, wanted):
    result = score(regex_match_reward, final_response=response, pattern=pattern, **options)
    assert (result.reward, result.status) == (wanted, "graded")


@pytest.mark.parametrize("pattern", ["(x+x+)+y", "(x|xx)+y", "(x*)*y", "^(([x])+.)+[X]$"])
def test_an_answer_over_which_a_pattern_backtracks_too_long_is_wrong(pattern):
    result = score(regex_match_reward, final_response="x" * 90_000, pattern=pattern, time_limit=0.05)
    assert (result.reward, result.status) in {(0.0, "unparsed_answer"), (0.0, "graded")}
    if pattern == "(x+x+)+y":
        assert result.status == "unparsed_answer"
        assert "0.05 seconds" in str(result.reason)


@pytest.mark.parametrize(
    "pattern", ["", "(", "a*", "x|", "^", "a" * 1001, None, 5, "(?P<a>x)(?P<a>", "[z-a]"]
)
def test_a_pattern_that_is_none_or_pays_for_silence_is_a_bad_gold(pattern):
    result = score(regex_match_reward, final_response="", pattern=pattern)
    assert (result.reward, result.status) == (None, "bad_gold")


@pytest.mark.parametrize("options", [{"mode": "match"}, {"time_limit": 0}, {"time_limit": float("nan")}])
def test_illegal_options_of_a_search_are_said(options):
    with pytest.raises(RewardDefinitionError, match="search or fullmatch"):
        regex_match_reward(final_response="", pattern="a", **options)


@pytest.mark.parametrize(("match", "response", "gold", "wanted"), TABLES["strict"])
def test_the_strict_sibling_of_arise_has_not_its_hazards(match, response, gold, wanted):
    assert paid(strict_answer_match_reward, response, gold, match=match) == wanted


def test_the_strict_sibling_pays_nothing_for_a_list_or_for_no_gold():
    assert paid(strict_answer_match_reward, "Paris London Rome", "Paris") == 0
    for match in ("exact", "word", "numeric"):
        for gold in ("", None, [""]):
            result = score(strict_answer_match_reward, final_response="", answer=gold, match=match)
            assert (result.reward, result.status) == (None, "bad_gold")
    with pytest.raises(RewardDefinitionError, match="exact, word or numeric"):
        strict_answer_match_reward(final_response="a", answer="a", match="substring")


@pytest.mark.parametrize(("match", "expected", "outcome", "wanted"), TABLES["arise"])
def test_arise_s_own_rewards_have_the_same_strict_matches(match, expected, outcome, wanted):
    for name in ("expected", "expected_output"):
        trajectory = Trajectory(outcome=outcome, metadata={name: expected})
        assert score(answer_match_reward, trajectory, match=match).reward == wanted
    trajectory = Trajectory(outcome=outcome, metadata={"expected": expected})
    assert score(task_success, trajectory, match=match).reward == wanted


@pytest.mark.parametrize("metadata", [{}, {"expected": None}, {"expected": " "}, {"expected_output": ""}])
def test_arise_s_half_for_no_expected_value_is_a_bad_gold_where_the_match_is_strict(metadata):
    trajectory = Trajectory(outcome="a", metadata=metadata)
    for match in ("exact", "word", "numeric"):
        assert score(answer_match_reward, trajectory, match=match).status == "bad_gold"
    assert score(answer_match_reward, Trajectory(outcome="a")).reward == 0.5


def test_a_missing_package_is_said_with_the_extra_that_has_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "regex", None)  # what makes an import fail
    with pytest.raises(MissingPackageError, match=r"pip install 'ors-server\[text\]'"):
        load_package("regex")
    result = score(regex_match_reward, final_response="a", pattern="a")
    assert (result.reward, result.status) == (None, "error")


def test_golds_are_read_with_their_reasons():
    assert read_golds("a") == ["a"]
    assert read_golds(("a", "b")) == ["a", "b"]
    with pytest.raises(BadGoldError, match="an empty answer would be right"):
        read_golds([" "])
    with pytest.raises(BadGoldError, match="marks"):
        normalise_golds(["a" + "́" * 40])
    with pytest.raises(RewardFieldError, match="not a NoneType"):
        texts.read_response(None)
    assert matches.MAX_RATIO == 20
