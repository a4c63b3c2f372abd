"""`ors-server new`: creates a new environment, with tests that pass."""

import shlex
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from ors_server.cli.command_output import CommandError, MisuseError, say

TEMPLATES = files("ors_server.cli") / "new_environment"
"""The files of a new environment, in which `$name` and `$title` are its name and its class's."""


@dataclass(frozen=True)
class NewOptions:
    """Options of `new`."""

    name: Annotated[
        str, typer.Argument(help="Name of the environment: lower-case letters, digits, underscores.")
    ]
    directory: Annotated[
        Path,
        typer.Option(
            "--in", help="Folder to make it in.", exists=True, file_okay=False, show_default="this one"
        ),
    ] = Path()


def new(options: NewOptions) -> None:
    """Make the folder of a new environment: a class to write over, and tests that pass."""
    from ors_server.authoring.loading import ENVIRONMENT_NAME, RESERVED_NAMES

    name = options.name
    if not name.isidentifier() or not ENVIRONMENT_NAME.fullmatch(name) or name in RESERVED_NAMES:
        raise MisuseError(
            f"a name is lower-case letters, digits and underscores and not a path's, not {name!r}"
        )
    folder = options.directory / name
    title = "".join(word.title() for word in name.split("_"))
    try:
        folder.mkdir()
    except FileExistsError:
        raise CommandError(f"{folder} exists already; nothing was changed") from None
    for template in ("__init__", "environment", "test_environment"):
        text = Template((TEMPLATES / f"{template}.py.txt").read_text("utf-8"))
        file = folder / f"{template.replace('test_environment', f'test_{name}')}.py"
        file.write_text(text.substitute(name=name, title=title), encoding="utf-8")
    say(f"made {folder}")
    place = shlex.quote(str(folder) if folder.is_absolute() else f"./{folder}")
    say("Next:")
    for command in (f"ors-server check {place}", f"ors-server play {place}", f"ors-server serve {place}"):
        say(f"  {command}")
    say(f"  pytest {place}")
