"""Colours, for terminals that have them and people who want them (`NO_COLOR`, no-color.org)."""

import os
from typing import TextIO

STYLES = {"dim": "2", "good": "32", "bad": "1;31", "notice": "33"}
"""Name -> parameters of the terminal's sequence."""


def paint(text: str, style: str, stream: TextIO) -> str:
    """Return a text in a style if it goes to a terminal with colours; the text itself otherwise."""
    if not style or not text or not has_colours(stream):
        return text
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"


def has_colours(stream: TextIO) -> bool:
    """Return whether a stream is a terminal with colours, and `NO_COLOR` is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
