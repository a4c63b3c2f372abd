"""Renders a conversation prompt as plain blocks, for clients that know only prompts."""

import json
from collections.abc import Sequence

from ors_server.model.wire import (
    ImageBlock,
    Message,
    MessageBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)


def flatten_messages(messages: Sequence[Message]) -> list[TextBlock | ImageBlock]:
    """Render a conversation as prompt blocks.

    One user message of text and images gives its blocks unchanged. Otherwise a `[role]` block precedes each
    message; reasoning, tool calls and tool results become text. The texts are the reference implementation's.
    """
    if len(messages) == 1 and messages[0].role == "user":
        plain = [block for block in messages[0].blocks if isinstance(block, TextBlock | ImageBlock)]
        if len(plain) == len(messages[0].blocks):
            return plain
    flat: list[TextBlock | ImageBlock] = []
    for message in messages:
        flat.append(TextBlock(text=f"[{message.role}]", detail={"role": message.role}))
        for block in message.blocks:
            flat.extend(_flatten(block))
    return flat


def _flatten(block: MessageBlock) -> list[TextBlock | ImageBlock]:
    match block:
        case ReasoningBlock():
            return [TextBlock(text=f"<think>{block.text}</think>", detail={"type": "reasoning"})]
        case ToolCallBlock():
            text = f"[tool_call {block.name}] {json.dumps(block.input)}"
            return [TextBlock(text=text, detail={"type": "tool_call", "id": block.id})]
        case ToolResultBlock():
            header = "[tool_result (error)]" if block.is_error else "[tool_result]"
            detail = {"type": "tool_result", "tool_call_id": block.tool_call_id}
            return [TextBlock(text=header, detail=detail), *block.blocks]
        case _:
            return [block]
