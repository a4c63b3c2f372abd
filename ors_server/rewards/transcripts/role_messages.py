"""Messages with a role: OpenAI's chat, Anthropic, Inspect, TRL, verl, this server's exports and its wire.

Sources: openai 3.57.0 (`ChatCompletionMessageParam`, `ChatCompletionMessage`), anthropic 2.14.0
(`MessageParam`, `Message`), inspect-ai 0.3.285 (`ChatMessage`), TRL 1.16 ("Dataset formats and types"), verl
0.9.1 (`multiturn_sft_dataset.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast

from ors_server.model.json_values import NotJSONError, canonical_text
from ors_server.rewards.reading.json_text import JSONTextError, parse_json
from ors_server.rewards.transcripts.calls import read_calls, read_function
from ors_server.rewards.transcripts.parts import ReadContent, read_content, read_flag, refuse_nested
from ors_server.rewards.transcripts.turns import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    USER,
    Event,
    SaidTurn,
    ToolAnswer,
    TranscriptError,
    WrittenCall,
    as_id,
    as_name,
    as_object,
    as_text,
    key_table,
    show,
    unexpected_error,
)

ROLES: Mapping[str, str] = MappingProxyType(
    {
        "system": SYSTEM,
        "developer": SYSTEM,
        "user": USER,
        "assistant": ASSISTANT,
        "tool": TOOL,
        "function": TOOL,
        "ipython": TOOL,
    }
)
"""Roles to the four that rewards know: OpenAI's, its older `function`, and Llama's name of a tool's role."""

MESSAGE: Final = key_table(
    "a chat message",
    "role content blocks tool_calls function_call tool_call_id name is_error error refusal function",
    "id type status phase weight train audio annotations reasoning reasoning_content reasoning_details "
    "thinking_blocks provider_specific_fields logprobs source metadata model internal detail stop_reason "
    "stop_sequence stop_details usage container diagnostics cache_control function_name timestamp index "
    "prefix provider_state finish_reason token_ids",
)
_ERROR: Final = key_table("a tool's error", "type message")
_CALLING: Final = ("tool_calls", "function_call")
_ANSWERING: Final = ("tool_call_id", "is_error", "error", "function")
_TYPES: Final = frozenset({"message"})


def read_role_message(message: Mapping[str, Any], where: str) -> Iterator[Event]:
    """Read one message with a role.

    Raises:
        TranscriptError: Its role, or a key of it, is not understood.
    """
    MESSAGE.check(message, where)
    role = read_role(message["role"], where)
    if (kind := message.get("type")) is not None and kind not in _TYPES:
        raise unexpected_error(where, "type of message", kind, _TYPES)
    if message.get("blocks") is not None and message.get("content") is not None:
        raise TranscriptError(f"{where}: expected content or blocks, got both")
    read = read_content(message.get("content", message.get("blocks")), where)
    if role == TOOL:
        refuse_nested(read, where)
        yield _answer(message, read, where)
        return
    forbidden = _ANSWERING if role == ASSISTANT else (*_CALLING, *_ANSWERING[1:])
    if (wrong := next((key for key in forbidden if message.get(key)), None)) is not None:
        raise unexpected_error(where, f"key of a message of the role {role}", wrong, ("role", "content"))
    calls = combine_calls(_calls(message, where), read.calls, where)
    extra = {key: entry for key, entry in message.items() if key not in MESSAGE.read and entry is not None}
    if message.get("blocks") is not None and calls:  # the wire of ORS writes calls flat
        extra["tool_calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls
        ]
    # A refusal is the content of a message without other content.
    refusal = message.get("refusal")
    content = refusal if isinstance(refusal, str) and not read.content else read.content
    turn = SaidTurn(role, content, calls, extra)
    yield from answers_and_turn(read.answers, turn, where)


def answers_and_turn(answers: Sequence[ToolAnswer], turn: SaidTurn, where: str) -> Iterator[Event]:
    """Return the results in a message's content, then its turn, unless it had only results.

    Raises:
        TranscriptError: A role other than the assistant's makes calls.
    """
    if turn.calls and turn.role != ASSISTANT:
        raise TranscriptError(
            f"{where}: expected calls in messages of the role {ASSISTANT}, got role {turn.role}"
        )
    yield from answers
    if turn.calls or turn.content or not answers:
        yield turn


def read_role(role: object, where: str) -> str:
    """Return the role that rewards know.

    Raises:
        TranscriptError: There is no such role.
    """
    if isinstance(role, str) and role in ROLES:
        return ROLES[role]
    raise unexpected_error(where, "role", role, ROLES)


def combine_calls(
    apart: tuple[WrittenCall, ...], inside: tuple[WrittenCall, ...], where: str
) -> tuple[WrittenCall, ...]:
    """Return the calls of a message that may be both next to its content and in it.

    Raises:
        TranscriptError: They are in both and differ.
    """
    if not apart or not inside:
        return apart or inside
    if [_written(call) for call in apart] != [_written(call) for call in inside]:
        raise TranscriptError(
            f"{where}: expected the calls of the content ({_names(inside)}) to be those next to it "
            f"({_names(apart)}), with the same arguments"
        )
    return apart


def read_arguments(arguments: object) -> Mapping[str, Any] | None:
    """Return a call's arguments as an object; `None` if they are a text that is not JSON of one."""
    if isinstance(arguments, str):
        try:
            arguments = parse_json(arguments or "{}")
        except JSONTextError:
            return None
    return cast("Mapping[str, Any]", arguments) if isinstance(arguments, Mapping) else None


def _written(call: WrittenCall) -> tuple[str, str]:
    arguments = read_arguments(call.arguments)
    try:
        return call.name, show(call.arguments) if arguments is None else canonical_text(arguments)
    except NotJSONError:
        return call.name, show(call.arguments)


def _names(calls: tuple[WrittenCall, ...]) -> str:
    return show(", ".join(call.name for call in calls))


def _calls(message: Mapping[str, Any], where: str) -> tuple[WrittenCall, ...]:
    calls = read_calls(message.get("tool_calls"), where)
    if message.get("function_call") is None:
        return calls
    body = as_object(message["function_call"], f"{where}: function_call")
    return combine_calls(calls, (WrittenCall(*read_function(body, where)),), where)


def _answer(message: Mapping[str, Any], read: ReadContent, where: str) -> ToolAnswer:
    for key in (*_CALLING, "refusal"):
        if message.get(key):
            raise unexpected_error(
                where, "key of a tool's message", key, ("role", "content", *_ANSWERING, "name")
            )
    name = message.get("name") or message.get("function")
    error = read_error(message.get("error"), where)
    return ToolAnswer(
        read.content,
        as_id(message.get("tool_call_id"), f"{where}: tool_call_id"),
        as_name(name, f"{where}: name") if name else None,
        True if error is not None else read_flag(message.get("is_error"), where),
        error,
    )


def read_error(error: object, where: str) -> str | None:
    """Return why a call failed: a text, or the object of type and message that Inspect writes."""
    if error is None or isinstance(error, str):
        return error or None
    body = as_object(vars(error) if hasattr(error, "__dataclass_fields__") else error, f"{where}: error")
    _ERROR.check(body, f"{where}: error")
    return as_text(body.get("message") or body.get("type"), f"{where}: error")
