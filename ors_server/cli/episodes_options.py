"""Options of the commands of `ors-server episodes`."""

from dataclasses import dataclass
from typing import Annotated

import typer

from ors_server.cli.filters import EpisodeFilters, OriginFilters, StoreChoice


@dataclass(frozen=True, kw_only=True)
class SourceOptions(StoreChoice):
    """Where the episodes are: in a store, or at a server."""

    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Read from a running server; its key is read from ORS_API_KEY."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class EpisodesListOptions(EpisodeFilters, SourceOptions):
    """Options of `episodes list`."""

    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="Begin with the oldest one, not the newest.")
    ] = False
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="Order by created, return, steps or duration; -return begins with the greatest.",
            show_default=False,
        ),
    ] = None
    limit: Annotated[int, typer.Option(help="Most episodes.", min=1)] = 50
    json: Annotated[bool, typer.Option("--json", help="Print one object a line.")] = False


@dataclass(frozen=True, kw_only=True)
class StatsOptions(EpisodeFilters, SourceOptions):
    """Options of `episodes stats`."""

    every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Figures over time: a row for each span of this length, such as 10m, 2h or 1d.",
            show_default=False,
        ),
    ] = None
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Figures apart by these, separated by commas: environment, split, environment_version, "
            "server_version, label:KEY.",
            show_default=False,
        ),
    ] = None
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TRACKER:PLACE",
            help="Write the figures to tensorboard:FOLDER, wandb:PROJECT or mlflow:EXPERIMENT: a run for "
            "each group, a step for each span.",
            show_default=False,
        ),
    ] = None
    json: Annotated[bool, typer.Option("--json", help="Print one object a line.")] = False


@dataclass(frozen=True, kw_only=True)
class ShowOptions(SourceOptions):
    """Options of `episodes show`."""

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
class TailOptions(OriginFilters, SourceOptions):
    """Options of `episodes tail`."""

    episode: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="As for show; all that happens from now on by default.", show_default=False
        ),
    ] = None
    start: Annotated[int, typer.Option(help="With an ID: position of the first step, from 0.", min=0)] = 0
    full: Annotated[bool, typer.Option("--full", help="Cut nothing, however long it is.")] = False
    json: Annotated[bool, typer.Option("--json", help="Print one object per event.")] = False
