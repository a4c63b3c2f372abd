"""Rows of OpenAI's fine-tuning files, and messages as chat completions have them.

Sources: `openai.types.chat.ChatCompletionMessageParam`, and `FineTuneChatRequestInput` of OpenAI's API
reference, where an assistant's message has `weight`: 1 if it is trained on, else 0.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ors_server.export.conversation import (
    Blocks,
    Conversation,
    ConversationTurn,
    read_conversation,
    text_of,
)
from ors_server.export.episodes import NO_CALLS, NO_PROMPT, LeftOutError, describe
from ors_server.export.offered_tools import OfferedTools, as_functions, tools_of
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.model.wire import ImageBlock, JSONObject


class TrainedCalls(StrEnum):
    """Which of the agent's calls get a training weight."""

    ALL = "all"
    """Every call that the agent made."""
    RAN = "ran"
    """The calls that ran; not those that were refused, cancelled, or failed in the environment."""


@dataclass(frozen=True, slots=True)
class ConversationOptions:
    """Options of every format that writes conversations."""

    offered: OfferedTools
    """Tools by environment."""
    trained: TrainedCalls = TrainedCalls.ALL
    keeps_last_result: bool = False
    """Whether the last call's result is written. Trainers want the agent's message to be the last."""


def row_conversation(
    record: EpisodeRecord, steps: Sequence[Step], options: ConversationOptions
) -> Conversation:
    """Return the conversation of a row; raises `LeftOutError` for a record without a prompt or a call."""
    conversation = read_conversation(record, steps)
    if not conversation.prompt:
        raise LeftOutError(NO_PROMPT)
    if not conversation.play:
        raise LeftOutError(NO_CALLS)
    return conversation if options.keeps_last_result else conversation.up_to_last_call()


def is_trained(turn: ConversationTurn, trained: TrainedCalls) -> bool:
    """Return whether a message is one that the agent should learn to write."""
    return turn.is_agents and (turn.has_run or trained is TrainedCalls.ALL)


def openai_row(
    record: EpisodeRecord, steps: Sequence[Step], options: ConversationOptions, *, with_episode: bool = False
) -> JSONObject:
    """Return an episode as one line of a fine-tuning file.

    `with_episode` adds the key `episode` (ids, rewards, components), which the fine-tuning format does not
    know.
    """
    turns = row_conversation(record, steps, options).turns
    messages: list[JSONObject] = []
    for turn in turns:
        message = openai_message(turn)
        if turn.role == "assistant":
            message["weight"] = int(is_trained(turn, options.trained))
        messages.append(message)
    row: dict[str, Any] = {"messages": messages}
    tools = tools_of(options.offered, record.origin)
    if tools:
        row["tools"] = as_functions(tools)
        row["parallel_tool_calls"] = any(len(turn.calls) > 1 for turn in turns)
    if with_episode:
        row["episode"] = describe(record, steps)
    return row


def openai_message(turn: ConversationTurn) -> JSONObject:
    """Return one message, with arguments as JSON text; a note replaces images outside a user's message."""
    message: dict[str, Any] = {"role": turn.role, "content": _content(turn)}
    if turn.role == "assistant" and turn.calls:
        message["content"] = message["content"] or None
        message["tool_calls"] = text_calls(turn)
    if turn.answers is not None:
        message["tool_call_id"] = turn.answers.id
    return message


def call_message(call_id: str, tool: str, arguments: str | Mapping[str, Any]) -> JSONObject:
    """Return one call of an assistant's message; `arguments` is JSON text or an object."""
    return {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}


def text_calls(turn: ConversationTurn) -> list[JSONObject]:
    """Return the calls of an assistant's message with arguments as JSON text."""
    texts = (json.dumps(use.arguments, ensure_ascii=False) for use in turn.calls)
    return [call_message(use.id, use.name, text) for use, text in zip(turn.calls, texts, strict=True)]


def image_part(image: ImageBlock) -> JSONObject:
    """Return an image as a part of a user's message."""
    return {"type": "image_url", "image_url": {"url": f"data:{image.mimeType};base64,{image.data}"}}


def _content(turn: ConversationTurn) -> str | list[JSONObject]:
    has_images = any(isinstance(block, ImageBlock) for block in turn.blocks)
    return _parts(turn.blocks) if has_images and turn.role == "user" else text_of(turn.blocks)


def _parts(blocks: Blocks) -> list[JSONObject]:
    return [
        image_part(block) if isinstance(block, ImageBlock) else {"type": "text", "text": block.text}
        for block in blocks
    ]
