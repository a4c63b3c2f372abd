"""Reads JSON from outside without holding the event loop: its values, its digits and its depth are bounded.

A string may be as long as a body: it is read at the speed of memory. What costs time is each value, key and
container, and each digit of a number. The check reads a long body in slices, between which other tasks run.
"""

import json
import json.decoder
import json.scanner
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, cast

import anyio.to_thread
from anyio.lowlevel import checkpoint
from pydantic_core import from_json

from ors_server.model.errors import PayloadTooLargeError

MAX_VALUES = 50_000
"""Maximum number of commas, colons and opening brackets of one body, outside of strings."""
NEVER_TOO_MUCH = MAX_VALUES
"""Bytes of a body that is too short to need the check."""
MAX_DIGITS = 100
"""Maximum number of digits of one number, about."""
MAX_ALL_DIGITS = 1 << 19
"""Maximum number of digits of all numbers of one body: 30,000 floats of 17; an exponent counts as 12."""
MAX_DEPTH = 200
"""Levels of arrays and objects that are read; that of `pydantic_core`."""
_EXPONENT = 12
_SLICE = 1 << 17
_MAX_BYTES_AT_ONCE = 1 << 16
"""Bytes of a text up to which it is counted and read at once."""
_PAIRS_PER_TURN = 10_000
"""Pairs of an object that are read without a chance for other threads to run."""
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))
_NO_BACKSLASH = re.compile(rb"[^\\]")


async def check_json(body: bytes) -> None:
    """Refuse a body that would take too long to parse; whether it is JSON is not checked.

    Raises:
        PayloadTooLargeError: If it has too many values, too long a number, or too many digits.
    """
    try:
        await _count_values(body, MAX_VALUES)
    except _TooMuchError as error:
        raise PayloadTooLargeError(f"the body has {error}; send large data as one string") from error


async def parse_json(body: bytes, max_values: int) -> Any:
    """Return the value of a JSON text that another program wrote.

    No number is NaN or infinite, no string has half of a surrogate pair. More than `MAX_VALUES` values are
    read in a thread, by a parser in Python: the one in C would keep the interpreter's lock to its end.

    Args:
        body: The text, in UTF-8.
        max_values: Most commas, colons and opening brackets outside of strings.

    Raises:
        ValueError: If it is not such a text, has too many values or digits, or is nested too deeply.
    """
    if len(body) > _MAX_BYTES_AT_ONCE and await _count_values(body, max_values) > MAX_VALUES:
        return await anyio.to_thread.run_sync(_PatientDecoder().decode, body.decode())
    return from_json(body, allow_inf_nan=False)


def read_json_text(text: str, max_values: int = MAX_VALUES) -> tuple[Any, int]:
    """Return the value of a JSON text that is a part of a body, at once, and how many values it has, about.

    Args:
        text: The text.
        max_values: Most commas, colons and opening brackets outside of strings.

    Raises:
        ValueError: If it is not JSON, has too many values or digits, or is nested too deeply.
    """
    body = text.encode()
    count = 0
    for count in _measure(body, max_values):  # noqa: B007  (the last one counts)
        pass
    return from_json(body, allow_inf_nan=False), count


class _TooMuchError(ValueError):
    """A JSON text has too much of something, which the message names."""


def count_values(text: bytes) -> int:
    """Return how many commas, colons and opening brackets a JSON text has outside of strings."""
    return sum(map(_signs, _outside_strings(text)))


async def _count_values(body: bytes, max_values: int) -> int:
    """Return how many values a text has, about; `_TooMuchError` for too many of them or of digits."""
    if len(body) <= _MAX_BYTES_AT_ONCE and (count := _signs(body)) <= max_values:
        return count
    count = 0
    for count in _measure(body, max_values):  # noqa: B007  (the last one counts)
        await checkpoint()
    return count


def _measure(body: bytes, max_values: int) -> Iterator[int]:
    """Yield after each slice how many values the text has so far, about; `_TooMuchError` for too many."""
    max_digits = MAX_ALL_DIGITS * max_values // MAX_VALUES
    count, digits = 0, 0
    for outside in _outside_strings(body):
        count += _signs(outside)
        digits += len(outside) - len(outside.translate(None, b"0123456789"))
        exponents = (
            outside.count(b"e") + outside.count(b"E") - outside.count(b"true") - outside.count(b"false")
        )
        digits += _EXPONENT * exponents
        if count > max_values:
            raise _TooMuchError(f"more than {max_values} values, keys and containers")
        if _LONG_NUMBER.search(outside) is not None:
            raise _TooMuchError(f"a number of more than {MAX_DIGITS} digits")
        if digits > max_digits:
            raise _TooMuchError(f"numbers of more than {max_digits} digits together")
        yield count


def _outside_strings(body: bytes) -> Iterator[bytes]:
    """Yield what is outside of strings in each slice of a text."""
    start, is_inside = 0, False
    while start < len(body):
        # A slice does not cut an escape sequence in two.
        last = _NO_BACKSLASH.search(body, start + _SLICE - 1)
        end = len(body) if last is None else last.end()
        parts = body[start:end].replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')
        yield b'"'.join(parts[is_inside::2])
        is_inside ^= len(parts) % 2 == 0
        start = end


class _PatientDecoder(json.JSONDecoder):
    """Decodes in Python, so that other threads run meanwhile; as strictly as `from_json`."""

    def __init__(self) -> None:
        super().__init__(parse_constant=_refuse_constant, object_pairs_hook=_make_object)
        self._depth = 0
        # `json` itself falls back to these where it was built without its part in C.
        decoder, scanner = cast("Any", json.decoder), cast("Any", json.scanner)
        self.parse_array = self._nested(decoder.JSONArray)
        self.parse_object = self._nested(decoder.JSONObject)
        self.parse_string = _read_string
        self.scan_once = scanner.py_make_scanner(self)

    def _nested(self, read: Callable[..., Any]) -> Callable[..., Any]:
        def read_nested(*arguments: Any) -> Any:
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise ValueError(f"more than {MAX_DEPTH} nested arrays and objects")
            value = read(*arguments)
            self._depth -= 1
            return value

        return read_nested


def _read_string(text: str, end: int, strict: bool = True) -> tuple[str, int]:  # noqa: FBT001, FBT002  (as `json` calls it)
    value, after = cast("Any", json.decoder).scanstring(text, end, strict)
    value.encode()  # UnicodeEncodeError, a ValueError, for half of a surrogate pair
    return value, after


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its pairs, which are removed on the way.

    `dict(pairs)`, and to free them at once, would keep the interpreter's lock for 0.3 s at a million names.
    """
    if len(pairs) <= _PAIRS_PER_TURN:
        return dict(pairs)
    value: dict[str, Any] = {}
    pairs.reverse()  # the last of several equal names counts, and lists shrink at their end
    while pairs:
        value.update(reversed(pairs[-_PAIRS_PER_TURN:]))
        del pairs[-_PAIRS_PER_TURN:]
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _signs(text: bytes) -> int:
    return text.count(b",") + text.count(b":") + text.count(b"[") + text.count(b"{")
