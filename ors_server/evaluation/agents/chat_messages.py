"""Turns messages, tools and answers into the words of the OpenAI chat API, and its replies into ours.

The form follows OpenAI's API reference, "Create chat completion". Its tool messages hold text only, so the
pictures of an answer go into a message of the user's that follows.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pydantic_core import from_json

from ors_server.evaluation.agents.base import AgentError
from ors_server.evaluation.targets import Answer
from ors_server.wire import (
    ImageBlock,
    JSONObject,
    Message,
    MessageBlock,
    TextBlock,
    ToolCallBlock,
    ToolListing,
    ToolResultBlock,
    ToolSpec,
)

ChatMessage: TypeAlias = dict[str, Any]
NO_TEXT = "(no output)"
"""What stands for an answer without text, which some endpoints refuse."""
UNSEEN = "[image]"
"""What stands for a picture where none is sent."""
FOLLOWING = "[image: it follows]"
NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class ChatCall:
    """A tool call that a model asked for."""

    id: str
    tool: str
    arguments: JSONObject | None
    """`None` where what it wrote is no JSON object."""
    problem: str = ""
    """What is wrong with it, for the model."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said to one request."""

    message: ChatMessage
    """As the conversation goes on with it."""
    text: str
    calls: tuple[ChatCall, ...]
    finish_reason: str | None
    is_refusal: bool
    tokens_in: int | None
    tokens_out: int | None


def read_reply(body: Any, *, keeps_reasoning: bool = False) -> Reply:
    """Read the body of an endpoint's answer.

    Args:
        body: Its JSON.
        keeps_reasoning: Whether the model is shown its reasoning again.

    Raises:
        AgentError: If it is no chat completion.
    """
    try:
        choice = body["choices"][0]
        said: Mapping[str, Any] = choice["message"]
        calls = tuple(_read_call(number, one) for number, one in enumerate(said.get("tool_calls") or ()))
        text = _text(said.get("content"))
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise AgentError(f"the endpoint's answer is no chat completion: {json.dumps(body)[:300]}") from error
    usage: Mapping[str, Any] = body.get("usage") or {}
    reason: str | None = choice.get("finish_reason")
    return Reply(
        message=_assistant(said, text, calls, keeps_reasoning=keeps_reasoning),
        text=text,
        calls=calls,
        finish_reason=reason,
        is_refusal=reason == "content_filter" or bool(said.get("refusal")),
        tokens_in=usage.get("prompt_tokens"),
        tokens_out=usage.get("completion_tokens"),
    )


def _read_call(number: int, given: Mapping[str, Any]) -> ChatCall:
    function: Mapping[str, Any] = given["function"]
    call_id, name = str(given.get("id") or f"call_{number}"), str(function.get("name") or "")
    written: Any = function.get("arguments")
    try:
        arguments: Any = _read_json(written or "{}") if isinstance(written, str | None) else written
    except ValueError as error:
        return ChatCall(call_id, name, None, f"The arguments of {name!r} are not JSON: {error}.")
    if not isinstance(arguments, dict):
        return ChatCall(call_id, name, None, f"The arguments of {name!r} are not a JSON object.")
    return ChatCall(call_id, name, cast("JSONObject", arguments))


def _read_json(text: str) -> Any:
    """Read what every server reads: no NaN, and no half of a surrogate pair."""
    return from_json(text, allow_inf_nan=False)


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    parts: list[Any] = content
    return "".join(str(part.get("text") or "") for part in parts)


def _assistant(
    said: Mapping[str, Any], text: str, calls: Sequence[ChatCall], *, keeps_reasoning: bool
) -> ChatMessage:
    message: ChatMessage = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.tool,
                    "arguments": "{}" if call.arguments is None else json.dumps(call.arguments),
                },
            }
            for call in calls
        ]
    for name in ("reasoning_content", "reasoning", "reasoning_details"):
        if keeps_reasoning and said.get(name):
            message[name] = said[name]
    return message


