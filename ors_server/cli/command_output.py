"""Prints data on standard output and errors on standard error."""

import json
import sys
from typing import Any

from ors_server.errors import ClientError


class CommandError(ClientError):
    """A command failed; the message is printed as one line."""

    code = "command"


class MisuseError(CommandError):
    """The command line is wrong, and nothing was done."""

    code = "misuse"


def say(text: str = "") -> None:
    """Print a line on standard output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say_json(value: Any) -> None:
    """Print a JSON value as one line."""
    say(json.dumps(value, ensure_ascii=False, allow_nan=False))


def complain(text: str) -> None:
    """Print a message as one line on standard error; line breaks become spaces."""
    sys.stderr.write(f"ors-server: {' '.join(text.split())}\n")
    sys.stderr.flush()
