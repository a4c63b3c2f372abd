"""Writes JSON as ASCII without spaces: what crosses the wire."""

import json
import json.encoder
from collections.abc import Callable, Iterable
from typing import Any

_COMPACT = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _kept_encoder() -> Callable[[Any], str]:
    """Return `_COMPACT.encode` without what it makes anew for each value, which costs half of a short one."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without it
        return _COMPACT.encode
    write = json.encoder.encode_basestring_ascii
    settings = None, _COMPACT.default, write, None, ":", ",", False, False, False
    encode: Callable[[Any, int], Iterable[str]] = make(*settings)

    def to_text(value: Any) -> str:
        return "".join(encode(value, 0))

    return to_text


_encode = _kept_encoder()


def compact_json(value: Any) -> str:
    """Write a JSON value as ASCII JSON without spaces.

    Raises:
        TypeError: If it holds what is not JSON.
        ValueError: If it holds NaN or an infinity.
        RecursionError: If it is nested too deeply, or contains itself.
    """
    return _encode(value)
