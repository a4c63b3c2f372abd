"""What a terminal is sent of texts that strangers wrote."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server.cli.terminal import MAX_CHARACTERS, MAX_LINES, clean, clean_line, cut


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u00e9 \u4e2d \U0001f600", "plain \u00e9 \u4e2d \U0001f600"),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb", "a\nb"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b2J", "\\x9b2J"),
        ("\x00\x07\x08\x7f", "\\x00\\x07\\x08\\x7f"),
        ("\u202egpj.exe", "\\u202egpj.exe"),
        ("\u2066\u2069\u200f", "\\u2066\\u2069\\u200f"),
        ("\u2028\x85", "\\u2028\\x85"),
        ("\ud800", "\\ud800"),
    ],
    ids=ascii,
)
def test_what_a_terminal_would_obey_is_spelled_out(text, shown):
    assert clean(text) == shown


@given(st.text())
def test_no_text_keeps_what_a_terminal_obeys(text):
    shown = clean_line(text)
    assert re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown) is None
    shown.encode()


def test_one_line_stays_one_line():
    assert clean_line("a\nb\tc\r\n") == "a\\nb c\\n"


def test_a_short_text_is_not_cut():
    assert cut("a\nb\n", whole=False) == (["a", "b"], None)
    assert cut("", whole=False) == ([""], None)
    assert cut("x" * MAX_CHARACTERS, whole=False) == (["x" * MAX_CHARACTERS], None)
    assert cut("\n" * MAX_LINES, whole=False) == ([""] * MAX_LINES, None)


@pytest.mark.parametrize(
    ("text", "lines", "notice"),
    [
        ("\n".join("ab" for _ in range(25)), 20, "... 5 more lines, 10 more characters; --full shows them"),
        ("x" * 2001, 1, "... 1 more characters; --full shows them"),
        (f"{'x' * 2000}\nyy", 1, "... 1 more lines, 2 more characters; --full shows them"),
        ("\n" * 21, 20, "... 1 more lines, 0 more characters; --full shows them"),
    ],
    ids=["lines", "characters", "both", "empty lines"],
)
def test_a_long_text_is_cut_with_a_notice(text, lines, notice):
    shown, told = cut(text, whole=False)
    assert (len(shown), told) == (lines, notice)
    whole, told = cut(text, whole=True)
    assert told is None
    assert len("".join(whole)) == len(text.replace("\n", ""))
