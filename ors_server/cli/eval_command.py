"""`ors-server eval`: lets an agent play tasks, and shows its results."""

from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
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
    from ors_server.evaluation.runs import Run
    from ors_server.evaluation.summary import RunSummary
    from ors_server.evaluation.targets import Target

RUNS = "runs"
"""Folder that contains the folders of runs."""


@dataclass(slots=True)
class _EvalProgress:
    """The run of this command, as far as it is known."""

    folder: Path | None = None
    run: "Run | None" = None


def evaluate(options: EvalOptions) -> None:
    """Let an agent play tasks of an environment, and show its results.

    Every attempt that ends is written to the run's folder at once. After Ctrl-C, or when the run's budget is
    exhausted, --resume continues the run. The status is 0, 1 if some attempts failed with an error, 2 if the
    command line is wrong, 130 after Ctrl-C. A server's API key is read from the environment variable
    ORS_API_KEY.
    """
    import anyio

    from ors_server.evaluation.agents.base import AgentSettingsError
    from ors_server.evaluation.budgets import BudgetError
    from ors_server.evaluation.runner import RunError

    check(options)
    progress = _EvalProgress()
    try:
        anyio.run(_evaluate, options, progress)
    except KeyboardInterrupt:
        _explain_resume(progress)
        raise
    except Exception as escaped:
        error = first_of(escaped)
        if isinstance(error, AgentSettingsError | BudgetError | RunError):
            raise MisuseError(str(error)) from escaped
        raise error from None
    _conclude(options, progress)


async def _evaluate(options: EvalOptions, progress: _EvalProgress) -> None:
    from ors_server.evaluation.agents.agent_choice import choose_agent
    from ors_server.evaluation.folder import RunFolder, read_run
    from ors_server.evaluation.planning import check_agent, check_reward, check_same, plan_run, resume_options
    from ors_server.evaluation.runner import RunControls, Runner
    from ors_server.model.clock import SystemClock
    from ors_server.store.open import open_reader

    with _refusing_folders():
        begun = None if options.resume is None else read_run(options.resume)
    requested = read_run_options(options)
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
            folder = RunFolder(options.output or Path(RUNS) / run.run_id)
            with _refusing_folders():
                folder.begin(run)
        else:
            run, folder = begun, RunFolder(options.resume or "")
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
            progress.run = await runner.play(run, requested.budget, requested.policy)


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
    from ors_server.cli.eval_serving import open_served_target
    from ors_server.evaluation.local_target import choose_definition, open_local_target
    from ors_server.model.settings import load_settings
    from ors_server.store.open import open_store

    settings = load_settings()
    (environment,) = resolve_references([requested.target or ""], options)
    definition = choose_definition(environment, requested.environment)
    async with AsyncExitStack() as stack:
        store = await open_store(options.store or settings.record, store_options(settings))
        stack.push_async_callback(store.aclose)
        if serve:
            opened = open_served_target(definition, requested.target or "", settings, store)
        else:
            opened = open_local_target(
                definition, name=requested.target, store=store, sandbox=sandbox_request(settings)
            )
        yield await stack.enter_async_context(opened)


def _conclude(options: EvalOptions, progress: _EvalProgress) -> None:
    from ors_server.cli.reading_options import transcripts_of
    from ors_server.evaluation.failures import failure_lines
    from ors_server.evaluation.run_figures import summarise
    from ors_server.evaluation.run_results import read_results

    folder, run = progress.folder, progress.run
    if folder is None or run is None:
        raise CommandError("the run ended before its first attempt")
    outcome = read_results([folder])
    summary = summarise(outcome)
    if options.report is not None:
        from ors_server.evaluation.report.page import run_report

        transcripts = transcripts_of(outcome, options.store)
        make_folder_of(options.report).write_text(run_report(summary, outcome, transcripts), encoding="utf-8")
    _show(options, folder, run, summary)
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
        complain(f"details: {_details(folder)}")
        raise typer.Exit(ExitStatus.FAILED)


def _details(folder: Path) -> str:
    from ors_server.evaluation.folder import ATTEMPTS_FILE
    from ors_server.evaluation.runner import LOGS

    logs = folder / LOGS
    return f"{folder / ATTEMPTS_FILE}" + (f", tracebacks and logs in {logs}" if logs.is_dir() else "")


def _show(options: EvalOptions, folder: Path, run: "Run", summary: "RunSummary") -> None:
    from ors_server.evaluation.summary import SUMMARY
    from ors_server.evaluation.table import summary_remarks, summary_table

    if options.json:
        say_json({"run": run.run_id, "folder": str(folder), "summary": SUMMARY.as_json(summary)})
        return
    make_console().print(summary_table(summary))
    for remark in summary_remarks(summary):
        say(remark)
    say(f"run {run.run_id} in {folder}")
    if options.report is not None:
        say(f"report in {options.report}")


def _explain_resume(progress: _EvalProgress) -> None:
    if progress.folder is None:
        complain("interrupted before the first attempt")
        return
    from ors_server.evaluation.folder import read_attempts

    ended = sum(1 for _ in read_attempts(progress.folder))
    planned = "?" if progress.run is None else progress.run.planned
    complain(
        f"interrupted after {ended} of {planned} attempts, which are kept; continue with: "
        f"ors-server eval --resume {progress.folder}"
    )
