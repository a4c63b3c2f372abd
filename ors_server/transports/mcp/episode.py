"""What an agent finds on an episode's own endpoint: tools, the task, and what the environment offers."""

import base64
from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types as types

from ors_server.authoring.offers import PromptOffer, ResourceOffer
from ors_server.errors import OrsServerError
from ors_server.sessions.manager import SessionManager
from ors_server.transports.mcp.calls import Answers, Player
from ors_server.transports.mcp.clients import McpClient
from ors_server.transports.mcp.content import announce, content_of, prompt_messages
from ors_server.transports.mcp.sdk import Context, MCPError, Result, is_modern
from ors_server.visibility import Visibility
from ors_server.wire import TerminalToolSpec, ToolSpec

TASK_PROMPT = "task"
"""Name of the prompt that holds the task."""
TASK_URI = "ors://session/task"
"""URI of the resource that holds the task."""
PROMPT_PATIENCE = 2.0
"""Seconds that a handshake waits for the prompt; hosts give up on a handshake after 5 or more."""
MAX_COMPLETIONS = 100
"""Most values of one completion, by the specification."""

_HOW_TO_START = (
    f"You play one episode of a task. Its text is the prompt {TASK_PROMPT!r} and the resource {TASK_URI}. "
    "Act with the tools; stop when a result says that the episode is over."
)


async def instructions(engine: SessionManager, session_id: str) -> str:
    """Return the task's text, or where to find it if it is not there soon.

    Args:
        engine: Where sessions live.
        session_id: The episode's session.

    Raises:
        SessionNotFoundError: If it is not live.
    """
    engine.definition_of(session_id)
    text = ""
    with anyio.move_on_after(PROMPT_PATIENCE):
        try:
            text = "\n\n".join(
                block.text for block in await engine.prompt(session_id) if block.type == "text"
            )
        except OrsServerError:
            text = ""
    return f"{_HOW_TO_START}\n\n{text}" if text else _HOW_TO_START


async def list_tools(engine: SessionManager, session_id: str) -> list[Result]:
    """Announce the tools of this task; a terminal one too, since a host has no other way to hand it over.

    Args:
        engine: Where sessions live.
        session_id: The episode's session.
    """
    listing = await engine.tools(session_id)
    structured = engine.visibility_of(session_id) is Visibility.VISIBLE
    specs = list(listing.tools)
    if listing.terminal_tool is not None:
        specs.append(_as_tool(listing.terminal_tool))
    return [announce(spec, structured=structured) for spec in specs]


def _as_tool(terminal: TerminalToolSpec) -> ToolSpec:
    schema = None
    if terminal.arg is not None:
        text = {"type": "string", "description": "Your final message."}
        schema = {"type": "object", "properties": {terminal.arg: text}, "required": [terminal.arg]}
    return ToolSpec(name=terminal.name, description=terminal.description, input_schema=schema)


def list_prompts(engine: SessionManager, session_id: str) -> list[Result]:
    """Announce the task's prompt and the environment's own.

    Args:
        engine: Where sessions live.
        session_id: The episode's session.
    """
    task = {"name": TASK_PROMPT, "description": "The task that this episode is about."}
    return [
        task,
        *(_announce_prompt(offer) for offer in engine.definition_of(session_id).offers.prompts.values()),
    ]


def _announce_prompt(offer: PromptOffer) -> Result:
    required = set(offer.schema.get("required", ()))
    arguments = [
        {"name": name, "description": part.get("description", ""), "required": name in required}
        for name, part in offer.schema.get("properties", {}).items()
    ]
    return {"name": offer.name, "description": offer.description, "arguments": arguments}


async def get_prompt(
    engine: SessionManager,
    player: Player,
    context: Context,
    params: types.GetPromptRequestParams,
    session_id: str,
) -> Result:
    """Return the task's prompt, or one of the environment's.

    Args:
        engine: Where sessions live.
        player: Runs what may ask the client.
        context: The request.
        params: Which prompt, and its arguments.
        session_id: The episode's session.

    Raises:
        MCPError: If there is no such prompt, or an argument is missing.
    """
    if params.name == TASK_PROMPT:
        return {"messages": prompt_messages(await engine.messages(session_id)), "resultType": "complete"}
    offer = engine.definition_of(session_id).offers.prompts.get(params.name)
    if offer is None:
        raise MCPError(types.INVALID_PARAMS, f"no prompt is named {params.name!r}")

    async def run(client: McpClient) -> Result:
        messages = await engine.offered_prompt(session_id, params.name, params.arguments or {}, client)
        return {
            "description": offer.description,
            "messages": prompt_messages(messages),
            "resultType": "complete",
        }

    return await player.converse(context, session_id, Answers.of(params), run)


