"""Messages and calls of a chat in OpenAI's form, which trainers share: built and read as plain dicts."""

import json
from collections.abc import Sequence
from typing import Any, cast

from ors_server.client.async_episode import AsyncEpisode
from ors_server.client.call_result import CallResult, text_of
from ors_server.model.wire import ImageBlock, TextBlock

NO_TEXT = "(no output)"
"""Replaces a result without text, which some endpoints refuse."""
NO_ARGUMENTS: dict[str, object] = {"type": "object", "properties": {}}
"""Schema of a tool that takes nothing."""


class ChatArgumentsError(ValueError):
    """The arguments of a native call are not a JSON object; the message is for the model."""


def read_arguments(text: str | None) -> dict[str, Any]:
    """Return the arguments of a native call.

    Raises:
        ChatArgumentsError: If they are not a JSON object.
    """
    try:
        arguments: Any = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise ChatArgumentsError(f"expected the arguments as a JSON object: {error}") from error
    if not isinstance(arguments, dict):
        raise ChatArgumentsError(f"expected the arguments as a JSON object, got {type(arguments).__name__}")
    return cast("dict[str, Any]", arguments)


async def run_chat_call(episode: AsyncEpisode, name: str, arguments: str | None) -> CallResult | str:
    """Run a native call in an episode; return its result, or a message for the model why it did not run."""
    if episode.finished:
        return "the episode is over; this call did not run"
    try:
        return await episode.call(name, read_arguments(arguments))
    except ChatArgumentsError as error:
        return str(error)


def chat_content(blocks: Sequence[object]) -> Any:
    """Return blocks as a text, or as a list of parts if there are images; other blocks are left out."""
    if not any(isinstance(block, ImageBlock) for block in blocks):
        return text_of(blocks)
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if isinstance(block, ImageBlock):
            parts.append(
                {"type": "image_url", "image_url": {"url": f"data:{block.mimeType};base64,{block.data}"}}
            )
        elif isinstance(block, TextBlock):
            parts.append({"type": "text", "text": block.text})
    return parts
