"""Finds the end of a group in braces. Pure."""

import re
from typing import Final

_BRACE: Final = re.compile(r"[{}]")


def closing_brace(text: str, start: int) -> int:
    """Return where a brace that was opened before `start` is closed; -1 if it never is."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return -1
