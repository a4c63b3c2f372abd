"""Commands whose options are the fields of one dataclass."""

import inspect
import json
import os
import typing
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar, runtime_checkable

import typer
from typer import BadParameter, Option
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo
from typing_extensions import override

from ors_server.cli.terminal import exit_when_output_closes

_Options = TypeVar("_Options")

_KINDS: dict[type, str] = {int: "N", float: "NUMBER", Path: "PATH", str: "TEXT"}
"""The placeholder that the help shows for a value of this type."""


@runtime_checkable
class OptionGroup(Protocol):
    """The note of a field that stands for several options; its value has theirs by key."""

    def parameters(self) -> dict[str, tuple[str, Any]]:
        """Return the key and the annotation of each option, by the option's name."""
        ...


@dataclass(frozen=True, kw_only=True)
class TaskPlaceOptions:
    """The options that choose a task."""

    split: Annotated[str | None, Option(help="Split of the task.", show_default="the first one")] = None
    index: Annotated[int, Option(help="Index of the task.", min=0)] = 0


class Command(TyperCommand):
    """A command whose help shows flags as flags."""

    @override
    def get_params(self, ctx: Any) -> list[Any]:
        return _as_flags(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """A group of commands whose help shows flags as flags."""

    @override
    def get_params(self, ctx: Any) -> list[Any]:
        return _as_flags(super().get_params(ctx))


def _as_flags(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


def refuse_unknown_variables() -> None:
    """Raise `SettingsError` if an environment variable looks like a setting of this program but is not."""
    from ors_server.model.settings_sources import check_variables, may_be_wrong

    if may_be_wrong(os.environ):
        from ors_server.model.settings import Settings

        check_variables(os.environ, Settings.model_fields)


def from_fields(command: Callable[[_Options], None], *, checks_variables: bool = True) -> Callable[..., None]:
    """Return a command for typer: a function with a keyword parameter for each field of the options.

    The command takes one dataclass, whose fields are annotated as typer's parameters. The help shows the
    options of a class together, in the panel that its class variable `panel` names.

    Args:
        checks_variables: Whether to refuse unknown environment variables that begin with `ORS_`.
    """
    (options,) = (hint for name, hint in typing.get_type_hints(command).items() if name != "return")
    every = typing.get_type_hints(options, include_extras=True)
    hints = {field.name: every[field.name] for field in fields(options)}

    groups = {name: group for name, hint in hints.items() if (group := _group_of(hint)) is not None}

    def run(**values: Any) -> None:
        with exit_when_output_closes():
            if checks_variables:
                refuse_unknown_variables()
            for name, group in groups.items():
                chosen = group.parameters()
                values[name] = {key: values.pop(option) for option, (key, _) in chosen.items()}
            command(options(**values))

    parameters: list[inspect.Parameter] = []
    for field in fields(options):
        if field.name in groups:
            own = groups[field.name].parameters()
            hints |= {option: hint for option, (_, hint) in own.items()}
            parameters += [_parameter(option, hint, None) for option, (_, hint) in own.items()]
            del hints[field.name]
        else:
            # The class that declares the option names its panel: inherited options keep that of the base.
            declaring: type = next(
                cls for cls in options.__mro__ if field.name in inspect.get_annotations(cls)
            )
            _complete_option(hints[field.name], vars(declaring).get("panel"))
            parameters.append(_parameter(field.name, hints[field.name], _default(field)))
    run.__doc__ = _help_of(command)
    run.__annotations__ = hints
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
    return run


def named_only(command: Callable[[Any], None]) -> Callable[[], None]:
    """Return a stand-in for a command in a list: it has the help's text, and no options."""

    def run() -> None:
        raise AssertionError(f"the options of {command.__name__} have not been made")

    run.__doc__ = _help_of(command)
    return run


def with_options(command: Callable[[Any], None], epilog: str | None, *, checks_variables: bool) -> Any:
    """Return a command of typer by itself, with the options that `from_fields` makes."""
    app = typer.Typer(add_completion=False)
    app.command(cls=Command, epilog=epilog)(from_fields(command, checks_variables=checks_variables))
    return typer.main.get_command(app)


def _help_of(command: Callable[[Any], None]) -> str:
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _group_of(hint: Any) -> OptionGroup | None:
    return next((note for note in typing.get_args(hint)[1:] if isinstance(note, OptionGroup)), None)


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _complete_option(hint: Any, panel: str | None) -> None:
    kind, *notes = typing.get_args(hint)
    for option in notes:
        if isinstance(option, OptionInfo):
            option.rich_help_panel = option.rich_help_panel or panel
            placeholder = next(
                (shown for kind_shown, shown in _KINDS.items() if kind_shown in _parts(kind)), None
            )
            option.metavar = placeholder if option.metavar is None else option.metavar


def _parts(kind: Any) -> tuple[Any, ...]:
    """Return a type and every type that it is made of."""
    return (kind, *(part for member in typing.get_args(kind) for part in _parts(member)))


def _default(field: Field[Any]) -> Any:
    if field.default is not MISSING:
        return field.default
    return inspect.Parameter.empty if field.default_factory is MISSING else field.default_factory()


def read_pairs(
    option: str, texts_given: Sequence[str] | None, *, texts: bool = False
) -> dict[str, Any] | None:
    """Read `key=value` pairs.

    Args:
        option: The option's name, for error messages.
        texts: Whether a value that is not JSON is text.

    Raises:
        BadParameter: If one cannot be read.
    """
    if not texts_given:
        return None
    options: dict[str, Any] = {}
    for text in texts_given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise BadParameter(f"{option} takes KEY=VALUE, got {text}")
        try:
            options[key] = json.loads(value)
        except ValueError as error:
            if not texts:
                raise BadParameter(
                    f"{option} takes KEY=VALUE with a JSON value, such as match='\"exact\"', got {text}"
                ) from error
            options[key] = value
    return options
