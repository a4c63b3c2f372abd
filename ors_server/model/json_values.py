"""When two JSON values are the same, as one text per value: equal values have equal texts. Pure.

Numbers are compared by value: 1 and 1.0 are one value, 0.1 and 0.10000000000000001 are two (a `float` has the
value that it prints). `true` and "1" are not numbers. The order of an object's names does not matter.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias, cast

MAX_DEPTH = 100
MAX_BITS = 4_096
"""Bits of an integer."""

_PLAIN = frozenset({dict, list, str, int, float, bool, type(None)})
"""Types that need no test for abstract classes, which takes ten times as long."""

JSONValue: TypeAlias = Any
"""None, bool, int, float, `Decimal`, str; a sequence or a mapping of them."""


class NotJSONError(ValueError):
    """A value cannot be written as JSON."""


def canonical_text(value: JSONValue) -> str:
    """Return the text that all values equal to one have, and no others; at most 100 levels deep."""
    return json.dumps(_plain(value, 0), sort_keys=True, separators=(",", ":"))


def canonical_hash(value: JSONValue) -> str:
    """Return `sha256:` and the hash of the canonical text; raise as `canonical_text`."""
    return "sha256:" + hashlib.sha256(canonical_text(value).encode()).hexdigest()


def same_values(first: JSONValue, second: JSONValue) -> bool:
    """Whether two JSON values are equal; raises as `canonical_text`."""
    return canonical_text(first) == canonical_text(second)


def exact_number(value: JSONValue) -> Decimal | None:
    """Return a number exactly, or `None` for anything else, `True` included."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise NotJSONError(f"an integer has more than {MAX_BITS} bits")
        return Decimal(value)
    if not math.isfinite(value):
        raise NotJSONError(f"{value} is not a JSON value")
    return value if isinstance(value, Decimal) else Decimal(repr(float(value)))


def _plain(value: JSONValue, depth: int) -> Any:
    """Render numbers as tagged texts, which no other value renders as."""
    if value is None or isinstance(value, bool | str):
        return value
    if depth > MAX_DEPTH:
        raise NotJSONError(f"more than {MAX_DEPTH} nested arrays and objects")
    if is_array(value):
        return [_plain(item, depth + 1) for item in value]
    if is_object(value):
        return {name: _plain(value[name], depth + 1) for name in _names(value)}
    number = exact_number(value)
    if number is None:
        raise NotJSONError(f"a {type(value).__name__} is not a JSON value")
    return _number(number)


def is_array(value: JSONValue) -> bool:
    """Whether a value is an array."""
    kind = cast("type[object]", type(value))
    if kind is list or kind in _PLAIN:
        return kind is list
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def is_object(value: JSONValue) -> bool:
    """Whether a value is an object."""
    kind = cast("type[object]", type(value))
    if kind is dict or kind in _PLAIN:
        return kind is dict
    return isinstance(value, Mapping)


def _names(value: Any) -> list[str]:
    names: list[Any] = list(value)
    if not all(isinstance(name, str) for name in names):
        raise NotJSONError("a name of an object is a text")
    return names


def _number(value: Decimal) -> Any:
    """Return sign, digits and exponent without trailing zeros; as an object, which no array is."""
    sign, digits, exponent = value.as_tuple()
    text = "".join(map(str, digits)).strip()
    bare = text.rstrip("0")
    if not bare or not isinstance(exponent, int):
        return {"": 0}
    return {"": ["-" if sign else "", bare.lstrip("0"), exponent + len(text) - len(bare)]}
