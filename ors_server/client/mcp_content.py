"""Converts MCP's content to the standard's blocks, and a result's `_meta` to a reward."""

from collections.abc import Sequence
from typing import Any

import mcp_types as types

from ors_server.client.call_result import CallResult, read_known, refusal_of
from ors_server.client.client_errors import BrokenAnswerError, named_error
from ors_server.client.typed_answers import McpFigures, read_answer
from ors_server.model.errors import InvalidRequestError, OrsServerError, ToolFailedError
from ors_server.model.wire import (
    Block,
    ImageBlock,
    JSONObject,
    Message,
    TextBlock,
    ToolListing,
    ToolOutput,
    ToolSpec,
)

RESULT_KEY = "org.openrewardstandard/result"
"""Key of a result's `_meta` that holds the step's figures."""
SESSION_KEY = "org.openrewardstandard/session"
"""Key of `_meta` that holds the id of the session that the lobby started."""
EPISODE_OVER = "The episode is over. Stop here: further calls are refused."
"""The sentence about the end of the episode, at the end of the last text."""
NO_FAULT = "The tool failed through no fault of yours"
"""Beginning of the text of a call whose tool failed."""


def blocks_of(content: Sequence[Any]) -> list[Block]:
    """Return content as blocks; kinds without a block in the standard become text."""
    return [_block(part) for part in content]


def _block(part: Any) -> Block:
    match part:
        case types.TextContent():
            return TextBlock(text=part.text)
        case types.ImageContent():
            return read_known(ImageBlock, {"data": part.data, "mimeType": part.mime_type})
        case _:
            return TextBlock(text=part.model_dump_json(by_alias=True, exclude_none=True))


def message_of(message: types.PromptMessage) -> Message:
    """Return a prompt's message in the standard's form."""
    return Message(role=message.role, blocks=[_block(message.content)])


def listing_of(tools: Sequence[types.Tool]) -> ToolListing:
    """Return the tools in the standard's form."""
    return ToolListing(
        tools=[
            ToolSpec(name=tool.name, description=tool.description or "", input_schema=tool.input_schema)
            for tool in tools
        ]
    )


def _without_closing_words(blocks: list[Block]) -> tuple[list[Block], bool]:
    """Remove the sentence about the end of the episode, and return whether it was there."""
    # Only the last text can hold it; images may follow.
    for position in reversed(range(len(blocks))):
        block = blocks[position]
        if not isinstance(block, TextBlock):
            continue
        if block.text == EPISODE_OVER:
            return [*blocks[:position], *blocks[position + 1 :]], True
        if block.text.endswith(f"\n\n{EPISODE_OVER}"):
            rest = TextBlock(text=block.text.removesuffix(f"\n\n{EPISODE_OVER}"))
            return [*blocks[:position], rest, *blocks[position + 1 :]], True
        return blocks, False
    return blocks, False


def _failure(failed: JSONObject | None, text: str) -> OrsServerError:
    if failed is None:
        return ToolFailedError(text)
    named = named_error(failed.get("code"), failed.get("blame"), str(failed.get("detail")))
    return ToolFailedError(text) if named is None else named


def result_of(call_id: str, tool: str, result: types.CallToolResult) -> CallResult:
    """Return the result of a call."""
    figures = _figures(result)
    blocks, is_last = _without_closing_words(blocks_of(result.content))
    text = "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    fields: McpFigures = figures or {}
    if result.is_error and text.startswith(NO_FAULT):
        raise _failure(fields.get("failed"), text)
    is_over = is_last if figures is None else bool(fields.get("finished"))
    try:
        output = ToolOutput(
            blocks=blocks, metadata=fields.get("metadata"), reward=fields.get("reward"), finished=is_over
        )
    except ValueError as error:
        raise BrokenAnswerError(f"the figures of a call do not have the extension's form: {error}") from error
    return CallResult(
        call_id,
        tool,
        output,
        step=fields.get("step"),
        refusal=fields.get("refused") or refusal_of(output),
        is_error=bool(result.is_error),
    )


def _figures(result: types.CallToolResult) -> McpFigures | None:
    figures: object = (result.meta or {}).get(RESULT_KEY)
    return None if figures is None else read_answer(McpFigures, figures, "the figures of a call")


def start_of(result: types.CallToolResult) -> str:
    """Return the id of the session that the lobby started."""
    session_id = (result.meta or {}).get(SESSION_KEY)
    if isinstance(session_id, str):
        return session_id
    texts = [part.text for part in result.content if isinstance(part, types.TextContent)]
    raise InvalidRequestError("the lobby started no episode: " + "\n".join(texts))
