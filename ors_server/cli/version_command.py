"""`ors-server version`: prints versions."""

import platform
from dataclasses import dataclass
from typing import Annotated

import typer

from ors_server._version import __version__
from ors_server.cli.command_output import say, say_json


@dataclass(frozen=True)
class VersionOptions:
    """Options of `version`."""

    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


def version(options: VersionOptions) -> None:
    """Print the versions of the server, Python and the MCP package."""
    from importlib.metadata import version as version_of

    versions = {"ors-server": __version__, "python": platform.python_version(), "mcp": version_of("mcp")}
    if options.json:
        say_json(versions)
        return
    for name, number in versions.items():
        say(f"{name} {number}")
