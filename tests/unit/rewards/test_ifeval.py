"""IFEval's instructions on its own data, against recordings of its reference, and what cannot be checked."""

import pytest

from ors_server.rewards.scoring import score
from ors_server.rewards.text.ifeval import INSTRUCTION_IDS, count_sentences, split_words
from ors_server.rewards.text.instructions import instruction_reward
from tests.fixtures.case_tables import tables
from tests.fixtures.recorded_rewards import recorded_cases

TABLES = tables("ifeval")

CASES = recorded_cases("ifeval")
PARTED = recorded_cases("punkt_sentences")


def judged(text, name, arguments, **options):
    fields = {"instruction_id_list": [name], "kwargs": [arguments]}
    return score(instruction_reward, final_response=text, **fields, **options)


@pytest.mark.parametrize("name", INSTRUCTION_IDS)
def test_every_instruction_is_followed_or_not_as_in_the_reference(name):
    cases = [case for case in CASES if case["input"]["instruction_id_list"] == [name]]
    assert {case["strict"] for case in cases} == {True, False}
    for case in cases:
        for loose in (False, True):
            result = score(instruction_reward, loose=loose, **case["input"])
            assert result.reward == float(case["loose" if loose else "strict"]), case


def test_all_twenty_five_are_there():
    assert len(INSTRUCTION_IDS) == len({case["input"]["instruction_id_list"][0] for case in CASES}) == 25


def test_several_instructions_are_paid_together_or_in_part():
    fields = {
        "instruction_id_list": ["punctuation:no_comma", "startend:quotation", "detectable_format:title"],
        "kwargs": [{}, {"num_words": None}, None],
    }
    result = score(instruction_reward, final_response='"<<So>>, it is"', **fields)
    assert (result.reward, result.extras["followed"]) == (0.0, [False, True, True])
    part = score(instruction_reward, final_response='"<<So>>, it is"', pays="fraction", **fields)
    assert part.reward == pytest.approx(2 / 3)
    assert score(instruction_reward, final_response=" \n", pays="fraction", **fields).reward == 0.0


def test_reasoning_is_no_part_of_what_is_checked():
    thought = "<think>Commas, commas, commas.</think>\nthere is plainly no such sign in this english sentence"
    assert judged(thought, "punctuation:no_comma", {}).reward == 1.0
    assert judged(thought, "change_case:english_lowercase", {}).reward == 1.0


@pytest.mark.parametrize(("name", "arguments"), TABLES["unchecked"], ids=str)
def test_data_that_cannot_be_checked_is_a_bad_gold(name, arguments):
    result = judged("some text", name, arguments)
    assert (result.reward, result.status) == (None, "bad_gold")


@pytest.mark.parametrize("kwargs", [None, [], [{}], "{}"], ids=str)
def test_ids_without_their_arguments_are_a_bad_gold(kwargs):
    ids = ["punctuation:no_comma", "startend:quotation"]
    result = score(instruction_reward, final_response="a", instruction_id_list=ids, kwargs=kwargs)
    assert result.status == "bad_gold"


def test_sentences_and_words_are_parted_nearly_as_nltk_parts_them():
    """What Punkt has learned of rare words is left out, so that few of these nasty texts may differ."""
    differing = [text for text, sentences, _ in PARTED if count_sentences(text) != sentences]
    assert len(differing) <= 0.03 * len(PARTED)
    for text, _, large in PARTED:
        assert sum(word.isupper() for word in split_words(text)) == large, text


HOSTILE = TABLES["hostile_pieces"]


@pytest.mark.parametrize("piece", HOSTILE, ids=ascii)
def test_long_responses_are_checked(piece):
    text = piece * (150_000 // len(piece))
    arguments = {
        name: case["input"]["kwargs"][0] for case in CASES for name in case["input"]["instruction_id_list"]
    }
    fields = {"instruction_id_list": list(arguments), "kwargs": list(arguments.values()), "loose": True}
    result = score(instruction_reward, final_response=text, pays="fraction", **fields)
    assert result.status == "graded"
    assert len(result.extras["followed"]) == 25
