"""Tool calls that a model writes into its text, for trainers whose environments exchange text only.

The form is that of the Hermes and Qwen chat templates: a JSON object with `name` and `arguments` between
`<tool_call>` and `</tool_call>`. Text around calls is free.
"""

import json
from collections.abc import Sequence
from typing import Any, cast

from ors_server.client.agent_loop import Move
from ors_server.model.wire import ToolListing, ToolSpec

OPENING, CLOSING = "<tool_call>", "</tool_call>"
RESULT = "<tool_response>\n{text}\n</tool_response>"
"""How the result of a call is written for the model."""


class TextCallError(ValueError):
    """A text is not a tool call; the message is for the model."""


def read_moves(text: str, listing: ToolListing) -> list[Move]:
    """Return the calls of a text, in order; text without a call goes to the terminal tool, if there is one.

    Raises:
        TextCallError: If a call is malformed, or there is no call and no terminal tool.
    """
    moves: list[Move] = []
    rest = text
    while OPENING in rest:
        body, closing, rest = rest.partition(OPENING)[2].partition(CLOSING)
        if not closing:
            raise TextCallError(f"expected {CLOSING} after {OPENING}, and the text ends without it")
        moves.append(_read_move(body.strip()))
    if moves:
        return moves
    last = listing.terminal_tool
    if last is None:
        names = ", ".join(tool.name for tool in listing.tools)
        raise TextCallError(f"expected a call of a tool ({names}) {_form()}, and found none")
    return [Move(last.name, {} if last.arg is None else {last.arg: text.strip()})]


def describe_tools(tools: Sequence[ToolSpec]) -> str:
    """Return the instructions that announce tools and the form of calls to a model."""
    lines = "\n".join(
        json.dumps(
            {"name": tool.name, "description": tool.description, "parameters": tool.input_schema or {}},
            ensure_ascii=False,
        )
        for tool in tools
    )
    return f"You may call these tools {_form()}:\n{lines}"


def _form() -> str:
    example = '{"name": "TOOL", "arguments": {"NAME": "VALUE"}}'
    return f"in the form {OPENING}{example}{CLOSING}"


def _read_move(body: str) -> Move:
    try:
        call: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise TextCallError(f"expected a JSON object {_form()}, got {body[:80]!r}: {error}") from error
    fields = cast("dict[str, Any]", call) if isinstance(call, dict) else {}
    name, arguments = fields.get("name"), fields.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise TextCallError(f"expected the name as a string and the arguments as an object, {_form()}")
    return Move(name, cast("dict[str, Any]", arguments))
