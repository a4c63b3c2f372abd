"""`ors-server eval`: lets an agent play tasks, and shows its results."""

from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ors_server.cli.command_output import CommandError, MisuseError, complain, make_folder_of, say, say_json
from ors_server.cli.data_options import declared_keys, resolve_references
from ors_server.cli.eval_options import EvalOptions, check, read_run_options, run_budget
from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.terminal import make_console, progress_bar
from ors_server.model.errors import RecordError, first_of

if TYPE_CHECKING:
    from ors_server.evaluation.agents.base import EvaluationAgent
    from ors_server.evaluation.planning import RunOptions
    from ors_server.evaluation.run_results import RunResults
    from ors_server.evaluation.runs import Run
    from ors_server.evaluation.summary import RunSummary
    from ors_server.evaluation.targets import Target

RUNS = "runs"
"""Folder that contains the folders of runs."""
REPORT_FILE = "report.txt"
"""File in a run's folder that says where its page goes, so that --resume writes it again."""
STORE_FILE = "store.txt"
"""File in the folder of a run or suite that says where its episodes are, so that --resume adds to them."""


@dataclass(slots=True)
class _EvalProgress:
    """A run of this command, as far as it is known."""

    options: "RunOptions"
    resume: Path | None = None
    """Folder of the run that is continued."""
    output: Path | None = None
    """Folder of a new run, where it is chosen already."""
    folder: Path | None = None
    run: "Run | None" = None


def evaluate(options: EvalOptions) -> None:
    """Let agents play tasks of environments, and show their results.

    Several targets or several agents are a suite: each agent plays each target, one run after another, and a
    table of all runs ends it. Every attempt that ends is written to its run's folder at once. After Ctrl-C,
    or when a run's budget is exhausted, --resume continues. The status is 0, 1 if some attempts failed with
    an error, 2 if the command line is wrong, 130 after Ctrl-C. A server's API key is read from the
    environment variable ORS_API_KEY.
    """
    check(options)
    with _refusing_folders():
        folder, runs = _plan(options)
    if folder is None:
        (progress,) = runs
        _play(options, progress, resume=None)
        _conclude(options, progress)
    else:
        for progress in runs:
            complain(f"{progress.options.target}, {progress.options.agent}")
            _play(options, progress, resume=folder)
        _conclude_suite(options, folder, runs)


def _plan(options: EvalOptions) -> tuple[Path | None, list[_EvalProgress]]:
    """Return the runs of the command, and the folder of the suite if they are one."""
    from ors_server.evaluation.suite import plan_suite, read_suite

    requested = read_run_options(options)
    begun = [] if options.resume is None else read_suite(options.resume)
    if begun:
        if options.target or options.agent:
            raise MisuseError("a suite is resumed with the targets and agents of its start; leave them out")
        return options.resume, [
            _EvalProgress(run.options, resume=run.folder)
            if run.has_begun
            else _EvalProgress(run.options, output=run.folder)
            for run in begun
        ]
    if len(requested) == 1:
        return None, [_EvalProgress(requested[0], options.resume, options.output)]
    if options.resume is not None:
        raise MisuseError("one run is resumed at a time; leave its target and its agent out")
    for chosen in requested:  # before the first attempt, so that one wrong target does not waste the others
        _play(options, _EvalProgress(chosen, output=options.output), resume=None, checks_only=True)
    from ors_server.model.clock import SystemClock

    folder = options.output or Path(RUNS) / f"suite-{SystemClock().now():%Y%m%d-%H%M%S}"
    runs = plan_suite(folder, requested)
    _note_store(options, folder)
    return folder, [_EvalProgress(run.options, output=run.folder) for run in runs]


def _play(
    options: EvalOptions, progress: _EvalProgress, *, resume: Path | None, checks_only: bool = False
) -> None:
    """Play a run to its end.

    Args:
        resume: Folder of the suite that it belongs to.
        checks_only: Whether it is only looked whether it could be played; then nothing is written.
    """
    import anyio

    from ors_server.evaluation.agents.base import AgentSettingsError
    from ors_server.evaluation.budgets import BudgetError
    from ors_server.evaluation.runner import RunError

    try:
        anyio.run(partial(_evaluate, options, progress, checks_only=checks_only))
    except KeyboardInterrupt:
        _explain_resume(progress, resume)
        raise
    except Exception as escaped:
        error = first_of(escaped)
        if isinstance(error, AgentSettingsError | BudgetError | RunError):
            raise MisuseError(str(error)) from escaped
        raise error from None


