"""`ors-server doctor` shows what works on this machine and how to mend it; `ors-server version`, versions."""

import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ors_server._version import __version__
from ors_server.cli.command_output import say, say_json
from ors_server.cli.exit_status import ExitStatus

if TYPE_CHECKING:
    from ors_server.cli.doctor_checks import Finding

_MARKS = {"ok": "ok  ", "missing": "-   ", "problem": "FAIL"}
_STYLES = {"ok": "good", "missing": "dim", "problem": "bad"}


@dataclass(frozen=True)
class DoctorOptions:
    """Options of `doctor`."""

    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


def doctor(options: DoctorOptions) -> None:
    """Show what works on this machine: Python, settings, environments, sandbox, Docker, store, port, extras.

    A missing part is shown with the command that installs it. The status is 1 if the server could not start
    with these settings; missing optional parts do not change it.
    """
    import anyio

    from ors_server.cli.doctor_checks import CheckOutcome, examine

    findings = anyio.run(examine)
    problems = sum(finding.outcome is CheckOutcome.PROBLEM for finding in findings)
    if options.json:
        say_json([finding.as_json() for finding in findings])
    else:
        for finding in findings:
            _show(finding)
        missing = sum(finding.outcome is CheckOutcome.MISSING for finding in findings)
        say(f"{len(findings) - problems - missing} ok, {missing} optional missing, {problems} problems")
    if problems:
        raise typer.Exit(ExitStatus.FAILED)


def _show(finding: "Finding") -> None:
    mark = _MARKS[finding.outcome]
    say(f"{mark} {finding.name:<14} {finding.text}", style=_STYLES[finding.outcome], width=len(mark))
    if finding.remedy:
        say(f"{'':<19} -> {finding.remedy}")


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
