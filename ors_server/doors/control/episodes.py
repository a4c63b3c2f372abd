"""The record over the control API: episodes found, filtered, read step by step, and followed while they run.

The store alone is asked, so that an episode is read alike while it is played, after its end, and by another
server that shares the store.
"""

import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias

from anyio.lowlevel import checkpoint
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    create_model,
    model_validator,
)

from ors_server.doors.control.models import MAX_PAGE, Cursor, PageQuery, Position
from ors_server.doors.control.operations import (
    ControlRequest,
    EventResponse,
    RequestQuery,
    encode,
    encode_parts,
    mistakes_of,
)
from ors_server.doors.http.request_errors import Problem, ResponseModel, WrongRequestError
from ors_server.doors.http.sse import comment, event
from ors_server.model.clock import Clock
from ors_server.model.episode import Phase, StopReason
from ors_server.model.errors import CapacityError, OrsServerError, ShuttingDownError
from ors_server.model.logs import get_logger
from ors_server.model.trajectory import (
    EpisodeOrigin,
    EpisodeRecord,
    EpisodeSummary,
    Fork,
    Incident,
    Step,
    Transition,
)
from ors_server.model.wire import Block, JSONObject
from ors_server.store.base import EpisodeTotals, RecordReader
from ors_server.store.episode_filter import CONDITIONS, PARAMETERS, EpisodeFilter, FilterKind
from ors_server.store.episode_updates import EpisodeUpdate, follow
from ors_server.store.lookup import find_episode

log = get_logger("ors_server.control")

LAST_EVENT = "last-event-id"
"""The header with which a reader of events comes back: the number of the last step that it has."""

MAX_FOLLOWERS = 256
"""Streams of steps that are sent at once."""

LONGEST_PIECE = 64 * 1024
"""Bytes of steps that are put together into one write."""

EpisodeName: TypeAlias = Annotated[
    str,
    Field(
        min_length=1,
        description="An episode's id, at least 6 digits of its beginning, or its session's id.",
    ),
]

_ORIGIN = frozenset(field.name for field in fields(EpisodeOrigin))


class EpisodeEntry(ResponseModel):
    """An episode in a list."""

    episode_id: str
    session_id: str
    environment: str
    environment_version: str
    server_version: str
    task_hash: str
    """SHA-256 of the task's canonical JSON."""
    split: str | None
    index: int | None
    created_at: datetime
    credential_id: str | None
    """Id of the key that created the session; never the key."""
    visibility: str
    """What the agent saw of rewards."""
    toolset: str | None
    seed: int
    labels: dict[str, str]
    packages: dict[str, str]
    """Versions of Python and of the environment's distribution."""
    forked_from: Fork | None
    closed: bool
    """Whether the session is gone, so that nothing will be added."""
    episode: EpisodeSummary
    """The latest figures."""

    @classmethod
    def of(cls, record: EpisodeRecord) -> Self:
        """Show a record."""
        values = {name: getattr(record.origin, name) for name in cls.model_fields if name in _ORIGIN}
        values |= {"closed": record.is_closed, "episode": record.summary}
        values |= {"prompt": record.prompt, "transitions": record.transitions, "incidents": record.incidents}
        return cls.model_validate(values)


class EpisodeRecordView(EpisodeEntry):
    """An episode's record without its steps."""

    task_spec: JSONObject
    policy: JSONObject
    """The rules in force, overrides included."""
    sandbox: JSONObject | None
    """What isolated the agent's commands; `None` if the environment runs none."""
    prompt: tuple[Block, ...] | None
    """The prompt; `None` if it was never requested."""
    transitions: tuple[Transition, ...]
    """Every transition, in order."""
    incidents: tuple[Incident, ...]
    """What else happened to the session, in order: restored snapshots, restarts of the server."""
    creation: str | None
    """Digest of the request that created the session; `None` if the server made its id."""
    has_secrets: bool
    """Whether the session was given secrets that its environment may need; they are not on record."""

    def as_record(self) -> EpisodeRecord:
        """Return the record that is shown, exactly."""
        return EpisodeRecord(
            origin=EpisodeOrigin(**{name: getattr(self, name) for name in _ORIGIN}),
            summary=self.episode,
            prompt=self.prompt,
            transitions=self.transitions,
            incidents=self.incidents,
            is_closed=self.closed,
        )


