"""What agents and environments wrote, shown so that it is only read.

A terminal obeys escape sequences, and a text may pretend to be another one by turning its direction. Whatever
was recorded is therefore shown with every such character spelled out.
"""

import os
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from ors_server.cli.exit_status import ExitStatus

if TYPE_CHECKING:
    from rich.console import Console


MAX_LINES = 20
"""Lines of one text that are shown unless all are wanted."""
MAX_CHARACTERS = 2000
"""Characters of one text that are shown unless all are wanted."""

PIPED_WIDTH = 200
"""Columns of a table that no terminal shows."""

_OBEYED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but tab and line feed, the second set included
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what turns the direction of text
    r"\u2028\u2029\ud800-\udfff]"  # other ends of lines; halves of characters, which no terminal is sent
)


def clean(text: str) -> str:
    """Spell out every character that a terminal would obey instead of showing it; tab and line feed stay.

    Args:
        text: Anybody's.
    """
    return _OBEYED.sub(_spell, text.replace("\r\n", "\n"))


def clean_line(text: str) -> str:
    """Do the same for what is to stay on one line.

    Args:
        text: Anybody's.
    """
    return clean(text).replace("\n", "\\n").replace("\t", " ")


def cut(text: str, *, whole: bool) -> tuple[list[str], str | None]:
    """Return a text's first lines, clean, and a notice of what is missing.

    Args:
        text: Anybody's.
        whole: Whether all of it is wanted.

    Returns:
        Lines, at least one, and the notice; `None` where nothing is missing.
    """
    lines = clean(text).split("\n")
    if lines[1:] and not lines[-1]:
        lines.pop()
    if whole:
        return lines, None
    kept: list[str] = []
    room = MAX_CHARACTERS
    for line in lines[:MAX_LINES]:
        if room <= 0:
            break
        kept.append(line[:room])
        room -= len(line)
    characters = sum(map(len, lines)) - sum(map(len, kept))
    if not characters and len(kept) == len(lines):
        return kept, None
    missing = len(lines) - len(kept)
    more = f"{missing} more lines, " if missing else ""
    return kept, f"... {more}{characters} more characters; --full shows them"


def make_console() -> "Console":
    """Return what prints to standard output; where nobody reads any more, `BrokenPipeError` comes out."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")  # for terminals that do not have every character
    is_piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    width = PIPED_WIDTH if is_piped else None
    return Terminal(highlight=False, markup=False, emoji=False, width=width)


@contextmanager
def until_nobody_reads() -> Generator[None, None, None]:
    """End the command quietly when standard output is closed by whoever read it."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to be flushed
        raise typer.Exit(ExitStatus.CUT_OFF) from None


def _spell(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004  (two hexadecimal digits)
