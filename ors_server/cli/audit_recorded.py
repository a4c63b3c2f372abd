"""`ors-server audit --episodes`: audits what a policy really did, by its recorded episodes."""

import inspect
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ors_server.cli.command_output import complain, say
from ors_server.cli.exit_status import ExitStatus
from ors_server.cli.filters import FiltersOfEnvironment, StoreChoice
from ors_server.cli.recorded_options import PlainFile, RecordedOptions, open_recorded
from ors_server.cli.terminal import make_console, make_table, progress_bar
from ors_server.model.printable import clean_line

if TYPE_CHECKING:
    from ors_server.audit.recorded.recorded_report import RecordedReport
    from ors_server.environments.definition import EnvironmentDefinition
    from ors_server.replaying.choosing import Episodes

GOLD = "gold_actions"
GOLD_TASKS = 100
"""Tasks of each split whose gold actions are read."""
_ID_DIGITS = 12
"""Characters of an episode's id that a finding shows."""


@dataclass(frozen=True, kw_only=True)
class RecordedAuditOptions(FiltersOfEnvironment, StoreChoice):
    """Options of `audit --episodes`: which recorded episodes, and what counts as a success."""

    source: PlainFile = None
    success_at: Annotated[
        float | None,
        typer.Option(
            help="Least return of a winning episode; by default half of what the policy allows for a reward, "
            "or else half of what the best episodes earn.",
            show_default=False,
        ),
    ] = None


def run_recorded_audit(
    options: RecordedAuditOptions, *, environment: str | None = None, seed: int = 0, json: bool = False
) -> ExitStatus:
    """Audit recorded episodes, and print what they show.

    Args:
        options: Which episodes.
        environment: A reference, as the command line takes it, or a recorded name; by default all
            environments of the record. Where it loads, its gold actions are used.
        seed: Of the permutation tests.
        json: Whether to print the report as one JSON object.

    Returns:
        `FAILED` if a finding fails, else `SUCCESS`.

    Raises:
        typer.BadParameter: If a filter is wrong, or the record cannot be read here.
        OrsServerError: If the record cannot be read.
    """
    import anyio

    report = anyio.run(_audit, options, environment, seed)
    if json:
        say(report.model_dump_json())
    else:
        _show(report)
    return ExitStatus.FAILED if report.failed else ExitStatus.SUCCESS


async def _audit(options: RecordedAuditOptions, environment: str | None, seed: int) -> "RecordedReport":
    from ors_server.audit.recorded.recorded_audit import audit_recorded

    definition = None if environment is None else _load(environment)
    name = environment if definition is None else definition.name
    gold = None if definition is None else await _gold_tools(definition)
    async with _open(options, name) as episodes:
        with progress_bar(None) as advance:
            return await audit_recorded(
                episodes,
                gold_tools=None if gold is None or name is None else {name: gold},
                success_at=options.success_at,
                seed=seed,
                on_episode=lambda count: advance(count, "episodes"),
            )


@asynccontextmanager
async def _open(options: RecordedAuditOptions, name: str | None) -> AsyncGenerator["Episodes"]:
    recorded = RecordedOptions(
        filters=options.filters,
        store=options.store,
        source=options.source,
        everything=True,
        environment_name=name,
    )
    async with open_recorded(recorded) as episodes:
        yield episodes


def _load(reference: str) -> "EnvironmentDefinition | None":
    from ors_server.evaluation.local_target import choose_definition
    from ors_server.model.errors import UnknownEnvironmentError

    try:
        return choose_definition(reference)
    except UnknownEnvironmentError:
        complain(f"{clean_line(reference)} is not installed here: its gold actions are not used")
        return None


async def _gold_tools(definition: "EnvironmentDefinition") -> frozenset[str] | None:
    """Return the tools that the gold actions of every task call; `None` if they are not known."""
    find: Any = getattr(definition.source, GOLD, None)
    if not callable(find):
        return None
    shared: frozenset[str] | None = None
    for split in definition.splits:
        for index in range(min(GOLD_TASKS, await definition.tasks.num_tasks(split.name))):
            task: Any = find(await definition.tasks.get_task(split.name, index))
            actions: Any = await task if inspect.isawaitable(task) else task
            if actions is not None:
                tools = frozenset(str(tool) for tool, _ in actions)
                shared = tools if shared is None else shared & tools
    return shared


def _show(report: "RecordedReport") -> None:
    if not report.environments:
        say("no episodes")
        return
    for environment in report.environments:
        left_out = f", {environment.left_out} left out" if environment.left_out else ""
        say(
            f"{clean_line(environment.environment)}: {environment.episodes:,} episodes of "
            f"{environment.tasks:,} tasks, "
            f"{environment.winning:,} winning (return of {environment.success_at:g} or more){left_out}"
        )
    console = make_console()
    if report.findings:
        table = make_table("verdict", "kind", "class", "share", "what the episodes show", left=5)
        for finding in report.findings:
            ids = ", ".join(episode_id[:_ID_DIGITS] for episode_id in finding.episode_ids[:3])
            shown = f"{clean_line(finding.message)}\n{ids}\n{finding.command}"
            kind = finding.kind.value.replace("_", " ")
            share = f"{100 * finding.share:.0f} %"
            table.add_row(finding.verdict.value, kind, finding.hack_class or "", share, shown)
        console.print(table)
    for reason in sorted({f"{item.environment}: {item.reason}" for item in report.not_judged}):
        kinds = [
            one.kind.value.replace("_", " ")
            for one in report.not_judged
            if f"{one.environment}: {one.reason}" == reason
        ]
        say(clean_line(f"not judged, {reason}: {', '.join(kinds)}"))
    say(f"{len(report.failed)} failed, {len(report.findings) - len(report.failed)} warnings")
