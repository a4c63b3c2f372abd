"""The server's own copies of JSON from clients and authors."""

import json
from typing import Any, cast

from pydantic_core import from_json

from ors_server.authoring.boundary import encodable
from ors_server.wire import JSONObject

MAX_VALUES = 50_000
"""Values, keys and containers of one JSON value that the server copies: more would hold the event loop."""

_OVERHEAD = 64
"""Bytes that a value takes in memory beside its text, roughly."""

_write = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class JSONCopyError(ValueError):
    """A value is not JSON, or too deep or large for every door to write; each function here raises it."""


def write_json(value: JSONObject) -> str:
    """Write a value, with what UTF-8 cannot express replaced by question marks; refuse NaN and infinities."""
    try:
        return encodable(_write(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise JSONCopyError(str(error)) from error


def read_json(text: str) -> JSONObject:
    """Read what `write_json` wrote, at most 200 levels deep: answers wrap it, and serialisers stop at 255."""
    try:
        value: JSONObject = from_json(text)
    except ValueError as error:
        raise JSONCopyError(str(error)) from error
    return value


def check_size(value: JSONObject) -> None:
    """Refuse a value of more than `MAX_VALUES` parts, which would take too long to copy."""
    pending: list[object] = [value]
    count = 0
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            items = cast("dict[object, object]", item)
            count += 2 * len(items)
            pending += items.values()
        elif isinstance(item, list | tuple):
            count += len(cast("list[object]", item))
            pending += cast("list[object]", item)
        if count > MAX_VALUES:
            raise JSONCopyError(f"it has more than {MAX_VALUES} values, keys and containers")


def size_of_json(value: object, limit: int) -> int:
    """Return roughly how many bytes a value takes in memory; stops to count at the limit."""
    # Parts are counted where they are found, not one by one from a list: each call counts its arguments.
    size = _OVERHEAD + (len(value) if isinstance(value, str | bytes) else 0)
    pending: list[Any] = [value]
    while pending and size < limit:
        item = pending.pop()
        parts: Any = item
        if isinstance(item, dict):
            size += _OVERHEAD * len(item) + sum(map(len, map(str, item)))
            parts = item.values()
        elif not isinstance(item, list | tuple):
            continue
        size += _OVERHEAD * len(parts)
        for part in parts:
            kind = type(part)
            if kind is str or kind is bytes:
                size += len(part)
            elif kind is dict or kind is list or kind is tuple:
                pending.append(part)
    return size


def copy_json(value: JSONObject) -> JSONObject:
    """Copy a value."""
    return read_json(write_json(value))
