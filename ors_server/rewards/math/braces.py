"""Matching braces."""

import re
from typing import Final

_BRACES: Final = re.compile(r"\\.|[{}]", re.DOTALL)


def find_closing(text: str, start: int) -> int:
    r"""Return the position of the brace that closes the one at `start`, or -1; `\{` and `\}` do not count."""
    depth = 0
    for match in _BRACES.finditer(text, start):
        if match[0] == "{":
            depth += 1
        elif match[0] == "}":
            depth -= 1
            if depth == 0:
                return match.start()
    return -1
