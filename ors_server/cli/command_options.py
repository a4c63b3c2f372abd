"""Commands whose options are the fields of a dataclass, so that a command has one parameter."""

import inspect
import typing
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any, TypeVar

from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo
from typing_extensions import override

_Options = TypeVar("_Options")

_KINDS: dict[type, str] = {int: "N", float: "NUMBER", Path: "PATH", str: "TEXT"}
"""What the help shows beside an option that takes a value of this type."""


class Command(TyperCommand):
    """A command whose help shows flags as flags."""

    @override
    def get_params(self, ctx: Any) -> list[Any]:
        return _as_flags(super().get_params(ctx))


class Group(TyperGroup):
    """The same for a group of commands."""

    @override
    def get_params(self, ctx: Any) -> list[Any]:
        return _as_flags(super().get_params(ctx))


def _as_flags(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


def from_fields(command: Callable[[_Options], None]) -> Callable[..., None]:
    """Make a command for typer of a function that takes one dataclass.

    Args:
        command: The function; its one parameter is annotated with a dataclass whose fields are annotated as
            typer wants parameters.

    Returns:
        A function with one keyword parameter per field.
    """
    (options,) = (hint for name, hint in typing.get_type_hints(command).items() if name != "return")
    hints = typing.get_type_hints(options, include_extras=True)

    def run(**values: Any) -> None:
        command(options(**values))

    for hint in hints.values():
        _show_kind(hint)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(field),
            annotation=hints[field.name],
        )
        for field in fields(options)
    ]
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    run.__doc__ = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    run.__annotations__ = hints
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    return run


def _show_kind(hint: Any) -> None:
    """Have the help show what kind of value an option takes."""
    kind, *notes = typing.get_args(hint)
    for option in notes:
        if isinstance(option, OptionInfo) and option.metavar is None:
            option.metavar = next((shown for known, shown in _KINDS.items() if known in _parts(kind)), None)


def _parts(kind: Any) -> tuple[Any, ...]:
    """Return a type and every type that it is made of."""
    return (kind, *(part for each in typing.get_args(kind) for part in _parts(each)))


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return inspect.Parameter.empty if field.default_factory is MISSING else field.default_factory()
