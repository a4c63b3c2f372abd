r"""File names as an agent reads and writes them.

A name may hold bytes that JSON cannot carry, and characters that break a listing. Such a byte is shown as
`\xNN`; an agent may write it like that if no file has the name literally. Pure.
"""

import os
import re

_HIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\udc80-\udcff\u2028\u2029]")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


def show_name(path: str) -> str:
    r"""Return a path as it is shown: `\xNN` for control characters and surrogate escapes."""
    return _HIDDEN.sub(lambda match: _escape(match[0]), path)


def read_name(path: str) -> str:
    r"""Return the path that an agent means if its `\xNN` are bytes."""
    parts = _ESCAPED.split(path)
    content = b"".join(
        bytes([int(part, 16)]) if index % 2 else part.encode(errors="surrogatepass")
        for index, part in enumerate(parts)
    )
    return os.fsdecode(content)


def _escape(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode(errors="surrogateescape"))