async def _evaluate(options: EvalOptions, progress: _EvalProgress, *, checks_only: bool) -> None:
    from ors_server.cli.server_requests import is_url
    from ors_server.evaluation.agents.agent_choice import choose_agent
    from ors_server.evaluation.folder import RunFolder, read_run
    from ors_server.evaluation.planning import check_agent, check_reward, check_same, plan_run, resume_options
    from ors_server.evaluation.runner import RunControls, Runner
    from ors_server.model.clock import SystemClock
    from ors_server.store.open import open_reader

    with _refusing_folders():
        begun = None if progress.resume is None else read_run(progress.resume)
    requested = progress.options
    if begun is not None:
        requested = resume_options(begun, requested)
    async with AsyncExitStack() as stack:
        agent = await choose_agent(requested.agent or "", requested.agent_options or {}, open_reader)
        stack.push_async_callback(agent.aclose)
        target = await stack.enter_async_context(_open_target(options, requested, agent))
        check_reward(target)
        if begun is None:
            run = await plan_run(requested, target, agent.describe(), SystemClock().now())
            await check_agent(agent, target)
            if checks_only:
                return
            folder = RunFolder(progress.output or Path(RUNS) / run.run_id)
            with _refusing_folders():
                folder.begin(run)
            if not is_url(requested.target or ""):
                _note_store(options, folder.path)
        else:
            run, folder = begun, RunFolder(progress.resume or "")
            check_same(run, target, agent.describe())
            await check_agent(agent, target)
        progress.folder, progress.run = folder.path, run
        with progress_bar(run.planned) as show:
            conduct = RunControls(
                concurrency=options.concurrency,
                budget=run_budget(options),
                most_errors=options.max_errors,
                retry_errored=options.retry_errored,
                on_attempt=lambda _, tally: show(tally.ended, tally.headline),
            )
            runner = Runner(target, agent, folder, conduct)
            progress.run = await runner.play(run, requested.budget, requested.policy, requested.labels)


@contextmanager
def _refusing_folders() -> Generator[None]:
    """Blame the command line for a folder that has no run, or one already."""
    try:
        yield
    except RecordError as error:
        raise MisuseError(str(error)) from error


@asynccontextmanager
async def _open_target(
    options: EvalOptions, requested: "RunOptions", agent: "EvaluationAgent"
) -> "AsyncGenerator[Target]":
    from ors_server.cli.server_requests import api_key, is_url

    place = requested.target or ""
    if is_url(place):
        if declared_keys(options):
            raise typer.BadParameter("the options of data files need a data file, such as train.jsonl")
        if options.store is not None:
            raise typer.BadParameter(
                "--store is for environments in this process; a server has its own record"
            )
        from ors_server.evaluation.targets import open_server_target

        async with open_server_target(place, requested.environment, api_key=api_key()) as remote:
            yield remote
        return
    async with _open_here(options, requested, serve=agent.plays_outside) as local:
        yield local


@asynccontextmanager
async def _open_here(
    options: EvalOptions, requested: "RunOptions", *, serve: bool
) -> "AsyncGenerator[Target]":
    from ors_server.app import sandbox_request, store_options
    from ors_server.cli.listening import open_served_target
    from ors_server.evaluation.local_target import choose_definition, open_local_target
    from ors_server.model.settings import load_settings
    from ors_server.store.open import open_store

    settings = load_settings()
    (environment,) = resolve_references([requested.target or ""], options)
    definition = choose_definition(environment, requested.environment)
    async with AsyncExitStack() as stack:
        store = await open_store(_store_of(options), store_options(settings))
        stack.push_async_callback(store.aclose)
        if serve:
            opened = open_served_target(definition, requested.target or "", settings, store)
        else:
            opened = open_local_target(
                definition, name=requested.target, store=store, sandbox=sandbox_request(settings)
            )
        yield await stack.enter_async_context(opened)


def _conclude(options: EvalOptions, progress: _EvalProgress) -> None:
    from ors_server.evaluation.report.page import run_report

    folder, run = _ended(progress)
    outcome, summary = _read(folder)
    report = _report_of(options, folder)
    if report is not None:
        from ors_server.cli.reading_options import transcripts_of

        page = run_report(summary, outcome, transcripts_of(outcome, _store_of(options)))
        make_folder_of(report).write_text(page, encoding="utf-8")
    _show(options, folder, run, summary, report)
    if _explain_end(folder, run, outcome, summary):
        raise typer.Exit(ExitStatus.FAILED)


