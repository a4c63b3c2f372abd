r"""File names as an agent reads and writes them.

A name may hold bytes that no JSON can carry, and characters that spoil a listing. Such a byte is shown as
`\xNN`, and what an agent writes so is understood when nothing has the name as it is written. Pure.
"""

import os
import re

_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\udc80-\udcff\u2028\u2029]")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


def show_name(path: str) -> str:
    r"""Return a path as it is shown, with `\xNN` for what could not be read.

    Args:
        path: With surrogate escapes for bytes that are not UTF-8.
    """
    return _HIDDEN.sub(lambda match: _escape(match[0]), path)


def read_name(path: str) -> str:
    r"""Return the path that an agent means if its `\xNN` are bytes."""
    parts = _ESCAPED.split(path)
    content = b"".join(
        bytes([int(part, 16)]) if place % 2 else part.encode(errors="surrogatepass")
        for place, part in enumerate(parts)
    )
    return os.fsdecode(content)


def _escape(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogateescape"))
