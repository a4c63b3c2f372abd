"""Converts messages, tools and results to the form of the OpenAI chat API, and its replies back.

Source: OpenAI's API reference, "Create chat completion". Its tool messages hold text only, so the images of a
result go into a user's message that follows.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pydantic_core import from_json

from ors_server.client.call_result import CallResult
from ors_server.evaluation.agents.base import AgentError
from ors_server.export.chat import call_message, image_part
from ors_server.model.wire import (
    ImageBlock,
    JSONObject,
    Message,
    MessageBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from ors_server.rewards.judges.chat_replies import InvalidReplyError, quoted, read_usage

ChatMessage: TypeAlias = dict[str, Any]
NO_TEXT = "(no output)"
"""Replaces a result without text, which some endpoints refuse."""
UNSEEN = "[image]"
"""Replaces an image where none is sent."""
FOLLOWING = "[image: it follows]"


@dataclass(frozen=True, slots=True)
class ChatCall:
    """A tool call that a model requested."""

    id: str
    tool: str
    arguments: JSONObject | None
    """`None` if the model did not write a JSON object."""
    problem: str = ""
    """What is wrong with the arguments, for the model."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply to one request."""

    message: ChatMessage
    """As the next request repeats it."""
    recorded: ChatMessage
    """The same for the record: with its reasoning, and with the model, token counts, token ids and
    log-probabilities that the endpoint sent."""
    text: str
    calls: tuple[ChatCall, ...]
    finish_reason: str | None
    is_refusal: bool
    tokens_in: int | None
    tokens_out: int | None


def read_reply(body: Any, *, keeps_reasoning: bool = False) -> Reply:
    """Read the JSON body of an endpoint's response; raises `AgentError` if it is not a chat completion.

    `keeps_reasoning` makes the next request repeat the model's reasoning.
    """
    try:
        choice = body["choices"][0]
        message: Mapping[str, Any] = choice["message"]
        calls = tuple(_read_call(number, call) for number, call in enumerate(message.get("tool_calls") or ()))
        text = _text(message.get("content"))
        reason: object = choice.get("finish_reason")
        tokens_in, tokens_out = read_usage(body)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise AgentError(f"the endpoint's response is not a chat completion: {quoted(body)}") from error
    except InvalidReplyError as error:
        raise AgentError(f"the endpoint gave no usable reply: {error}") from error
    return Reply(
        message=_assistant(message, text, calls, keeps_reasoning=keeps_reasoning),
        recorded=_assistant(message, text, calls, keeps_reasoning=True) | _report(body, choice),
        text=text,
        calls=calls,
        finish_reason=reason if isinstance(reason, str) else None,
        is_refusal=reason == "content_filter" or bool(message.get("refusal")),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
    )


def _read_call(number: int, body: Mapping[str, Any]) -> ChatCall:
    function: Mapping[str, Any] = body["function"]
    call_id, name = str(body.get("id") or f"call_{number}"), str(function.get("name") or "")
    written: Any = function.get("arguments")
    try:
        arguments: Any = written
        if isinstance(written, str | None):
            # Only what every server accepts: no NaN, and no half of a surrogate pair.
            arguments = from_json(written or "{}", allow_inf_nan=False)
    except ValueError as error:
        return ChatCall(call_id, name, None, f"The arguments of {name!r} are not JSON: {error}.")
    if not isinstance(arguments, dict):
        return ChatCall(call_id, name, None, f"The arguments of {name!r} are not a JSON object.")
    return ChatCall(call_id, name, cast("JSONObject", arguments))


def _report(body: Mapping[str, Any], choice: Mapping[str, Any]) -> ChatMessage:
    """Return what an endpoint reports of a reply: OpenAI's fields, and the token ids that vLLM adds."""
    report: ChatMessage = {
        "model": body.get("model"),
        "usage": body.get("usage"),
        "prompt_token_ids": body.get("prompt_token_ids") or choice.get("prompt_token_ids"),
        "completion_token_ids": choice.get("token_ids"),
    }
    probabilities: object = choice.get("logprobs")
    tokens: Any = (
        cast("ChatMessage", probabilities).get("content") if isinstance(probabilities, dict) else None
    )
    if isinstance(tokens, list):
        # One number for each token: the whole objects would be too many values for one request.
        report["logprobs"] = [token.get("logprob") for token in cast("list[ChatMessage]", tokens)]
    return {name: value for name, value in report.items() if value}


