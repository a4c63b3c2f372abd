"""Server-sent events as both reference clients read them, with results in pieces that survive their parsing.

The clients strip white space from the start of every data line, so a piece of a result never begins with a
space: results are compact ASCII JSON, in which a space occurs only inside a string and may be written as an
escape.
"""

from collections.abc import Iterable, Iterator

from ors_server.compact_json import compact_json

PIECE = 4096
"""Characters, and bytes, of one piece; well below the 64 KiB that a client reads as one line."""

TEXT_PART = 1 << 16
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
    for start in range(0, len(text), TEXT_PART):
        yield compact_json(text[start : start + TEXT_PART])[1:-1]
    yield '"'


def result_events(payload: str) -> bytes:
    """Write a result, as compact ASCII JSON, as `chunk` events and a last `end` event."""
    if len(payload) <= PIECE and not payload.startswith(" "):
        return f"event: end\ndata: {payload}\n\n".encode("ascii")
    return b"".join(result_parts((payload,)))


def result_parts(payload: Iterable[str]) -> Iterator[bytes]:
    """Write a result as `chunk` events and a last `end` event, from parts of its compact ASCII JSON."""
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
