"""Makes JSON Schemas, argument parsers and result readers of methods' signatures, when a class is loaded."""

import inspect
import json
import typing
import warnings
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from ors_server.environments.call_context import CallContext
from ors_server.environments.docstrings import read_docstring
from ors_server.environments.json_texts import admitted_types, read_json_texts
from ors_server.model.errors import EnvironmentDefinitionError, ToolOutputError
from ors_server.model.wire import JSONObject, TextBlock, ToolOutput


@dataclass(frozen=True, slots=True)
class Signature:
    """A method's parameters, without `self`."""

    model: type[BaseModel] | None
    """Validates the arguments; `None` for a method without parameters."""
    model_parameter: str | None
    """The parameter that takes the model itself; `None` where its fields are the parameters."""
    context_parameter: str | None
    returns: Any
    """The annotated return type."""

    @property
    def takes_model(self) -> bool:
        """Whether the method takes the model itself rather than its fields."""
        return self.model_parameter is not None

    def input_schema(self) -> JSONObject | None:
        """Return the JSON Schema of the arguments, or `None` for a method without parameters.

        Numbers that JSON does not have, such as an infinite default or limit, are left out of it.
        """
        return None if self.model is None else _without_infinities(self.model.model_json_schema())


def read_signature(
    function: Callable[..., Any], where: str, *, takes_self: bool = True, is_closed: bool = False
) -> Signature:
    """Read a method's parameters.

    Args:
        takes_self: Whether the first parameter is the object or the class.
        is_closed: Whether arguments of other names are refused.

    Raises:
        EnvironmentDefinitionError: If a parameter has no annotation or one that has no JSON Schema.
    """
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise EnvironmentDefinitionError(f"{where}: its annotations cannot be read: {error}") from error
    parameters = list(inspect.signature(function).parameters.values())
    if takes_self:
        _check_self(parameters, hints, function, where)
        parameters = parameters[1:]
    context_parameter: str | None = None
    plain: list[inspect.Parameter] = []
    for parameter in parameters:
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY}:
            msg = f"{where}: parameter {parameter.name!r} must be an ordinary named one"
            raise EnvironmentDefinitionError(msg)
        if parameter.name not in hints:
            raise EnvironmentDefinitionError(_without_type(function, parameter.name, where))
        if hints[parameter.name] is CallContext:
            context_parameter = parameter.name
        else:
            plain.append(parameter)
    returns = hints.get("return")
    if not plain:
        return Signature(None, None, context_parameter, returns)
    only = hints[plain[0].name]
    if len(plain) == 1 and inspect.isclass(only) and issubclass(only, BaseModel):
        return Signature(only, plain[0].name, context_parameter, returns)
    model = _model_of(function, plain, hints, where, is_closed=is_closed)
    return Signature(model, None, context_parameter, returns)


def _check_self(
    parameters: list[inspect.Parameter], hints: Mapping[str, Any], function: Callable[..., Any], where: str
) -> None:
    if not parameters or (parameters[0].name in hints and parameters[0].name not in {"self", "cls"}):
        rest = "".join(f", {parameter}" for parameter in parameters)
        raise EnvironmentDefinitionError(
            f"{where}: a method's first parameter is self: write def {function.__name__}(self{rest}), "
            "or put @staticmethod above it"
        )


def _without_type(function: Callable[..., Any], parameter: str, where: str) -> str:
    model = "".join(part.capitalize() for part in function.__name__.split("_")) + "Params"
    return (
        f"{where}: parameter {parameter!r} has no type annotation, so agents would not know what to send. "
        f"Write its type, such as {parameter}: str, or a pydantic model of the arguments: "
        f"class {model}(BaseModel): command: str, and {parameter}: {model}"
    )


def null_rejecting_optionals(schema: JSONObject | None) -> frozenset[str]:
    """Return the names of optional properties for which an explicit null would be invalid.

    Some clients send null for every optional parameter that the model left out; for these names, null
    means absence.
    """
    if schema is None:
        return frozenset()
    required = set(schema.get("required", ()))
    properties: Mapping[str, Any] = schema.get("properties", {})
    return frozenset(
        name
        for name, part in properties.items()
        if name not in required and "null" not in admitted_types(part, schema)
    )


def make_parser(
    validate: Callable[[JSONObject], Any] | None, schema: JSONObject | None
) -> Callable[[JSONObject], Any]:
    """Make the function that validates a tool's arguments.

    Args:
        validate: Raises pydantic's `ValidationError`; without it, arguments are ignored.
    """
    if validate is None:
        return lambda _arguments: None
    droppable = null_rejecting_optionals(schema)
    read = read_json_texts(validate, schema)
    if not droppable:
        return read

    def parse(arguments: JSONObject) -> Any:
        # The usual call has no null, and is not copied.
        if None in arguments.values():
            arguments = {
                key: value for key, value in arguments.items() if value is not None or key not in droppable
            }
        return read(arguments)

    return parse


def output_reader(kinds: AbstractSet[type], where: str) -> Callable[[Any], ToolOutput]:
    """Make the function that turns a tool's result, of one of `kinds`, into a `ToolOutput`."""
    expected = " or ".join(kind.__name__ for kind in (ToolOutput, str) if kind in kinds)

    def to_output(result: Any) -> ToolOutput:
        if isinstance(result, ToolOutput) and ToolOutput in kinds:
            return result
        if isinstance(result, str) and str in kinds:
            return ToolOutput(blocks=[TextBlock(text=result)])
        hint = (
            "; return ToolOutput.ongoing(...) or ToolOutput.final(..., reward=...)" if result is None else ""
        )
        raise ToolOutputError(f"{where} returned {type(result).__name__}; expected {expected}{hint}")

    return to_output


def _without_infinities(schema: JSONObject) -> JSONObject:
    absent = object()

    def keep(pairs: list[tuple[str, Any]]) -> JSONObject:
        return {name: value for name, value in pairs if value is not absent}

    cleaned: JSONObject = json.loads(
        json.dumps(schema), parse_constant=lambda _name: absent, object_pairs_hook=keep
    )
    return cleaned


def _model_of(
    function: Callable[..., Any],
    parameters: list[inspect.Parameter],
    hints: Mapping[str, Any],
    where: str,
    *,
    is_closed: bool,
) -> type[BaseModel]:
    texts = read_docstring(function).parameters
    config = ConfigDict(arbitrary_types_allowed=False, extra="forbid" if is_closed else "ignore")
    title = "".join(word.title() for word in function.__name__.split("_"))
    try:
        fields: dict[str, Any] = {
            parameter.name: _field(parameter, hints[parameter.name], texts.get(parameter.name))
            for parameter in parameters
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a parameter may be called `schema` or `copy`
            model = create_model(title, __config__=config, **fields)
            # Now, so that a type without a schema is found when the class is loaded.
            model.model_json_schema()
    except (PydanticUserError, NameError, TypeError, ValueError) as error:
        raise EnvironmentDefinitionError(f"{where}: its parameters have no JSON Schema: {error}") from error
    return model


def _field(parameter: inspect.Parameter, hint: Any, text: str | None) -> tuple[Any, Any]:
    """Add the docstring's text, unless the author's own `Field` has a description."""
    default = ... if parameter.default is parameter.empty else parameter.default
    if text and FieldInfo.from_annotated_attribute(hint, default).description is None:
        hint = Annotated[hint, Field(description=text)]
    return hint, default
