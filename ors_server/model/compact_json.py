"""Writes JSON as ASCII without spaces: what crosses the wire.

The function is made once, because each answer passes here: `JSONEncoder.encode` makes a new encoder for each
value, which takes half of the time of a short one.
"""

import json
import json.encoder
from collections.abc import Callable, Iterable
from typing import Any

_COMPACT = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def _make_writer() -> Callable[[Any], str]:
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # an interpreter without it
        return _COMPACT.encode
    write = json.encoder.encode_basestring_ascii
    settings = None, _COMPACT.default, write, None, ":", ",", False, False, False
    encode: Callable[[Any, int], Iterable[str]] = make(*settings)

    def write_compactly(value: Any) -> str:
        return "".join(encode(value, 0))

    return write_compactly


compact_json = _make_writer()
"""Write a JSON value as ASCII JSON without spaces.

Raises `TypeError` if it holds what is not JSON, `ValueError` if it holds NaN or an infinity, and
`RecursionError` if it is nested too deeply or contains itself.
"""
