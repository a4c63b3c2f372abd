"""`ors-server doctor`: says what works on this machine, what is missing, and the command that installs it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ors_server.cli.command_output import say, say_json
from ors_server.cli.exit_status import ExitStatus

if TYPE_CHECKING:
    from ors_server.cli.doctor_checks import Finding

_MARKS = {"ok": "ok  ", "missing": "-   ", "problem": "FAIL"}


@dataclass(frozen=True)
class DoctorOptions:
    """What `doctor` can be told."""

    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


def doctor(options: DoctorOptions) -> None:
    """Show what works on this machine: Python, settings, environments, sandbox, Docker, store, port, extras.

    What is missing is shown with the command that installs it. The status is 1 where the server could not
    start as it is set up; what is only optional leaves it 0.
    """
    import anyio

    from ors_server.cli.doctor_checks import Outcome, examine

    findings = anyio.run(examine)
    problems = sum(finding.outcome is Outcome.PROBLEM for finding in findings)
    if options.json:
        say_json([finding.as_json() for finding in findings])
    else:
        for finding in findings:
            _show(finding)
        missing = sum(finding.outcome is Outcome.MISSING for finding in findings)
        say(f"{len(findings) - problems - missing} ok, {missing} optional missing, {problems} problems")
    if problems:
        raise typer.Exit(ExitStatus.FAILED)


def _show(finding: "Finding") -> None:
    say(f"{_MARKS[finding.outcome]} {finding.name:<14} {finding.text}")
    if finding.remedy:
        say(f"{'':<19} -> {finding.remedy}")
