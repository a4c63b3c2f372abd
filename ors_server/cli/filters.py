"""Options that select recorded episodes, and the store that has them."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from ors_server.store.episode_filter import CONDITIONS, PARAMETERS, REPEATABLE, Condition, FilterKind

if TYPE_CHECKING:
    from ors_server.store.base import RecordReader
    from ors_server.store.episode_filter import EpisodeFilter

FILTERS = "Which episodes"

_AGO = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, kw_only=True)
class StoreChoice:
    """The option `--store`."""

    store: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL",
            help="The record: a SQLite file or a postgresql:// URL; the setting `store` by default.",
            show_default=False,
        ),
    ] = None


FilterValues: TypeAlias = Mapping[str, Any]
"""What the options of filters were given, by the control API's parameters; what was not given is `None`."""
_OPTION_TYPES: Mapping[FilterKind, Any] = {
    FilterKind.POSITION: int | None,
    **dict.fromkeys(REPEATABLE, list[str] | None),
    FilterKind.NUMBER: float | None,
    FilterKind.TRUTH: bool | None,
}
_LEAST = {FilterKind.POSITION: 0}
_METAVARS = {FilterKind.NAME: "NAME", FilterKind.POSITION: "N", FilterKind.NUMBER: "NUMBER"}


@dataclass(frozen=True, slots=True)
class FilterOptions:
    """Stands for an option of each condition of the store's filter."""

    without: frozenset[str] = frozenset()
    """Fields of `EpisodeFilter` that have no option."""
    all_of_origin: bool = False
    """Whether to leave out what may change while an episode is played."""

    def parameters(self) -> dict[str, tuple[str, Any]]:
        """Return the parameter that each option sets and the option's typer annotation, by its name."""
        return {
            condition.option or PARAMETERS[name]: (PARAMETERS[name], _option(condition))
            for name, condition in CONDITIONS.items()
            if name not in self.without and not (self.all_of_origin and condition.changes)
        }


def _option(condition: Condition) -> Any:
    option = typer.Option(
        *(() if condition.flags is None else (condition.flags,)),
        help=condition.help,
        min=_LEAST.get(condition.kind),
        metavar=condition.metavar or _METAVARS.get(condition.kind),
        rich_help_panel=FILTERS,
    )
    return Annotated[_OPTION_TYPES.get(condition.kind, str | None), option]


@dataclass(frozen=True, kw_only=True)
class EpisodeFilters:
    """Selects episodes by every condition."""

    filters: Annotated[FilterValues, FilterOptions()] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, kw_only=True)
class OriginFilters:
    """Selects episodes by properties that never change."""

    filters: Annotated[FilterValues, FilterOptions(all_of_origin=True)] = field(
        default_factory=dict[str, Any]
    )


@dataclass(frozen=True, kw_only=True)
class FiltersOfEnvironment:
    """Selects episodes by every condition but the environment, which the command takes in another way."""

    filters: Annotated[FilterValues, FilterOptions(without=frozenset({"environment"}))] = field(
        default_factory=dict[str, Any]
    )


@asynccontextmanager
async def open_record(store: str | None, alternatives: str) -> AsyncGenerator["RecordReader"]:
    """Open a store for reading; without one, that of the settings.

    Raises:
        typer.BadParameter: If it is in memory; names the alternatives.
    """
    from ors_server.model.settings import load_settings
    from ors_server.store.location import MEMORY
    from ors_server.store.open import open_reader

    where = store or load_settings().record
    if where == MEMORY:
        raise typer.BadParameter(f"a record in memory is read at its server only: give {alternatives}.")
    reader = await open_reader(where)
    try:
        yield reader
    finally:
        await reader.aclose()


def read_filter(filters: FilterValues, *, now: datetime) -> "EpisodeFilter":
    """Return the filter that the options describe; `2h` is that long before `now`.

    Raises:
        typer.BadParameter: If a value is wrong.
    """
    from pydantic import ValidationError

    from ors_server.doors.control.episodes import EpisodeSelection

    values = dict(filters)
    for text in values.get(PARAMETERS["labels"]) or ():
        if text.find("=") < 1:
            raise typer.BadParameter(f"--label must be KEY=VALUE, got {text!r}.")
    for name, condition in CONDITIONS.items():
        if condition.kind is FilterKind.TIME:
            values[PARAMETERS[name]] = read_time(values.get(PARAMETERS[name]), now)
    try:
        chosen = {name: value for name, value in values.items() if value not in (None, [])}
        return EpisodeSelection.model_validate(chosen).as_filter()
    except ValidationError as error:
        raise typer.BadParameter(_describe(error)) from error


def read_time(text: str | None, now: datetime) -> datetime | None:
    """Read a time: ISO 8601, in UTC by default; or a number and s, m, h, d or w, for that long before `now`.

    Raises:
        typer.BadParameter: If the text is neither.
    """
    if text is None:
        return None
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            "a time must be ISO 8601, such as 2026-01-31T12:00, or 90m, 2h, 7d for so long ago, "
            f"got {text!r}."
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _describe(error: Any) -> str:
    mistakes = error.errors(include_url=False, include_input=False)
    return "; ".join(f"{next(iter(item['loc']), 'filter')}: {item['msg']}" for item in mistakes) + "."
