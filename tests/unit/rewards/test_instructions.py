"""Instructions that can be checked by looking: every kind, the variants, what cannot be checked."""

import pytest

from ors_server.rewards.scoring import score
from ors_server.rewards.text.instructions import instruction_reward
from tests.fixtures.case_tables import tables

TABLES = tables("instructions")


def followed(text, *instructions, **options):
    return score(instruction_reward, final_response=text, instructions=list(instructions), **options)


@pytest.mark.parametrize(("kind", "bounds", "yes", "no"), TABLES["followed"])
def test_an_instruction_is_followed_or_not(kind, bounds, yes, no):
    instruction = {"kind": kind, **bounds}
    assert followed(yes, instruction).reward == 1.0
    assert followed(no, instruction).reward == 0.0


def test_all_or_a_fraction_and_nothing_for_a_blank_text():
    many = [{"kind": "lower"}, {"kind": "no_comma"}, {"kind": "words", "at_least": 3}]
    result = followed("a b", *many)
    assert (result.reward, result.extras["followed"]) == (0.0, [True, True, False])
    assert followed("a b", *many, pays="fraction").reward == pytest.approx(2 / 3)
    assert followed(" \n", *many, pays="fraction").reward == 0.0
    assert followed("", {"kind": "forbid", "words": ["x"]}, loose=True).reward == 0.0


def test_loosely_the_first_and_last_lines_and_asterisks_do_not_count():
    text = 'Sure:\n**{"a": 1}**\nHope this helps!'
    assert followed(text, {"kind": "json"}).reward == 0.0
    assert followed(text, {"kind": "json"}, loose=True).reward == 1.0


@pytest.mark.parametrize("instruction", TABLES["unchecked"], ids=str)
def test_what_cannot_be_checked_is_a_bad_gold(instruction):
    for text in ("a", ""):
        assert (result := followed(text, instruction)).status == "bad_gold"
        assert result.reward is None


@pytest.mark.parametrize("instructions", [[], "lower", None, [{"kind": "lower"}] * 51])
def test_no_instructions_are_a_bad_gold(instructions):
    assert score(instruction_reward, final_response="a", instructions=instructions).status == "bad_gold"


@pytest.mark.parametrize(
    "text", ["." * 200_000, "*" * 200_000, "- " * 100_000, "[" * 200_000, "\n" * 200_000, "<" * 200_000]
)
def test_long_texts_take_linear_time(text):
    kinds = ["words", "sentences", "paragraphs", "bullets", "highlights", "placeholders"]
    checks = [{"kind": kind, "at_least": 10**9} for kind in kinds]
    result = followed(text, *checks, {"kind": "title"}, {"kind": "quoted"}, loose=True, pays="fraction")
    assert result.reward == 0.0
    assert followed(text + "x", {"kind": "lower"}).status == "unparsed_answer"
