"""Items of OpenAI's Responses API, where a turn's text, reasoning and calls are items of their own.

Source: `ResponseInputItemParam` and `ResponseOutputItem` of openai 3.57.0. Calls of hosted tools
(`web_search_call`, `code_interpreter_call` and their like) are refused by their type.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ors_server.rewards.transcripts.calls import custom_call
from ors_server.rewards.transcripts.parts import read_content, refuse_nested
from ors_server.rewards.transcripts.role_messages import read_error
from ors_server.rewards.transcripts.turns import (
    ASSISTANT,
    Event,
    KeyTable,
    SaidTurn,
    ToolAnswer,
    WrittenCall,
    as_arguments,
    as_id,
    as_name,
    key_table,
)

_MARKS = "type id status caller created_by namespace async_ phase"


@dataclass(frozen=True, slots=True)
class ItemForm:
    """One type of item."""

    keys: KeyTable
    read: Callable[[Mapping[str, Any], str], Iterator[Event]]


def read_item(item: Mapping[str, Any], where: str) -> Iterator[Event]:
    """Read one item whose type is in the table."""
    form = ITEMS[item["type"]]
    form.keys.check(item, where)
    return form.read(item, where)


def _calls(*calls: WrittenCall) -> Iterator[Event]:
    yield SaidTurn(ASSISTANT, calls=calls, continues_previous=True)


def _function_call(item: Mapping[str, Any], where: str) -> Iterator[Event]:
    return _calls(_call(item, as_id(item.get("call_id"), f"{where}: call_id"), where))


def _custom(item: Mapping[str, Any], where: str) -> Iterator[Event]:
    call_id = as_id(item.get("call_id"), f"{where}: call_id")
    return _calls(custom_call(item.get("name"), item.get("input"), call_id, where))


def _output(item: Mapping[str, Any], where: str) -> Iterator[Event]:
    read = read_content(item.get("output"), where)
    refuse_nested(read, where)
    name = item.get("name")
    yield ToolAnswer(
        read.content,
        as_id(item.get("call_id"), f"{where}: call_id"),
        as_name(name, f"{where}: name") if name else None,
    )


def _mcp(item: Mapping[str, Any], where: str) -> Iterator[Event]:
    call_id = as_id(item.get("id"), f"{where}: id")
    yield from _calls(_call(item, call_id, where))
    error = read_error(item.get("error"), where)
    if error is not None or item.get("output") is not None:
        content = read_content(item.get("output"), where).content
        yield ToolAnswer(content, call_id, is_error=error is not None, error=error)


def _call(item: Mapping[str, Any], call_id: str | None, where: str) -> WrittenCall:
    return WrittenCall(
        as_name(item.get("name"), f"{where}: name"),
        as_arguments(item.get("arguments")),
        call_id,
    )


ITEMS: Mapping[str, ItemForm] = MappingProxyType(
    {
        "function_call": ItemForm(
            key_table("a function_call", "call_id name arguments", _MARKS), _function_call
        ),
        "custom_tool_call": ItemForm(key_table("a custom_tool_call", "call_id name input", _MARKS), _custom),
        "function_call_output": ItemForm(
            key_table("a function_call_output", "call_id output name", _MARKS), _output
        ),
        "custom_tool_call_output": ItemForm(
            key_table("a custom_tool_call_output", "call_id output name", _MARKS), _output
        ),
        "mcp_call": ItemForm(
            key_table(
                "an mcp_call", "name arguments output error", f"{_MARKS} server_label approval_request_id"
            ),
            _mcp,
        ),
        "reasoning": ItemForm(
            key_table("a reasoning", "summary content encrypted_content", _MARKS),
            lambda _item, _where: iter(()),  # no reward reads it
        ),
    }
)
"""Every type of item without a role that is read."""
