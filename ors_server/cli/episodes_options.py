"""What the commands of `ors-server episodes` can be told."""

from dataclasses import dataclass
from typing import Annotated

import typer

from ors_server.cli.filters import EnvironmentFilter, EpisodeFilters, PlaceFilters, StoreOptions


@dataclass(frozen=True, kw_only=True)
class SourceOptions(StoreOptions):
    """Where the record is: a store, or a server that has one."""

    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Ask a running server instead; its key is read from ORS_API_KEY."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ListOptions(EpisodeFilters, EnvironmentFilter, SourceOptions):
    """What `episodes list` can be told."""

    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="Begin with the oldest one, not the newest.")
    ] = False
    limit: Annotated[int, typer.Option(help="Most episodes.", min=1)] = 50
    json: Annotated[bool, typer.Option("--json", help="Print one object a line.")] = False


@dataclass(frozen=True, kw_only=True)
class ShowOptions(SourceOptions):
    """What `episodes show` can be told."""

    episode: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="An episode's id, at least 6 digits of its beginning, or a session's id."
        ),
    ]
    step: Annotated[int | None, typer.Option(help="Show this step only, from 1.", min=1)] = None
    full: Annotated[bool, typer.Option("--full", help="Cut nothing, however long it is.")] = False
    json: Annotated[
        bool, typer.Option("--json", help="Print the whole record, steps included, as one object.")
    ] = False


@dataclass(frozen=True, kw_only=True)
class TailOptions(PlaceFilters, EnvironmentFilter, SourceOptions):
    """What `episodes tail` can be told."""

    episode: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="As for show; all that happens from now on by default.", show_default=False
        ),
    ] = None
    start: Annotated[int, typer.Option(help="With an ID: position of the first step, from 0.", min=0)] = 0
    full: Annotated[bool, typer.Option("--full", help="Cut nothing, however long it is.")] = False
    json: Annotated[bool, typer.Option("--json", help="Print one object per event.")] = False
