"""What a model wrote before a tool call: messages that its client attaches to the call, for the record.

No reward, limit or answer depends on them: the client wrote them, and the server cannot check them.
"""

from collections.abc import Mapping
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from ors_server.model.errors import InvalidRequestError
from ors_server.model.wire import JSONObject, WireModel, compact_json

MODEL_TURN = "org.openrewardstandard/model_turn"
"""Key of a turn: in the body of a call, in a request's `_meta` over MCP, and in the metadata of the step."""
MAX_MESSAGES = 256
"""Maximum number of messages of one call."""


class ModelMessage(BaseModel):
    """A message of a chat, as chat completions have it; further fields are kept as they are."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, JsonValue]  # pyright: ignore[reportIncompatibleVariableOverride]  # pydantic's way

    role: Literal["assistant", "user", "system", "tool"]
    """`assistant` for what the model wrote; the other roles for what it read between two calls."""
    content: str | list[JSONObject] | None = None
    """Text, or parts such as `{"type": "text", "text": "..."}`."""


class ModelTurn(WireModel):
    """What a model wrote and read since the call before."""

    messages: list[ModelMessage] = Field(default_factory=list[ModelMessage], max_length=MAX_MESSAGES)
    """In order; the last one is the assistant's message that makes the call. Empty for the second and later
    calls of one message."""
    tool_call_id: str | None = None
    """Id of the call in the `tool_calls` of that message."""


def check_model_turn(turn: ModelTurn | Mapping[str, Any], max_bytes: int | None = None) -> JSONObject | None:
    """Return what is recorded of a turn; `None` where there is nothing.

    Raises:
        InvalidRequestError: If it is not a turn, does not end with the assistant's message, or has more than
            `max_bytes` bytes as JSON.
    """
    try:
        parsed = turn if isinstance(turn, ModelTurn) else ModelTurn.model_validate(turn)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        location = ".".join(map(str, first["loc"]))
        raise InvalidRequestError(f"{MODEL_TURN} cannot be read: {location}: {first['msg']}") from error
    if parsed.messages and parsed.messages[-1].role != "assistant":
        raise InvalidRequestError(
            f"expected the assistant's message as the last one of {MODEL_TURN}, "
            f"got one of the role {parsed.messages[-1].role!r}"
        )
    recorded = parsed.model_dump(mode="json", exclude_none=True)
    try:
        size = len(compact_json(recorded))
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(f"{MODEL_TURN} cannot be written as JSON: {error}") from error
    if max_bytes is not None and size > max_bytes:
        raise InvalidRequestError(
            f"{MODEL_TURN} has {size} bytes as JSON; {max_bytes} are allowed (setting max_output_bytes)"
        )
    return recorded if recorded["messages"] or parsed.tool_call_id is not None else None


def recorded_turn(metadata: Mapping[str, Any] | None) -> ModelTurn | None:
    """Return what is on record in a step's metadata; `None` if nothing is."""
    stated = (metadata or {}).get(MODEL_TURN)
    if not isinstance(stated, Mapping):
        return None
    try:
        return ModelTurn.model_validate(dict(cast("Mapping[str, Any]", stated)))
    except ValidationError:
        return None


def text_of_message(message: ModelMessage) -> str:
    """Return the text of a message; parts that are not text are left out."""
    if isinstance(message.content, str) or message.content is None:
        return message.content or ""
    texts = (part.get("text") for part in message.content)
    return "\n".join(text for text in texts if isinstance(text, str))


def reasoning_of(message: ModelMessage) -> str:
    """Return the reasoning of a message, without its text; empty if it has no reasoning."""
    extra = message.__pydantic_extra__
    texts = (extra.get(name) for name in ("reasoning_content", "reasoning"))
    return next((text for text in texts if isinstance(text, str) and text), "")
