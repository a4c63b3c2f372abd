"""Which recorded episodes a command is about, by what they have in common, and where the record is."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ors_server.transports.control_episodes import EpisodeSelection

FILTERS = "Which episodes"

_AGO = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """Where the record is."""

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
    """Which episodes, by what was played."""

    environment: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of this environment.", rich_help_panel=FILTERS)
    ] = None


@dataclass(frozen=True, kw_only=True)
class PlaceFilters:
    """Which episodes, by what does not change while they are played."""

    split: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of this split.", rich_help_panel=FILTERS)
    ] = None
    index: Annotated[
        int | None, typer.Option(help="Of the task at this position.", min=0, rich_help_panel=FILTERS)
    ] = None
    task_hash: Annotated[
        str | None,
        typer.Option(metavar="HASH", help="Of the task with this hash.", rich_help_panel=FILTERS),
    ] = None
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Of sessions with this id.", rich_help_panel=FILTERS)
    ] = None
    credential: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Whose session this key created.", rich_help_panel=FILTERS),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="That bear this label; repeatable.", rich_help_panel=FILTERS),
    ] = None


@dataclass(frozen=True, kw_only=True)
class EpisodeFilters(PlaceFilters):
    """Which episodes, by that and by what became of them."""

    phase: Annotated[
        str | None,
        typer.Option(metavar="PHASE", help="That stand there, e.g. finished.", rich_help_panel=FILTERS),
    ] = None
    stop_reason: Annotated[
        str | None,
        typer.Option(
            metavar="REASON", help="That ended for this reason, e.g. completed.", rich_help_panel=FILTERS
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Created then or later: ISO 8601, UTC unless said, or 90m, 2h, 7d ago.",
            rich_help_panel=FILTERS,
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Created before.", rich_help_panel=FILTERS),
    ] = None
    min_return: Annotated[
        float | None, typer.Option(help="With this return or a greater one.", rich_help_panel=FILTERS)
    ] = None
    max_return: Annotated[
        float | None, typer.Option(help="With this return or a smaller one.", rich_help_panel=FILTERS)
    ] = None
    closed: Annotated[
        bool | None,
        typer.Option(
            "--closed/--open", help="Whose session is gone, or is still there.", rich_help_panel=FILTERS
        ),
    ] = None


def read_selection(options: PlaceFilters, environment: str | None, *, now: datetime) -> "EpisodeSelection":
    """Return which episodes are meant, as the control API takes it.

    Args:
        options: What the command was told.
        environment: Of which environment; `None` for all.
        now: The time, in which `2h` ago is reckoned.

    Raises:
        typer.BadParameter: If something makes no sense.
    """
    from pydantic import ValidationError

    from ors_server.transports.control_episodes import EpisodeSelection

    for text in options.label or ():
        if text.find("=") < 1:
            raise typer.BadParameter(f"--label is KEY=VALUE, not {text!r}.")
    values = {name: getattr(options, name, None) for name in EpisodeSelection.model_fields}
    values |= {"environment": environment, "session_id": options.session}
    for name in ("since", "until"):
        values[name] = read_time(values[name], now)
    try:
        return EpisodeSelection.model_validate({k: v for k, v in values.items() if v not in (None, [])})
    except ValidationError as error:
        raise typer.BadParameter(_say(error)) from error


def read_time(text: str | None, now: datetime) -> datetime | None:
    """Read a time.

    Args:
        text: ISO 8601, in UTC unless it says otherwise; or a number and one of s, m, h, d, w: so long ago.
        now: The time.

    Raises:
        typer.BadParameter: If it is neither.
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


def _say(error: Any) -> str:
    told = error.errors(include_url=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, item['loc'])) or 'filter'}: {item['msg']}" for item in told) + "."
