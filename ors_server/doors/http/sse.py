"""Server-sent events as both reference clients read them, with results in pieces that survive their parsing.

The clients strip white space from the start of every data line, so a piece of a result never begins with a
space: results are compact ASCII JSON, in which a space occurs only inside a string and may be written as an
escape.
"""

import io
from collections.abc import Iterable, Iterator
from typing import cast

from ors_server.model.wire import compact_json

EVENT_CHARACTERS = 4096
"""Characters, and bytes, of one piece; well below the 64 KiB that a client reads as one line."""

STRING_CHARACTERS = 1 << 16
"""Characters of a string that are written at once."""

END_OF_LIFE = b"event: end\ndata: \n\n"

EVENT_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
"""Headers of an answer that is a stream of events."""


def event(name: str, data: str) -> bytes:
    """Write one event; each line of the data becomes a data line."""
    body = "\ndata: ".join(data.splitlines())
    return f"event: {name}\ndata: {body}\n\n".encode(errors="replace")


def comment(text: str) -> bytes:
    """Write a comment of one line, which clients ignore; it keeps the connection alive."""
    return f": {text}\n\n".encode()


def text_json(text: str) -> Iterator[str]:
    """Write a string as compact ASCII JSON, in parts."""
    yield '"'
    for start in range(0, len(text), STRING_CHARACTERS):
        yield compact_json(text[start : start + STRING_CHARACTERS])[1:-1]
    yield '"'


def result_events(payload: str) -> bytes:
    """Write a result, as compact ASCII JSON, as `chunk` events and a last `end` event."""
    if len(payload) <= EVENT_CHARACTERS and not payload.startswith(" "):
        return f"event: end\ndata: {payload}\n\n".encode("ascii")
    return b"".join(result_parts((payload,)))


def result_parts(payload: Iterable[str]) -> Iterator[bytes]:
    """Write a result as `chunk` events and a last `end` event, from parts of its compact ASCII JSON."""
    rest = ""
    for part in payload:
        rest += part
        last = max(0, (len(rest) - 1) // EVENT_CHARACTERS) * EVENT_CHARACTERS
        if last:
            yield b"".join(
                _piece("chunk", rest[at : at + EVENT_CHARACTERS]) for at in range(0, last, EVENT_CHARACTERS)
            )
            rest = rest[last:]
    yield _piece("end", rest)


def _piece(name: str, piece: str) -> bytes:
    if piece.startswith(" "):
        piece = "\\u0020" + piece[1:]
    return f"event: {name}\ndata: {piece}\n\n".encode("ascii")


LONG_CHARACTERS = 1 << 18
"""Characters of strings above which a value is written in parts; up to here that takes about 1 ms."""

_MAX_DEPTH = 32
"""Levels of lists and dicts that are written in parts; deeper values are written at once."""
_UNSIZED_TYPES = frozenset({int, float, bool, type(None)})
"""Types of values without a length."""
_VALUE_OVERHEAD = 16
"""Characters that a value or a container counts as, besides its text."""


def is_long(value: object) -> bool:
    """Whether writing a JSON value at once would hold the event loop."""
    pending, length = [value], 0
    while pending and length <= LONG_CHARACTERS:
        item = pending.pop()
        length += _VALUE_OVERHEAD
        if type(item) in _UNSIZED_TYPES:
            continue
        if isinstance(item, str):
            length += len(item)
        elif isinstance(item, dict):
            pending += cast("dict[str, object]", item).values()
        elif isinstance(item, list):
            pending += cast("list[object]", item)
    return length > LONG_CHARACTERS


def json_parts(value: object) -> Iterator[bytes]:
    """Write a JSON value as compact ASCII JSON, in parts of some 64 KiB of text.

    Raises:
        ValueError: If it holds NaN or an infinity.
    """
    buffer = io.StringIO()
    for part in text_parts(value):
        buffer.write(part)
        if buffer.tell() >= STRING_CHARACTERS:
            yield buffer.getvalue().encode("ascii")
            buffer = io.StringIO()
    yield buffer.getvalue().encode("ascii")


def text_parts(value: object, depth: int = 0) -> Iterator[str]:
    """Write a JSON value as compact ASCII JSON, in parts of at most some 256 KiB."""
    if isinstance(value, str) and len(value) > STRING_CHARACTERS:
        yield from text_json(value)
    elif depth > _MAX_DEPTH or not is_long(value):
        yield compact_json(value)
    elif isinstance(value, dict):
        before = "{"
        for key, item in cast("dict[str, object]", value).items():
            yield f"{before}{compact_json(key)}:"
            yield from text_parts(item, depth + 1)
            before = ","
        yield "}"
    else:
        before = "["
        for item in cast("list[object]", value):
            yield before
            yield from text_parts(item, depth + 1)
            before = ","
        yield "]"
