"""Options of `ors-server eval`, and how they are read."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from ors_server.cli.command_options import read_pairs
from ors_server.cli.data_options import DataOptions
from ors_server.cli.shell_completion import agents, installed_names

if TYPE_CHECKING:
    from ors_server.evaluation.budgets import UsageBudget
    from ors_server.evaluation.planning import RunOptions


@dataclass(frozen=True, kw_only=True)
class _AgentOptions:
    panel: ClassVar = "Agent"

    agent: Annotated[
        list[str] | None,
        typer.Option(
            help="The agent: oracle, noop, random, replay:STORE, openai:MODEL, 'command: PROGRAM {url}', "
            "module:function, or file.py:function; repeatable.",
            autocompletion=agents,
        ),
    ] = None
    agent_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="An option of the agent; the value is JSON or text; repeatable."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class _EnvironmentOption:
    environment: Annotated[
        str | None, typer.Option(help="Name of the environment, where the target has several.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class _TaskOptions:
    panel: ClassVar = "Tasks"

    split: Annotated[str | None, typer.Option(help="Split of the tasks.", show_default="test")] = None
    tasks: Annotated[
        str | None,
        typer.Option(metavar="PLACES", help="Tasks by their places: 0:100, or 3,5,9; all by default."),
    ] = None
    limit: Annotated[int | None, typer.Option(help="Most tasks.", min=1)] = None
    attempts: Annotated[
        int | None, typer.Option("--attempts", "-k", help="Attempts at each task.", min=1, show_default="1")
    ] = None
    seed: Annotated[
        int | None, typer.Option(help="Base of every attempt's seed.", min=0, show_default="0")
    ] = None
    success_at: Annotated[
        float | None, typer.Option(help="Least return that is a success.", show_default="1.0")
    ] = None
    policy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Override of the environment's policy; the value is JSON; repeatable.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class _PlayingOptions:
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A label of every episode, by which it is found; repeatable."),
    ] = None
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", help="Attempts at a time.", min=1)] = 4
    store: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL",
            help="Where episodes that are played here are recorded; the server's setting by default.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class _AttemptBudget:
    panel: ClassVar = "Budget of each attempt"

    max_steps: Annotated[int | None, typer.Option(help="Tool calls.", min=1)] = None
    max_tokens: Annotated[int | None, typer.Option(help="Tokens read and written.", min=1)] = None
    max_cost: Annotated[float | None, typer.Option(help="Cost, by the agent's prices.")] = None
    max_seconds: Annotated[float | None, typer.Option(help="Seconds.")] = None


@dataclass(frozen=True, kw_only=True)
class _RunBudget:
    panel: ClassVar = "Budget of the run"

    total_steps: Annotated[int | None, typer.Option(help="Tool calls.", min=1)] = None
    total_tokens: Annotated[int | None, typer.Option(help="Tokens read and written.", min=1)] = None
    total_cost: Annotated[float | None, typer.Option(help="Cost, by the agent's prices.")] = None
    total_seconds: Annotated[float | None, typer.Option(help="Seconds of this command.")] = None
    max_errors: Annotated[
        int | None,
        typer.Option(help="Attempts in a row that may fail with an error.", min=1, show_default="no limit"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class _OutputOptions:
    panel: ClassVar = "Output"

    output: Annotated[
        Path | None,
        typer.Option(help="Folder of the run or the suite.", show_default="runs/RUN", file_okay=False),
    ] = None
    resume: Annotated[
        Path | None,
        typer.Option(help="Continue the run or the suite in this folder; what has ended is not repeated."),
    ] = None
    retry_errored: Annotated[
        bool,
        typer.Option("--retry-errored", help="With --resume: repeat the attempts that failed with an error."),
    ] = False
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            "--html",
            metavar="FILE",
            help="Write a page for browsers; --resume writes it again.",
            dir_okay=False,
        ),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False


@dataclass(frozen=True, kw_only=True)
class EvalOptions(
    _OutputOptions,
    _RunBudget,
    _AttemptBudget,
    _PlayingOptions,
    _TaskOptions,
    _EnvironmentOption,
    DataOptions,
    _AgentOptions,
):
    """Options of `eval`."""

    target: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET...",
            autocompletion=installed_names,
            help="The environment (name, module:Class, path, or data file), the URL of an ORS server, or an "
            "MCP URL, which ends in /mcp. With several targets or agents, each agent plays each target.",
            show_default=False,
        ),
    ] = None


def read_run_options(options: EvalOptions) -> "list[RunOptions]":
    """Return the options of each run, one without a target or an agent where none is given.

    Raises:
        typer.BadParameter: If a value cannot be read.
    """
    from ors_server.evaluation.planning import RunOptions

    shared = RunOptions(
        environment=options.environment,
        agent_options=read_pairs("--agent-option", options.agent_option, texts=True),
        split=options.split,
        tasks=options.tasks,
        limit=options.limit,
        attempts=options.attempts,
        seed=options.seed,
        success_at=options.success_at,
        steps=options.max_steps,
        tokens=options.max_tokens,
        cost=options.max_cost,
        seconds=options.max_seconds,
        policy=read_pairs("--policy", options.policy),
        labels=_read_labels(options.label),
    )
    return [
        replace(shared, target=target, agent=agent)
        for target in options.target or (None,)
        for agent in options.agent or (None,)
    ]


def _read_labels(pairs: list[str] | None) -> dict[str, str] | None:
    if not pairs:
        return None
    labels: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"--label: expected KEY=VALUE, got {pair!r}")
        if name in labels:
            raise typer.BadParameter(f"--label: expected each name once, got {name!r} twice")
        labels[name] = value
    return labels


def run_budget(options: EvalOptions) -> "UsageBudget":
    """Return the budget of the whole run; raises `BudgetError` if a limit is not a positive number."""
    from ors_server.evaluation.budgets import UsageBudget

    return UsageBudget(options.total_steps, options.total_tokens, options.total_cost, options.total_seconds)


def check(options: EvalOptions) -> None:
    """Check the options before anything is opened.

    Raises:
        typer.BadParameter: If an option is missing, or two exclude each other.
    """
    if options.resume is None and not (options.target and options.agent):
        raise typer.BadParameter("give a target and an agent: TARGET --agent AGENT; or --resume DIR")
    if options.resume is not None and options.output is not None:
        raise typer.BadParameter("--resume continues in the run's own folder; leave --output out")
    if options.retry_errored and options.resume is None:
        raise typer.BadParameter("--retry-errored needs --resume DIR")
