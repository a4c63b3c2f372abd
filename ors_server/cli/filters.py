"""Options that select recorded episodes, and the store that has them."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

if TYPE_CHECKING:
    from ors_server.store.base import EpisodeFilter, RecordReader

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


@dataclass(frozen=True, kw_only=True)
class EnvironmentFilter:
    """Selects episodes of one environment."""

    panel: ClassVar = FILTERS

    environment: Annotated[str | None, typer.Option(metavar="NAME", help="Of this environment.")] = None


@dataclass(frozen=True, kw_only=True)
class PlaceFilters:
    """Selects episodes by properties that never change."""

    panel: ClassVar = FILTERS

    split: Annotated[str | None, typer.Option(metavar="NAME", help="Of this split.")] = None
    index: Annotated[int | None, typer.Option(help="Of the task at this position.", min=0)] = None
    task_hash: Annotated[str | None, typer.Option(metavar="HASH", help="Of the task with this hash.")] = None
    session: Annotated[str | None, typer.Option(metavar="ID", help="Of sessions with this id.")] = None
    credential: Annotated[str | None, typer.Option(metavar="ID", help="Whose session this key created.")] = (
        None
    )
    label: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="With this label; repeatable.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class EpisodeFilters(PlaceFilters):
    """Selects episodes by these properties and by their state."""

    panel: ClassVar = FILTERS

    phase: Annotated[str | None, typer.Option(metavar="PHASE", help="In this phase, e.g. finished.")] = None
    stop_reason: Annotated[
        str | None, typer.Option(metavar="REASON", help="That ended for this reason, e.g. completed.")
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Created then or later: ISO 8601, UTC by default, or 90m, 2h, 7d ago."
        ),
    ] = None
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Created before.")] = None
    min_return: Annotated[float | None, typer.Option(help="With this return or a greater one.")] = None
    max_return: Annotated[float | None, typer.Option(help="With this return or a smaller one.")] = None
    closed: Annotated[
        bool | None, typer.Option("--closed/--open", help="Whose session is gone, or is still there.")
    ] = None
    unjudged: Annotated[
        bool | None,
        typer.Option("--unjudged/--judged", help="With a step whose judgement failed, or without one."),
    ] = None


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


def read_filter(options: PlaceFilters, environment: str | None, *, now: datetime) -> "EpisodeFilter":
    """Return the filter that the options describe; `2h` is that long before `now`.

    Raises:
        typer.BadParameter: If a value is wrong.
    """
    from pydantic import ValidationError

    from ors_server.doors.control.episodes import EpisodeSelection

    for text in options.label or ():
        if text.find("=") < 1:
            raise typer.BadParameter(f"--label is KEY=VALUE, not {text!r}.")
    values = {name: getattr(options, name, None) for name in EpisodeSelection.model_fields}
    values |= {"environment": environment, "session_id": options.session}
    for name in ("since", "until"):
        values[name] = read_time(values[name], now)
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
            f"a time is ISO 8601, such as 2026-01-31T12:00, or 90m, 2h, 7d for so long ago, not {text!r}."
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _describe(error: Any) -> str:
    mistakes = error.errors(include_url=False, include_input=False)
    return (
        "; ".join(f"{'.'.join(map(str, item['loc'])) or 'filter'}: {item['msg']}" for item in mistakes) + "."
    )
