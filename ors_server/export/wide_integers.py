"""Integers of more than 64 bits as text: readers of tables make them inexact, or cannot read the file."""

from collections.abc import Iterable
from typing import Any, cast

from ors_server.model.errors import RecordError
from ors_server.model.wire import JSONObject

LOWEST, END = -(1 << 63), 1 << 63
"""The least integer of 64 bits, and the first one that is too great."""
KEY = "wide_integers"
"""The key of a row of the format `plain` with the places of the texts that are integers, as JSON Pointers."""


def with_texts(value: Any) -> tuple[Any, list[str]]:
    """Return a JSON value with texts for its wide integers, and their places as JSON Pointers.

    A value without any is returned itself.
    """
    places: list[str] = []
    _find(value, "", places)
    return (_replaced(value) if places else value), places


def restore(row: JSONObject, places: Iterable[object]) -> None:
    """Put the integers back into a row; raises `RecordError` for a place without such a text."""
    for pointer in places:
        try:
            # In this order (RFC 6901, section 4): `~01` means the name `~1`.
            *names, last = [
                name.replace("~1", "/").replace("~0", "~") for name in cast("str", pointer).split("/")[1:]
            ]
            holder: Any = row
            for name in names:
                holder = holder[int(name) if isinstance(holder, list) else name]
            key: Any = int(last) if isinstance(holder, list) else last
            holder[key] = int(cast("Any", holder)[key])
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise RecordError(f"expected an integer as text at {pointer!r}, which {KEY} names") from error


def _is_wide(value: object) -> bool:
    return isinstance(value, int) and not LOWEST <= value < END


def _find(value: Any, pointer: str, places: list[str]) -> None:
    if isinstance(value, dict):
        for name, member in cast("JSONObject", value).items():
            _find(member, f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}", places)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast("list[Any]", value)):
            _find(item, f"{pointer}/{index}", places)
    elif _is_wide(value):
        places.append(pointer)


def _replaced(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(member) for name, member in cast("JSONObject", value).items()}
    if isinstance(value, list | tuple):
        return [_replaced(item) for item in cast("list[Any]", value)]
    return str(value) if _is_wide(value) else value
