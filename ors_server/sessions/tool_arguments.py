"""JSON that crosses the border of a session: arguments on the way in, outputs on the way out.

Both are checked to be legal, bounded and encodable, and copied, so that no tool changes the record later.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeVar, cast

import anyio.to_thread
from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json

from ors_server.environments.boundary import MAX_ERROR_TEXT, describe, encodable
from ors_server.environments.definition import ToolDefinition
from ors_server.model.errors import ToolFailedError, ToolOutputError
from ors_server.model.policy import REWARD_RANGE, EpisodePolicy, RewardRangeError
from ors_server.model.wire import ImageBlock, JSONObject, TextBlock, ToolOutput

_Value = TypeVar("_Value")
_Result = TypeVar("_Result")

MAX_VALUES = 50_000
"""Values, keys and containers of one JSON value that the server copies: more would hold the event loop."""

MIN_LARGE_BYTES = 2**20
"""Bytes of a value that takes milliseconds to write or to hash."""

_OVERHEAD = 64
"""Bytes that a value takes in memory besides its text, roughly."""

_write = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class JSONCopyError(ValueError):
    """A value is not JSON, or too deep or large for every door to write; each function here raises it."""


def write_json(value: JSONObject) -> str:
    """Write a value, with what UTF-8 cannot express replaced by question marks; refuse NaN and infinities."""
    try:
        return encodable(_write(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise JSONCopyError(str(error)) from error


def read_json(text: str) -> JSONObject:
    """Read what `write_json` wrote, at most 200 levels deep: answers wrap it, and serialisers stop at 255."""
    try:
        value: JSONObject = from_json(text)
    except ValueError as error:
        raise JSONCopyError(str(error)) from error
    return value


def check_size(value: JSONObject) -> None:
    """Refuse a value of more than `MAX_VALUES` parts, which would take too long to copy."""
    pending: list[object] = [value]
    count = 0
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            items = cast("dict[object, object]", item)
            count += 2 * len(items)
            pending += items.values()
        elif isinstance(item, list | tuple):
            count += len(cast("list[object]", item))
            pending += cast("list[object]", item)
        if count > MAX_VALUES:
            raise JSONCopyError(f"it has more than {MAX_VALUES} values, keys and containers")


def size_of_json(value: object, limit: int) -> int:
    """Return roughly how many bytes a value takes in memory; stops to count at the limit."""
    # Parts are counted where they are found, not one by one from a list: each call counts its arguments.
    size = _OVERHEAD + (len(value) if isinstance(value, str | bytes) else 0)
    pending: list[Any] = [value]
    while pending and size < limit:
        item = pending.pop()
        if isinstance(item, dict):
            items = cast("dict[object, Any]", item)
            size += _OVERHEAD * len(items) + sum(map(len, map(str, items)))
            parts = list(items.values())
        elif isinstance(item, list | tuple):
            parts = cast("list[Any]", item)
        else:
            continue
        size += _OVERHEAD * len(parts)
        for part in parts:
            kind: object = part.__class__
            if kind is str or kind is bytes:
                size += len(part)
            elif kind is dict or kind is list or kind is tuple:
                pending.append(part)
    return size


def copy_json(value: JSONObject) -> JSONObject:
    """Copy a value."""
    return read_json(write_json(value))


async def read_through(function: Callable[[_Value], _Result], value: _Value) -> _Result:
    """Return what a function makes of a JSON value, in a thread if the event loop would wait for it."""
    if size_of_json(value, MIN_LARGE_BYTES) < MIN_LARGE_BYTES:
        return function(value)
    return await anyio.to_thread.run_sync(function, value)


BLOCK_OVERHEAD = 64
"""Bytes that a block counts for besides its content."""

MAX_BLOCKS = 10_000
"""Blocks of one output: more would hold the event loop."""


@dataclass(slots=True)
class CheckedOutput:
    """The server's own copy of what a tool returned, which the author's code cannot reach."""

    blocks: list[TextBlock | ImageBlock]
    metadata: JSONObject | None = None
    reward: float | None = None
    """Admitted by the policy."""
    finished: bool = False
    size: int | None = None
    """Bytes that it takes in memory, roughly; `None` where they were not counted."""


def check_output(output: ToolOutput, policy: EpisodePolicy, max_bytes: int) -> CheckedOutput:
    """Check what a tool returned, and admit its reward.

    Args:
        max_bytes: Most bytes of text and image data, roughly as they travel.

    Returns:
        A copy, its reward clipped if the policy says so, and characters that UTF-8 cannot express replaced.

    Raises:
        ToolOutputError: If the reward is out of range, the output too large, or its metadata not JSON, or of
            more than 50,000 values.
    """
    if len(output.blocks) > MAX_BLOCKS:
        raise ToolOutputError(f"the output has {len(output.blocks)} blocks; at most {MAX_BLOCKS} are allowed")
    size = 0
    for block in output.blocks:
        content = block.text if isinstance(block, TextBlock) else block.data
        size += BLOCK_OVERHEAD
        size += len(content) if content.isascii() else len(content.encode(errors="replace"))
    if size > max_bytes:
        msg = f"the output has {size} bytes; at most {max_bytes} are allowed (setting max_output_bytes)"
        raise ToolOutputError(msg)
    reward = output.reward
    if reward is not None:
        low, high = policy.reward_range or REWARD_RANGE
        if not low <= reward <= high:
            try:
                reward = policy.admit(reward)
            except RewardRangeError as error:
                raise ToolOutputError(str(error)) from error
    metadata = None
    if output.metadata is not None:
        metadata = _copy_json(output.metadata, "metadata", max_bytes)
    blocks = list(output.blocks)
    for index, block in enumerate(blocks):
        if isinstance(block, ImageBlock) or block.detail is not None or not block.text.isascii():
            blocks[index] = _check_block(block, max_bytes)
    return CheckedOutput(blocks, metadata, reward, output.finished, None if metadata else size)


def make_error_output(text: str, code: str, extra: Mapping[str, Any] | None = None) -> CheckedOutput:
    """Make the output that tells an agent about its mistake."""
    return CheckedOutput([TextBlock(text=text)], {"error": {"code": code, **(extra or {})}})


def _check_block(block: TextBlock | ImageBlock, max_bytes: int) -> TextBlock | ImageBlock:
    if isinstance(block, ImageBlock) and not (block.data.isascii() and block.mimeType.isascii()):
        raise ToolOutputError("an image's data is base64 and its mimeType a MIME type; both are ASCII")
    if block.detail is not None:
        block = block.model_copy(update={"detail": _copy_json(block.detail, "a block's detail", max_bytes)})
    if isinstance(block, ImageBlock) or block.text.isascii():
        return block
    text = encodable(block.text)
    return block if text == block.text else block.model_copy(update={"text": text})


def _copy_json(value: JSONObject, what: str, max_bytes: int) -> JSONObject:
    try:
        check_size(value)
        text = write_json(value)
        copied = read_json(text)
    except JSONCopyError as error:
        msg = f"{what} must be JSON without NaN or infinities, nested at most 200 deep: {error}"
        raise ToolOutputError(msg) from error
    if len(text) > max_bytes:
        msg = f"{what} has {len(text)} bytes as JSON; {max_bytes} are allowed (setting max_output_bytes)"
        raise ToolOutputError(msg)
    return copied


PREFIX = "Tool input validation error: "
"""How the refusal of invalid arguments begins, as the reference implementation's does."""

