"""Refuses JSON whose reading would hold the event loop: too many values, or numbers without end.

A text may be as long as a body; it is read at the speed of memory. What costs is each value, key and
container, and each digit of a number, which is read, copied and written again. The check goes over a long
body in slices and lets others run between them.
"""

import re

from anyio.lowlevel import checkpoint

from ors_server.errors import PayloadTooLargeError

MAX_VALUES = 50_000
"""Commas, colons and opening brackets of one body, outside of texts."""
NEVER_TOO_MUCH = MAX_VALUES
"""Bytes of a body that is too short for so many values, and to hold anybody up."""
MAX_DIGITS = 100
"""Of one number, about."""
MAX_ALL_DIGITS = 1 << 19
"""Of all numbers of one body: 30,000 floats of 17 digits. An exponent counts as 12 digits more."""
_EXPONENT = 12
_SLICE = 1 << 17
_SHORT = 1 << 16
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))
_NO_BACKSLASH = re.compile(rb"[^\\]")


async def check_json(body: bytes) -> None:
    """Refuse a body that would take too long to read.

    Args:
        body: Any bytes; whether it is JSON is for its reader to say.

    Raises:
        PayloadTooLargeError: It has too many values, or too long a number, or too many digits.
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
                "write much data as one text"
            )
        if _LONG_NUMBER.search(outside) is not None:
            raise PayloadTooLargeError(f"the body has a number of more than {MAX_DIGITS} digits")
        if digits > MAX_ALL_DIGITS:
            raise PayloadTooLargeError(
                f"the numbers of the body have more than {MAX_ALL_DIGITS} digits; write much data as one text"
            )
        start = end
        await checkpoint()


def _signs(text: bytes) -> int:
    return text.count(b",") + text.count(b":") + text.count(b"[") + text.count(b"{")


def _digits(text: bytes) -> int:
    exponents = text.count(b"e") + text.count(b"E") - text.count(b"true") - text.count(b"false")
    return len(text) - len(text.translate(None, b"0123456789")) + _EXPONENT * exponents


def _slice_end(body: bytes, start: int) -> int:
    """Return where a slice ends that cuts no escape in two."""
    last = _NO_BACKSLASH.search(body, start + _SLICE - 1)
    return len(body) if last is None else last.end()
