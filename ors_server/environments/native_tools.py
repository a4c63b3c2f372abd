"""Makes tool definitions of marked methods, and checks every rule for them."""

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from ors_server.environments.argument_names import ArgumentNames, names_of, read_arguments
from ors_server.environments.boundary import binder, is_async
from ors_server.environments.definition import ToolDefinition, ToolsetDefinition
from ors_server.environments.docstrings import read_docstring
from ors_server.environments.marked_members import Member, marked_members, read_mark
from ors_server.environments.schema import Signature, make_parser, output_reader, read_signature
from ors_server.environments.tool import MARK, ToolMarks, Toolset
from ors_server.model.errors import EnvironmentDefinitionError, EnvironmentFailedError
from ors_server.model.wire import JSONObject, ToolOutput, ToolSpec

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Tool names that every MCP host accepts."""


def read_tools(cls: type) -> dict[str, ToolDefinition]:
    """Find the methods of a class that are marked as tools, in order of definition, base classes first."""
    definitions: dict[str, ToolDefinition] = {}
    for member in marked_members(cls, MARK, ToolMarks):
        if not (member.mark.is_tool or member.mark.terminal):
            continue
        if not member.mark.is_tool:
            raise EnvironmentDefinitionError(f"{member.where} is marked @terminal but not @tool; add @tool")
        definition = define_tool(member)
        if definition.name in definitions:
            raise EnvironmentDefinitionError(f"{member.where}: a second tool named {definition.name!r}")
        definitions[definition.name] = definition
    return definitions


def define_tool(member: Member[ToolMarks]) -> ToolDefinition:
    """Compute the definition of one marked method."""
    marks, where = member.mark, member.where
    check_tool_name(marks.name or member.name, where)
    function = inspect.unwrap(member.function)
    _check_kind(function, marks, where)
    if marks.schema is not None:
        from ors_server.environments import schema_tools  # noqa: PLC0415  (jsonschema takes long to load)

        return schema_tools.define_schema_tool(member)
    names = names_of(function)
    signature = read_signature(function, where, takes_self=member.takes_self, is_closed=names is not None)
    schema = signature.input_schema()
    name = marks.name or member.name
    return ToolDefinition(
        spec=ToolSpec(name=name, description=read_docstring(function).description, input_schema=schema),
        parse=make_parser(_validator(name, signature, names), schema),
        bind=binder(
            member.name,
            () if signature.model is None or signature.takes_model else tuple(signature.model.model_fields),
            model_name=signature.model_parameter,
            context_name=signature.context_parameter,
        ),
        to_output=_output_reader(signature.returns, where),
        returns_output=signature.returns is ToolOutput,
        is_async=is_async(function),
        shared=marks.shared,
        concurrent=marks.concurrent,
        exclusive=marks.exclusive,
        time_limit=marks.time_limit,
        terminal=marks.terminal,
        terminal_arg=terminal_argument(signature.model, where) if marks.terminal else None,
        arguments_model=signature.model,
        where=where,
    )


def _validator(
    name: str, signature: Signature, names: ArgumentNames | None
) -> Callable[[JSONObject], Any] | None:
    if signature.model is None:
        return None
    if names is None:
        return signature.model.model_validate
    return read_arguments(name, signature.model, names)


def define_task_tool(cls: type, item: Any) -> ToolDefinition:
    """Compute the definition of a tool that `list_task_tools` made for one task.

    Raises:
        EnvironmentFailedError: If `tool_from_schema` did not make it, its schema is invalid, or the class has
            a tool of its name.
    """
    where = f"{cls.__name__}.list_task_tools"
    mark = read_mark(item, MARK, ToolMarks)
    if mark is None or mark.schema is None or mark.name is None:
        msg = f"{where} must give names, or tools that tool_from_schema made, got {type(item).__name__}"
        raise EnvironmentFailedError(msg)
    if mark.name in read_tools(cls):
        raise EnvironmentFailedError(f"{where} made a tool named {mark.name!r}, which the class has already")
    takes_self = not isinstance(item, staticmethod)
    function = item if takes_self else item.__func__
    try:
        return define_tool(Member(mark.name, function, takes_self, replace(mark, shared=False), where))
    except EnvironmentDefinitionError as error:
        raise EnvironmentFailedError(str(error)) from error


def _check_kind(function: Any, marks: ToolMarks, where: str) -> None:
    if marks.terminal and marks.concurrent:
        msg = f"{where} is terminal and cannot be concurrent: it grades the episode"
        raise EnvironmentDefinitionError(msg)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise EnvironmentDefinitionError(f"{where} yields; a tool returns one ToolOutput or str")


def check_tool_name(name: str, where: str) -> None:
    """Refuse a tool name that an MCP host would refuse."""
    if not TOOL_NAME.fullmatch(name):
        msg = f"{where}: tool name {name!r} must match [A-Za-z0-9_-]{{1,64}}, which is what MCP hosts accept"
        raise EnvironmentDefinitionError(msg)


def terminal_argument(model: type[BaseModel] | None, where: str) -> str | None:
    """Return the name of a terminal tool's one parameter."""
    names = [] if model is None else list(model.model_fields)
    if len(names) > 1:
        listed = ", ".join(names)
        msg = f"{where} is terminal and must take one parameter for the final message, or none; got {listed}"
        raise EnvironmentDefinitionError(msg)
    return names[0] if names else None


def merge_tools(
    owner: str, own: Mapping[str, ToolDefinition], toolsets: Sequence[ToolsetDefinition]
) -> dict[str, ToolDefinition]:
    """Return an environment's own tools and those of its toolsets, by name.

    Raises:
        EnvironmentDefinitionError: If two tools share a name, or two are terminal.
    """
    merged = dict(own)
    for toolset in toolsets:
        for name, definition in toolset.tools.items():
            if name in merged:
                raise EnvironmentDefinitionError(f"{owner}: two tools are named {name!r}; rename one")
            merged[name] = definition
    terminals = [tool.name for tool in merged.values() if tool.terminal]
    if len(terminals) > 1:
        msg = f"{owner}: at most one tool may be terminal, got {', '.join(terminals)}"
        raise EnvironmentDefinitionError(msg)
    return merged


def define_toolset(cls: type[Toolset]) -> ToolsetDefinition:
    """Compute the definition of a toolset class."""
    return ToolsetDefinition(make=cls, tools=read_tools(cls), needs_sandbox=cls.needs_sandbox)


def _output_reader(returns: Any, where: str) -> Callable[[Any], ToolOutput]:
    members = set(typing.get_args(returns)) if isinstance(returns, types.UnionType) else {returns}
    if not members <= {ToolOutput, str}:
        written = "no return type" if returns is None else f"{returns!r}"
        msg = f"{where} must be annotated to return ToolOutput or str; it has {written}"
        raise EnvironmentDefinitionError(msg)
    return output_reader(members, where)