MAX_PROBLEMS = 20
"""Problems that are listed one by one; more are only counted."""

MAX_SHOWN_INPUT = 4_096
"""Characters of arguments up to which the refusal repeats what was wrong."""

MAX_SHOWN_VALUE = 200
"""Characters of one wrong value that the refusal repeats."""


MAX_SHOWN_NAME = 256
"""Characters of a tool's name that a message repeats; the name of an unknown one has any length."""

MAX_NAMED_TOOLS = 40
"""Tools that the refusal of an unknown one names; more are only counted."""

_SINGLE = frozenset({int, bool, type(None)})


class InvalidArgumentsError(ValueError):
    """The agent's arguments do not fit the tool's parameters; the text is for the agent."""


def shown_name(tool: str) -> str:
    """Return the beginning of a tool's name, quoted."""
    return repr(tool[:MAX_SHOWN_NAME])


def refuse_unknown(tool: str, known: Iterable[str]) -> str:
    """Return the refusal of an unknown tool: the reference implementation's sentence and the known tools."""
    names = list(known)
    shown = ", ".join(names[:MAX_NAMED_TOOLS])
    more = f" and {len(names) - MAX_NAMED_TOOLS} more" if len(names) > MAX_NAMED_TOOLS else ""
    tools = f"the tools are {shown}{more}" if names else "there are no tools"
    return encodable(f"{shown_name(tool)} is not a valid tool; {tools}")


