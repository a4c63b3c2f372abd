"""`ors-server export`: writes recorded episodes in the formats of trainers and other tools."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ors_server.cli.command_output import MisuseError, complain, make_folder_of
from ors_server.cli.filters import EpisodeFilters, StoreChoice

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from ors_server.export.chat import ConversationOptions
    from ors_server.export.episodes import ExportCounts
    from ors_server.export.formats import ExportFormat
    from ors_server.export.offered_tools import OfferedTools
    from ors_server.model.wire import JSONObject
    from ors_server.store.base import RecordReader
    from ors_server.store.episode_filter import EpisodeFilter

STDOUT = "-"


@dataclass(frozen=True, kw_only=True)
class ExportOptions(EpisodeFilters, StoreChoice):
    """Options of `export`."""

    format: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="openai, sharegpt, trl, plain: lines of JSON; verl, episodes, steps: a parquet file; atif, "
            "inspect: a folder of documents.",
        ),
    ]
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE|FOLDER", help="Where to write; - is standard output."),
    ] = STDOUT
    include_unfinished: Annotated[
        bool,
        typer.Option(
            "--include-unfinished",
            help="Write episodes too that were deleted, expired, failed or have not ended. plain, episodes "
            "and steps always do.",
        ),
    ] = False
    tools: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ENVIRONMENT|FILE",
            help="Announce an environment's tools, which a record does not hold: an environment as `serve` "
            "takes it, or a JSON file with what /tools answered, for all others; repeatable.",
        ),
    ] = None
    train: Annotated[
        str,
        typer.Option(metavar="all|ran", help="Which of the agent's calls are marked to be trained on."),
    ] = "all"
    last_result: Annotated[
        bool,
        typer.Option("--last-result", help="Write the result of the last call too, which no trainer needs."),
    ] = False
    with_episode: Annotated[
        bool,
        typer.Option(
            "--with-episode", help="openai: write ids, rewards and components too, in the key `episode`."
        ),
    ] = False
    preferences: Annotated[
        bool, typer.Option("--preferences", help="trl: pairs of episodes of one task, chosen and rejected.")
    ] = False
    group_label: Annotated[
        str | None, typer.Option(metavar="KEY", help="Preferences: a label on which a group agrees, too.")
    ] = None
    pairs: Annotated[int, typer.Option(help="Preferences: most pairs of one group.", min=1)] = 1
    margin: Annotated[
        float, typer.Option(help="Preferences: by more than this the returns differ.", min=0.0)
    ] = 0.0
    ground_truth: Annotated[
        str | None, typer.Option(metavar="KEY", help="verl: key of the task that holds the answer.")
    ] = None
    ability: Annotated[str, typer.Option(help="verl: category of the tasks.")] = "tool_use"
    data_source: Annotated[
        str | None, typer.Option(help="verl: what chooses the reward function; the environment's name.")
    ] = None


def export(options: ExportOptions) -> None:
    """Write recorded episodes in the format of a trainer or another tool.

    A file appears under its name when it is complete. A line on standard error counts the episodes that were
    written, and those that were left out, with the reasons. The status is 0 on success, else 1.
    """
    import anyio

    from ors_server.export.episodes import ExportCounts

    counts = ExportCounts()
    anyio.run(_export, options, counts)
    sys.stdout.flush()
    complain(str(counts))


async def _export(options: ExportOptions, counts: "ExportCounts") -> None:
    from ors_server.cli.filters import open_record, read_filter
    from ors_server.export.folders import FOLDER_FORMATS
    from ors_server.export.formats import FormatOptions, UnknownFormatError, make_format
    from ors_server.export.verl import VerlOptions
    from ors_server.model.clock import SystemClock

    chat = _chat(options)
    if options.format in FOLDER_FORMATS:
        if options.output == STDOUT or options.preferences:
            raise typer.BadParameter(f"{options.format} is a folder of documents: name one with --output.")
        async with open_record(options.store, "--store") as reader:
            episodes = reader.stream(read_filter(options.filters, now=SystemClock().now()))
            await FOLDER_FORMATS[options.format](episodes, Path(options.output), chat, counts)
        return
    verl = VerlOptions(options.ground_truth, options.ability, options.data_source)
    try:
        form = make_format(options.format, FormatOptions(chat, options.with_episode, verl))
    except UnknownFormatError as error:
        raise MisuseError(str(error)) from error
    _check(options, form)
    episode_filter = read_filter(options.filters, now=SystemClock().now())
    async with open_record(options.store, "--store") as reader:
        await _write(_rows(reader, episode_filter, form, options, counts), form, options.output)


def _rows(
    reader: "RecordReader",
    episode_filter: "EpisodeFilter",
    form: "ExportFormat",
    options: ExportOptions,
    counts: "ExportCounts",
) -> "AsyncGenerator[JSONObject, None]":
    from ors_server.export.formats import export_rows
    from ors_server.export.preferences import Pairing, export_preferences

    if not options.preferences:
        episodes = reader.stream(episode_filter)
        return export_rows(episodes, form, counts, include_unfinished=options.include_unfinished)
    pairing = Pairing(options.group_label, options.pairs, options.margin)
    return export_preferences(reader, episode_filter, pairing, _chat(options), counts)


async def _write(rows: "AsyncGenerator[JSONObject, None]", form: "ExportFormat", output: str) -> None:
    from ors_server.export.writing import write_lines, write_table
    from ors_server.files.atomic_file import atomic_file

    if output == STDOUT:
        await write_lines(rows, sys.stdout.buffer)
        return
    with atomic_file(make_folder_of(Path(output))) as sink:
        if form.columns is None:
            await write_lines(rows, sink)
        else:
            await write_table(rows, sink, form.columns)


def _check(options: ExportOptions, form: "ExportFormat") -> None:
    if form.columns is not None and options.output == STDOUT:
        raise typer.BadParameter(f"{options.format} is a parquet file: name one with --output.")
    if options.preferences and (options.format != "trl" or options.include_unfinished):
        raise typer.BadParameter(
            "--preferences goes with trl, and with episodes that were played to their end."
        )


def _chat(options: ExportOptions) -> "ConversationOptions":
    from ors_server.export.chat import ConversationOptions, TrainedCalls

    try:
        trained = TrainedCalls(options.train)
    except ValueError:
        raise typer.BadParameter(f"--train must be all or ran, got {options.train!r}.") from None
    return ConversationOptions(
        _announced(options.tools or ()), trained, keeps_last_result=options.last_result
    )


def _announced(references: "Sequence[str]") -> "OfferedTools":
    from ors_server.environments.loading import load_environments
    from ors_server.export.offered_tools import ANY, offered_tools, read_listing

    files = [reference for reference in references if reference.endswith(".json")]
    if files[1:]:
        raise typer.BadParameter("--tools takes one JSON file; name the environments of the others.")
    named = offered_tools(load_environments([name for name in references if name not in files]))
    return named | ({ANY: read_listing(Path(files[0]))} if files else {})
