"""Converts blocks, messages and call results to MCP's content, in its wire form.

Results are plain dictionaries: the SDK validates every result of a handler, so a model here would only be
taken apart again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import mcp_types as types

from ors_server.doors.access import FAILED, withhold
from ors_server.doors.http.faults import look_up, pending_fields
from ors_server.doors.mcp.calling_clients import missing_abilities_error
from ors_server.doors.mcp.sdk import MCPError, Result
from ors_server.environments.calling_client import AbilityError, AskError
from ors_server.environments.rich_blocks import RICH_KEY
from ors_server.model.errors import AuthorError, MachineryError, OrsServerError, SessionNotFoundError
from ors_server.model.visibility import Visibility
from ors_server.model.wire import ImageBlock, Message, TextBlock, ToolOutput, ToolSpec
from ors_server.sessions.session_call import Call, Completed, Failure, Refusal, RefusalReason

RESULT_KEY = "org.openrewardstandard/result"
"""Key of a result's `_meta` that holds the step's reward and metadata, within one object because the SDK
drops nulls right in `_meta`. A client that declares an extension or an experimental capability of this name
asks for it."""
SESSION_KEY = "org.openrewardstandard/session"
"""Key of `_meta` that names a session, in requests and in the lobby's results."""
CALL_ID_KEY = "org.openrewardstandard/call_id"
"""Key of a request's `_meta` that makes a repeated call the same call."""
EXTENSION = "org.openrewardstandard/environments"
"""Identifier of the extension, and prefix of its methods."""
MAX_CALL_ID = 128
"""Longest call id, in characters."""

EPISODE_OVER = "The episode is over. Stop here: further calls are refused."
"""The text after the last step's content."""


@dataclass(frozen=True, slots=True)
class ResultFields:
    """The fields that a call's caller gets besides the content."""

    in_meta: bool
    structured: bool = False
    has_reasons: bool = True
    """Whether metadata and the reasons of failures come with the reward."""

    @classmethod
    def of(cls, visibility: Visibility, *, asked: bool, is_public: bool = False) -> "ResultFields":
        """Return what a session's setting gives to a caller, who may have asked for rewards."""
        has_reasons = not is_public
        match visibility:
            case Visibility.NEGOTIATED:
                return cls(in_meta=asked, has_reasons=has_reasons)
            case Visibility.META:
                return cls(in_meta=True, has_reasons=has_reasons)
            case Visibility.VISIBLE:
                return cls(in_meta=True, structured=True, has_reasons=has_reasons)
            case Visibility.HIDDEN:
                return cls(in_meta=False)


NO_SESSION = "no live session has this id: it never existed, was deleted, or expired; start a new episode"

NO_PARAMETERS: Result = {"type": "object", "properties": {}}
OUTPUT_SCHEMA: Result = ToolOutput.model_json_schema()
"""The schema of `structuredContent` if rewards are visible."""


def content_of(blocks: Iterable[TextBlock | ImageBlock]) -> list[Result]:
    """Convert blocks to content objects, in order; a text block with a richer form becomes that."""
    return [_content(block) for block in blocks]


def _content(block: TextBlock | ImageBlock) -> Result:
    if isinstance(block, ImageBlock):
        return {"type": "image", "data": block.data, "mimeType": block.mimeType}
    if block.detail is not None and RICH_KEY in block.detail:
        rich: Result = block.detail[RICH_KEY]
        return rich
    return {"type": "text", "text": block.text}


def text_content(text: str) -> Result:
    """Make a text content object."""
    return {"type": "text", "text": text}


def prompt_messages(messages: Iterable[Message]) -> list[Result]:
    """Convert a conversation to prompt messages, one per block, since MCP's hold one block each.

    What MCP has no type for, such as recorded calls, becomes JSON text.
    """
    return [
        {
            "role": "assistant" if message.role == "assistant" else "user",
            "content": _content(block)
            if isinstance(block, TextBlock | ImageBlock)
            else text_content(block.model_dump_json(exclude_none=True)),
        }
        for message in messages
        for block in message.blocks
    ]


