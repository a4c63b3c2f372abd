"""Options of `replay` and `regrade` that select recorded episodes."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ors_server.cli.filters import FILTERS, FiltersOfEnvironment, StoreChoice, open_record, read_filter

if TYPE_CHECKING:
    from ors_server.replaying.choosing import Episodes
    from ors_server.store.episode_filter import EpisodeFilter

STDIN = "-"


PlainFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help="Read episodes that `export plain` wrote instead; - is standard input.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class RecordedOptions(FiltersOfEnvironment, StoreChoice):
    """Selects episodes of a store or a file."""

    episodes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EPISODE",
            help="Ids of episodes, at least 6 digits of their beginning, or ids of sessions.",
            show_default=False,
        ),
    ] = None
    source: PlainFile = None
    everything: Annotated[
        bool, typer.Option("--all", help="All episodes of the record.", rich_help_panel=FILTERS)
    ] = False
    environment_name: Annotated[
        str | None,
        typer.Option(
            "--environment-name", metavar="NAME", help="Of this environment.", rich_help_panel=FILTERS
        ),
    ] = None


@asynccontextmanager
async def open_recorded(options: RecordedOptions) -> AsyncGenerator["Episodes"]:
    """Open the selected episodes.

    Raises:
        typer.BadParameter: If nothing is selected, two records are given, or a value is wrong.
    """
    from ors_server.replaying.choosing import StoredEpisodes

    episode_filter = selected_filter(options)
    names = tuple(options.episodes or ())
    if options.source is not None:
        yield _open_file(options, episode_filter, names)
        return
    async with open_record(options.store, "--store or --from") as reader:
        yield StoredEpisodes(reader, episode_filter, names)


def selected_filter(options: RecordedOptions) -> "EpisodeFilter":
    """Return the filter of the selected episodes.

    Raises:
        typer.BadParameter: If nothing is selected, or a label or a time is wrong.
    """
    from ors_server.model.clock import SystemClock
    from ors_server.store.episode_filter import ALL

    filters = {**options.filters, "environment": options.environment_name}
    episode_filter = read_filter(filters, now=SystemClock().now())
    if episode_filter == ALL and not (options.episodes or options.everything):
        raise typer.BadParameter("say which episodes: by their ids, by a filter, or --all.")
    return episode_filter


def _open_file(
    options: RecordedOptions, episode_filter: "EpisodeFilter", names: tuple[str, ...]
) -> "Episodes":
    from ors_server.export.episode_file import EpisodeFile
    from ors_server.replaying.choosing import FiledEpisodes, StreamedEpisodes

    if options.store is not None:
        raise typer.BadParameter("give one record: --store or --from.")
    if options.source == STDIN:
        return StreamedEpisodes(sys.stdin.buffer, episode_filter, names)
    file = EpisodeFile(options.source or "")
    if not file.path.is_file():
        raise typer.BadParameter(f"--from names a file of episodes that does not exist: {options.source}.")
    return FiledEpisodes(file, episode_filter, names)
