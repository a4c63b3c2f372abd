"""Which recorded episodes a command is about: what it can be told, and where it reads them."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ors_server.cli.filters import FILTERS, EpisodeFilters, StoreOptions, read_selection

if TYPE_CHECKING:
    from ors_server.replaying.choosing import Episodes
    from ors_server.store.base import EpisodeFilter

STDIN = "-"


@dataclass(frozen=True, kw_only=True)
class RecordedOptions(EpisodeFilters, StoreOptions):
    """Which episodes, and where they are."""

    episodes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EPISODE",
            help="Ids of episodes, at least 6 digits of their beginning, or ids of sessions.",
            show_default=False,
        ),
    ] = None
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Read episodes that `export plain` wrote instead; - is standard input.",
        ),
    ] = None
    everything: Annotated[
        bool, typer.Option("--all", help="All episodes that are there.", rich_help_panel=FILTERS)
    ] = False
    environment_name: Annotated[
        str | None,
        typer.Option(
            "--environment-name", metavar="NAME", help="Of this environment.", rich_help_panel=FILTERS
        ),
    ] = None


@asynccontextmanager
async def open_recorded(options: RecordedOptions) -> AsyncGenerator["Episodes"]:
    """Open what a command was told to read.

    Args:
        options: What it was told.

    Raises:
        typer.BadParameter: If that is no episode at all, or two records, or makes no sense.
    """
    from ors_server.replaying.choosing import StoredEpisodes

    wanted = read_filter(options)
    names = tuple(options.episodes or ())
    if options.source is not None:
        yield _of_file(options, wanted, names)
        return
    from ors_server.settings import load_settings
    from ors_server.store.location import MEMORY
    from ors_server.store.open import open_reader

    where = options.store or load_settings().record
    if where == MEMORY:
        raise typer.BadParameter("a record in memory cannot be read from here: give --store or --from.")
    reader = await open_reader(where)
    try:
        yield StoredEpisodes(reader, wanted, names)
    finally:
        await reader.aclose()


def read_filter(options: RecordedOptions) -> "EpisodeFilter":
    """Return which episodes are meant.

    Args:
        options: What the command was told.

    Raises:
        typer.BadParameter: If that is none at all, or a label or a time makes no sense.
    """
    from ors_server.clock import SystemClock
    from ors_server.store.base import ALL

    wanted = read_selection(options, options.environment_name, now=SystemClock().now()).as_filter()
    if wanted == ALL and not (options.episodes or options.everything):
        raise typer.BadParameter("say which episodes: by their ids, by a filter, or --all.")
    return wanted


def _of_file(options: RecordedOptions, wanted: "EpisodeFilter", names: tuple[str, ...]) -> "Episodes":
    from ors_server.export.episode_file import EpisodeFile
    from ors_server.replaying.choosing import FiledEpisodes, StreamedEpisodes

    if options.store is not None:
        raise typer.BadParameter("give one record: --store or --from.")
    if options.source == STDIN:
        return StreamedEpisodes(sys.stdin.buffer, wanted, names)
    file = EpisodeFile(options.source or "")
    if not file.path.is_file():
        raise typer.BadParameter(f"--from names a file of episodes, and there is none at {options.source}.")
    return FiledEpisodes(file, wanted, names)
