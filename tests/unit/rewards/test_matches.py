"""Texts are matched as a whole, as words, by patterns: what counts as the same, and what never does."""

import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server.installation import install_hint
from ors_server.rewards.arise import answer_match_reward, task_success
from ors_server.rewards.reading.optional_packages import load_package
from ors_server.rewards.reward_errors import MissingPackageError, RewardDefinitionError, RewardFieldError
from ors_server.rewards.reward_trajectory import Trajectory
from ors_server.rewards.scoring import score
from ors_server.rewards.text import matches, texts
from ors_server.rewards.text.matches import (
    all_of_match_reward,
    exact_match_reward,
    normalised_match_reward,
    regex_match_reward,
    strict_answer_match_reward,
    word_match_reward,
)
from ors_server.rewards.text.texts import (
    MAX_GOLD,
    MAX_GOLDS,
    MAX_RESPONSE,
    BadGoldError,
    TextForm,
    UnparsedAnswerError,
    normalise_golds,
    normalise_text,
    read_golds,
)
from tests.fixtures.case_tables import tables

TABLES = tables("matches")
WITH_GOLDS = (
    exact_match_reward,
    normalised_match_reward,
    word_match_reward,
    all_of_match_reward,
    strict_answer_match_reward,
)


def paid(reward, response, gold, **options):
    result = score(reward, final_response=response, answer=gold, **options)
    assert result.status == "graded", result
    return result.reward


@pytest.mark.parametrize(("response", "gold", "wanted"), TABLES["exact"])
def test_an_exact_match_is_the_same_characters(response, gold, wanted):
    assert paid(exact_match_reward, response, gold) == wanted


def test_an_exact_match_may_count_white_space():
    assert paid(exact_match_reward, " a", "a", strip=False) == 0
    assert paid(exact_match_reward, " a", " a", strip=False) == 1


@pytest.mark.parametrize(("response", "gold"), TABLES["normalised_same"])
def test_a_normalised_match_passes_over_how_a_text_is_typed(response, gold):
    assert paid(normalised_match_reward, response, gold) == 1
    assert paid(normalised_match_reward, gold, response) == 1


@pytest.mark.parametrize(("response", "gold"), TABLES["normalised_different"])
def test_a_normalised_match_drops_no_sign_and_no_word(response, gold):
    assert paid(normalised_match_reward, response, gold) == 0


@pytest.mark.parametrize(
    ("option", "response", "gold"),
    [
        ("casefold", "US", "us"),
        ("nfkc", "①", "1"),
        ("collapse", "a  b", "a b"),
        ("typography", "\u2019", "'"),
    ],
)
def test_each_rule_of_the_normal_form_can_be_turned_off(option, response, gold):
    assert paid(normalised_match_reward, response, gold) == 1
    assert paid(normalised_match_reward, response, gold, **{option: False}) == 0


@given(st.text(max_size=60))
def test_a_normal_form_is_its_own_normal_form(text):
    for form in (
        TextForm(),
        TextForm(casefold=False),
        TextForm(nfkc=False),
        TextForm(collapse=False),
        TextForm(typography=False),
    ):
        try:
            once = normalise_text(text, form)
        except UnparsedAnswerError:
            return
        assert normalise_text(once, form) == once


def test_the_normal_form_of_every_character_is_its_own():
    letters = [chr(point) for point in range(sys.maxunicode + 1)]
    for letter in letters:
        if unicodedata.decomposition(letter) or letter.casefold() != letter or letter.isspace():
            once = normalise_text(letter)
            assert normalise_text(once) == once, ascii(letter)


@given(st.from_regex(r"[-+]?[0-9]{1,4}([.,/][0-9]{1,3})?[%+#]{0,2}", fullmatch=True))
def test_signs_digits_and_marks_survive_the_normal_form(text):
    assert normalise_text(text) == text


@given(st.text(max_size=30), st.text(min_size=1, max_size=30))
def test_a_match_is_symmetric(left, right):
    results = [
        score(normalised_match_reward, final_response=a, answer=b) for a, b in ((left, right), (right, left))
    ]
    if all(one.status == "graded" for one in results):
        assert results[0].reward == results[1].reward


@pytest.mark.parametrize(("response", "gold"), TABLES["words_found"])
def test_a_word_is_found_in_a_short_sentence(response, gold):
    assert paid(word_match_reward, response, gold) == 1


@pytest.mark.parametrize(("response", "gold"), TABLES["words_not_found"])
def test_a_part_of_a_word_or_number_and_a_denied_word_are_none(response, gold):
    assert paid(word_match_reward, response, gold) == 0


CITIES = ["Paris", "London", "York", "New York"]


@pytest.mark.parametrize(("response", "wanted", "is_listing"), TABLES["one_of_several"])
def test_an_answer_that_names_another_choice_names_none(response, wanted, is_listing):
    result = score(word_match_reward, final_response=response, answer="York", choices=CITIES)
    assert (result.reward, result.extras["is_listing"]) == (wanted, is_listing)


