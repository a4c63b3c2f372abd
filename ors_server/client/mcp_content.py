"""From MCP's content to the standard's blocks, and from a result's `_meta` to what was paid."""

from collections.abc import Sequence
from typing import Any, cast

import mcp_types as types

from ors_server.client.call_result import CallResult, refusal_of
from ors_server.client.client_errors import BrokenAnswerError, named_error
from ors_server.errors import InvalidRequestError, OrsServerError, ToolFailedError
from ors_server.wire import (
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
"""Key of `_meta` under which the lobby names the session that it started."""
OVER = "The episode is over. Stop here: further calls are refused."
"""The words that tell an agent of the end, at the end of the last text."""
NO_FAULT = "The tool failed through no fault of yours"
"""How the text of a call begins that the environment's own code failed."""


def blocks_of(content: Sequence[Any]) -> list[Block]:
    """Turn content into blocks; kinds that the standard has no block for become text.

    Args:
        content: Content objects, in order.
    """
    return [_block(part) for part in content]


def _block(part: Any) -> Block:
    match part:
        case types.TextContent():
            return TextBlock(text=part.text)
        case types.ImageContent():
            return ImageBlock(data=part.data, mimeType=part.mime_type)
        case _:
            return TextBlock(text=part.model_dump_json(by_alias=True, exclude_none=True))


def message_of(message: types.PromptMessage) -> Message:
    """Turn a prompt's message into the standard's.

    Args:
        message: The message.
    """
    return Message(role=message.role, blocks=[_block(message.content)])


def listing_of(tools: Sequence[types.Tool]) -> ToolListing:
    """Turn announcements into the standard's.

    Args:
        tools: As MCP announces them.
    """
    return ToolListing(
        tools=[
            ToolSpec(name=tool.name, description=tool.description or "", input_schema=tool.input_schema)
            for tool in tools
        ]
    )


def _without_closing_words(blocks: list[Block]) -> tuple[list[Block], bool]:
    """Take away what the server adds to the last text of an episode; says whether it was there."""
    for position in reversed(range(len(blocks))):
        block = blocks[position]
        if not isinstance(block, TextBlock):
            continue
        if block.text == OVER:
            return [*blocks[:position], *blocks[position + 1 :]], True
        if block.text.endswith(f"\n\n{OVER}"):
            rest = TextBlock(text=block.text.removesuffix(f"\n\n{OVER}"))
            return [*blocks[:position], rest, *blocks[position + 1 :]], True
        return blocks, False
    return blocks, False


def _failure(told: Any, text: str) -> OrsServerError:
    """Return the environment's failure, with its reason where the server told it."""
    if not isinstance(told, dict):
        return ToolFailedError(text)
    failed = cast("JSONObject", told)
    named = named_error(failed.get("code"), failed.get("blame"), str(failed.get("detail")))
    return ToolFailedError(text) if named is None else named


def result_of(call_id: str, tool: str, told: types.CallToolResult) -> CallResult:
    """Read what a call came to.

    Args:
        call_id: The call's id.
        tool: The tool that was called.
        told: The result.

    Raises:
        ToolFailedError: If the environment's own code failed.
        BrokenAnswerError: If the figures have not their form.
    """
    figures = _figures(told)
    blocks, says_over = _without_closing_words(blocks_of(told.content))
    text = "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    known = figures or {}
    if told.is_error and text.startswith(NO_FAULT):
        raise _failure(known.get("failed"), text)
    is_over = says_over if figures is None else bool(known.get("finished"))
    try:
        output = ToolOutput(
            blocks=blocks, metadata=known.get("metadata"), reward=known.get("reward"), finished=is_over
        )
    except ValueError as error:
        raise BrokenAnswerError(f"the figures of a call have not their form: {error}") from error
    return CallResult(
        call_id,
        tool,
        output,
        step=known.get("step"),
        refusal=known.get("refused") or refusal_of(output),
        is_error=bool(told.is_error),
    )


def _figures(told: types.CallToolResult) -> JSONObject | None:
    figures = (told.meta or {}).get(RESULT_KEY)
    return cast("JSONObject", figures) if isinstance(figures, dict) else None


def start_of(told: types.CallToolResult) -> str:
    """Return the id of the session that the lobby started.

    Args:
        told: The result of its tool.

    Raises:
        InvalidRequestError: If it started none; the message says why.
    """
    session_id = (told.meta or {}).get(SESSION_KEY)
    if isinstance(session_id, str):
        return session_id
    texts = [part.text for part in told.content if isinstance(part, types.TextContent)]
    raise InvalidRequestError("the lobby started no episode: " + "\n".join(texts))
