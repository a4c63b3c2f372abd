import subprocess
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ors_server.sandboxes.shell.shell_marks import ExitMark, MarkParser, PromptMark, unquote

SAID = b"bash: hm\n\x1b]ors;p;3;0;12;/work\x07\x1b]ors;x;137\x07more\x1b]ors;p;0;1;13;$'/a\\nb\\007'\x07"
MARKS = [PromptMark(3, 0, 12, "/work"), ExitMark(137), PromptMark(0, 1, 13, "/a\nb\a")]


@given(st.lists(st.integers(min_value=0, max_value=len(SAID)), max_size=8))
def test_marks_are_found_however_the_terminal_is_cut(cuts):
    reader, found = MarkParser(), []
    edges = [0, *sorted(cuts), len(SAID)]
    for begin, end in pairwise(edges):
        found += reader.feed(SAID[begin:end])
    assert found == MARKS
    assert reader.other_output == "bash: hm\nmore"


@pytest.mark.parametrize("body", [b"p;1", b"p;a;b;c;/", b"x;", b"z;1", b"", b"p;1;2;3"])
def test_a_mark_that_makes_no_sense_is_none(body):
    assert MarkParser().feed(b"\x1b]ors;" + body + b"\x07") == []


def test_a_mark_that_never_ends_does_not_pile_up():
    reader = MarkParser()
    reader.feed(b"\x1b]ors;p;" + b"x" * 300_000)
    assert reader.feed(b"\x1b]ors;x;1\x07") == [ExitMark(1)]


def test_remarks_are_bounded():
    reader = MarkParser()
    for _ in range(100):
        reader.feed(b"y" * 1000)
    assert len(reader.other_output) == 4096


@settings(max_examples=40)
@given(st.binary(min_size=1, max_size=30).filter(lambda data: b"\0" not in data))
def test_what_bash_quotes_is_unquoted(data):
    quoted = subprocess.run(
        ["/bin/bash", "-c", 'printf %q "$1"', "_", data],
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    ).stdout
    assert unquote(quoted.decode(errors="surrogateescape")).encode(errors="surrogateescape") == data
