"""`ors-server tasks`: how hard tasks are, from the record, and which are nearly equal, from their texts."""

from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ors_server.cli.command_output import say, say_json
from ors_server.cli.data_options import DataOptions, read_other_sets, resolve_references
from ors_server.cli.filters import StoreChoice
from ors_server.cli.shell_completion import installed_names
from ors_server.cli.terminal import make_console, make_table

if TYPE_CHECKING:
    from ors_server.environments.definition import EnvironmentDefinition
    from ors_server.store.base import RecordReader

BANDS = ("never", "rare", "learnable", "mostly", "always", "ungraded")
MAX_PLAYED = 100_000
"""Maximum number of played tasks of a split that are read from the record."""


@dataclass(frozen=True, kw_only=True)
class TasksOptions(DataOptions, StoreChoice):
    """Options of `tasks`."""

    reference: Annotated[
        str,
        typer.Argument(
            metavar="REF",
            autocompletion=installed_names,
            help="The environment: name, module:Class, path or data file.",
        ),
    ]
    run: Annotated[str | None, typer.Option(help="Count the episodes of this run only.")] = None
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=FILE",
            help="A data file that should contain none of the tasks; repeatable.",
        ),
    ] = None
    threshold: Annotated[
        float,
        typer.Option(help="Similarity from which two tasks are nearly equal.", min=0.3, max=0.99),
    ] = 0.8
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False


@dataclass
class SplitReport:
    """Figures about the tasks of a split."""

    split: str
    tasks: int
    played: int
    """Tasks with an episode on record."""
    attempts: int
    """Graded episodes."""
    solve_rate: float | None
    """Mean over the tasks with an attempt."""
    bands: dict[str, int] = field(default_factory=dict[str, int])


def tasks(options: TasksOptions) -> None:
    """Show how hard the tasks of an environment are, and which of them are nearly equal.

    The solve rate of a task is the share of its graded episodes on record with a return of at least 1. A
    policy learns from tasks with a rate of 0.2 to 0.8 (learnable). Two tasks are nearly equal if their
    prompts share at least the part --threshold of their runs of five words. A task is in another set
    (--against) if 13 of its words in a row are.
    """
    import anyio

    anyio.run(_show, options)


async def _show(options: TasksOptions) -> None:
    from ors_server.cli.check_command import progress
    from ors_server.cli.filters import open_record
    from ors_server.environments.loading import definitions_of
    from ors_server.resources.resource_pool import ResourcePool
    from ors_server.testing.task_likeness import TaskTexts, describe_overlap
    from ors_server.testing.task_survey import survey_tasks

    other_sets = read_other_sets(options.against)
    (reference,) = resolve_references([options.reference], options)
    described: list[dict[str, Any]] = []
    async with AsyncExitStack() as stack:
        record = await stack.enter_async_context(open_record(options.store, "--store"))
        resources = await stack.enter_async_context(ResourcePool())
        on_progress = stack.enter_context(progress())
        for definition in definitions_of(reference):
            texts = TaskTexts()
            survey = await survey_tasks(definition, resources, on_progress, texts.add)
            nearly_equal = texts.nearly_equal(options.threshold).describe(
                f"are nearly equal ({options.threshold:g} or more) to", survey.compared
            )
            findings = [nearly_equal, survey.leak_text, survey.contradiction_text, survey.repeat_text]
            findings += [describe_overlap(name, texts.within(rows)) for name, rows in other_sets.items()]
            described.append(
                {
                    "environment": definition.name,
                    "splits": [
                        asdict(await _report_split(record, definition, name, options.run))
                        for name in survey.sizes
                    ],
                    "compared": len(texts.tasks),
                    "findings": [text for text in findings if text],
                }
            )
    if options.json:
        say_json(described)
        return
    for environment in described:
        _print(environment)


async def _report_split(
    record: "RecordReader", definition: "EnvironmentDefinition", split: str, run: str | None
) -> SplitReport:
    from ors_server.store.aggregates import solve_band
    from ors_server.store.episode_filter import EpisodeFilter

    chosen = EpisodeFilter(
        environment=(definition.name,), split=(split,), labels={} if run is None else {"run": run}
    )
    played = await record.by_task(chosen, limit=MAX_PLAYED)
    rates = [task.success for task in played if task.success is not None]
    counts = Counter(solve_band(task.success) for task in played)
    return SplitReport(
        split,
        await definition.tasks.num_tasks(split),
        len(played),
        sum(task.graded for task in played),
        sum(rates) / len(rates) if rates else None,
        {band: counts[band] for band in BANDS if counts[band]},
    )


def _print(environment: dict[str, Any]) -> None:
    say(environment["environment"])
    table = make_table("split", "tasks", "played", "attempts", "solve rate", *BANDS[:-1], left=1)
    for split in environment["splits"]:
        rate = "-" if split["solve_rate"] is None else f"{split['solve_rate']:.2f}"
        bands = [str(split["bands"].get(band, 0)) for band in BANDS[:-1]]
        table.add_row(
            split["split"], str(split["tasks"]), str(split["played"]), str(split["attempts"]), rate, *bands
        )
    make_console().print(table)
    for text in environment["findings"]:
        say(text)
    if not environment["findings"]:
        say(f"{environment['compared']} tasks were compared: no two are equal or nearly equal")
