"""Prints data on standard output and errors on standard error."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, TextIO

from ors_server.model.errors import ClientError
from ors_server.model.printable import clean

_BREAKS = re.compile(r"\s*[^\S ]\s*")
"""White space that is more than spaces, which stay: a path may have several."""

STYLES = {"dim": "2", "good": "32", "bad": "1;31", "notice": "33"}
"""Name -> parameters of the terminal's sequence."""


class CommandError(ClientError):
    """A command failed; the message is printed as one line."""

    code = "command"


class MisuseError(CommandError):
    """The command line is wrong, and nothing was done."""

    code = "misuse"


def say(text: str = "", *, style: str = "", width: int | None = None) -> None:
    """Print a text, and the end of its line, on standard output; control characters in it are escaped.

    Args:
        style: A name in `STYLES`, for terminals that have colours.
        width: Number of characters at the beginning that have the style; all by default.
    """
    shown = clean(text)
    styled = shown if width is None else shown[:width]
    sys.stdout.write(f"{paint(styled, style, sys.stdout)}{shown[len(styled) :]}\n")
    sys.stdout.flush()


def say_json(value: Any) -> None:
    """Print a JSON value as one line."""
    say(json.dumps(value, ensure_ascii=False, allow_nan=False))


def make_folder_of(file: Path) -> Path:
    """Make the folder that a file will be written to, if it is missing; returns the file.

    Raises:
        CommandError: If it cannot be made.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot make the folder {file.parent}: {error.strerror or error}") from error
    return file


def complain(text: str, *, style: str = "") -> None:
    """Print a message as one line on standard error: line breaks become spaces, others are escaped.

    Args:
        style: A name in `STYLES`, for terminals that have colours.
    """
    line = f"ors-server: {clean(_BREAKS.sub(' ', text.strip()))}"
    sys.stderr.write(f"{paint(line, style, sys.stderr)}\n")
    sys.stderr.flush()


def paint(text: str, style: str, stream: TextIO) -> str:
    """Return a text in a style if it goes to a terminal with colours; the text itself otherwise."""
    if not style or not text or not has_colours(stream):
        return text
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m"


def has_colours(stream: TextIO) -> bool:
    """Return whether a stream is a terminal with colours, and `NO_COLOR` (no-color.org) is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
