"""The lobby's list of tools: the same for every connection, computed once."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, cast

from ors_server.doors.mcp.mcp_results import NO_PARAMETERS, title_of
from ors_server.doors.mcp.sdk import Result
from ors_server.doors.mcp.server_card import ICON
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.model.wire import ToolSpec

LIST_ENVIRONMENTS = "list_environments"
LIST_TASKS = "list_tasks"
START_EPISODE = "start_episode"

_NAME = {"type": "string", "description": "Name of an environment, as list_environments gives it."}

_READS = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}


def _list_schema(key: str, /, **fields: str) -> Result:
    """Make the schema of a list of objects, whose fields are given with their types."""
    properties = {field: {"type": kind} for field, kind in fields.items()}
    row = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "object", "properties": {key: {"type": "array", "items": row}}, "required": [key]}


OWN_TOOLS: tuple[Result, ...] = (
    {
        "name": LIST_ENVIRONMENTS,
        "title": "List environments",
        "description": "Lists the environments that can be played here.",
        "inputSchema": NO_PARAMETERS,
        "outputSchema": _list_schema("environments", name="string", description="string"),
        "annotations": _READS,
        "icons": [ICON],
    },
    {
        "name": LIST_TASKS,
        "title": "List tasks",
        "outputSchema": _list_schema("splits", name="string", type="string", num_tasks="integer"),
        "annotations": _READS,
        "icons": [ICON],
        "description": "Says which splits an environment has and how many tasks are in each.",
        "inputSchema": {"type": "object", "properties": {"environment": _NAME}, "required": ["environment"]},
    },
    {
        "name": START_EPISODE,
        "title": "Start an episode",
        "annotations": {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
        "icons": [ICON],
        "description": (
            "Starts an episode of one task. Returns a session_id and the task's prompt; pass the session_id "
            "to every further tool call of the episode. Without a split or an index, the server chooses."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "environment": _NAME,
                "split": {"type": "string", "description": "Name of a split, as list_tasks gives it."},
                "index": {"type": "integer", "minimum": 0, "description": "Number of the task, from 0."},
                "seed": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "What the server's choice and the episode's chances are drawn from.",
                },
            },
            "required": ["environment"],
        },
    },
)
"""The tools with which an agent finds and starts an episode."""

_SESSION_ID = {"type": "string", "description": "The session_id that start_episode returned."}


class LobbyTools:
    """The tools that the lobby lists.

    Attributes:
        announced: As in `tools/list`: the lobby's own first, then the environments' in order of first
            appearance.
    """

    def __init__(self, definitions: Collection[EnvironmentDefinition]) -> None:
        """List the tools of all environments; tools of one name share one entry."""
        owners: dict[str, dict[str, ToolSpec]] = {}
        for definition in definitions:
            for spec in specs_of(definition):
                owners.setdefault(spec.name, {})[definition.name] = spec
        for own in OWN_TOOLS:
            owners.pop(own["name"], None)
        own_tools = [dict(tool) for tool in OWN_TOOLS]
        if len(definitions) <= 1:  # the tools need no name of an environment
            for tool in own_tools:
                schema = tool["inputSchema"]
                tool["inputSchema"] = {key: value for key, value in schema.items() if key != "required"}
        self._session_arguments = {name: _session_argument(specs.values()) for name, specs in owners.items()}
        self._owners = {name: frozenset(specs) for name, specs in owners.items()}
        self.announced: list[Result] = [
            *own_tools,
            *(_announce(name, specs, self._session_arguments[name]) for name, specs in owners.items()),
        ]

    def announced_for(self, environments: Collection[str]) -> list[Result]:
        """Return the lobby's own tools and those of some environments, in the order of `announced`.

        A tool is described as in the whole list, so that an entry never changes while a server runs.
        """
        names = {name for name, owners in self._owners.items() if not owners.isdisjoint(environments)}
        own = {tool["name"] for tool in OWN_TOOLS}
        return [tool for tool in self.announced if tool["name"] in names | own]

    def session_argument_of(self, tool: str) -> str | None:
        """Return the argument that carries the session id; `None` if no environment has the tool."""
        return self._session_arguments.get(tool)


def specs_of(definition: EnvironmentDefinition) -> list[ToolSpec]:
    """Return every tool that some session of an environment may have, in order."""
    found = {name: tool.spec for name, tool in definition.tools.items()}
    for toolset in definition.toolsets:
        for name, tool in toolset.tools.items():
            found.setdefault(name, tool.spec)
    return list(found.values())


def _session_argument(specs: Iterable[ToolSpec]) -> str:
    taken = {name for spec in specs for name in (spec.input_schema or NO_PARAMETERS).get("properties", {})}
    return next(name for name in ("session_id", "ors_session_id", "ors_session_id_") if name not in taken)


def _announce(name: str, specs: Mapping[str, ToolSpec], argument: str) -> Result:
    distinct = {_fingerprint(spec): spec for spec in specs.values()}
    if len(distinct) == 1:
        spec = next(iter(distinct.values()))
        description, schema = spec.description, spec.input_schema or NO_PARAMETERS
    else:
        description = "\n\n".join(f"In {owner}: {spec.description}" for owner, spec in specs.items())
        schema = _merge([spec.input_schema or NO_PARAMETERS for spec in distinct.values()])
    properties = {argument: _SESSION_ID, **schema.get("properties", {})}
    required = [argument, *schema.get("required", ())]
    return {
        "name": name,
        "title": title_of(name),
        "description": description,
        "inputSchema": {**schema, "properties": properties, "required": required},
    }


def _fingerprint(spec: ToolSpec) -> str:
    return json.dumps([spec.description, spec.input_schema], sort_keys=True)


def _merge(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """Make one object schema that admits what any of the given admits; the session validates by its own."""
    renamed = [_rename_definitions(schema, f"d{number}_") for number, schema in enumerate(schemas)]
    choices: dict[str, list[Any]] = {}
    for schema in renamed:
        for name, part in schema.get("properties", {}).items():
            seen = choices.setdefault(name, [])
            if part not in seen:
                seen.append(part)
    demands: list[set[str]] = [set(schema.get("required", ())) for schema in renamed]
    required = set[str].intersection(*demands)
    merged: dict[str, Any] = {
        "type": "object",
        "properties": {name: _either(parts) for name, parts in choices.items()},
        "required": [name for name in choices if name in required],
    }
    definitions = {name: part for schema in renamed for name, part in schema.get("$defs", {}).items()}
    return merged | {"$defs": definitions} if definitions else merged


_ANNOTATIONS = ("title", "description", "default")
"""Keywords of a schema that say nothing about which values it admits."""


def _either(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Make one schema of a parameter that admits what any of the given does.

    Alternatives stand side by side, each with a type and none within another: some hosts read nothing else.
    """
    if len(parts) == 1:
        return parts[0]
    annotations: dict[str, Any] = {}
    described = list(dict.fromkeys(part["description"] for part in parts if part.get("description")))
    if described:
        annotations["description"] = " / ".join(described)
    kinds: list[dict[str, Any]] = []
    for part in parts:
        kinds += [kind for kind in _alternatives(part) if kind not in kinds]
    if {} in kinds:
        return annotations
    return {**annotations, **kinds[0]} if len(kinds) == 1 else {**annotations, "anyOf": kinds}


def _alternatives(part: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the alternatives of a schema, each of one type."""
    bare = {key: value for key, value in part.items() if key not in _ANNOTATIONS}
    for key in ("anyOf", "oneOf"):
        if bare.keys() == {key}:
            return [kind for one in bare[key] for kind in _alternatives(one)]
    kinds = bare.get("type")
    if isinstance(kinds, list):
        return [{**bare, "type": kind} for kind in cast("list[str]", kinds)]
    if kinds is None and "const" in bare:
        bare = {"enum": [bare["const"]]}
    if kinds is None and "enum" in bare:
        types = {_JSON_TYPES[type(value)] for value in bare["enum"]}
        return [{**bare, "type": types.pop()}] if len(types) == 1 else [bare]
    return [bare]


_JSON_TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def _rename_definitions(schema: dict[str, Any], prefix: str) -> dict[str, Any]:
    if "$defs" not in schema:
        return schema
    text = json.dumps(schema).replace('"#/$defs/', f'"#/$defs/{prefix}')
    renamed: dict[str, Any] = json.loads(text)
    renamed["$defs"] = {f"{prefix}{name}": part for name, part in renamed["$defs"].items()}
    return renamed
