"""Server-sent events as both reference clients read them, and results cut so that nothing is lost on the way.

The clients strip white space from the start of every data line, so a piece of a result never begins with a
space: the results are compact ASCII JSON, in which a space stands only inside a string and may be written as
an escape.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

PIECE = 4096
"""Characters, and bytes, of one piece; well below the 64 KiB that a client's line reader takes."""

TEXT_PART = 1 << 16
"""Characters of a text that are written at once."""

_COMPACT = json.JSONEncoder(separators=(",", ":"), allow_nan=False)

END_OF_LIFE = b"event: end\ndata: \n\n"


def event(name: str, data: str, *, id: str | None = None) -> bytes:  # noqa: A002  (the wire's word)
    """Write one event.

    Args:
        name: Its name.
        data: Its data; each line of it becomes a data line.
        id: What a reader that comes back says it has, on one line.
    """
    lines = data.splitlines() or [""]
    body = "".join(f"data: {line}\n" for line in lines)
    mark = "" if id is None else f"id: {id}\n"
    return f"event: {name}\n{mark}{body}\n".encode(errors="replace")


def comment(text: str) -> bytes:
    """Write a comment, which clients ignore; it keeps the connection alive.

    Args:
        text: Any text on one line.
    """
    return f": {text}\n\n".encode()


def compact_json(value: Any) -> str:
    """Write a value as ASCII JSON without spaces.

    Args:
        value: A JSON value.

    Raises:
        ValueError: If it holds NaN or an infinity.
    """
    return _COMPACT.encode(value)


def text_json(text: str) -> Iterator[str]:
    """Write a text as compact ASCII JSON, in parts.

    Args:
        text: Any text.
    """
    yield '"'
    for start in range(0, len(text), TEXT_PART):
        yield compact_json(text[start : start + TEXT_PART])[1:-1]
    yield '"'


def result_events(payload: str) -> bytes:
    """Write a result as `chunk` events and a last `end` event.

    Args:
        payload: Compact ASCII JSON.
    """
    if len(payload) <= PIECE:
        return _piece("end", payload)
    return b"".join(result_parts((payload,)))


def result_parts(payload: Iterable[str]) -> Iterator[bytes]:
    """Write a result as `chunk` events and a last `end` event, as its payload comes.

    Args:
        payload: Compact ASCII JSON, in parts.
    """
    rest = ""
    for part in payload:
        rest += part
        last = max(0, (len(rest) - 1) // PIECE) * PIECE
        if last:
            yield b"".join(_piece("chunk", rest[at : at + PIECE]) for at in range(0, last, PIECE))
            rest = rest[last:]
    yield _piece("end", rest)


def _piece(name: str, piece: str) -> bytes:
    if piece.startswith(" "):
        piece = "\\u0020" + piece[1:]
    return f"event: {name}\ndata: {piece}\n\n".encode("ascii")