def _conclude_suite(options: EvalOptions, folder: Path, runs: "list[_EvalProgress]") -> None:
    from ors_server.evaluation.report.page import runs_report
    from ors_server.evaluation.summary import SUMMARY
    from ors_server.evaluation.table import runs_table

    ended = [_ended(progress) for progress in runs]
    read = [_read(run_folder) for run_folder, _ in ended]
    summaries = [summary for _, summary in read]
    report = _report_of(options, folder)
    if report is not None:
        make_folder_of(report).write_text(runs_report(summaries), encoding="utf-8")
    if options.json:
        parts = [
            {"run": run.run_id, "folder": str(run_folder), "summary": SUMMARY.as_json(summary)}
            for (run_folder, run), summary in zip(ended, summaries, strict=True)
        ]
        say_json({"suite": str(folder), "runs": parts})
    else:
        make_console().print(runs_table(summaries))
        say(f"suite in {folder}")
        if report is not None:
            say(f"report in {report}")
    failed = [
        _explain_end(run_folder, run, outcome, summary)
        for (run_folder, run), (outcome, summary) in zip(ended, read, strict=True)
    ]
    if any(failed):
        raise typer.Exit(ExitStatus.FAILED)


def _ended(progress: _EvalProgress) -> "tuple[Path, Run]":
    if progress.folder is None or progress.run is None:
        raise CommandError("the run ended before its first attempt")
    return progress.folder, progress.run


def _read(folder: Path) -> "tuple[RunResults, RunSummary]":
    from ors_server.evaluation.run_figures import summarise
    from ors_server.evaluation.run_results import read_results

    outcome = read_results([folder])
    return outcome, summarise(outcome)


def _report_of(options: EvalOptions, folder: Path) -> Path | None:
    """Return where the page goes: as given now, or as it was given when the run began."""
    note = folder / REPORT_FILE
    if options.report is not None:
        note.write_text(f"{options.report.absolute()}\n", encoding="utf-8")
        return options.report
    return Path(note.read_text(encoding="utf-8").rstrip("\n")) if note.exists() else None


def _store_of(options: EvalOptions) -> str:
    """Return where episodes are recorded: where those of a run that is resumed are."""
    from ors_server.model.settings import load_settings

    wanted = options.store or load_settings().record
    note = None if options.resume is None else options.resume / STORE_FILE
    if note is None or not note.exists():
        return wanted
    kept = note.read_text(encoding="utf-8").rstrip("\n")
    if _display_name(wanted) == kept:
        return wanted  # a URL may have the password, which is not kept
    if options.store is not None:
        raise MisuseError(
            f"expected --store {kept}, which has the run's episodes, got {options.store}: correct it or "
            "leave it out"
        )
    return kept


def _note_store(options: EvalOptions, folder: Path) -> None:
    (folder / STORE_FILE).write_text(f"{_display_name(_store_of(options))}\n", encoding="utf-8")


def _display_name(store: str) -> str:
    from ors_server.store.location import parse_location

    location = parse_location(store)
    return location.display_name if location.path is None else str(location.path.absolute())


def _explain_end(folder: Path, run: "Run", outcome: "RunResults", summary: "RunSummary") -> bool:
    """Say what is missing of a run, and return whether attempts failed with an error."""
    from ors_server.evaluation.failures import failure_lines
    from ors_server.evaluation.folder import ATTEMPTS_FILE
    from ors_server.evaluation.runner import LOGS

    counts = summary.overall.counts
    if run.stop_reason is not None:
        complain(
            f"the run stopped at {counts.recorded} of {run.planned} attempts, because its "
            f"{run.stop_reason.replace('_', ' ')} is exhausted; continue with: "
            f"ors-server eval --resume {folder}"
        )
    if counts.errored:
        for line in failure_lines(outcome.attempts, counts.recorded):
            complain(line)
        logs = folder / LOGS
        tracebacks = f", tracebacks and logs in {logs}" if logs.is_dir() else ""
        complain(f"details: {folder / ATTEMPTS_FILE}{tracebacks}")
    return bool(counts.errored)


def _show(options: EvalOptions, folder: Path, run: "Run", summary: "RunSummary", report: Path | None) -> None:
    from ors_server.evaluation.summary import SUMMARY
    from ors_server.evaluation.table import summary_remarks, summary_table

    if options.json:
        say_json({"run": run.run_id, "folder": str(folder), "summary": SUMMARY.as_json(summary)})
        return
    make_console().print(summary_table(summary))
    for remark in summary_remarks(summary):
        say(remark)
    say(f"run {run.run_id} in {folder}")
    if report is not None:
        say(f"report in {report}")


def _explain_resume(progress: _EvalProgress, suite: Path | None) -> None:
    if progress.folder is None:
        kept = "" if suite is None else f"; continue with: ors-server eval --resume {suite}"
        complain(f"interrupted before the first attempt{kept}")
        return
    from ors_server.evaluation.folder import read_attempts

    ended = sum(1 for _ in read_attempts(progress.folder))
    planned = "?" if progress.run is None else progress.run.planned
    complain(
        f"interrupted after {ended} of {planned} attempts, which are kept; continue with: "
        f"ors-server eval --resume {suite or progress.folder}"
    )
