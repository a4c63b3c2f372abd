"""Refuses JSON that would hold the event loop when it is parsed: too many values, or too long numbers.

A string may be as long as a body: it is read at the speed of memory. What costs time is each value, key and
container, and each digit of a number. The check reads a long body in slices, between which other tasks run.
"""

import re

from anyio.lowlevel import checkpoint

from ors_server.errors import PayloadTooLargeError

MAX_VALUES = 50_000
"""Most commas, colons and opening brackets of one body, outside of strings."""
NEVER_TOO_MUCH = MAX_VALUES
"""Bytes of a body that is too short to need the check."""
MAX_DIGITS = 100
"""Most digits of one number, about."""
MAX_ALL_DIGITS = 1 << 19
"""Most digits of all numbers of one body: 30,000 floats of 17 digits. An exponent counts as 12 digits."""
_EXPONENT = 12
_SLICE = 1 << 17
_SHORT = 1 << 16
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))
_NO_BACKSLASH = re.compile(rb"[^\\]")


async def check_json(body: bytes) -> None:
    """Refuse a body that would take too long to parse; whether it is JSON is not checked.

    Raises:
        PayloadTooLargeError: If it has too many values, too long a number, or too many digits.
    """
    if len(body) <= _SHORT and _signs(body) <= MAX_VALUES:
        return
    count, digits, start, is_inside = 0, 0, 0, False
    while start < len(body):
        end = _slice_end(body, start)
        parts = body[start:end].replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')
        outside = b'"'.join(parts[is_inside::2])
        is_inside ^= len(parts) % 2 == 0
        count += _signs(outside)
        digits += _digits(outside)
        if count > MAX_VALUES:
            raise PayloadTooLargeError(
                f"the body has more than {MAX_VALUES} values, keys and containers; "
                "send large data as one string"
            )
        if _LONG_NUMBER.search(outside) is not None:
            raise PayloadTooLargeError(f"the body has a number of more than {MAX_DIGITS} digits")
        if digits > MAX_ALL_DIGITS:
            raise PayloadTooLargeError(
                f"the numbers of the body have more than {MAX_ALL_DIGITS} digits; "
                "send large data as one string"
            )
        start = end
        await checkpoint()


def _signs(text: bytes) -> int:
    return text.count(b",") + text.count(b":") + text.count(b"[") + text.count(b"{")


def _digits(text: bytes) -> int:
    exponents = text.count(b"e") + text.count(b"E") - text.count(b"true") - text.count(b"false")
    return len(text) - len(text.translate(None, b"0123456789")) + _EXPONENT * exponents


def _slice_end(body: bytes, start: int) -> int:
    """Return the end of a slice that does not cut an escape sequence in two."""
    last = _NO_BACKSLASH.search(body, start + _SLICE - 1)
    return len(body) if last is None else last.end()
