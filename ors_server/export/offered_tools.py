"""The tools that a row lists as offered to the agent.

A record does not have them. They come from the environment or from a saved response of `/tools`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from ors_server.environments.definition import EnvironmentDefinition
from ors_server.model.errors import RecordError
from ors_server.model.trajectory import EpisodeOrigin
from ors_server.model.wire import JSONObject, ToolListing, ToolSpec

OfferedTools: TypeAlias = Mapping[str, Sequence[ToolSpec]]
"""Tools by environment, or `environment/toolset` for sessions with a toolset; `ANY` is the default entry."""
ANY = "*"

_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


def offered_tools(definitions: Iterable[EnvironmentDefinition]) -> dict[str, list[ToolSpec]]:
    """Return the tools that environments offer for every task, the terminal tool included."""
    offered: dict[str, list[ToolSpec]] = {}
    for definition in definitions:
        own = offered[definition.name] = _specs(definition.listing)
        for name, toolset in definition.session_toolsets.items():
            # A requested toolset's tools hide those of the same name.
            rest = [tool for tool in own if tool.name not in toolset.tools]
            more = [tool.spec for tool in toolset.tools.values()]
            offered[f"{definition.name}/{name}"] = rest + more
    return offered


def tools_of(offered: OfferedTools, origin: EpisodeOrigin) -> Sequence[ToolSpec] | None:
    """Return the tools of an episode; `None` where they are not known."""
    key = origin.environment if origin.toolset is None else f"{origin.environment}/{origin.toolset}"
    return offered.get(key, offered.get(ANY))


def read_listing(path: Path) -> list[ToolSpec]:
    """Read a JSON file with a response of a server's `/tools`.

    Raises:
        RecordError: If it has another form.
        OSError: If it cannot be read.
    """
    try:
        return _specs(ToolListing.model_validate_json(path.read_bytes()))
    except ValidationError as error:
        msg = (
            f"{path}: expected the response of a server's /tools, an object with a list of tools; "
            f"got {error.errors()[0]['msg']}"
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
    """Return tools as JSON in one string, because a table's column has one schema; `None` if unknown."""
    return None if tools is None else json.dumps(as_functions(tools), ensure_ascii=False)


def _specs(listing: ToolListing) -> list[ToolSpec]:
    tool = listing.terminal_tool
    if tool is None:
        return list(listing.tools)
    schema: JSONObject | None = None
    if tool.arg is not None:
        schema = {"type": "object", "properties": {tool.arg: {"type": "string"}}, "required": [tool.arg]}
    return [*listing.tools, ToolSpec(name=tool.name, description=tool.description, input_schema=schema)]
