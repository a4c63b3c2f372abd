"""`ors-server new`: creates a new environment, with tests that pass."""

import shlex
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from ors_server._version import __version__
from ors_server.cli.command_output import CommandError, MisuseError, say

TEMPLATES = files("ors_server.cli") / "new_environment"
"""The files of a new environment, in which `$name` and `$title` are its name and its class's."""
DECLARED = files("ors_server.cli") / "new_declared_environment"
"""The files of a new declared environment, in which `$name` is its name."""
PROJECT = files("ors_server.cli") / "new_project"
"""What makes the folder a project that pip installs; `$version` is the server's."""
HARBOR = files("ors_server.cli") / "new_harbor_task"
"""The files of a new task in Harbor's format; the first dot of a name stands for a folder."""
SCHEMA = "environment.schema.json"
"""The schema of `environment.toml`, which editors use."""


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
    declared: Annotated[
        bool,
        typer.Option("--declared", help="Declare it over data files (environment.toml), without any code."),
    ] = False
    harbor: Annotated[
        bool,
        typer.Option("--harbor", help="Make a task folder in Harbor's format: task.toml, solution, tests."),
    ] = False


def new(options: NewOptions) -> None:
    """Make the folder of a new environment: a class to write over, and tests that pass.

    With --declared it is an environment.toml with data files in place of a class; with --harbor, a folder of
    one task.
    """
    from importlib.util import find_spec

    from ors_server.environments.environment_names import ENVIRONMENT_NAME, RESERVED_NAMES
    from ors_server.installation import package_hint

    name = options.name
    if not name.isidentifier() or not ENVIRONMENT_NAME.fullmatch(name) or name in RESERVED_NAMES:
        raise MisuseError(
            "expected a name of lower-case letters, digits and underscores that begins with a letter and is "
            f"no path of the server, got {name!r}"
        )
    if options.declared and options.harbor:
        raise MisuseError("--declared and --harbor make different things; give one of them")
    folder = options.directory / name
    try:
        folder.mkdir()
    except FileExistsError:
        raise CommandError(f"{folder} exists already; nothing was changed") from None
    if options.declared:
        _write_declared(folder, name)
    elif options.harbor:
        _write_task(folder)
    else:
        _write_class(folder, name)
    say(f"made {folder}")
    quoted = shlex.quote(str(folder) if folder.is_absolute() else f"./{folder}")
    say("Next:")
    for command in (f"ors-server check {quoted}", f"ors-server play {quoted}", f"ors-server serve {quoted}"):
        say(f"  {command}")
    if not (options.declared or options.harbor):
        # Tests run in this Python, whose `pytest` a shell finds only where it finds this Python's programs.
        if find_spec("pytest") is None:
            say(f"  {package_hint('pytest')}")
        say(f"  pytest {quoted}")


def _write_class(folder: Path, name: str) -> None:
    title = "".join(word.title() for word in name.split("_"))
    for template in ("__init__", "environment", "test_environment"):
        text = Template((TEMPLATES / f"{template}.py.txt").read_text("utf-8"))
        file = folder / f"{template.replace('test_environment', f'test_{name}')}.py"
        file.write_text(text.substitute(name=name, title=title), encoding="utf-8")
    for template in ("pyproject.toml", "README.md", "audit.toml"):
        text = Template((PROJECT / f"{template}.txt").read_text("utf-8"))
        values = {
            "name": name,
            "title": title,
            "distribution": name.replace("_", "-"),
            "version": __version__,
        }
        (folder / template).write_text(text.substitute(values), encoding="utf-8")


def _write_task(folder: Path) -> None:
    for template in sorted(HARBOR.iterdir(), key=lambda item: item.name):
        name = template.name.removesuffix(".txt")
        top, dot, rest = name.partition(".")
        file = folder / top / rest if dot and top in {"environment", "solution", "tests"} else folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(template.read_text("utf-8"), encoding="utf-8")
        if file.suffix == ".sh":
            file.chmod(0o755)


def _write_declared(folder: Path, name: str) -> None:
    from ors_server.environments.declared.declaration_schema import declaration_schema

    templates = [*DECLARED.iterdir(), PROJECT / "audit.toml.txt"]
    for template in templates:
        text = template.read_text("utf-8").replace("$name", name)
        (folder / template.name.removesuffix(".txt")).write_text(text, encoding="utf-8")
    (folder / SCHEMA).write_text(declaration_schema(), encoding="utf-8")
