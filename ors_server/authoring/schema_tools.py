"""Tools whose parameters are a JSON Schema that the author gives as data."""

import typing
from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any, cast

import jsonschema.validators
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.exceptions import ValidationError as JSONSchemaError
from pydantic import AfterValidator, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import SchemaError as PatternError

from ors_server.authoring.boundary import is_async
from ors_server.authoring.call_context import CallContext
from ors_server.authoring.definition import ToolDefinition
from ors_server.authoring.marked_members import Member
from ors_server.authoring.schema import make_parser, output_reader
from ors_server.authoring.tool import ToolMarks
from ors_server.errors import EnvironmentDefinitionError
from ors_server.wire import JSONObject, ToolOutput, ToolSpec

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
        Draft202012Validator.check_schema(schema)
        for pattern in _patterns(schema):
            _pattern(pattern)
    except SchemaError as error:
        raise EnvironmentDefinitionError(f"{where}: its schema is invalid: {error.message}") from error
    except PatternError as error:
        msg = f"{where}: its schema has a pattern without linear-time matching (no look-around): {error}"
        raise EnvironmentDefinitionError(msg) from error
    if schema.get("type") != "object":
        raise EnvironmentDefinitionError(f'{where}: its schema must be of the type "object"')
    validators: Any = jsonschema.validators
    validator: Any = validators.extend(Draft202012Validator, {"pattern": _check_pattern})(schema)

    def check(arguments: JSONObject) -> JSONObject:
        problems = [f"{problem.json_path}: {problem.message}" for problem in _first(validator, arguments)]
        if problems:
            raise ValueError("; ".join(problems))
        return arguments

    return TypeAdapter(Annotated[dict[str, Any], AfterValidator(check)]).validate_python


def _first(validator: Any, arguments: JSONObject) -> list[Any]:
    problems = validator.iter_errors(arguments)
    return [problem for problem, _ in zip(problems, range(MAX_PROBLEMS), strict=False)]


def _patterns(schema: JSONObject) -> list[str]:
    found: list[str] = []
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            inner = cast("dict[str, Any]", part)
            found += [inner["pattern"]] if isinstance(inner.get("pattern"), str) else []
            waiting += inner.values()
        elif isinstance(part, list):
            waiting += cast("Iterable[Any]", part)
    return found


def _check_pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> typing.Iterator[Any]:
    """Match the keyword `pattern` in linear time, since the text is an agent's."""
    if isinstance(instance, str):
        try:
            _pattern(pattern).validate_python(instance)
        except ValidationError:
            yield JSONSchemaError(f"{instance[:80]!r} does not match {pattern!r}")


@cache
def _pattern(pattern: str) -> TypeAdapter[str]:
    return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])


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
