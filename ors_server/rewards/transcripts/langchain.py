"""Messages of LangChain as it writes them: with `type`, with `type` and `data`, or as `lc` constructors.

Source: `messages_to_dict`, `dumpd` and `model_dump` of langchain-core 1.8.3.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from ors_server.rewards.transcripts.calls import read_calls
from ors_server.rewards.transcripts.parts import read_content, refuse_nested
from ors_server.rewards.transcripts.role_messages import answers_and_turn, combine_calls, read_role
from ors_server.rewards.transcripts.turns import (
    ASSISTANT,
    SYSTEM,
    TOOL,
    USER,
    Event,
    SaidTurn,
    ToolAnswer,
    WrittenCall,
    as_id,
    as_list,
    as_name,
    as_object,
    key_table,
    show,
    unexpected_error,
)

TYPES: Mapping[str, str] = MappingProxyType(
    {
        "human": USER,
        "ai": ASSISTANT,
        "system": SYSTEM,
        "tool": TOOL,
        "function": TOOL,
        "chat": "",
        "HumanMessageChunk": USER,
        "AIMessageChunk": ASSISTANT,
        "SystemMessageChunk": SYSTEM,
        "ToolMessageChunk": TOOL,
    }
)
"""Types to roles; a `chat` message says its role itself."""
_CLASSES: Final = MappingProxyType(
    {
        "HumanMessage": "human",
        "AIMessage": "ai",
        "SystemMessage": "system",
        "ToolMessage": "tool",
        "FunctionMessage": "function",
        "ChatMessage": "chat",
        **{name: name for name in TYPES if name.endswith("Chunk")},
    }
)
_DATA: Final = key_table("a message of LangChain", "type data")
_CONSTRUCTOR: Final = key_table("a constructor of LangChain", "lc type id kwargs", "name graph")
_MESSAGE: Final = key_table(
    "a message of LangChain",
    "type content role tool_calls invalid_tool_calls tool_call_id name status additional_kwargs",
    "id response_metadata usage_metadata artifact example tool_call_chunks chunk_position lc_kwargs",
)
_STATUSES: Final = {"success": None, "error": True}
"""`success` is the default of LangChain, so it says no more than nothing."""


def is_langchain(message: Mapping[str, Any]) -> bool:
    """Whether a message is one of LangChain."""
    return "lc" in message or ("role" not in message and message.get("type") in TYPES) or _is_chat(message)


def read_langchain(message: Mapping[str, Any], where: str) -> Iterator[Event]:
    """Read one message.

    Raises:
        TranscriptError: Its type, or a key of it, is not understood.
    """
    body = _unwrap(message, where)
    _MESSAGE.check(body, where)
    kind = body["type"]
    role = read_role(body.get("role"), where) if kind == "chat" else TYPES[kind]
    read = read_content(body.get("content"), where)
    if role == TOOL:
        refuse_nested(read, where)
        name, status = body.get("name"), body.get("status") or "success"
        if status not in _STATUSES:
            raise unexpected_error(where, "status", status, _STATUSES)
        yield ToolAnswer(
            read.content,
            as_id(body.get("tool_call_id"), f"{where}: tool_call_id"),
            as_name(name, f"{where}: name") if name else None,
            _STATUSES[status],
        )
        return
    calls = combine_calls(_calls(body, where), read.calls, where)
    yield from answers_and_turn(read.answers, SaidTurn(role, read.content, calls), where)


def _calls(body: Mapping[str, Any], where: str) -> tuple[WrittenCall, ...]:
    calls = read_calls(body.get("tool_calls"), where)
    broken = read_calls(body.get("invalid_tool_calls"), where)
    more = as_object(body.get("additional_kwargs") or {}, f"{where}: additional_kwargs")
    if calls or broken:
        return (*calls, *broken)  # additional_kwargs repeat them as the provider wrote them
    calls = read_calls(more.get("tool_calls"), where)
    older = more.get("function_call")
    return calls if older is None else combine_calls(calls, read_calls([{"function": older}], where), where)


def _is_chat(message: Mapping[str, Any]) -> bool:
    return message.get("type") == "chat" and "role" in message


def _unwrap(message: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    if "lc" in message:
        _CONSTRUCTOR.check(message, where)
        if message.get("type") != "constructor":
            raise unexpected_error(where, "type of a dumped object", message.get("type"), ("constructor",))
        path = as_list(message.get("id"), f"{where}: id")
        name = path[-1] if path else None
        if not isinstance(name, str) or name not in _CLASSES:
            raise unexpected_error(where, "class of LangChain", show(path), _CLASSES)
        return _typed(as_object(message.get("kwargs"), f"{where}: kwargs"), _CLASSES[name], where)
    if "data" in message:
        _DATA.check(message, where)
        return _typed(as_object(message["data"], f"{where}: data"), message["type"], where)
    return message


def _typed(body: Mapping[str, Any], kind: str, where: str) -> Mapping[str, Any]:
    """Return a message with its type, which must not be another one inside."""
    if body.get("type", kind) != kind:
        raise unexpected_error(where, "type within the message", body["type"], (kind,))
    return {**body, "type": kind}
