"""Which episodes a caller of the control API may ask for."""

import re
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from ors_server.episode import Phase, StopReason
from ors_server.store.base import EpisodeFilter
from ors_server.transports.control_requests import MAX_PAGE, Position, Query

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")


def _check_instant(value: object) -> object:
    if isinstance(value, str) and not _INSTANT.fullmatch(value):
        raise ValueError("expected a time such as 2026-01-31T12:00:00Z, with its offset")
    return value


def _as_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("this time has no UTC equivalent between the years 1 and 9999") from None


def _read_truth(value: object) -> object:
    """Take the two words that JSON has for truth, and none of the others that mean the same elsewhere."""
    if isinstance(value, str):
        if value not in {"true", "false"}:
            raise ValueError("expected true or false")
        return value == "true"
    return value


Instant: TypeAlias = Annotated[datetime, BeforeValidator(_check_instant), AfterValidator(_as_utc)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Return: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
AnyPhase: TypeAlias = Annotated[
    Phase, WithJsonSchema({"type": "string", "enum": [each.value for each in Phase]})
]
AnyReason: TypeAlias = Annotated[
    StopReason, WithJsonSchema({"type": "string", "enum": [each.value for each in StopReason]})
]


class EpisodeSelection(Query):
    """Which episodes are meant: those that agree with everything that is said."""

    repeatable: ClassVar[frozenset[str]] = frozenset({"label"})

    environment: Name | None = None
    """The environment's name, as it is recorded."""
    split: Name | None = None
    index: Position | None = None
    task_hash: Name | None = None
    """SHA-256 of the task's canonical JSON."""
    session_id: Name | None = None
    phase: AnyPhase | None = None
    stop_reason: AnyReason | None = None
    credential: Name | None = None
    """Id of the key that created the session."""
    label: list[Annotated[str, Field(pattern=r"^[^=]+=")]] | None = None
    """`KEY=VALUE`; given several times, the episode bears all of them."""
    since: Instant | None = None
    """Created then or later; an ISO 8601 time with its offset."""
    until: Instant | None = None
    """Created before."""
    min_return: Return | None = None
    max_return: Return | None = None
    """Both inclusive."""
    closed: Annotated[bool, BeforeValidator(_read_truth)] | None = None
    """Whether the session is gone."""

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        if len(self.labels) < len({*(self.label or ())}):
            raise ValueError("a label has one value; the same key was given with several")
        return self

    @property
    def labels(self) -> dict[str, str]:
        """Labels that the episodes must bear."""
        pairs = (text.partition("=") for text in self.label or ())
        return {key: value for key, _, value in pairs}

    def as_filter(self) -> EpisodeFilter:
        """Return the same as the store wants it."""
        return EpisodeFilter(
            environment=self.environment,
            split=self.split,
            index=self.index,
            task_hash=self.task_hash,
            session_id=self.session_id,
            phase=None if self.phase is None else self.phase.value,
            stop_reason=None if self.stop_reason is None else self.stop_reason.value,
            credential_id=self.credential,
            labels=self.labels,
            since=self.since,
            until=self.until,
            min_return=self.min_return,
            max_return=self.max_return,
            closed=self.closed,
        )


class EpisodesQuery(EpisodeSelection):
    """A page of episodes."""

    order: Literal["newest", "oldest"] = "newest"
    """Which ones come first."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 100
    cursor: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,1024}$")] | None = None
    """`next_cursor` of the page before."""


class TailQuery(Query):
    """From where to follow an episode."""

    start: Position = 0
    """Position of the first step, from 0; the header Last-Event-ID wins."""