def as_tools(listing: ToolListing) -> list[ChatMessage]:
    """Announce tools to a model; the terminal one takes its last words and is not announced.

    Args:
        listing: What the session offers.
    """
    return [_tool(spec) for spec in listing.tools]


def _tool(spec: ToolSpec) -> ChatMessage:
    parameters = dict(NO_PARAMETERS if spec.input_schema is None else spec.input_schema)
    function = {"name": spec.name, "description": spec.description, "parameters": parameters}
    return {"type": "function", "function": function}


def as_chat(messages: Sequence[Message], *, images: bool = True) -> list[ChatMessage]:
    """Turn a prompt into a conversation.

    Args:
        messages: The prompt.
        images: Whether the model sees pictures.
    """
    return [said for message in messages for said in _message(message, images=images)]


def as_results(calls: Sequence[tuple[str, Answer]], *, images: bool = True) -> list[ChatMessage]:
    """Tell a model what its calls came to.

    Args:
        calls: Pairs of the call's id and the answer, in order.
        images: Whether the model sees pictures.
    """
    told = [_result(call_id, answer.blocks, images=images) for call_id, answer in calls]
    shown = [block for _, answer in calls for block in answer.blocks if isinstance(block, ImageBlock)]
    return [*told, *_pictures(shown, images=images)]


def _message(message: Message, *, images: bool) -> list[ChatMessage]:
    if message.role == "assistant":
        return [_recorded(message.blocks)]
    results = [block for block in message.blocks if isinstance(block, ToolResultBlock)]
    rest = [block for block in message.blocks if isinstance(block, TextBlock | ImageBlock)]
    told = [_result(block.tool_call_id, block.blocks, images=images) for block in results]
    pictures = [one for block in results for one in block.blocks if isinstance(one, ImageBlock)]
    told += _pictures(pictures, images=images)
    if message.role == "system":
        return [{"role": "system", "content": _joined(rest, UNSEEN)}]
    return [*told, {"role": "user", "content": _content(rest, images=images)}] if rest else told


def _recorded(blocks: Sequence[MessageBlock]) -> ChatMessage:
    said = [block for block in blocks if isinstance(block, TextBlock | ImageBlock)]
    calls = [
        ChatCall(block.id, block.name, block.input) for block in blocks if isinstance(block, ToolCallBlock)
    ]
    return _assistant({}, _joined(said, UNSEEN), calls, keeps_reasoning=False)


def _result(call_id: str, blocks: Sequence[TextBlock | ImageBlock], *, images: bool) -> ChatMessage:
    text = _joined(blocks, FOLLOWING if images else UNSEEN)
    return {"role": "tool", "tool_call_id": call_id, "content": text or NO_TEXT}


def _pictures(blocks: Sequence[ImageBlock], *, images: bool) -> list[ChatMessage]:
    return [{"role": "user", "content": [_picture(block) for block in blocks]}] if blocks and images else []


def _joined(blocks: Sequence[TextBlock | ImageBlock], picture: str) -> str:
    return "\n\n".join(block.text if isinstance(block, TextBlock) else picture for block in blocks)


def _content(blocks: Sequence[TextBlock | ImageBlock], *, images: bool) -> str | list[ChatMessage]:
    if not images or not any(isinstance(block, ImageBlock) for block in blocks):
        return _joined(blocks, UNSEEN)
    return [
        {"type": "text", "text": block.text} if isinstance(block, TextBlock) else _picture(block)
        for block in blocks
    ]


def _picture(block: ImageBlock) -> ChatMessage:
    return {"type": "image_url", "image_url": {"url": f"data:{block.mimeType};base64,{block.data}"}}


def for_reading(message: ChatMessage) -> str:
    """Return a message as one line of JSON for people: pictures are left out.

    Args:
        message: Of a conversation.
    """
    content: Any = message.get("content")
    if not isinstance(content, str | None):
        parts: list[Any] = content
        shown = [
            {"type": "text", "text": UNSEEN} if part.get("type") == "image_url" else part for part in parts
        ]
        message = {**message, "content": shown}
    return json.dumps(message, ensure_ascii=False)