def title_of(name: str) -> str:
    """Return a tool's name as people read it."""
    words = name.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]


def announce(spec: ToolSpec, *, structured: bool) -> Result:
    """Describe a tool as `tools/list` does, with an output schema if its results are structured."""
    tool = {
        "name": spec.name,
        "title": title_of(spec.name),
        "description": spec.description,
        "inputSchema": spec.input_schema or NO_PARAMETERS,
    }
    return tool | {"outputSchema": OUTPUT_SCHEMA} if structured else tool


def tool_result(call: Call, fields: ResultFields) -> Result:
    """Convert a tool call's result.

    Raises:
        MCPError: If the failure is not one that an agent could do anything about.
    """
    match call.result:
        case Completed() as result:
            return _completed(result, fields)
        case Refusal() as result:
            return _refused(result, fields)
        case Failure() as result:
            return _failure_result(result, fields, call.id)
        case _:  # pragma: no cover  (groups are scored over ORS)
            raise MCPError(types.INTERNAL_ERROR, "not the result of a tool call")


def _completed(result: Completed, fields: ResultFields) -> Result:
    step = result.recorded
    content = content_of(step.blocks)
    if step.finished:
        # To the last text, for hosts that show only one.
        for position in reversed(range(len(content))):
            if content[position]["type"] == "text":
                content[position] = text_content(f"{content[position]['text']}\n\n{EPISODE_OVER}")
                break
        else:
            content.append(text_content(EPISODE_OVER))
    wire: Result = {"content": content, "isError": result.is_error, "resultType": "complete"}
    if fields.in_meta:
        numbers = {"reward": step.reward, "finished": step.finished, "step": step.number}
        metadata = step.answer_metadata if fields.has_reasons else None
        wire["_meta"] = {RESULT_KEY: numbers | {"metadata": metadata}}
    if fields.structured:
        wire["structuredContent"] = result.output.model_dump()
        if not fields.has_reasons:
            wire["structuredContent"]["metadata"] = None
    return wire


def _refused(result: Refusal, fields: ResultFields) -> Result:
    wire = error_result(result.error)
    if fields.in_meta:
        is_over = result.reason is RefusalReason.EPISODE_FINISHED
        numbers = {"reward": None, "finished": is_over, "step": result.step, "metadata": None}
        wire["_meta"] = {RESULT_KEY: numbers | {"refused": result.reason.value}}
    return wire


def _failure_result(result: Failure, fields: ResultFields, call_id: str) -> Result:
    error = result.error
    if isinstance(error, AbilityError):
        raise missing_abilities_error(error.missing)
    withheld = withhold(error, call_id)
    if isinstance(error, AskError):
        return error_result(f"{FAILED}: {error}")
    if not isinstance(error, AuthorError):
        raise protocol_error(withheld, detail=str(error) if fields.in_meta and fields.has_reasons else None)
    wire = error_result(str(withheld))
    if fields.in_meta:
        detail = str(error if fields.has_reasons else withheld)
        failure = {"code": error.code, "blame": error.blame.value, "detail": detail}
        numbers = {"reward": None, "finished": False, "step": result.step, "metadata": None}
        wire["_meta"] = {RESULT_KEY: numbers | {"failed": failure}}
    return wire


def error_result(text: str) -> Result:
    """Make a result that tells the agent why its call failed and what to do."""
    return {"content": [text_content(text)], "isError": True, "resultType": "complete"}


def protocol_error(error: OrsServerError, *, detail: str | None = None) -> MCPError:
    """Convert an error to a JSON-RPC error."""
    data: dict[str, Any] = {"code": error.code, "blame": error.blame.value}
    data |= pending_fields(error)
    if isinstance(error, MachineryError):
        data["retry_after"] = error.retry_after
    if detail is not None and detail != str(error):
        data["detail"] = detail
    text = NO_SESSION if isinstance(error, SessionNotFoundError) else str(error)
    return MCPError(look_up(error).jsonrpc, text, data)
