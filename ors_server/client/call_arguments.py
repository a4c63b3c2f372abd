"""Checks a tool call before anything is sent.

Every function raises `InvalidRequestError` for a value of another form.
"""

import json
from collections.abc import Mapping
from secrets import token_hex
from typing import Any, cast

from ors_server.model.errors import InvalidRequestError
from ors_server.model.wire import JSONObject

_MAX_INTEGER = 2**63


def check_arguments(tool: object, arguments: object) -> JSONObject:
    """Return a tool call's arguments: a mapping from parameters' names to JSON values; empty for `None`."""
    check_name("a tool", tool)
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise InvalidRequestError(
            f"expected the arguments of {tool!r} as a mapping such as "
            f'{{"answer": "7"}}, got {_kind(arguments)}'
        )
    checked: dict[Any, Any] = dict(cast("Any", arguments))
    for name in checked:
        check_name(f"a parameter of {tool!r}", name)
    if all(map(_is_plain, checked.values())):
        return checked
    try:
        json.dumps(checked, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequestError(f"the arguments of {tool!r} cannot be written as JSON: {error}") from error
    return checked


def _is_plain(value: object) -> bool:
    """Whether a value is surely JSON, as most arguments are: writing them only to check costs more."""
    if isinstance(value, str):
        return value.isascii()
    return value is None or (isinstance(value, int) and -_MAX_INTEGER < value < _MAX_INTEGER)


def new_call_id() -> str:
    """Return a random call id; ids of 32 hexadecimal digits are the server's own."""
    return f"call-{token_hex(16)}"


def check_call_id(call_id: object) -> str | None:
    """Return a call's own id, a string that is not empty, or `None`."""
    if call_id is None or (isinstance(call_id, str) and call_id):
        return call_id
    raise InvalidRequestError(f"expected a call id that is a string and not empty, got {call_id!r}")


def check_name(kind: str, name: object) -> str:
    """Return the name of `kind`, which goes into a path."""
    if isinstance(name, str):
        return name
    raise InvalidRequestError(f"expected the name of {kind} as a string, got {_kind(name)}")


def _kind(value: object) -> str:
    return f"{type(value).__name__} {value!r:.80}"
