"""The flags of `ors-server serve`: one for each setting, made from the fields of `Settings`.

The settings import pydantic, which costs more time than `ors-server --help` may take. So this module is
imported, and the flags are made, only when `serve` is the command that runs.
"""

from collections.abc import Callable
from dataclasses import field, make_dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from ors_server.attribute_docs import attribute_docs
from ors_server.cli.command_options import Command, from_fields
from ors_server.settings import Flag, Settings, names_of


def with_flags(command: Callable[[Any], None], options: type) -> Any:
    """Return a command of typer that takes a frozen dataclass of options and a flag for each setting."""
    every = options_with_flags(options)

    def run(options: Any) -> None:
        command(options)

    run.__doc__ = command.__doc__
    run.__annotations__ = {"options": every}
    app = typer.Typer(add_completion=False)
    app.command(cls=Command)(from_fields(run))
    return typer.main.get_command(app)


def options_with_flags(options: type) -> type:
    """Return a dataclass that derives from `options` and has a field for each flag, `None` by default."""
    docs = attribute_docs(Settings)
    flags = [
        (name, _annotation(name, setting, flag, docs[name]), field(default=None))
        for name, setting in Settings.model_fields.items()
        if (flag := flag_of(setting)) is not None
    ]
    return make_dataclass(options.__name__, flags, bases=(options,), frozen=True)


def flag_of(setting: FieldInfo) -> Flag | None:
    """Return how a setting is offered as a flag; `None` if it is not."""
    return next((item for item in setting.metadata if isinstance(item, Flag)), None)


def _annotation(name: str, setting: FieldInfo, flag: Flag, text: str) -> Any:
    kind = _kind(setting.annotation)
    names = names_of(setting.annotation)
    option = typer.Option(
        f"--{name.replace('_', '-')}",
        help=" ".join(text.split()) + (" Repeatable." if kind is list else ""),
        show_default=_shown(setting.get_default(call_default_factory=True)),
        metavar=flag.value or _placeholder(setting.annotation, names),
        rich_help_panel=flag.section,
        autocompletion=_completing(names) if names else None,
    )
    return Annotated[{list: list[str] | None, bool: bool | None}.get(kind, str | None), option]


def _completing(names: tuple[str, ...]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def _kind(annotation: Any) -> type:
    """Return list, bool or str: what typer reads. Everything else in a value is for `Settings` to check."""
    return list if get_origin(annotation) is list else bool if annotation is bool else str


def _placeholder(annotation: Any, names: tuple[str, ...]) -> str | None:
    if names:
        return "|".join(names)
    parts = {annotation, *get_args(annotation)}
    shown = {int: "N", float: "NUMBER", Path: "PATH", bool: ""}
    return next((text for kind, text in shown.items() if kind in parts), "TEXT")


def _shown(value: Any) -> str | bool:
    """Write a default as the help shows it; `False` for none."""
    if value is None or value is False or value == []:
        return False
    return (
        f"{value:g}" if isinstance(value, float) else str(value.value if isinstance(value, Enum) else value)
    )