class EpisodePage(ResponseModel):
    """Episodes on record."""

    episodes: list[EpisodeEntry]
    next_cursor: str | None
    """Leads to the next page; `None` on the last one."""


class EpisodeStepPage(ResponseModel):
    """A slice of an episode's steps."""

    episode_id: str
    total: int
    """How many steps the episode has so far."""
    steps: list[Step]


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
    """Read JSON's two booleans, and no other words for them."""
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


_LabelText: TypeAlias = Annotated[str, Field(pattern=r"^[^=]+=")]
_PARAMETER_TYPES: Mapping[FilterKind, Any] = {
    FilterKind.NAME: Name,
    FilterKind.POSITION: Position,
    FilterKind.PHASE: AnyPhase,
    FilterKind.STOP_REASON: AnyReason,
    FilterKind.LABELS: list[_LabelText],
    FilterKind.TIME: Instant,
    FilterKind.NUMBER: Return,
    FilterKind.TRUTH: Annotated[bool, BeforeValidator(_read_truth)],
}


class _Selection(RequestQuery):
    repeatable: ClassVar[frozenset[str]] = frozenset({PARAMETERS["labels"]})

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        texts = getattr(self, PARAMETERS["labels"]) or ()
        if len(_by_key(texts)) < len({*texts}):
            raise ValueError("a label has one value; the same key was given with several")
        return self

    def as_filter(self) -> EpisodeFilter:
        """Return the store's filter."""
        values: dict[str, Any] = {}
        for name, condition in CONDITIONS.items():
            value = getattr(self, PARAMETERS[name])
            if value is None:
                continue
            values[name] = _by_key(value) if condition.kind is FilterKind.LABELS else value
            if isinstance(value, StrEnum):
                values[name] = value.value
        return EpisodeFilter(**values)


def _by_key(texts: Iterable[str]) -> dict[str, str]:
    pairs = (text.partition("=") for text in texts)
    return {key: value for key, _, value in pairs}


if TYPE_CHECKING:
    EpisodeSelection = _Selection
else:  # the parameters are the conditions of the store's filter
    EpisodeSelection = create_model(
        "EpisodeSelection",
        __base__=_Selection,
        __module__=__name__,
        __doc__="Selects the episodes that match every parameter given.",
        **{
            PARAMETERS[name]: (
                _PARAMETER_TYPES[condition.kind] | None,
                Field(default=None, description=condition.note or None),
            )
            for name, condition in CONDITIONS.items()
        },
    )


