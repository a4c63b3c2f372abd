"""Which part of the call that ended an episode is the final response. Pure."""

import json
from collections.abc import Mapping
from typing import Any

ANSWER = "answer"
"""The argument of the last call that is the final response, as it is while an episode is played."""
SUBMIT = "submit"
"""The tool that submits nothing where it is called without an answer."""
COMPLETED = "completed"
"""The stop reason of an episode that a tool ended."""


def submitted_answer(tool: str, arguments: Mapping[str, Any], result: str | None) -> str | None:
    """Return what the call by which a tool ended the episode submits.

    It is its argument `answer`; or its only argument, if that is text; or, where it has others or none, the
    text that the tool returned, `None` if that is not known. A `submit` without an answer submits nothing.
    """
    if ANSWER in arguments:
        return write_answer(arguments[ANSWER])
    only = next(iter(arguments.values())) if len(arguments) == 1 else None
    if isinstance(only, str):
        return only
    return "" if tool == SUBMIT and not arguments else result


def write_answer(value: object) -> str:
    """Return an argument as a final response: text as it is, null as the empty one, others as JSON."""
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
