"""The entries of `tool_calls`, as OpenAI, LangChain, Inspect and this server write them.

Sources: `ChatCompletionMessageToolCall` of openai 3.57.0, `ToolCall` and `InvalidToolCall` of langchain-core
1.8.3, `ToolCall` of inspect-ai 0.3.285.
"""

from collections.abc import Mapping
from typing import Any

from ors_server.rewards.transcripts.turns import (
    WrittenCall,
    as_arguments,
    as_id,
    as_list,
    as_name,
    as_object,
    as_text,
    key_table,
    show,
    unexpected_error,
)

_CALL = key_table(
    "a tool call",
    "function custom name arguments args id type parse_error",
    "index view error",
)
_FUNCTION = key_table("a tool call's function", "name arguments")
_CUSTOM = key_table("a custom tool call", "name input")
_TYPES = frozenset({"function", "custom", "tool_call", "invalid_tool_call"})


def read_calls(value: object, where: str) -> tuple[WrittenCall, ...]:
    """Read a list of calls; null means no calls.

    Raises:
        TranscriptError: An entry, or a key of one, is not understood.
    """
    if value is None:
        return ()
    return tuple(
        read_call(entry, f"{where}, call {number}")
        for number, entry in enumerate(as_list(value, f"{where}: tool_calls"), 1)
    )


def read_call(entry: object, where: str) -> WrittenCall:
    """Read one call.

    Raises:
        TranscriptError: It, or a key of it, is not understood.
    """
    call = as_object(entry, where)
    _CALL.check(call, where)
    if (kind := call.get("type")) is not None and kind not in _TYPES:
        raise unexpected_error(where, "type of tool call", kind, _TYPES)
    call_id = as_id(call.get("id"), f"{where}: id")
    function, custom = call.get("function"), call.get("custom")
    if custom is not None:
        body = as_object(custom, f"{where}: custom")
        _CUSTOM.check(body, where)
        return custom_call(body.get("name"), body.get("input"), call_id, where)
    if function is not None and not isinstance(function, str):  # OpenAI
        body = as_object(function, f"{where}: function")
        return WrittenCall(*read_function(body, where), call_id)
    name = as_name(call.get("name") if function is None else function, f"{where}: name")  # Inspect: function
    if call.get("parse_error"):  # the arguments are not what the model wrote
        return WrittenCall(name, f"unreadable: {show(call['parse_error'])}", call_id)
    return WrittenCall(name, as_arguments(_arguments(call)), call_id)


def read_function(body: Mapping[str, Any], where: str) -> tuple[str, Any]:
    """Read the name and the arguments of a function that is called."""
    _FUNCTION.check(body, where)
    name = as_name(body.get("name"), f"{where}: name")
    return name, as_arguments(body.get("arguments"))


def custom_call(name: object, text: object, call_id: str | None, where: str) -> WrittenCall:
    """Make the call of a tool that takes free text, which is its only argument, `input`."""
    return WrittenCall(as_name(name, f"{where}: name"), {"input": as_text(text, f"{where}: input")}, call_id)


def _arguments(call: Mapping[str, Any]) -> object:
    return call["args"] if call.get("arguments") is None and "args" in call else call.get("arguments")
