"""Tools whose parameters are a JSON Schema that the author passes as data."""

import typing
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, TypeAdapter

from ors_server.environments.boundary import is_async
from ors_server.environments.call_context import CallContext
from ors_server.environments.definition import ToolDefinition
from ors_server.environments.marked_members import Member
from ors_server.environments.schema import make_parser, output_reader
from ors_server.environments.tool import ToolMarks
from ors_server.json_schemas import BadSchemaError, SchemaChecker, TooMuchWorkError
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.model.wire import JSONObject, ToolOutput, ToolSpec

MAX_PROBLEMS = 5
"""Problems of one call's arguments that the error names."""


def define_schema_tool(member: Member[ToolMarks]) -> ToolDefinition:
    """Compute the definition of a tool that was made with `tool_from_schema`.

    Raises:
        EnvironmentDefinitionError: If the schema is invalid, or not an object's.
    """
    marks, where = member.mark, f"{member.where} (tool {member.mark.name!r})"
    schema = marks.schema or {}
    return ToolDefinition(
        spec=ToolSpec(
            name=marks.name or member.name, description=marks.description or "", input_schema=schema
        ),
        parse=make_parser(_validator(schema, where), schema),
        bind=_binder(member),
        to_output=output_reader({ToolOutput, str}, where),
        is_async=is_async(member.function),
        shared=marks.shared,
        concurrent=marks.concurrent,
        where=where,
    )


def _validator(schema: JSONObject, where: str) -> Callable[[JSONObject], Any]:
    try:
        checker = SchemaChecker(schema)
    except BadSchemaError as error:
        raise EnvironmentDefinitionError(f"{where}: its schema is invalid: {error}") from error
    if schema.get("type") != "object":
        raise EnvironmentDefinitionError(f'{where}: its schema must be of the type "object"')

    def check(arguments: JSONObject) -> JSONObject:
        try:
            violations = checker.violations(arguments)[:MAX_PROBLEMS]
        except TooMuchWorkError as error:
            raise ValueError(f"checking them by the tool's schema {error}: send less") from None
        if violations:
            raise ValueError("; ".join(f"{problem.place}: {problem.message}" for problem in violations))
        return arguments

    return TypeAdapter(Annotated[dict[str, Any], AfterValidator(check)]).validate_python


def _binder(member: Member[ToolMarks]) -> Callable[[Any], Callable[[Any, Any], Any]]:
    hints = typing.get_type_hints(member.function)
    context_name = next((name for name, hint in hints.items() if hint is CallContext), None)

    def bind(owner: Any) -> Callable[[Any, Any], Any]:
        before = (owner,) if member.takes_self else ()

        def call(parsed: Any, context: Any) -> Any:
            extra = {} if context_name is None else {context_name: context}
            return member.function(*before, parsed, **extra)

        return call

    return bind