def _text(content: Any) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    parts: list[Any] = content
    return "".join(str(part.get("text") or "") for part in parts)


def _assistant(
    reply: Mapping[str, Any], text: str, calls: Sequence[ChatCall], *, keeps_reasoning: bool
) -> ChatMessage:
    # OpenAI takes `null` content only with tool calls; an empty reply has an empty text.
    message: ChatMessage = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        message["tool_calls"] = [
            # Arguments that were no JSON are repeated as an empty object, because endpoints refuse broken
            # ones; the error text in the result tells the model what was wrong.
            call_message(call.id, call.tool, "{}" if call.arguments is None else json.dumps(call.arguments))
            for call in calls
        ]
    for name in ("reasoning_content", "reasoning", "reasoning_details"):
        if keeps_reasoning and reply.get(name):
            message[name] = reply[name]
    return message


def as_chat(messages: Sequence[Message], *, images: bool = True) -> list[ChatMessage]:
    """Return a prompt as a conversation, with or without its images."""
    return [chat_message for message in messages for chat_message in _message(message, images=images)]


def as_results(results: Sequence[CallResult], *, images: bool = True) -> list[ChatMessage]:
    """Return the results of calls for a model, in order, with or without their images."""
    messages = [_result(result.call_id, result.blocks, images=images) for result in results]
    shown = [block for result in results for block in result.blocks if isinstance(block, ImageBlock)]
    return [*messages, *_pictures(shown, images=images)]


def _message(message: Message, *, images: bool) -> list[ChatMessage]:
    if message.role == "assistant":
        return [_recorded(message.blocks)]
    results = [block for block in message.blocks if isinstance(block, ToolResultBlock)]
    rest = [block for block in message.blocks if isinstance(block, TextBlock | ImageBlock)]
    # Tool messages must follow their calls at once, so that images come after all of them.
    messages = [_result(block.tool_call_id, block.blocks, images=images) for block in results]
    pictures = [picture for block in results for picture in block.blocks if isinstance(picture, ImageBlock)]
    messages += _pictures(pictures, images=images)
    if message.role == "system":
        return [{"role": "system", "content": _joined(rest, UNSEEN)}]
    return [*messages, {"role": "user", "content": _content(rest, images=images)}] if rest else messages


def _recorded(blocks: Sequence[MessageBlock]) -> ChatMessage:
    content = [block for block in blocks if isinstance(block, TextBlock | ImageBlock)]
    calls = [
        ChatCall(block.id, block.name, block.input) for block in blocks if isinstance(block, ToolCallBlock)
    ]
    return _assistant({}, _joined(content, UNSEEN), calls, keeps_reasoning=False)


def _result(call_id: str, blocks: Sequence[TextBlock | ImageBlock], *, images: bool) -> ChatMessage:
    text = _joined(blocks, FOLLOWING if images else UNSEEN)
    return {"role": "tool", "tool_call_id": call_id, "content": text or NO_TEXT}


def _pictures(blocks: Sequence[ImageBlock], *, images: bool) -> list[ChatMessage]:
    return [{"role": "user", "content": [image_part(block) for block in blocks]}] if blocks and images else []


def _joined(blocks: Sequence[TextBlock | ImageBlock], picture: str) -> str:
    return "\n\n".join(block.text if isinstance(block, TextBlock) else picture for block in blocks)


def _content(blocks: Sequence[TextBlock | ImageBlock], *, images: bool) -> str | list[ChatMessage]:
    if not images or not any(isinstance(block, ImageBlock) for block in blocks):
        return _joined(blocks, UNSEEN)
    return [
        {"type": "text", "text": block.text} if isinstance(block, TextBlock) else image_part(block)
        for block in blocks
    ]


def for_reading(message: ChatMessage) -> str:
    """Return a message as one line of JSON for readers, without images."""
    content: Any = message.get("content")
    if not isinstance(content, str | None):
        parts: list[Any] = content
        shown = [
            {"type": "text", "text": UNSEEN} if part.get("type") == "image_url" else part for part in parts
        ]
        message = {**message, "content": shown}
    return json.dumps(message, ensure_ascii=False)
