"""`ors-server check`: runs the shipped conformance suites."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ors_server.cli.output import CommandError, say, say_json

_MARKS = {"pass": "ok  ", "fail": "FAIL", "skip": "-   "}


@dataclass(frozen=True)
class CheckOptions:
    """What `check` can be told."""

    where: Annotated[
        str, typer.Argument(metavar="REF|URL", help="An environment, or the URL of any ORS or MCP server.")
    ]
    mcp: Annotated[bool, typer.Option("--mcp", help="The URL is an MCP endpoint.")] = False
    only: Annotated[list[str] | None, typer.Option(help="Id of a check to run; repeatable.")] = None
    tasks: Annotated[int, typer.Option(help="Tasks of each split that are played.", min=1)] = 3
    slow: Annotated[bool, typer.Option("--slow", help="Also run checks that take half a minute.")] = False
    risky: Annotated[
        bool, typer.Option("--risky", help="Also run checks that a bad server does not survive.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="Show failures only.")] = False
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


def check(options: CheckOptions) -> None:
    """Check an environment, or any ORS or MCP server by its URL.

    The status is 1 where something that MUST hold does not. A server's API key is read from the environment
    variable ORS_API_KEY. Checking a server opens some hundred sessions: use one that nobody trains on.
    """
    import anyio

    from ors_server.cli.remote import is_url

    if options.mcp and not is_url(options.where):
        raise CommandError(f"--mcp needs a URL such as http://127.0.0.1:8080/mcp, not {options.where!r}")
    if options.mcp:
        rows = anyio.run(_check_mcp, options)
    elif is_url(options.where):
        rows = anyio.run(_check_ors, options)
    else:
        rows = anyio.run(_check_environment, options)
    failed = [row for row in rows if row["outcome"] == "fail" and row["level"] == "MUST"]
    if options.json:
        say_json({"conformant": not failed, "verdicts": rows})
    else:
        _print_rows(rows, quiet=options.quiet)
    if failed:
        raise typer.Exit(1)


async def _check_environment(options: CheckOptions) -> list[dict[str, Any]]:
    from ors_server.testing.environment_suite import inspect_environment

    report = await inspect_environment(options.where, only=options.only or (), tasks_per_split=options.tasks)
    return [
        _row(verdict.check, verdict, f"{verdict.environment} {verdict.check.id}")
        for verdict in report.verdicts
    ]


async def _check_ors(options: CheckOptions) -> list[dict[str, Any]]:
    from ors_server.cli.keys import api_key
    from ors_server.testing.ors_suite import Choice, check_server

    choice = Choice(frozenset(options.only or ()), api_key(), slow=options.slow, risky=options.risky)
    report = await check_server(options.where, choice)
    return [_row(verdict.requirement, verdict, verdict.requirement.id) for verdict in report.verdicts]


async def _check_mcp(options: CheckOptions) -> list[dict[str, Any]]:
    from ors_server.cli.keys import api_key
    from ors_server.testing.mcp_suite import check_mcp_server

    report = await check_mcp_server(options.where, only=options.only or (), api_key=api_key())
    return [_row(verdict.requirement, verdict, verdict.requirement.id) for verdict in report.verdicts]


def _row(requirement: Any, verdict: Any, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "level": str(requirement.level),
        "outcome": verdict.outcome,
        "text": requirement.text,
        "reason": verdict.reason,
    }


def _print_rows(rows: list[dict[str, Any]], *, quiet: bool) -> None:
    counts = {"pass": 0, "fail": 0, "skip": 0}
    for row in rows:
        counts[row["outcome"]] += 1
        if row["outcome"] == "fail" or not quiet:
            reason = f" -- {' '.join(row['reason'].split())}" if row["reason"] else ""
            say(f"{_MARKS[row['outcome']]} {row['level']:6} {row['id']}: {row['text']}{reason}")
    say(f"{counts['pass']} passed, {counts['fail']} failed, {counts['skip']} not judged")
