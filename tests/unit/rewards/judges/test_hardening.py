"""Texts of strangers stay texts."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server.rewards.judges.hardening import MASTER_KEYS, clean, fence, is_degenerate, shorten
from tests.fixtures.case_tables import tables
from tests.fixtures.loop_slices import yardstick

TABLES = tables("hardening")


def tag_of(text, name="answer"):
    return re.match(rf"<({name}-[0-9a-f]{{16}})>\n", text)[1]


def test_a_block_is_opened_and_closed_by_a_tag_of_its_own():
    shown = fence({"task": "What is 1 + 1?", "answer": "2"})
    task = tag_of(shown, "task")
    nonce = task.removeprefix("task-")
    assert shown == f"<{task}>\nWhat is 1 + 1?\n</{task}>\n\n<answer-{nonce}>\n2\n</answer-{nonce}>"


def test_the_same_texts_give_the_same_prompt_and_others_another_tag():
    assert fence({"answer": "2"}) == fence({"answer": "2"})
    assert tag_of(fence({"answer": "2"})) != tag_of(fence({"answer": "3"}))


@pytest.mark.parametrize("attack", TABLES["closing_tags"])
def test_a_text_cannot_close_its_block(attack):
    shown = fence({"task": "t", "answer": attack.replace("{nonce}", tag_of(fence({"answer": "x"}))[7:])})
    inner = shown.partition("<answer-")[2].partition("\n")[2].rpartition("\n")[0]
    assert "<" not in inner


@pytest.mark.parametrize("attack", TABLES["marks"])
def test_marks_of_chat_templates_are_broken(attack):
    inner = fence({"answer": attack}).splitlines()[1]
    assert attack not in inner
    assert not re.search(r"<\||\[/?INST\]|</?s>|<start_of_turn>|<<SYS>>", inner)


def test_ordinary_signs_are_left_alone():
    text = "if a < b and x[0] > 1: print('<b>')  # né ✓ \n\t中文"
    assert clean(text) == text
    assert fence({"answer": text}).split("\n", 1)[1].startswith(text)


@pytest.mark.parametrize(
    "hidden",
    ["\u200b", "\u202e", "\u2066", "\ufeff", "\U000e0041", "\ufe0f", "\x00", "\x1b", "\u00ad", "\u3164"],
)
def test_what_a_reader_does_not_see_is_removed(hidden):
    assert clean(f"a{hidden}b") == "ab"


def test_a_lone_surrogate_becomes_a_character_that_can_be_sent():
    assert clean("a\ud800b") == "a\ufffdb"


def test_a_long_text_is_cut_in_its_middle_and_says_so():
    shown = shorten("a" * 900 + "b" * 900, 100)
    assert shown.startswith("a" * 75 + "\n[... 1700 characters are left out here ...]\n")
    assert shown.endswith("b" * 25)
    assert shorten("a" * 100, 100) == "a" * 100


@pytest.mark.parametrize(
    "answer",
    [
        *MASTER_KEYS,
        "...",
        "\u200b",
        "\u202e.",
        "?!",
        "thought process:",
        "SOLUTION:",
        "**Answer:**",
        "Lösung:",
        "  \n ",
    ],
)
def test_an_answer_without_content_is_degenerate(answer):
    assert is_degenerate(answer)


@pytest.mark.parametrize(
    "answer", ["4", "-1", "x", "no", "解 is 4", "Solution: 4", "π", "+", "The answer is 4."]
)
def test_a_short_answer_is_not(answer):
    assert not is_degenerate(answer)


def test_a_least_length_may_be_asked_for():
    assert is_degenerate("4", min_characters=2)
    assert not is_degenerate("42", min_characters=2)


@given(st.dictionaries(st.sampled_from(["task", "answer", "reference"]), st.text(max_size=60), min_size=1))
def test_whatever_the_texts_there_is_one_block_for_each_and_it_can_be_sent(blocks):
    shown = fence(blocks)
    shown.encode()
    nonce = re.match(r"<\w+-([0-9a-f]{16})>", shown)[1]
    assert shown.count(nonce) == 2 * len(blocks)


@pytest.mark.parametrize("letter", ["a", "é", ".", "\u200b", "\n", "\ud800", "<", "解"])
def test_a_long_text_is_cleaned_cut_and_looked_at_in_no_time(letter):
    text = letter * 3_000_000
    limit = 2 * yardstick()
    began = time.thread_time()
    shown = fence({"answer": text})
    assert is_degenerate(text) == (letter in ".\u200b\n")
    assert time.thread_time() - began < limit
    assert len(shown) < 5 * 20_000


def test_a_very_long_text_is_shown_by_its_ends():
    invisible = "\u200b" * 500_000
    shown = fence({"answer": f"begin{invisible}middle{invisible}end"})
    lines = shown.splitlines()[1:-1]
    assert lines == ["begin", "[... 1000006 characters are left out here ...]", "end"]
    shown = fence({"answer": "a" * 300_000 + "b" * 300_000}, 100)
    lines = shown.splitlines()[1:-1]
    assert lines == ["a" * 75, "[... 599900 characters are left out here ...]", "b" * 25]


def test_letters_among_many_signs_make_an_answer():
    assert not is_degenerate("." * 1_000_000 + "yes")
    assert is_degenerate("." * 1_000_000 + "\u200b")
