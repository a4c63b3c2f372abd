"""The parts of a message's content, by their type: text, reasoning, media, calls and results.

Sources: the types of openai 3.57.0 (`chat`, `responses`), anthropic 2.14.0, inspect-ai 0.3.285 and
langchain-core 1.8.3. Tools that a provider runs itself (`server_tool_use`, `web_search_call` and their like)
are not parts here: they are refused by their type.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from ors_server.rewards.transcripts.turns import (
    Content,
    KeyTable,
    Part,
    ToolAnswer,
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

Piece: TypeAlias = Part | WrittenCall | ToolAnswer
"""What a part is read into."""

_MARKS = "type id index internal cache_control cache_breakpoint prompt_cache_breakpoint extras metadata"


@dataclass(frozen=True, slots=True)
class PartForm:
    """One type of part."""

    keys: KeyTable
    read: Callable[[Mapping[str, Any], str], Piece]


@dataclass(frozen=True, slots=True)
class ReadContent:
    """A message's content, taken apart."""

    content: Content
    calls: tuple[WrittenCall, ...] = ()
    answers: tuple[ToolAnswer, ...] = ()


def read_content(value: object, where: str) -> ReadContent:
    """Read a content: a text, null, or a list of parts and texts.

    Raises:
        TranscriptError: A part, or a key of one, is not understood.
    """
    if value is None or isinstance(value, str):
        return ReadContent(value)
    parts: list[Part] = []
    calls: list[WrittenCall] = []
    answers: list[ToolAnswer] = []
    for number, entry in enumerate(as_list(value, f"{where}: content"), 1):
        piece = _read_part(entry, f"{where}, part {number}")
        if isinstance(piece, WrittenCall):
            calls.append(piece)
        elif isinstance(piece, ToolAnswer):
            answers.append(piece)
        else:
            parts.append(piece)
    return ReadContent(parts, tuple(calls), tuple(answers))


def _read_part(entry: object, where: str) -> Piece:
    if isinstance(entry, str):
        return {"type": "text", "text": entry}
    part = as_object(entry, where)
    kind = part.get("type", "text" if "text" in part else None)
    form = PARTS.get(kind) if isinstance(kind, str) else None
    if form is None:
        raise unexpected_error(where, "type of part", kind, PARTS)
    form.keys.check(part, where)
    return form.read(part, where)


def _text(part: Mapping[str, Any], where: str) -> Part:
    return {**part, "type": "text", "text": as_text(part.get("text"), f"{where}: text")}


def _refusal(part: Mapping[str, Any], where: str) -> Part:
    return {"type": "text", "text": as_text(part.get("refusal"), f"{where}: refusal")}


def _kept(part: Mapping[str, Any], where: str) -> Part:
    del where  # media and reasoning have no text that a reward reads
    return {key: entry for key, entry in part.items() if key != "text"}


def _tool_call(part: Mapping[str, Any], where: str) -> WrittenCall:
    return WrittenCall(
        as_name(part.get("name"), f"{where}: name"),
        as_arguments(part.get("args", part.get("input"))),
        as_id(part.get("id"), f"{where}: id"),
    )


def _function_call(part: Mapping[str, Any], where: str) -> WrittenCall:
    return WrittenCall(
        as_name(part.get("name"), f"{where}: name"),
        as_arguments(part.get("arguments")),
        as_id(part.get("call_id", part.get("id")), f"{where}: call_id"),
    )


def read_flag(value: object, where: str) -> bool | None:
    """Return whether a call failed, `None` where the shape does not say; anything but a truth is refused."""
    if value is None or isinstance(value, bool):
        return value
    raise unexpected_error(where, "value of is_error", value, ("true", "false"))


def _tool_result(part: Mapping[str, Any], where: str) -> ToolAnswer:
    # ORS's shape has `blocks` and `tool_call_id`, Anthropic's `content` and `tool_use_id`.
    is_ors = "tool_call_id" in part
    name = "tool_call_id" if is_ors else "tool_use_id"
    content = part["blocks"] if is_ors and "blocks" in part else part.get("content")
    inner = read_content(content, where)
    refuse_nested(inner, where)
    return ToolAnswer(
        inner.content,
        as_id(part.get(name), f"{where}: {name}"),
        is_error=read_flag(part.get("is_error"), where),
    )


def refuse_nested(inner: ReadContent, where: str) -> None:
    """Refuse a result that itself holds calls or results."""
    if inner.calls or inner.answers:
        raise unexpected_error(where, "part of a tool's result", "call or result", ("text", "image"))


def _form(
    name: str, read: Callable[[Mapping[str, Any], str], Piece], own: str, carried: str = ""
) -> PartForm:
    return PartForm(key_table(f"a part {name}", own, f"{_MARKS} {carried}"), read)


_TEXT_MARKS = "citations annotations logprobs refusal detail"
_MEDIA = (
    "source image_url image detail file file_id file_data file_url filename input_audio audio video data "
    "document mime_type mimeType url base64 title context citations transformations format text media_type "
    "source_type"
)
_MEDIA_TYPES = (
    "image",
    "image_url",
    "input_image",
    "image_file",
    "input_audio",
    "audio",
    "video",
    "input_file",
    "file",
    "document",
    "data",
)
_REASONING = "text thinking signature data reasoning summary content redacted encrypted_content status format"

PARTS: Mapping[str, PartForm] = MappingProxyType(
    {
        **{kind: _form(kind, _text, "text", _TEXT_MARKS) for kind in ("text", "input_text", "output_text")},
        "refusal": _form("refusal", _refusal, "refusal"),
        **{kind: _form(kind, _kept, _MEDIA) for kind in _MEDIA_TYPES},
        **{
            kind: _form(kind, _kept, _REASONING)
            for kind in ("thinking", "redacted_thinking", "reasoning", "reasoning_text")
        },
        "tool_use": _form("tool_use", _tool_call, "name input", "caller toolset_name partial_json"),
        "tool_call": _form("tool_call", _tool_call, "name args input", "detail"),
        "function_call": _form(
            "function_call", _function_call, "name arguments call_id", "status caller namespace async_"
        ),
        "tool_result": _form(
            "tool_result",
            _tool_result,
            "tool_use_id tool_call_id content blocks is_error",
            "toolset_name detail",
        ),
    }
)
"""Every type of part that is read."""
