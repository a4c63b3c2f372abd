"""What commands print: data on standard output, complaints on standard error."""

import json
import sys
from typing import Any

from ors_server.errors import ClientError


class CommandError(ClientError):
    """A command cannot do what it was asked to; the message is the one line that the person reads."""

    code = "command"


class MisuseError(CommandError):
    """The command line makes no sense, so nothing was done."""

    code = "misuse"


def say(text: str = "") -> None:
    """Print a line of the answer.

    Args:
        text: The line.
    """
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say_json(value: Any) -> None:
    """Print the answer as one line of JSON.

    Args:
        value: A JSON value.
    """
    say(json.dumps(value, ensure_ascii=False, allow_nan=False))


def complain(text: str) -> None:
    """Print a complaint as one line on standard error.

    Args:
        text: What is wrong; line breaks become spaces.
    """
    sys.stderr.write(f"ors-server: {' '.join(text.split())}\n")
    sys.stderr.flush()
