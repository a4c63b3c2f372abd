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

from ors_server.cli.command_options import with_options
from ors_server.cli.examples import epilog_of
from ors_server.files.attribute_docs import attribute_docs
from ors_server.model.settings import Flag, Settings, names_of

COMMON: dict[str | None, dict[str, str]] = {
    None: {
        "references": "Environments: name, path or data file; all by default.",
        "config": "TOML file of settings.",
        "reload": "Load environments again when their files change.",
        "stdio": "Serve one MCP client over standard input and output.",
        "json": "Print one line of JSON once the server is ready.",
        "help_all": "Show every flag, and exit.",
        "help": "Show the common flags, and exit.",
    },
    "Server": {
        "host": "Address to bind to; 127.0.0.1 by default.",
        "port": "TCP port; 8080 by default, 0 for a free one.",
        "workers": "Number of server processes behind one HAProxy; 1 by default.",
        "api_keys_file": "TOML file of API keys.",
        "sandbox": "What isolates agents' commands; the strongest by default.",
        "store": "Where episodes are recorded; a SQLite file by default.",
        "log_level": "debug, info, warning or error.",
    },
    "Data files": {
        "prompt": "Field with the prompt, or a template.",
        "answer": "Field with the right answer.",
        "reward": "Name of the reward, such as math_equal_reward.",
        "recipe": "How a well-known data set is read.",
    },
}
"""What the short help of `serve` shows: panel -> option -> text."""


def with_flags(command: Callable[[Any], None], options: type, *, shows_all: bool = True) -> Any:
    """Return a command of typer that takes a frozen dataclass of options and a flag for each setting.

    Args:
        shows_all: Whether the help shows every flag, with its whole text; otherwise the common ones, with one
            line each.
    """
    every = options_with_flags(options)

    def run(options: Any) -> None:
        command(options)

    run.__doc__ = command.__doc__
    run.__annotations__ = {"options": every}
    made = with_options(run, epilog_of(command.__name__), checks_variables=True)
    if not shows_all:
        _shorten_help(made)
    return made


def _shorten_help(command: Any) -> None:
    """Hide what is not common, and show the rest with one line each."""
    panels = {name: panel for panel, texts in COMMON.items() for name in texts}
    command.help = command.help.partition("\n\n")[0]
    for parameter in command.params:
        name = parameter.name
        parameter.hidden = name not in panels
        if parameter.hidden:
            continue
        panel = parameter.rich_help_panel = panels[name]
        parameter.help = COMMON[panel][name]
        if parameter.param_type_name == "option":
            parameter.show_envvar = parameter.show_default = False
            metavar = parameter.metavar
            if metavar is not None and "|" in metavar:
                parameter.metavar = "NAME" if metavar.islower() else metavar.partition("|")[0]


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
    flag_name = name.replace("_", "-")
    # What is on by default can only be switched off.
    switch = f"--{flag_name}/--no-{flag_name}" if setting.default is True else f"--{flag_name}"

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    option = typer.Option(
        switch,
        help=" ".join(text.split()) + (" Repeatable." if kind is list else ""),
        show_default=_shown(setting.get_default(call_default_factory=True)),
        metavar=flag.value or _placeholder(setting.annotation, names),
        rich_help_panel=flag.section,
        autocompletion=complete if names else None,
    )
    return Annotated[{list: list[str] | None, bool: bool | None}.get(kind, str | None), option]


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