def list_resources(engine: SessionManager, session_id: str) -> list[Result]:
    """Announce the task's resource and the environment's own.

    Args:
        engine: Where sessions live.
        session_id: The episode's session.
    """
    task = {"uri": TASK_URI, "name": "task", "description": "The task that this episode is about."}
    own = [
        _announce_resource("uri", offer)
        for offer in engine.definition_of(session_id).offers.resources
        if not offer.is_family
    ]
    return [task | {"mimeType": "text/plain"}, *own]


def list_templates(engine: SessionManager, session_id: str) -> list[Result]:
    """Announce the environment's families of resources.

    Args:
        engine: Where sessions live.
        session_id: The episode's session.
    """
    offers = engine.definition_of(session_id).offers.resources
    return [_announce_resource("uriTemplate", offer) for offer in offers if offer.is_family]


def _announce_resource(key: str, offer: ResourceOffer) -> Result:
    return {
        key: offer.uri,
        "name": offer.name,
        "description": offer.description,
        "mimeType": offer.mime_type,
    }


async def read_resource(
    engine: SessionManager,
    player: Player,
    context: Context,
    params: types.ReadResourceRequestParams,
    session_id: str,
) -> Result:
    """Return the task, or one of the environment's resources.

    Args:
        engine: Where sessions live.
        player: Runs what may ask the client.
        context: The request.
        params: The URI.
        session_id: The episode's session.

    Raises:
        MCPError: If nothing has that URI.
    """
    if params.uri == TASK_URI:
        return _contents(*(_block_contents(block) for block in content_of(await engine.prompt(session_id))))
    if engine.definition_of(session_id).offers.find_resource(params.uri) is None:
        code = types.INVALID_PARAMS if is_modern(context) else -32002
        raise MCPError(code, "Resource not found", {"uri": params.uri})

    async def run(client: McpClient) -> Result:
        found = await engine.read_resource(session_id, params.uri, client)
        text = {"text": found.content} if isinstance(found.content, str) else _blob(found.content)
        return _contents({"uri": params.uri, "mimeType": found.mime_type, **text})

    return await player.converse(context, session_id, Answers.of(params), run)


def _blob(content: bytes) -> Result:
    return {"blob": base64.b64encode(content).decode()}


def _contents(*contents: Result) -> Result:
    return {"contents": list(contents), "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def _block_contents(content: Result) -> Result:
    if content["type"] == "image":
        return {"uri": TASK_URI, "mimeType": content["mimeType"], "blob": content["data"]}
    return {"uri": TASK_URI, "mimeType": "text/plain", "text": content.get("text", "")}


def complete(engine: SessionManager, params: types.CompleteRequestParams, session_id: str | None) -> Result:
    """Complete an argument of a prompt whose values are a closed list; others have no completions.

    Args:
        engine: Where sessions live.
        params: What is being typed.
        session_id: The episode's session; `None` for the lobby, which has no prompts.
    """
    choices: list[str] = []
    if session_id is not None and isinstance(params.ref, types.PromptReference):
        offer = engine.definition_of(session_id).offers.prompts.get(params.ref.name)
        choices = [] if offer is None else _choices(offer.schema, params.argument.name)
    values = [choice for choice in choices if choice.startswith(params.argument.value)]
    shown = values[:MAX_COMPLETIONS]
    completion = {"values": shown, "total": len(values), "hasMore": len(values) > len(shown)}
    return {"completion": completion, "resultType": "complete"}


def _choices(schema: Mapping[str, Any], argument: str) -> list[str]:
    part = schema.get("properties", {}).get(argument, {})
    return [str(choice) for choice in part.get("enum", ())]