def test_of_two_choices_in_one_place_the_longer_is_meant():
    task = {"choices": ["New", "New York", "New York City"]}
    for gold in task["choices"]:
        assert paid(word_match_reward, gold, gold, **task) == 1
        others = [other for other in task["choices"] if other != gold]
        assert [paid(word_match_reward, gold, other, **task) for other in others] == [0, 0]


def test_a_long_text_around_a_word_is_no_answer():
    assert paid(word_match_reward, "word " * 19 + "Paris", "Paris") == 1
    assert paid(word_match_reward, "word " * 20 + "Paris", "Paris") == 0
    assert paid(word_match_reward, "word " * 20 + "Paris", "Paris", max_ratio=30) == 1
    assert paid(word_match_reward, "word " * 30 + "New York", "New York") == 1


@pytest.mark.parametrize(
    ("response", "wanted", "share"),
    [
        ("York and Paris", 1, 1),
        ("Paris", 0, 0.5),
        ("Paris and New York", 0, 0.5),
        ("York, Paris, London", 0, 1),
        ("", 0, 0),
    ],
)
def test_all_of_several_texts_must_be_there(response, wanted, share):
    result = score(all_of_match_reward, final_response=response, answer=["York", "Paris"], choices=CITIES)
    assert (result.reward, result.extras["found"]) == (wanted, share)
    partly = paid(all_of_match_reward, response, ["York", "Paris"], choices=CITIES, partial=True)
    assert partly == (0 if "London" in response or "New" in response else share)


@pytest.mark.parametrize("reward", WITH_GOLDS, ids=lambda reward: reward.name)
@pytest.mark.parametrize(
    "gold",
    [
        "",
        "  ",
        [],
        ["Paris", ""],
        None,
        5,
        ["Paris", 5],
        True,
        {},
        "x" * (MAX_GOLD + 1),
        ["x"] * (MAX_GOLDS + 1),
    ],
    ids=lambda gold: repr(gold)[:12],
)
def test_a_gold_that_is_no_text_is_a_bad_gold(reward, gold):
    result = score(reward, final_response="", answer=gold)
    assert (result.reward, result.status) == (None, "bad_gold")
    assert result.reason


@pytest.mark.parametrize("reward", [normalised_match_reward, word_match_reward, all_of_match_reward])
def test_a_gold_that_is_too_much_for_unicode_is_a_bad_gold(reward):
    assert score(reward, final_response="a", answer="á" + "́" * 40).status == "bad_gold"
    assert score(reward, final_response="a", answer="\u200b").status == "graded"


@pytest.mark.parametrize("reward", [*WITH_GOLDS, regex_match_reward], ids=lambda reward: reward.name)
@pytest.mark.parametrize("response", [None, 5, b"Paris", ["Paris"]])
def test_a_response_that_is_no_text_is_an_error(reward, response):
    result = score(reward, final_response=response, answer="Paris", pattern="Paris")
    assert (result.reward, result.status) == (None, "error")


def test_an_answer_that_is_too_long_is_wrong_and_one_that_fits_is_graded():
    million = "Paris " * 170_000
    fitting = "Paris " + "seine " * MAX_RESPONSE
    assert paid(exact_match_reward, million, "Paris") == 0
    for reward in (normalised_match_reward, word_match_reward, all_of_match_reward, regex_match_reward):
        result = score(reward, final_response=million, answer="Paris", pattern="Paris")
        assert (result.reward, result.status) == (0.0, "unparsed_answer"), reward.name
        assert "characters" in str(result.reason)
        fits = score(reward, final_response=fitting[:MAX_RESPONSE], answer="Paris", pattern="Paris")
        assert fits.status == "graded", reward.name
    many = [f"gold {number}" for number in range(MAX_GOLDS)]
    result = score(word_match_reward, final_response="gold " * 60_000, answer=many, max_ratio=1e9)
    assert (result.reward, result.status) == (0.0, "unparsed_answer")
    assert paid(word_match_reward, "gold 7 and " * 3, many, max_ratio=1e9) == 1


def test_marks_without_end_are_not_put_in_order():
    response = "\u0301\u0323" * 50_000  # normalising them takes the square of their number
    result = score(normalised_match_reward, final_response=response, answer="a")
    assert (result.reward, result.status) == (0.0, "unparsed_answer")


PATTERN_TABLES = tables("patterns_and_strict_matches")


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


@pytest.mark.parametrize(("match", "response", "gold", "wanted"), PATTERN_TABLES["strict"])
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


@pytest.mark.parametrize(("match", "expected", "outcome", "wanted"), PATTERN_TABLES["arise"])
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
    with pytest.raises(MissingPackageError, match=re.escape(install_hint("text"))):
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
    with pytest.raises(RewardFieldError, match="got a NoneType"):
        texts.read_response(None)
    assert matches.MAX_RATIO == 20
