"""From marked methods to tool definitions, with every rule checked."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from ors_server.authoring.boundary import is_async
from ors_server.authoring.definition import ToolDefinition, ToolsetDefinition
from ors_server.authoring.schema import Signature, describe_method, null_rejecting_optionals, read_signature
from ors_server.authoring.tool import ToolMarks, Toolset, marks_of
from ors_server.errors import EnvironmentDefinitionError, ToolOutputError
from ors_server.wire import JSONObject, TextBlock, ToolOutput, ToolSpec

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every MCP host accepts as a tool name."""


def read_tools(cls: type) -> dict[str, ToolDefinition]:
    """Find the methods of a class that are marked as tools, in order of definition, base classes first.

    Args:
        cls: An environment or toolset class.

    Raises:
        EnvironmentDefinitionError: If a tool breaks a rule.
    """
    found: dict[str, ToolDefinition] = {}
    attributes = dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base))
    for attribute in attributes:
        function = inspect.getattr_static(cls, attribute)
        marks = marks_of(function)
        if not (marks.is_tool or marks.terminal):
            continue
        where = f"{cls.__name__}.{attribute}"
        if not marks.is_tool:
            msg = f"{where} is marked @terminal but not @tool; add @tool"
            raise EnvironmentDefinitionError(msg)
        definition = define_tool(function, attribute, marks, where)
        if definition.name in found:
            msg = f"{where}: a second tool named {definition.name!r}"
            raise EnvironmentDefinitionError(msg)
        found[definition.name] = definition
    return found


def define_tool(function: Callable[..., Any], attribute: str, marks: ToolMarks, where: str) -> ToolDefinition:
    """Compute the definition of one marked method.

    Args:
        function: The method as the class holds it.
        attribute: Its name in the class.
        marks: Its marks.
        where: How to name it in errors.

    Raises:
        EnvironmentDefinitionError: If the tool breaks a rule.
    """
    name = marks.name or attribute
    check_tool_name(name, where)
    signature = read_signature(inspect.unwrap(function), where)
    if signature.returns not in {ToolOutput, str}:
        msg = f"{where} must be annotated to return ToolOutput or str, not {signature.returns!r}"
        raise EnvironmentDefinitionError(msg)
    if marks.terminal and marks.concurrent:
        msg = f"{where} is terminal and cannot be concurrent: it grades the episode"
        raise EnvironmentDefinitionError(msg)
    schema = signature.input_schema()
    return ToolDefinition(
        spec=ToolSpec(name=name, description=describe_method(function), input_schema=schema),
        parse=make_parser(signature.model, schema),
        bind=_binder(attribute, signature),
        adopt=_adopt_text(where) if signature.returns is str else _adopt_output(where),
        is_async=is_async(function),
        shared=marks.shared,
        concurrent=marks.concurrent,
        exclusive=marks.exclusive,
        time_limit=marks.time_limit,
        terminal=marks.terminal,
        terminal_arg=terminal_argument(signature.model, where) if marks.terminal else None,
        arguments_model=signature.model,
    )


def check_tool_name(name: str, where: str) -> None:
    """Refuse a tool name that an MCP host would refuse.

    Args:
        name: The tool's name.
        where: How to name it in the error.

    Raises:
        EnvironmentDefinitionError: If the name is refused.
    """
    if not TOOL_NAME.fullmatch(name):
        msg = f"{where}: tool name {name!r} must match [A-Za-z0-9_-]{{1,64}}, which is what MCP hosts accept"
        raise EnvironmentDefinitionError(msg)


def make_parser(model: type[BaseModel] | None, schema: JSONObject | None) -> Callable[[JSONObject], Any]:
    """Make the function that validates a tool's arguments.

    Args:
        model: The arguments' model; without one, whatever comes is ignored.
        schema: The model's JSON Schema.
    """
    if model is None:
        return lambda _arguments: None
    droppable = null_rejecting_optionals(schema)
    validate = model.model_validate

    def parse(arguments: JSONObject) -> BaseModel:
        if droppable and None in arguments.values():
            arguments = {
                key: value for key, value in arguments.items() if value is not None or key not in droppable
            }
        return validate(arguments)

    return parse


def terminal_argument(model: type[BaseModel] | None, where: str) -> str | None:
    """Return the name of a terminal tool's one parameter.

    Args:
        model: The arguments' model.
        where: How to name the tool in the error.

    Raises:
        EnvironmentDefinitionError: If it takes more than one.
    """
    names = [] if model is None else list(model.model_fields)
    if len(names) > 1:
        listed = ", ".join(names)
        msg = f"{where} is terminal and takes one parameter for the final message, or none; not {listed}"
        raise EnvironmentDefinitionError(msg)
    return names[0] if names else None


def merge_tools(
    owner: str, own: Mapping[str, ToolDefinition], toolsets: Sequence[ToolsetDefinition]
) -> dict[str, ToolDefinition]:
    """Put an environment's own tools and those of its toolsets under one roof.

    Args:
        owner: The environment's class name, for errors.
        own: Its own tools.
        toolsets: Its toolsets.

    Raises:
        EnvironmentDefinitionError: If two tools share a name, or two are terminal.
    """
    merged = dict(own)
    for toolset in toolsets:
        for name, definition in toolset.tools.items():
            if name in merged:
                msg = f"{owner}: two tools are named {name!r}; rename one"
                raise EnvironmentDefinitionError(msg)
            merged[name] = definition
    terminals = [tool.name for tool in merged.values() if tool.terminal]
    if len(terminals) > 1:
        msg = f"{owner}: at most one tool may be terminal, not {', '.join(terminals)}"
        raise EnvironmentDefinitionError(msg)
    return merged


def define_toolset(cls: type[Toolset]) -> ToolsetDefinition:
    """Compute the definition of a toolset class.

    Args:
        cls: The author's class.

    Raises:
        EnvironmentDefinitionError: If a tool breaks a rule.
    """
    return ToolsetDefinition(make=cls, tools=read_tools(cls), needs_sandbox=cls.needs_sandbox)


def _binder(attribute: str, signature: Signature) -> Callable[[Any], Callable[[Any, Any], Any]]:
    context_name = signature.context_parameter
    model_name = signature.model_parameter
    names = () if signature.model is None or signature.takes_model else tuple(signature.model.model_fields)

    def bind(owner: Any) -> Callable[[Any, Any], Any]:
        method = getattr(owner, attribute)

        def call(parsed: Any, context: Any) -> Any:
            if model_name is not None:
                arguments = {model_name: parsed}
            else:
                arguments = {name: getattr(parsed, name) for name in names}
            if context_name is not None:
                arguments[context_name] = context
            return method(**arguments)

        return call

    return bind


def _adopt_output(where: str) -> Callable[[Any], ToolOutput]:
    def adopt(result: Any) -> ToolOutput:
        if isinstance(result, ToolOutput):
            return result
        msg = f"{where} returned {type(result).__name__}; expected ToolOutput"
        raise ToolOutputError(msg)

    return adopt


def _adopt_text(where: str) -> Callable[[Any], ToolOutput]:
    def adopt(result: Any) -> ToolOutput:
        if isinstance(result, str):
            return ToolOutput(blocks=[TextBlock(text=result)])
        msg = f"{where} returned {type(result).__name__}; expected str"
        raise ToolOutputError(msg)

    return adopt
