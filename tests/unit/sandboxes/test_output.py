from hypothesis import given
from hypothesis import strategies as st

from ors_server.sandboxes.output import Capture, Output

pieces = st.lists(st.binary(max_size=60), max_size=20)
caps = st.integers(min_value=0, max_value=40)


@given(pieces, caps, caps)
def test_head_and_tail_are_the_ends_and_every_byte_is_counted(parts, head, tail):
    whole = b"".join(parts)
    capture = Capture(head, tail)
    for part in parts:
        capture.feed(part)
    output = capture.output()
    assert output.total == len(whole)
    assert output.head == whole[:head]
    rest = whole[head:]
    assert output.tail == (rest[-tail:] if tail else b"")
    assert output.omitted == len(whole) - len(output.kept)


def test_what_was_cut_is_said_in_words():
    capture = Capture(2, 2)
    capture.feed(b"abcdefg")
    assert capture.output().text == "ab\n[... 3 of 7 bytes omitted ...]\nfg"


def test_text_survives_a_cut_through_a_character_and_bytes_that_are_none():
    assert Output("é".encode()[:1], b"\xff", 2).text == "\ufffd\ufffd"
    assert Output(b"\xc3", b"\xa9", 2).text == "é"


def test_taking_starts_afresh():
    capture = Capture(0, 3)
    capture.feed(b"abcd")
    assert capture.take() == Output(b"", b"bcd", 4)
    assert capture.take() == Output()
