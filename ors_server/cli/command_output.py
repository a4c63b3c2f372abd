"""Prints data on standard output and errors on standard error."""

import json
import sys
from typing import Any

from ors_server.errors import ClientError
from ors_server.printable import clean


class CommandError(ClientError):
    """A command failed; the message is printed as one line."""

    code = "command"


class MisuseError(CommandError):
    """The command line is wrong, and nothing was done."""

    code = "misuse"


def say(text: str = "") -> None:
    """Print a text, and the end of its line, on standard output; control characters in it are escaped."""
    sys.stdout.write(f"{clean(text)}\n")
    sys.stdout.flush()


def say_json(value: Any) -> None:
    """Print a JSON value as one line."""
    say(json.dumps(value, ensure_ascii=False, allow_nan=False))


def complain(text: str) -> None:
    """Print a message as one line on standard error: line breaks become spaces, others are escaped."""
    sys.stderr.write(f"ors-server: {clean(' '.join(text.split()))}\n")
    sys.stderr.flush()
