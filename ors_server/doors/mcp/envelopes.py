"""JSON-RPC envelopes as clients send them: checked before the SDK reads them, single or in a batch.

The SDK takes an object with an id that MCP does not allow (null, 1.5, true) for a notification, and
acknowledges it or says nothing. A client would wait for its answer for ever, so the error is answered here.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import mcp_types as types
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

MAX_BATCH = 100
"""Messages of one batch."""

BATCH_VERSIONS = frozenset({"2024-11-05", "2025-03-26"})
"""Versions of MCP that have JSON-RPC's batches; 2025-06-18 removed them."""

MAX_FLOAT_ID = 1 << 53
"""Integers up to which JSON's numbers with a fraction, such as 1.0, are exact."""

_UNKNOWN_ID: str | int | None = None
"""The id of an answer to a message whose id cannot be read."""


class EnvelopeError(ValueError):
    """A message is not one of JSON-RPC and MCP.

    Attributes:
        answer: The JSON-RPC error that says so.
    """

    def __init__(self, code: int, message: str, request_id: str | int | None = _UNKNOWN_ID) -> None:
        super().__init__(message)
        self.answer = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Several messages in one."""

    messages: Sequence[object]


class _Head(BaseModel):
    """What decides whether an object is a message; the rest is not read."""

    model_config = ConfigDict(extra="ignore")

    version: Any = Field(default=None, alias="jsonrpc")
    id: Any = None
    method: Any = None
    params: Any = None
    result: Any = None
    error: Any = None


_HEAD = TypeAdapter(_Head)


def check_body(body: bytes) -> bytes | MessageBatch:
    """Check what a client sent: return the text of one message for the SDK, or a batch.

    Raises:
        EnvelopeError: If it is neither a message nor a batch of 1 to `MAX_BATCH`.
    """
    if body.lstrip()[:1] == b"[":
        try:
            messages = cast("list[object]", from_json(body))
        except ValueError as error:
            raise _parse_error(error) from None
        if not 0 < len(messages) <= MAX_BATCH:
            text = f"expected a batch of 1 to {MAX_BATCH} messages, got {len(messages)}"
            raise EnvelopeError(types.INVALID_REQUEST, text)
        return MessageBatch(messages)
    try:
        head = _HEAD.validate_json(body)
    except ValidationError as error:
        problem = error.errors()[0]
        if problem["type"] == "json_invalid":
            raise _parse_error(problem["msg"].removeprefix("Invalid JSON: ")) from None
        raise EnvelopeError(types.INVALID_REQUEST, "expected a JSON-RPC message, an object") from None
    _check(head)
    return _with_integer_id(from_json(body)) if isinstance(head.id, float) else body


def check_message(message: object) -> bytes:
    """Check one message of a batch: return its text for the SDK.

    Raises:
        EnvelopeError: If it is not a message, or one that no batch may have.
    """
    try:
        head = _HEAD.validate_python(message)
    except ValidationError:
        raise EnvelopeError(types.INVALID_REQUEST, "expected a JSON-RPC message, an object") from None
    _check(head)
    if head.method == "initialize":
        raise EnvelopeError(types.INVALID_REQUEST, "initialize must not be part of a batch", head.id)
    if isinstance(head.id, float):
        return _with_integer_id(cast("dict[str, Any]", message))
    return json.dumps(message).encode()


def refuse_batch(version: str | None) -> EnvelopeError:
    """Return the error for a batch where the version of MCP has no batches."""
    text = f"MCP {version or ''} has no batches: send one message at a time".replace("  ", " ")
    return EnvelopeError(types.INVALID_REQUEST, text)


def request_id_of(message: object) -> str | int | None:
    """Return the id of a checked request; `None` of anything else."""
    if not isinstance(message, Mapping) or "method" not in message:
        return None
    number = cast("Mapping[str, Any]", message).get("id")
    return int(number) if isinstance(number, float) else number


def _parse_error(reason: object) -> EnvelopeError:
    return EnvelopeError(types.PARSE_ERROR, f"Parse error: {reason}")


def _check(head: _Head) -> None:
    has_id = "id" in head.model_fields_set
    is_valid = not has_id or _is_id(head.id)
    known_id = head.id if has_id and is_valid else _UNKNOWN_ID
    if head.version != "2.0":
        raise EnvelopeError(types.INVALID_REQUEST, 'expected "jsonrpc": "2.0"', known_id)
    if "method" not in head.model_fields_set:
        if "result" not in head.model_fields_set and "error" not in head.model_fields_set:
            text = 'expected a request with "method", or a response with "result" or "error"'
            raise EnvelopeError(types.INVALID_REQUEST, text, known_id)
        is_valid |= "error" in head.model_fields_set and head.id is None
    if not is_valid:
        text = f"expected a string or an integer as id, got {json.dumps(head.id)[:100]}"
        raise EnvelopeError(types.INVALID_REQUEST, text)
    if "method" in head.model_fields_set and not isinstance(head.method, str):
        raise EnvelopeError(types.INVALID_REQUEST, "expected a string as method", known_id)
    if not isinstance(head.params, Mapping | None):
        raise EnvelopeError(types.INVALID_PARAMS, "expected an object as params", known_id)


def _is_id(value: object) -> bool:
    if isinstance(value, float):  # JSON has one kind of number: 1.0 is the integer 1
        return value.is_integer() and abs(value) <= MAX_FLOAT_ID
    return isinstance(value, str | int) and not isinstance(value, bool)


def _with_integer_id(message: dict[str, Any]) -> bytes:
    return json.dumps({**message, "id": int(message["id"])}).encode()