class EpisodesQuery(EpisodeSelection):
    """A page of episodes."""

    order: Literal["newest", "oldest"] = "newest"
    """Which ones come first."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 100
    cursor: Cursor | None = None
    """`next_cursor` of the page before."""


class TailQuery(RequestQuery):
    """From where to follow an episode."""

    start: Position = 0
    """Position of the first step, from 0; the header Last-Event-ID wins."""


_POSITION: TypeAdapter[int] = TypeAdapter(Position)


class EpisodeHandlers:
    """Answers requests about the record."""

    def __init__(self, store: RecordReader, *, clock: Clock, ping_seconds: float) -> None:
        self._store = store
        self._clock = clock
        self._ping_seconds = ping_seconds
        self._is_stopping = False
        self._followers = 0

    def stop(self) -> None:
        """End every stream soon, because a server that stops waits for them."""
        self._is_stopping = True

    async def list_episodes(self, query: EpisodesQuery) -> EpisodePage:
        """List the episodes on record, live and ended."""
        records = await self._store.page(
            query.as_filter(),
            after=query.cursor,
            limit=query.limit + 1,
            newest_first=query.order == "newest",
        )
        page = records[: query.limit]
        return EpisodePage(
            episodes=[EpisodeEntry.of(record) for record in page],
            next_cursor=page[-1].origin.episode_id if len(records) > len(page) else None,
        )

    async def sum_up_episodes(self, query: EpisodeSelection) -> EpisodeTotals:
        """Return figures over the episodes on record."""
        return await self._store.totals(query.as_filter())

    async def get_episode(self, episode: EpisodeName) -> EpisodeRecordView:
        """Return an episode's record without its steps."""
        return EpisodeRecordView.of(await find_episode(self._store, episode))

    async def list_episode_steps(self, episode: EpisodeName, page: PageQuery) -> EpisodeStepPage:
        """Return a slice of an episode's steps."""
        record = await find_episode(self._store, episode)
        steps = await self._store.steps(record.origin.episode_id, page.start, page.end)
        return EpisodeStepPage(
            episode_id=record.origin.episode_id,
            total=record.summary.steps,
            steps=list(steps),
        )

    async def follow_episode(
        self, request: ControlRequest, episode: EpisodeName, query: TailQuery
    ) -> EventResponse[Step]:
        """Stream an episode's steps, then each new one as it comes, until the record is closed."""
        start = query.start
        if LAST_EVENT in request.headers:
            start = read_last_event(request.headers[LAST_EVENT])
        record = await find_episode(self._store, episode)
        if self._followers >= MAX_FOLLOWERS:
            raise CapacityError(f"{MAX_FOLLOWERS} streams of episodes are open already; close one, or retry")
        return EventResponse(self._events(record.origin.episode_id, start))

    async def _events(self, episode_id: str, start: int) -> AsyncGenerator[bytes, None]:
        self._followers += 1
        try:
            async with aclosing(self._follow(episode_id, start)) as pieces:
                async for piece in pieces:
                    yield piece
        except OrsServerError as error:
            yield problem_event(error)
        except Exception:  # a stream that has begun must end with an event in every case
            log.exception("tail_defect", episode_id=episode_id)
            yield problem_event(OrsServerError("the server failed; its log has the details"))
        finally:
            self._followers -= 1

    async def _follow(self, episode_id: str, start: int) -> AsyncGenerator[bytes, None]:
        sent: EpisodeSummary | None = None
        last_sent = self._clock.monotonic()
        async with aclosing(follow(self._store, episode_id, start=start, clock=self._clock)) as looks:
            async for news in looks:
                if self._is_stopping:
                    raise ShuttingDownError("the server is stopping; come back with Last-Event-ID")
                now = self._clock.monotonic()
                for piece in _pieces(news, sent, is_overdue=now - last_sent >= self._ping_seconds):
                    last_sent = now
                    yield piece
                    await checkpoint()  # others run between two long pieces
                sent = news.record.summary
                if news.is_last:
                    yield event("end", encode(sent))


def _pieces(news: EpisodeUpdate, sent: EpisodeSummary | None, *, is_overdue: bool) -> Iterator[bytes]:
    """Write an update: new steps, and figures that have changed; or a comment when silent for too long."""
    piece = b""
    for step in news.steps:
        piece += b"event: step\nid: %d\ndata: " % step.number
        for part in encode_parts(step):
            piece += part
            if len(piece) > LONGEST_PIECE:
                yield piece
                piece = b""
        piece += b"\n\n"
    if news.record.summary != sent:
        piece += event("summary", encode(news.record.summary))
    if not news.steps and not piece and is_overdue:
        piece = comment("ping")
    if piece:
        yield piece


def read_last_event(value: str) -> int:
    """Return the position that follows the last step that a reader has.

    Raises:
        WrongRequestError: If it is not the number of a step.
    """
    try:
        return _POSITION.validate_python(value)
    except ValidationError as error:
        raise WrongRequestError(mistakes_of("header", error, LAST_EVENT)) from error


def problem_event(error: OrsServerError) -> bytes:
    """Write a failure as an event."""
    return event("error", encode(Problem(detail=str(error), code=error.code, blame=error.blame)))
