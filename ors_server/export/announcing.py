"""The tools that a row announces.

A record says which tools were called, not which were offered. So they are given to an export by whoever has
the environment or kept what its `/tools` answered; without them a row announces nothing.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from ors_server.authoring.definition import EnvironmentDefinition
from ors_server.errors import RecordError
from ors_server.trajectory import EpisodeOrigin
from ors_server.wire import JSONObject, TerminalToolSpec, ToolListing, ToolSpec

Announced: TypeAlias = Mapping[str, Sequence[ToolSpec]]
"""Tools by environment, or `environment/toolset` where a session asked for one; `ANY` is every other one."""
ANY = "*"

_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


def announced_by(definitions: Iterable[EnvironmentDefinition]) -> dict[str, list[ToolSpec]]:
    """Return the tools that environments offer for every task, the one for a final message among them.

    Args:
        definitions: The environments. What one offers for some tasks only is not known without a session.
    """
    announced: dict[str, list[ToolSpec]] = {}
    for definition in definitions:
        own = announced[definition.name] = _specs(definition.listing)
        for name, toolset in definition.session_toolsets.items():
            rest = [tool for tool in own if tool.name not in toolset.tools]
            more = [tool.spec for tool in toolset.tools.values()]
            announced[f"{definition.name}/{name}"] = rest + more
    return announced


def tools_of(announced: Announced, origin: EpisodeOrigin) -> Sequence[ToolSpec] | None:
    """Return the tools of an episode; `None` where they are not known.

    Args:
        announced: What was announced.
    """
    key = origin.environment if origin.toolset is None else f"{origin.environment}/{origin.toolset}"
    return announced.get(key, announced.get(ANY))


def read_listing(path: Path) -> list[ToolSpec]:
    """Read what a server's `/tools` answered.

    Args:
        path: A JSON file with that body.

    Raises:
        RecordError: If it is something else.
        OSError: If it cannot be read.
    """
    try:
        return _specs(ToolListing.model_validate_json(path.read_bytes()))
    except ValidationError as error:
        msg = (
            f"{path} is not what /tools answers (an object with a list of tools): {error.errors()[0]['msg']}"
        )
        raise RecordError(msg) from error


def as_functions(tools: Iterable[ToolSpec]) -> list[JSONObject]:
    """Return tools as OpenAI's chat completions and chat templates take them."""
    return [{"type": "function", "function": as_function(tool)} for tool in tools]


def as_function(tool: ToolSpec) -> JSONObject:
    """Return a tool's name, description and parameters."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(_NO_PARAMETERS) if tool.input_schema is None else tool.input_schema,
    }


def as_text(tools: Sequence[ToolSpec] | None) -> str | None:
    """Return tools as JSON in one string, which columns of tables take without mixing up schemas.

    Args:
        tools: The tools; `None` where they are not known.
    """
    return None if tools is None else json.dumps(as_functions(tools), ensure_ascii=False)


def _specs(listing: ToolListing) -> list[ToolSpec]:
    return [*listing.tools, *([] if listing.terminal_tool is None else [_of_terminal(listing.terminal_tool)])]


def _of_terminal(tool: TerminalToolSpec) -> ToolSpec:
    schema: JSONObject | None = None
    if tool.arg is not None:
        schema = {"type": "object", "properties": {tool.arg: {"type": "string"}}, "required": [tool.arg]}
    return ToolSpec(name=tool.name, description=tool.description, input_schema=schema)
