"""`ors-server package`: one environment as a folder that others install, build, play or train on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from ors_server.cli.command_output import complain, say


@dataclass(frozen=True)
class PackageCommandOptions:
    """Options of `package`."""

    reference: Annotated[
        str,
        typer.Argument(
            metavar="DIR",
            help="Environment: the path of a folder or a Python file, with :Class if it has several.",
        ),
    ]
    target: Annotated[
        Literal["pip", "docker", "space", "openenv", "harbor"],
        typer.Option(
            "--for",
            help="What to make: a pip project, a folder for docker build, a Hugging Face Space, an OpenEnv "
            "environment, or tasks in Harbor's format.",
        ),
    ]
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="New folder to make.", show_default="NAME-TARGET"),
    ] = None
    image: Annotated[str, typer.Option(help="The server's image, on which docker and harbor build.")] = (
        "ors-server:local"
    )
    tasks: Annotated[
        int | None, typer.Option(min=1, help="With --for harbor: tasks of each split.", show_default="all")
    ] = None
    split: Annotated[
        list[str] | None,
        typer.Option(help="With --for harbor: split to take; may be repeated.", show_default="all"),
    ] = None


def package(options: PackageCommandOptions) -> None:
    """Make a package of one environment, which needs neither an account nor a network.

    Hidden files, caches, keys and the author's tests are left out. Absolute paths of this machine in the
    source, and credentials in any text, are refused.
    """
    from ors_server.packaging.environment_source import read_source
    from ors_server.packaging.writing import PackageOptions, PackageTarget, write

    source = read_source(options.reference)
    target = PackageTarget(options.target)
    folder = options.output or Path(f"{source.name}-{target.value}")
    chosen = PackageOptions(options.image, options.tasks, tuple(options.split or ()))
    commands = write(source, target, folder, chosen)
    if source.left_out:
        complain(f"left out: {', '.join(source.left_out)}", style="dim")
    say(f"made {folder}")
    say("Next:")
    for command in commands:
        say(f"  {command}")
