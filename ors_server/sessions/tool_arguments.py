"""An agent's arguments: checked to be JSON, copied so that no tool changes the record, then validated."""

import json
import math
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ors_server.authoring.boundary import MAX_ERROR_TEXT, describe, encodable
from ors_server.authoring.definition import ToolDefinition
from ors_server.errors import ToolFailedError
from ors_server.sessions.json_copies import JSONCopyError, copy_json
from ors_server.wire import JSONObject

PREFIX = "Tool input validation error: "
"""How the refusal of invalid arguments begins, as the reference implementation's does."""

MAX_PROBLEMS = 20
"""Problems that are listed one by one; more are only counted."""

MAX_SHOWN_INPUT = 4_096
"""Characters of arguments up to which the refusal repeats what was wrong."""

MAX_SHOWN_VALUE = 200
"""Characters of one wrong value that the refusal repeats."""


MAX_SHOWN_NAME = 256
"""Characters of an unknown tool's name that the refusal repeats."""

MAX_NAMED_TOOLS = 40
"""Tools that the refusal of an unknown one names; more are only counted."""

_PLAIN = frozenset({str, int, bool, type(None)})


class InvalidArgumentsError(ValueError):
    """The agent's arguments do not fit the tool's parameters; the text is for the agent."""


def refuse_unknown(tool: str, known: Iterable[str]) -> str:
    """Return the refusal of an unknown tool: the reference implementation's sentence and the known tools."""
    names = list(known)
    shown = ", ".join(names[:MAX_NAMED_TOOLS])
    more = f" and {len(names) - MAX_NAMED_TOOLS} more" if len(names) > MAX_NAMED_TOOLS else ""
    tools = f"the tools are {shown}{more}" if names else "there are no tools"
    return encodable(f"{tool[:MAX_SHOWN_NAME]!r} is not a valid tool; {tools}")


def parse_arguments(tool: ToolDefinition, arguments: JSONObject) -> Any:
    """Validate an agent's arguments; the tool gets a copy.

    Raises:
        InvalidArgumentsError: If they do not fit, or are not JSON.
        ToolFailedError: If the author's own validator raised something else.
    """
    copied = _copy(arguments)
    try:
        return tool.parse(copied)
    except ValidationError as error:
        raise InvalidArgumentsError(_explain(error, arguments)) from error
    except (
        BaseException
    ) as error:  # a validator runs between two awaits: every error it raises is the author's
        raise ToolFailedError(f"validating the input of {tool.name!r} failed: {describe(error)}") from error


def recordable(arguments: JSONObject) -> JSONObject:
    """Return arguments as the record keeps them: what JSON cannot express becomes text."""
    if all(map(_is_plain, arguments.values())):
        return arguments if _is_encodable(arguments) else _encodable_texts(arguments)
    try:
        return copy_json(arguments)
    except JSONCopyError:
        return _readable(arguments)


def are_same_arguments(one: JSONObject, other: JSONObject) -> bool:
    """Say whether two calls have the same arguments, one of which may come from the record."""
    try:
        return one == other or recordable(one) == recordable(other)
    except RecursionError:  # nested too deeply to tell
        return False


def digest_arguments(arguments: JSONObject) -> bytes:
    """Return a digest of a call's arguments."""
    return sha256(json.dumps(recordable(arguments), sort_keys=True).encode()).digest()


def _is_encodable(arguments: JSONObject) -> bool:
    """Whether UTF-8 can express every text of plain arguments."""
    try:
        for name, value in arguments.items():
            if not name.isascii():
                name.encode()
            if isinstance(value, str) and not value.isascii():
                value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _encodable_texts(arguments: JSONObject) -> JSONObject:
    return {
        encodable(name): encodable(value) if isinstance(value, str) else value
        for name, value in arguments.items()
    }


def _readable(arguments: JSONObject) -> JSONObject:
    try:
        text = json.dumps(arguments, default=str, ensure_ascii=False)
        return copy_json(json.loads(encodable(text), parse_constant=str))
    except (TypeError, ValueError, RecursionError) as error:
        return {"unreadable": str(error)}


def _copy(arguments: JSONObject) -> JSONObject:
    if all(map(_is_plain, arguments.values())):
        return dict(arguments) if _is_encodable(arguments) else _encodable_texts(arguments)
    try:
        return copy_json(arguments)
    except JSONCopyError as error:
        raise InvalidArgumentsError(f"{PREFIX}the arguments are not JSON: {error}") from error


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN or (isinstance(value, float) and math.isfinite(value))


def _explain(error: ValidationError, arguments: JSONObject) -> str:
    count = error.error_count()
    if count > MAX_PROBLEMS:
        return f"{PREFIX}{count} problems; send what the tool's schema describes"
    shows_input = len(repr(arguments)) <= MAX_SHOWN_INPUT
    problems = error.errors(include_context=False, include_url=False)
    sentence = "; ".join(_sentence(problem, shows_input=shows_input) for problem in problems)
    return encodable(f"{PREFIX}{sentence}"[:MAX_ERROR_TEXT])


def _sentence(problem: ErrorDetails, *, shows_input: bool) -> str:
    where = ".".join(map(str, problem["loc"]))
    subject = f"the argument {where!r}" if where else "the arguments"
    match problem["type"]:
        case "missing":
            return f"{subject} is missing"
        case "extra_forbidden" | "unexpected_keyword_argument":
            return f"{subject} is unknown"
        case _:
            pass
    words = problem["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if words.startswith("Input should be "):
        words = "should be " + words.removeprefix("Input should be ")
        sentence = f"{subject} {words}"
    else:
        sentence = f"{subject}: {words}"
    if not shows_input:
        return sentence
    return f"{sentence}, not {_shown(problem['input'])}"


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= MAX_SHOWN_VALUE else f"{text[:MAX_SHOWN_VALUE]}…"
