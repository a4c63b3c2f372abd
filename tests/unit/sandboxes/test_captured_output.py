import re

from hypothesis import given
from hypothesis import strategies as st

from ors_server.sandboxes.captured_output import Output, OutputCapture

pieces = st.lists(st.binary(max_size=60), max_size=20)
caps = st.integers(min_value=0, max_value=40)


@given(pieces, caps, caps)
def test_head_and_tail_are_the_ends_and_every_byte_is_counted(parts, head, tail):
    whole = b"".join(parts)
    capture = OutputCapture(head, tail)
    for part in parts:
        capture.feed(part)
    output = capture.output()
    assert output.total == len(whole)
    assert output.head == whole[:head]
    rest = whole[head:]
    assert output.tail == (rest[-tail:] if tail else b"")
    assert output.omitted == len(whole) - len(output.kept)


def test_what_was_cut_is_said_in_words():
    capture = OutputCapture(2, 2)
    capture.feed(b"abcdefg")
    assert capture.output().text == "ab\n[... 3 of 7 bytes omitted ...]\nfg"


def test_text_survives_a_cut_through_a_character_and_bytes_that_are_none():
    assert Output("é".encode()[:1], b"\xff", 2).text == "\ufffd\ufffd"
    assert Output(b"\xc3", b"\xa9", 2).text == "é"


def test_taking_starts_afresh():
    capture = OutputCapture(0, 3)
    capture.feed(b"abcd")
    assert capture.take() == Output(b"", b"bcd", 4)
    assert capture.take() == Output()


def test_a_cut_is_at_the_ends_of_lines_and_lines_are_counted():
    capture = OutputCapture(12, 12)
    capture.feed(b"".join(b"line %d\n" % number for number in range(10)))
    assert capture.output().text == "line 0\n[... 8 lines, 56 of 70 bytes omitted ...]\nline 9\n"
    assert capture.take().lines == 10
    assert capture.output().lines == 0


def test_a_long_line_is_cut_within_itself():
    capture = OutputCapture(6, 6)
    capture.feed(b"a\n" + b"b" * 20 + b"\nc")
    assert capture.output().text == "a\nbbbb\n[... 12 of 24 bytes omitted ...]\nbbbb\nc"


@given(st.lists(st.sampled_from([b"x", b"\n", b"yy\n", "\u00e9".encode()]), max_size=60), caps, caps)
def test_nothing_is_shown_twice_and_all_is_accounted_for(parts, head, tail):
    capture = OutputCapture(head, tail)
    for part in parts:
        capture.feed(part)
    output, whole = capture.output(), b"".join(parts)
    if not output.omitted:
        assert output.text == whole.decode(errors="replace")
        return
    said = re.search(r"\[\.\.\. (?:(\d+) lines, )?(\d+) of (\d+) bytes omitted \.\.\.\]\n", output.text)
    assert int(said[3]) == len(whole)
    assert output.omitted <= int(said[2]) <= len(whole)
    assert int(said[1] or 0) <= whole.count(b"\n")
