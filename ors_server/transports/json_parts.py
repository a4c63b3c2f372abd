"""Writes JSON of long values in parts of bounded length, so that other tasks run between them."""

import io
from collections.abc import Iterator
from typing import cast

from ors_server.compact_json import compact_json
from ors_server.transports.sse import TEXT_PART, text_json

LONG = 1 << 18
"""Characters of strings above which a value is written in parts; up to here that takes about 1 ms."""

_DEEPEST = 32
"""Levels of lists and dicts that are written in parts; deeper values are written at once."""
_SHORT = frozenset({int, float, bool, type(None)})
"""Types of values without a length."""
_VALUE_OVERHEAD = 16
"""Characters that a value or a container counts as, besides its text."""


def is_long(value: object) -> bool:
    """Whether writing a JSON value at once would hold the event loop."""
    pending, length = [value], 0
    while pending and length <= LONG:
        item = pending.pop()
        length += _VALUE_OVERHEAD
        if type(item) in _SHORT:
            continue
        if isinstance(item, str):
            length += len(item)
        elif isinstance(item, dict):
            pending += cast("dict[str, object]", item).values()
        elif isinstance(item, list):
            pending += cast("list[object]", item)
    return length > LONG


def json_parts(value: object) -> Iterator[bytes]:
    """Write a JSON value as compact ASCII JSON, in parts of some 64 KiB of text.

    Raises:
        ValueError: If it holds NaN or an infinity.
    """
    held = io.StringIO()
    for part in text_parts(value):
        held.write(part)
        if held.tell() >= TEXT_PART:
            yield held.getvalue().encode("ascii")
            held = io.StringIO()
    yield held.getvalue().encode("ascii")


def text_parts(value: object, depth: int = 0) -> Iterator[str]:
    """Write a JSON value as compact ASCII JSON, in parts of at most some 256 KiB."""
    if isinstance(value, str) and len(value) > TEXT_PART:
        yield from text_json(value)
    elif depth > _DEEPEST or not is_long(value):
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
