"""Reads arguments from models that were trained on other tools, by the names that they use.

For tools whose parameters are complete: an argument of any other name is refused.
"""

import shlex
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, NoReturn, TypeAlias, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from ors_server.environments.json_texts import read_json_texts
from ors_server.environments.marked_members import read_mark
from ors_server.model.wire import JSONObject

NAMES_MARK = "__ors_argument_names__"
"""Attribute under which a function carries its `ArgumentNames`."""

_WORDS = TypeAdapter(list[str])

_Function = TypeVar("_Function", bound=Callable[..., Any])


Meaning: TypeAlias = str | tuple[str, Callable[[Any], Any]]
"""The parameter that another name means, and how the value is read if it is written in another way."""


class ArgumentNames(dict[str, Meaning]):
    """Maps names that a model may write to the parameters that they mean."""

    def meaning(self, argument: str) -> tuple[str, Callable[[Any], Any] | None]:
        """Return the parameter that a name means, and how its value is read."""
        meaning = self.get(argument, argument)
        return (meaning, None) if isinstance(meaning, str) else meaning


def only_these_arguments(**aliases: Meaning) -> Callable[[_Function], _Function]:
    """Refuse arguments of other names than a tool's parameters and these.

    Args:
        **aliases: Another name, and the parameter that it means; with a function if the value has another
            form. The function returns a value that it cannot read unchanged.
    """

    def mark(function: _Function) -> _Function:
        setattr(function, NAMES_MARK, ArgumentNames(aliases))
        return function

    return mark


def names_of(function: object) -> ArgumentNames | None:
    """Return the other names that a function's arguments may have; `None` if it takes any name."""
    return read_mark(function, NAMES_MARK, ArgumentNames)


def read_arguments(tool: str, model: type[BaseModel], names: ArgumentNames) -> Callable[[JSONObject], Any]:
    """Make the function that validates a tool's arguments."""
    validate = read_json_texts(model.model_validate, model.model_json_schema())

    def read(arguments: JSONObject) -> Any:
        renamed: JSONObject = {}
        for argument, value in arguments.items():
            name, convert = names.meaning(argument)
            if name not in model.model_fields:
                _refuse(
                    tool, argument, f"{tool} has no parameter {argument!r}{_hint(model, names, argument)}"
                )
            if name in renamed or (name != argument and name in arguments):
                _refuse(tool, argument, f"{argument!r} is another name of {name!r}; give one of them")
            renamed[name] = convert(value) if convert else value
        return validate(renamed)

    return read


def _hint(model: type[BaseModel], names: ArgumentNames, argument: str) -> str:
    close = get_close_matches(argument, [*model.model_fields, *names], n=1)
    meant = f"; did you mean {names.meaning(close[0])[0]!r}?" if close else ""
    return f"{meant or ';'} it takes {', '.join(model.model_fields)}"


def _refuse(tool: str, argument: str, text: str) -> NoReturn:
    problem = PydanticCustomError("argument_name", "{text}", {"text": text})
    raise ValidationError.from_exception_data(
        tool, [{"type": problem, "loc": (argument,), "input": None}], hide_input=True
    )


def seconds_of(milliseconds: Any) -> Any:
    """Read a time limit in milliseconds, as some models were trained to write it."""
    is_number = isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool)
    return milliseconds / 1000 if is_number else milliseconds


def shell_text_of(command: Any) -> Any:
    """Read a command that is a list of words; `["bash", "-lc", script]` is the script."""
    try:
        words = _WORDS.validate_python(command)
    except ValidationError:
        return command
    match words:
        case [shell, "-c" | "-lc", script] if shell.rpartition("/")[2] in {"bash", "sh"}:
            return script
        case _:
            return shlex.join(words)