def parse_arguments(tool: ToolDefinition, arguments: JSONObject, *, are_plain: bool) -> Any:
    """Validate an agent's arguments; the tool gets a copy.

    Args:
        are_plain: What `are_plain_arguments` says of them.

    Raises:
        InvalidArgumentsError: If they do not fit, or are not JSON.
        ToolFailedError: If the author's own validator raised something else.
    """
    try:
        copied = dict(arguments) if are_plain else copy_json(arguments)
    except JSONCopyError as error:
        raise InvalidArgumentsError(f"{PREFIX}the arguments are not JSON: {error}") from error
    try:
        return tool.parse(copied)
    except ValidationError as error:
        raise InvalidArgumentsError(_explain(error, arguments, tool)) from error
    except (
        BaseException
    ) as error:  # a validator runs between two awaits: every error it raises is the author's
        raise ToolFailedError(f"validating the input of {tool.name!r} failed: {describe(error)}") from error


def recordable(arguments: JSONObject) -> JSONObject:
    """Return arguments as the record keeps them: what JSON cannot express becomes text."""
    if are_plain_arguments(arguments):
        return arguments
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


def are_plain_arguments(arguments: JSONObject) -> bool:
    """Whether arguments hold only single values that JSON in UTF-8 can express, as those of most calls do."""
    try:
        for name, value in arguments.items():
            if not name.isascii():
                name.encode()
            if type(value) is str:
                if not value.isascii():
                    value.encode()
            elif not (type(value) in _SINGLE or (isinstance(value, float) and math.isfinite(value))):
                return False
    except UnicodeEncodeError:
        return False
    return True


def _readable(arguments: JSONObject) -> JSONObject:
    try:
        text = json.dumps(arguments, default=str, ensure_ascii=False)
        return copy_json(json.loads(encodable(text), parse_constant=str))
    except (TypeError, ValueError, RecursionError) as error:
        return {"unreadable": str(error)}


def _explain(error: ValidationError, arguments: JSONObject, tool: ToolDefinition) -> str:
    count = error.error_count()
    if count > MAX_PROBLEMS:
        return f"{PREFIX}{count} problems; send what the tool's schema describes"
    shows_input = len(repr(arguments)) <= MAX_SHOWN_INPUT
    problems = error.errors(include_context=False, include_url=False)
    sentences = [_sentence(problem, shows_input=shows_input) for problem in problems]
    sentence = "; ".join(sentences + _unknown_names(problems, arguments, tool))
    return encodable(f"{PREFIX}{sentence}"[:MAX_ERROR_TEXT])


def _unknown_names(
    problems: Sequence[ErrorDetails], arguments: JSONObject, tool: ToolDefinition
) -> list[str]:
    # A tool ignores arguments of other names. Where one is missing, the agent has to learn which was ignored.
    if not any(problem["type"] == "missing" and len(problem["loc"]) == 1 for problem in problems):
        return []
    properties: object = (tool.spec.input_schema or {}).get("properties")
    if not isinstance(properties, dict):
        return []
    takes = list(cast("JSONObject", properties))
    ignored = [name[:MAX_SHOWN_NAME] for name in arguments if name not in takes][:MAX_NAMED_TOOLS]
    if not ignored:
        return []
    return [f"{tool.name} takes {', '.join(takes)}, got {', '.join(map(repr, ignored))}"]


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
    return f"{sentence}, got {_shown(problem['input'])}"


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= MAX_SHOWN_VALUE else f"{text[:MAX_SHOWN_VALUE]}…"
