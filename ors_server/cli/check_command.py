"""`ors-server check`: runs the shipped conformance suites."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from ors_server.cli.command_output import MisuseError, say, say_json
from ors_server.cli.data_options import DataOptions, declared_keys, read_other_sets, resolve_references
from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.shell_completion import installed_names
from ors_server.cli.terminal import make_progress_console
from ors_server.model.printable import clean_line

if TYPE_CHECKING:
    from ors_server.sandboxes.base import Backend

Row: TypeAlias = dict[str, Any]
"""One verdict: `id`, `level`, `outcome`, `text`, `reason`."""

_MARKS = {"pass": "ok  ", "fail": "FAIL", "skip": "-   "}
_STYLES = {"pass": "good", "fail": "bad", "skip": "dim"}


@dataclass(frozen=True)
class CheckOptions(DataOptions):
    """Options of `check`."""

    where: Annotated[
        str | None,
        typer.Argument(
            metavar="REF|URL",
            help="An environment or data file, or the URL of any ORS or MCP server.",
            autocompletion=installed_names,
        ),
    ] = None
    sandbox: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Check a sandbox backend instead: auto, bubblewrap, docker, landlock, none, or a "
            "module:function that makes one.",
        ),
    ] = None
    mcp: Annotated[bool, typer.Option("--mcp", help="The URL is an MCP endpoint.")] = False
    only: Annotated[list[str] | None, typer.Option(help="Id of a check to run; repeatable.")] = None
    tasks: Annotated[int, typer.Option(help="Tasks of each split that are played.", min=1)] = 3
    all: Annotated[
        bool,
        typer.Option("--all", help="Play gold_actions and blank_actions of every task, not of a sample."),
    ] = False
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE", help="A set of tasks in which no task of the environment may be; repeatable."
        ),
    ] = None
    slow: Annotated[bool, typer.Option("--slow", help="Also run checks that take half a minute.")] = False
    risky: Annotated[
        bool, typer.Option("--risky", help="Also run checks that may end a server that fails them.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="Show failures only.")] = False
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


def check(options: CheckOptions) -> None:
    """Check an environment, any ORS or MCP server by its URL, or a sandbox backend (--sandbox).

    The status is 1 if a MUST requirement fails. A server's API key is read from the environment
    variable ORS_API_KEY. Checking a server opens some hundred sessions: do not check one that is
    used for training.
    """
    import anyio

    from ors_server.cli.server_requests import is_url

    if (options.where is None) == (options.sandbox is None):
        raise MisuseError("name one thing to check: an environment, a URL, or --sandbox NAME")
    if options.mcp and not is_url(options.where or ""):
        raise MisuseError(f"--mcp needs a URL such as http://127.0.0.1:8080/mcp, got {options.where!r}")
    if declared_keys(options) and (options.where is None or is_url(options.where)):
        raise MisuseError("the options of data files need a data file, such as train.jsonl")
    suite = _check_server if is_url(options.where or "") else _check_environment
    if options.sandbox is not None:
        suite = _check_sandbox
    rows: list[Row] = []

    def report(row: Row) -> None:
        rows.append(row)
        if not options.json and (row["outcome"] == "fail" or not options.quiet):
            say(_line(row), style=_STYLES[row["outcome"]], width=len(_MARKS["fail"]))

    anyio.run(suite, options, report)
    _conclude(rows, options)


async def _check_environment(options: CheckOptions, report: Callable[[Row], None]) -> None:
    from ors_server.testing.environment_suite import CheckVerdict, inspect_environment

    def on_verdict(verdict: CheckVerdict) -> None:
        report(_row(verdict.check, verdict, f"{verdict.environment} {verdict.check.id}"))

    (environment,) = resolve_references([options.where or ""], options)
    with progress() as on_progress:
        await inspect_environment(
            environment,
            only=options.only or (),
            tasks_per_split=options.tasks,
            all_tasks=options.all,
            other_sets=read_other_sets(options.against),
            on_verdict=on_verdict,
            on_progress=on_progress,
        )


async def _check_server(options: CheckOptions, report: Callable[[Row], None]) -> None:
    from ors_server.cli.server_requests import api_key
    from ors_server.conformance.report import RequirementVerdict

    url, only = options.where or "", frozenset(options.only or ())

    def on_verdict(verdict: RequirementVerdict) -> None:
        report(_row(verdict.requirement, verdict, verdict.requirement.id))

    if options.mcp:
        from ors_server.conformance.mcp_suite import check_mcp_server

        await check_mcp_server(url, only=only, api_key=api_key(), on_verdict=on_verdict)
    else:
        from ors_server.conformance.ors_suite import Choice, check_server

        choice = Choice(only, api_key(), slow=options.slow, risky=options.risky)
        await check_server(url, choice, on_verdict)


async def _check_sandbox(options: CheckOptions, report: Callable[[Row], None]) -> None:
    from ors_server.testing.sandbox_suite import check_backend

    only = options.only or ()
    async with _open_backend(options.sandbox or "") as backend:
        for verdict in await check_backend(backend):
            identity = verdict.name.replace(" ", "-").replace(",", "")  # what --only takes
            if only and identity not in only:
                continue
            report(
                {
                    "id": identity,
                    "level": "MUST",
                    "outcome": "fail" if verdict.problem else "pass",
                    "text": verdict.name,
                    "reason": verdict.problem,
                }
            )


@asynccontextmanager
async def _open_backend(name: str) -> "AsyncGenerator[Backend]":
    if ":" in name:
        backend = _foreign_backend(name)
        try:
            yield backend
        finally:
            await backend.aclose()
        return
    from ors_server.model.settings import load_settings
    from ors_server.sandboxes.choose import BackendChoice, BackendRequest, choose

    try:
        choice = BackendChoice(name)
    except ValueError:
        names = ", ".join(BackendChoice)
        raise MisuseError(f"--sandbox takes {names}, or module:function; got {name!r}") from None
    settings = load_settings()
    request = BackendRequest(
        choice,
        allow_unsandboxed=choice is BackendChoice.NONE,
        docker_image=settings.docker_image,
        docker_host=settings.docker_host,
    )
    chosen = await choose(request)
    try:
        yield chosen.backend
    finally:
        await chosen.aclose()


def _foreign_backend(place: str) -> "Backend":
    from ors_server.sandboxes.base import Backend

    module, _, name = place.partition(":")
    try:
        made = getattr(import_module(module), name)()
    except (ImportError, AttributeError) as error:
        raise MisuseError(f"cannot find {place!r}: {error}") from error
    if not isinstance(made, Backend):
        raise MisuseError(f"{place!r} gives a {type(made).__name__}; a Backend is needed")
    return made


@contextmanager
def progress() -> Generator[Callable[[str], None]]:
    """Show the running check and its time on standard error, if that is a terminal."""
    import sys

    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns: Any = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    console = make_progress_console()
    with Progress(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        shown = bar.add_task("")

        def show(text: str) -> None:
            bar.reset(shown, description=clean_line(text))

        yield show


def _row(requirement: Any, verdict: Any, name: str) -> Row:
    return {
        "id": name,
        "level": str(requirement.level),
        "outcome": verdict.outcome,
        "text": requirement.text,
        "reason": verdict.reason,
    }


def _line(row: Row) -> str:
    reason = f" -- {' '.join(row['reason'].split())}" if row["reason"] else ""
    return f"{_MARKS[row['outcome']]} {row['level']:6} {row['id']}: {row['text']}{reason}"


def _conclude(rows: list[Row], options: CheckOptions) -> None:
    unknown = set(options.only or ()) - {row["id"].split()[-1] for row in rows}
    if unknown:
        raise MisuseError(f"unknown check {', '.join(sorted(unknown))}; without --only, check lists the ids")
    failed = [row for row in rows if row["outcome"] == "fail" and row["level"] == "MUST"]
    if options.json:
        say_json({"conformant": not failed, "verdicts": rows})
    else:
        count = Counter(row["outcome"] for row in rows)
        style = "bad" if failed else "good"
        say(f"{count['pass']} passed, {count['fail']} failed, {count['skip']} not judged", style=style)
    if failed:
        raise typer.Exit(ExitStatus.FAILED)
