"""Finds the end of a group in braces. Pure."""

import re
from typing import Final

_BRACE: Final = re.compile(r"[{}]")


def closing_brace(text: str, start: int) -> int:
    """Return where a brace that was opened before `start` is closed; -1 if it never is."""
    if text.find("}", start) < 0:  # quicker than counting thousands of opened ones
        return -1
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return -1


def unclosed_box(text: str) -> int:
    """Return where the last box of a text begins if it is never closed, else the end of the text."""
    start = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    if start < 0:
        return len(text)
    opened = text.find("{", start)
    return start if opened >= 0 and closing_brace(text, opened + 1) < 0 else len(text)
