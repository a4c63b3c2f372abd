"""Contents of Gemini, in its JSON's names or in Python's: `functionCall`, `function_call`.

Source: `Content`, `Part`, `FunctionCall` and `FunctionResponse` of google-genai 3.6.1. A response's `output`
is what the function returned and its `error` why it failed; without either the whole response is the result.
Parts of tools that Google runs (`executableCode`, `toolCall`) are refused by their name.
"""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from ors_server.rewards.transcripts.turns import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    USER,
    Event,
    Part,
    SaidTurn,
    ToolAnswer,
    TranscriptError,
    WrittenCall,
    as_arguments,
    as_id,
    as_list,
    as_name,
    as_object,
    as_text,
    key_table,
    unexpected_error,
)

ROLES: Mapping[str, str] = MappingProxyType(
    {"user": USER, "model": ASSISTANT, "function": TOOL, "tool": TOOL, "system": SYSTEM}
)
_NAMES: Final = MappingProxyType(
    {
        "functionCall": "function_call",
        "functionResponse": "function_response",
        "inlineData": "inline_data",
        "fileData": "file_data",
        "thoughtSignature": "thought_signature",
        "videoMetadata": "video_metadata",
        "mediaResolution": "media_resolution",
        "partMetadata": "part_metadata",
    }
)
"""The names of the JSON form to those of Python."""

_CONTENT: Final = key_table("a content of Gemini", "role parts")
_PART: Final = key_table(
    "a part of Gemini",
    "text thought function_call function_response inline_data file_data",
    "thought_signature video_metadata media_resolution part_metadata",
)
_CALL: Final = key_table("a functionCall", "name args id")
_RESPONSE: Final = key_table("a functionResponse", "name response id", "scheduling")


def read_gemini(content: Mapping[str, Any], where: str) -> Iterator[Event]:
    """Read one content.

    Raises:
        TranscriptError: Its role, or a key of a part, is not understood.
    """
    _CONTENT.check(content, where)
    written = content.get("role") or "user"  # the role may be left out where there is one content only
    role = ROLES.get(written) if isinstance(written, str) else None
    if role is None:
        raise unexpected_error(where, "role", written, ROLES)
    parts: list[Part] = []
    calls: list[WrittenCall] = []
    answers: list[ToolAnswer] = []
    for number, entry in enumerate(as_list(content.get("parts"), f"{where}: parts"), 1):
        _read_part(as_object(entry, where), f"{where}, part {number}", parts, calls, answers)
    if calls and role != ASSISTANT:
        raise TranscriptError(f"{where}: expected calls in contents of the role model, got role {written}")
    if role == TOOL and parts:
        raise TranscriptError(f"{where}: expected functionResponse in a content of the role {written}")
    yield from answers
    if parts or calls or not answers:
        yield SaidTurn(USER if role == TOOL else role, parts, tuple(calls))


def _read_part(
    entry: Mapping[str, Any],
    where: str,
    parts: list[Part],
    calls: list[WrittenCall],
    answers: list[ToolAnswer],
) -> None:
    part = {_NAMES.get(key, key): value for key, value in entry.items() if value is not None}
    _PART.check(part, where)
    if "function_call" in part:
        calls.append(_call(as_object(part["function_call"], where), where))
    elif "function_response" in part:
        answers.append(_answer(as_object(part["function_response"], where), where))
    elif "text" in part:
        kind = "thinking" if part.get("thought") else "text"
        parts.append({"type": kind, "text": as_text(part["text"], f"{where}: text")})
    elif "inline_data" in part or "file_data" in part:
        parts.append({"type": "image", **part})
    elif not part.keys() & {"thought", "thought_signature"}:
        raise TranscriptError(f"{where}: expected a part with text, functionCall or data, got an empty one")


def _call(body: Mapping[str, Any], where: str) -> WrittenCall:
    _CALL.check(body, where)
    return WrittenCall(
        as_name(body.get("name"), f"{where}: functionCall.name"),
        as_arguments(body.get("args")),
        as_id(body.get("id"), f"{where}: functionCall.id"),
    )


def _answer(body: Mapping[str, Any], where: str) -> ToolAnswer:
    _RESPONSE.check(body, where)
    name = as_name(body.get("name"), f"{where}: functionResponse.name")
    call_id = as_id(body.get("id"), f"{where}: functionResponse.id")
    response = as_object(body.get("response") or {}, f"{where}: functionResponse.response")
    if set(response) == {"error"}:
        error = _write(response["error"])
        return ToolAnswer(error, call_id, name, is_error=True, error=error)
    whole = next(iter(response.values())) if set(response) <= {"output", "result"} and response else response
    return ToolAnswer(_write(whole), call_id, name)


def _write(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
