"""Events as the reference clients read them: nothing is lost at a cut, whatever the text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ors_server.doors.http.sse import (
    END_OF_LIFE,
    EVENT_CHARACTERS,
    STRING_CHARACTERS,
    comment,
    event,
    result_events,
    result_parts,
    text_json,
)
from ors_server.model.wire import compact_json


def read(stream: bytes) -> list[tuple[str, str]]:
    """Reads a stream as both reference clients do: line by line, stripping the start of every data line."""
    events: list[tuple[str, str]] = []
    data: list[str] = []
    name = "message"
    for line in stream.decode().split("\n"):
        if not line:
            if data:
                events.append((name, "\n".join(data)))
            name, data = "message", []
        elif not line.startswith(":"):
            field, value = line.split(":", 1)
            if field == "event":
                name = value.strip()
            elif field == "data":
                data.append(value.lstrip())
    return events


def reassemble(stream: bytes) -> object:
    events = read(stream)
    assert [name for name, _ in events] == ["chunk"] * (len(events) - 1) + ["end"]
    return json.loads("".join(data for _, data in events))


TEXTS = st.text(st.sampled_from(' \n\t\r\\"aé\u2028\x85\u0000😀{}:,'), max_size=80).map(
    lambda text: text * 150
)


@given(st.lists(TEXTS, max_size=4))
def test_every_result_arrives_as_it_was_sent(texts):
    assert reassemble(result_events(compact_json({"texts": texts}))) == {"texts": texts}


@pytest.mark.parametrize("lead", range(EVENT_CHARACTERS - 12, EVENT_CHARACTERS + 3))
def test_a_cut_before_a_space_loses_nothing(lead):
    value = {"t": "x" * lead + " " * (2 * EVENT_CHARACTERS)}
    stream = result_events(compact_json(value))
    assert reassemble(stream) == value
    assert max(map(len, stream.split(b"\n"))) < EVENT_CHARACTERS + 20
    assert stream.endswith(b"\n\n")
    assert all(b":" in line for line in stream.split(b"\n") if line)


@pytest.mark.parametrize(
    "size",
    [
        0,
        1,
        EVENT_CHARACTERS - 1,
        EVENT_CHARACTERS,
        EVENT_CHARACTERS + 1,
        2 * EVENT_CHARACTERS,
        2 * EVENT_CHARACTERS + 1,
    ],
)
def test_a_payload_is_cut_into_as_few_pieces_as_it_needs(size):
    pieces = read(result_events("x" * size))
    assert len(pieces) <= max(1, -(-size // EVENT_CHARACTERS))
    assert "".join(data for _, data in pieces) == "x" * size


@pytest.mark.parametrize("data", ["", "one", "one\ntwo", "one\r\ntwo\u2028three", "a\ud800b", "\n"])
def test_an_event_holds_a_data_line_for_every_line(data):
    stream = event("error", data)
    assert stream.startswith(b"event: error\ndata: ")
    assert stream.endswith(b"\n\n")
    assert stream.count(b"data: ") == max(1, len(data.splitlines()))


def test_a_comment_is_no_event_and_a_session_ends_with_an_empty_end():
    assert event("end", "") == END_OF_LIFE
    assert read(comment("ping")) == []


@given(
    st.lists(
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=3 * EVENT_CHARACTERS), max_size=6
    )
)
def test_a_payload_in_parts_is_written_as_it_is_in_one(parts):
    assert b"".join(result_parts(parts)) == result_events("".join(parts))


@pytest.mark.parametrize(
    "text", ["", "a", "é\ud800\x00", "😀" * (STRING_CHARACTERS + 1), '"' * 3 * STRING_CHARACTERS]
)
def test_a_text_in_parts_is_the_same_json(text):
    assert "".join(text_json(text)) == json.dumps(text)
