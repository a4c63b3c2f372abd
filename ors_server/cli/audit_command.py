"""`ors-server audit`: looks for ways in which an environment pays for something else than its task."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ors_server.cli.audit_recorded import RecordedAuditOptions, run_recorded_audit
from ors_server.cli.command_output import MisuseError, make_folder_of, say
from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.shell_completion import installed_names
from ors_server.cli.terminal import make_console, make_table, progress_lines, verdict_cell
from ors_server.model.printable import clean, clean_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from ors_server.audit.auditing import AuditOptions, Progress
    from ors_server.audit.report import AuditReport


@dataclass(frozen=True, kw_only=True)
class AuditCommandOptions(RecordedAuditOptions):
    """Options of `audit`."""

    target: Annotated[
        str | None,
        typer.Argument(
            metavar="REF|URL",
            help="An environment, or the URL of any ORS server; with --episodes also a recorded name.",
            autocompletion=installed_names,
        ),
    ] = None
    environment: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The environment, where REF or the server has several."),
    ] = None
    tasks: Annotated[
        int | None,
        typer.Option(
            help="Tasks of each split that are played.", min=1, show_default="30; 10 if sessions are costly"
        ),
    ] = None
    all: Annotated[bool, typer.Option("--all", help="Every task, and 10,000 random answers.")] = False
    only: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="A class to judge, such as H9; repeatable.")
    ] = None
    seed: Annotated[int, typer.Option(help="Seed of all sessions and of everything random.")] = 0
    budget: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Time after which the classes that are left are not judged.", min=0.0
        ),
    ] = None
    no_gold: Annotated[
        bool, typer.Option("--no-gold", help="Do not use gold_actions; many classes need them.")
    ] = False
    episodes: Annotated[
        bool,
        typer.Option(
            "--episodes",
            help="Audit what a policy really did: recorded episodes, chosen by the filters below.",
        ),
    ] = False
    openenv: Annotated[
        bool, typer.Option("--openenv", help="Answer OpenEnv's checks, by their names; runs `check` too.")
    ] = False
    record: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL",
            help="Record the calls of each finding as an episode, for `ors-server replay`.",
        ),
    ] = None
    waivers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Classes whose failure is accepted.",
            exists=True,
            dir_okay=False,
            show_default="audit.toml next to the environment, if it is there",
        ),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON, and nothing else.")] = False
    report: Annotated[Path | None, typer.Option(metavar="PAGE.html", help="Write the report as a page.")] = (
        None
    )
    sarif: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the findings as SARIF, which code hosts show at the lines."),
    ] = None
    summary: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a Markdown summary, for a CI job or a comment."),
    ] = None


def audit(options: AuditCommandOptions) -> None:
    """Find out what an environment pays for besides its task.

    Plays the environment in dishonest ways: doing nothing, constant answers, repeated steps, texts for the
    judge, broken input and others. No model and no network are needed. The status is 1 if a class failed that
    is not waived. A server's API key is read from the environment variable ORS_API_KEY.
    """
    import anyio

    if options.episodes:
        raise typer.Exit(
            run_recorded_audit(options, environment=options.target, seed=options.seed, json=options.json)
        )
    target = options.target
    if target is None:
        raise MisuseError("expected an environment or a URL to audit, or --episodes")
    _refuse_data(target)
    from ors_server.audit.auditing import audit as run_audit
    from ors_server.audit.waivers import apply_waivers, find_waivers, read_waivers

    chosen = _read_options(options)
    waivers_file = options.waivers or find_waivers(target)
    accepted = () if waivers_file is None else read_waivers(waivers_file)

    async def run() -> "AuditReport":
        with _progress(chosen) as show:
            return await run_audit(target, chosen, name=options.environment, on_progress=show)

    report = apply_waivers(anyio.run(run), accepted)
    _write(options, report)
    if options.openenv:
        _show_openenv(options, target, report)
    elif options.json:
        say(report.model_dump_json())
    else:
        _show(options, report)
    if report.failed:
        raise typer.Exit(ExitStatus.FAILED)


def _refuse_data(target: str) -> None:
    """Raise `MisuseError` for data without a declaration: the audit takes no options that declare it."""
    from ors_server.environments.declared.references import declaration_of
    from ors_server.environments.declared.rows.choose_source import is_data, is_data_folder
    from ors_server.environments.declared.rows.hugging_face import PREFIX

    if not (is_data(target) or (declaration_of(target) is None and is_data_folder(target))):
        return
    if not (target.startswith(PREFIX) or "*" in target or Path(target).exists()):
        raise MisuseError(f"{target}: there is no such file; correct the path")
    raise MisuseError(
        f"{target}: expected an environment; write an environment.toml over the data and name its folder "
        "(ors-server new NAME --declared makes an example)"
    )


def _read_options(options: AuditCommandOptions) -> "AuditOptions":
    from ors_server.audit.auditing import AuditOptions
    from ors_server.audit.class_ids import UnknownHackClassError, read_class_ids
    from ors_server.cli.server_requests import api_key

    if options.all and options.tasks is not None:
        raise MisuseError(f"--all plays every task, --tasks {options.tasks} does not; choose one of them")
    for file in (options.report, options.sarif, options.summary):
        if file is not None and not file.parent.is_dir():
            raise MisuseError(f"cannot write {file}: there is no folder {file.parent}")
    try:
        only = read_class_ids(options.only or ())
    except UnknownHackClassError as error:
        raise MisuseError(f"--only: {error}") from error
    return AuditOptions(
        tasks=options.tasks,
        plays_all=options.all,
        only=only,
        seed=options.seed,
        budget=options.budget,
        uses_gold=not options.no_gold,
        api_key=api_key(),
        record=options.record,
    )


@contextmanager
def _progress(options: "AuditOptions") -> "Generator[Callable[[Progress], None]]":
    """Show the class that is judged and the plays so far on standard error."""
    from ors_server.audit.hack_classes import HACK_CLASSES

    with progress_lines("audit", len(options.only) or len(HACK_CLASSES)) as show:
        show(0, "starting the environment")

        def on_progress(progress: "Progress") -> None:
            judged = progress.hack_class
            title = "the gold actions" if judged is None else f"{judged} {HACK_CLASSES[judged].title}"
            show(len(progress.verdicts), f"{title}, {progress.plays} plays")

        yield on_progress


def _write(options: AuditCommandOptions, report: "AuditReport") -> None:
    if options.report is not None:
        from ors_server.audit.audit_page import page_of

        make_folder_of(options.report).write_text(page_of(report), encoding="utf-8")
    if options.sarif is not None:
        from ors_server.audit.sarif import sarif_of

        make_folder_of(options.sarif).write_text(
            f"{json.dumps(sarif_of(report), indent=2)}\n", encoding="utf-8"
        )
    if options.summary is not None:
        from ors_server.audit.summary import summary_of

        make_folder_of(options.summary).write_text(summary_of(report), encoding="utf-8")


def _show_openenv(options: AuditCommandOptions, target: str, report: "AuditReport") -> None:
    """Print the answers to OpenEnv's checks, as a table or as JSON; a server's are the audit's alone."""
    import anyio

    from ors_server.audit.openenv import check_for_openenv, openenv_rows

    is_url = target.startswith(("http://", "https://"))
    rows = openenv_rows(report, {} if is_url else anyio.run(check_for_openenv, target))
    if options.json:
        say(json.dumps([asdict(row) for row in rows]))
        return
    table = make_table("check", "verdict", "answered by", "why", left=4)
    for row in rows:
        verdict = row.verdict.value.replace("_", " ")
        table.add_row(row.name, verdict, ", ".join(row.answered_by), clean_line(row.message))
    make_console().print(table)


def _show(options: AuditCommandOptions, report: "AuditReport") -> None:
    from ors_server.audit.report_text import counts_line, detailed, failure_lines, rows_of

    table = make_table("id", "class", "verdict", "why", left=4)
    for row in rows_of(report):
        table.add_row(row.id, row.title, verdict_cell(row.verdict), clean_line(row.why))
    make_console().print(table)
    for failure in detailed(report):
        say()
        for line in failure_lines(report, failure):
            say(clean_line(line))
    say()
    for note in report.notes:
        say(f"note: {clean(note)}")
    for kind, file in (("report", options.report), ("SARIF", options.sarif), ("summary", options.summary)):
        if file is not None:
            say(f"{kind} in {file}")
    say(counts_line(report))
