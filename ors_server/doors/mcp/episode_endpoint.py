"""An episode's own endpoint: its tools, the task, and the environment's prompts and resources."""

import base64
from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types as types

from ors_server.doors.mcp.calling_clients import McpCallingClient
from ors_server.doors.mcp.mcp_calls import InputResponses, McpCalls
from ors_server.doors.mcp.mcp_results import announce, content_of, prompt_messages
from ors_server.doors.mcp.sdk import Context, MCPError, Result, is_modern
from ors_server.environments.offers import PromptOffer, ResourceOffer
from ors_server.model.errors import OrsServerError
from ors_server.model.visibility import Visibility
from ors_server.model.wire import ToolSpec
from ors_server.sessions.session import Session

TASK_PROMPT = "task"
"""Name of the prompt that holds the task."""
TASK_URI = "ors://session/task"
"""URI of the resource that holds the task."""
PROMPT_PATIENCE = 2.0
"""Seconds that a handshake waits for the task; hosts give up on a handshake after 5 or more."""
MAX_COMPLETIONS = 100
"""Maximum number of values of one completion, by the specification."""

_HOW_TO_START = (
    f"You play one episode of a task. Its text is the prompt {TASK_PROMPT!r} and the resource {TASK_URI}. "
    "Act with the tools; stop when a result says that the episode is over."
)


async def instructions(session: Session) -> str:
    """Return the task's text, or where to find it if it is not there within `PROMPT_PATIENCE` seconds."""
    text = ""
    with anyio.move_on_after(PROMPT_PATIENCE):
        try:
            text = "\n\n".join(block.text for block in await session.prompt() if block.type == "text")
        except OrsServerError:
            text = ""
    return f"{_HOW_TO_START}\n\n{text}" if text else _HOW_TO_START


async def list_tools(session: Session) -> list[Result]:
    """List the tools of this task; a terminal one too, since a host has no other way to call it."""
    listing = await session.tools()
    structured = session.visibility is Visibility.VISIBLE
    specs = list(listing.tools)
    terminal = listing.terminal_tool
    if terminal is not None:
        schema = None
        if terminal.arg is not None:
            text = {"type": "string", "description": "Your final message."}
            schema = {"type": "object", "properties": {terminal.arg: text}, "required": [terminal.arg]}
        specs.append(ToolSpec(name=terminal.name, description=terminal.description, input_schema=schema))
    return [announce(spec, structured=structured) for spec in specs]


def list_prompts(session: Session) -> list[Result]:
    """List the task's prompt and the environment's own."""
    task = {"name": TASK_PROMPT, "description": "The task that this episode is about."}
    return [task, *map(_announce_prompt, session.definition.offers.prompts.values())]


def _announce_prompt(offer: PromptOffer) -> Result:
    required = set(offer.schema.get("required", ()))
    arguments = [
        {"name": name, "description": part.get("description", ""), "required": name in required}
        for name, part in offer.schema.get("properties", {}).items()
    ]
    return {"name": offer.name, "description": offer.description, "arguments": arguments}


async def get_prompt(
    session: Session, calls: McpCalls, context: Context, params: types.GetPromptRequestParams
) -> Result:
    """Return the task's prompt, or one of the environment's.

    Raises:
        MCPError: If there is no such prompt, or an argument is missing.
    """
    if params.name == TASK_PROMPT:
        return {"messages": prompt_messages(await session.messages()), "resultType": "complete"}
    offer = session.definition.offers.prompts.get(params.name)
    if offer is None:
        raise MCPError(types.INVALID_PARAMS, f"no prompt is named {params.name!r}")

    async def run(client: McpCallingClient) -> Result:
        messages = await session.offered_prompt(params.name, params.arguments or {}, client)
        return {
            "description": offer.description,
            "messages": prompt_messages(messages),
            "resultType": "complete",
        }

    return await calls.run_for_client(context, session.id, InputResponses.of(params), run)


def list_resources(session: Session) -> list[Result]:
    """List the task's resource and the environment's own."""
    task = {"uri": TASK_URI, "name": "task", "description": "The task that this episode is about."}
    own = [
        _announce_resource("uri", offer)
        for offer in session.definition.offers.resources
        if not offer.is_family
    ]
    return [task | {"mimeType": "text/plain"}, *own]


def list_templates(session: Session) -> list[Result]:
    """List the environment's resource templates."""
    offers = session.definition.offers.resources
    return [_announce_resource("uriTemplate", offer) for offer in offers if offer.is_family]


def _announce_resource(key: str, offer: ResourceOffer) -> Result:
    return {
        key: offer.uri,
        "name": offer.name,
        "description": offer.description,
        "mimeType": offer.mime_type,
    }


async def read_resource(
    session: Session, calls: McpCalls, context: Context, params: types.ReadResourceRequestParams
) -> Result:
    """Return the task, or one of the environment's resources; `MCPError` if no resource has that URI."""
    if params.uri == TASK_URI:
        contents: list[Result] = []
        for block in content_of(await session.prompt()):
            if block["type"] == "image":
                body = {"mimeType": block["mimeType"], "blob": block["data"]}
            else:
                body = {"mimeType": "text/plain", "text": block.get("text", "")}
            contents.append({"uri": TASK_URI, **body})
        return _contents(*contents)
    if session.definition.offers.find_resource(params.uri) is None:
        code = types.INVALID_PARAMS if is_modern(context) else -32002
        raise MCPError(code, "Resource not found", {"uri": params.uri})

    async def run(client: McpCallingClient) -> Result:
        found = await session.read_resource(params.uri, client)
        if isinstance(found.content, str):
            content = {"text": found.content}
        else:
            content = {"blob": base64.b64encode(found.content).decode()}
        return _contents({"uri": params.uri, "mimeType": found.mime_type, **content})

    return await calls.run_for_client(context, session.id, InputResponses.of(params), run)


def _contents(*contents: Result) -> Result:
    return {"contents": list(contents), "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def complete(session: Session | None, params: types.CompleteRequestParams) -> Result:
    """Complete an argument of a prompt whose values are a closed list; nothing else has completions."""
    choices: list[str] = []
    if session is not None and isinstance(params.ref, types.PromptReference):
        offer = session.definition.offers.prompts.get(params.ref.name)
        choices = [] if offer is None else _choices(offer.schema, params.argument.name)
    values = [choice for choice in choices if choice.startswith(params.argument.value)]
    shown = values[:MAX_COMPLETIONS]
    completion = {"values": shown, "total": len(values), "hasMore": len(values) > len(shown)}
    return {"completion": completion, "resultType": "complete"}


def _choices(schema: Mapping[str, Any], argument: str) -> list[str]:
    part = schema.get("properties", {}).get(argument, {})
    return [str(choice) for choice in part.get("enum", ())]
