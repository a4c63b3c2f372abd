"""The record over the control API: episodes found, filtered, read step by step, and followed while they run.

The store alone is asked, so that an episode is read alike while it is played, after its end, and by another
server that shares the store.
"""

import re
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias

from anyio.lowlevel import checkpoint
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    RootModel,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    WrapValidator,
    create_model,
    field_validator,
    model_validator,
)

from ors_server.alarms.watched_runs import AlarmBook
from ors_server.doors.control.activity import ActivityHandlers
from ors_server.doors.control.models import (
    MAX_PAGE,
    MAX_TASKS,
    AlarmList,
    AlarmView,
    Cursor,
    CutBlock,
    DifficultyQuery,
    EnvironmentName,
    LabelText,
    PageQuery,
    SplitDifficulty,
    SplitName,
    TaskDifficulty,
    WholeBlock,
    labels_of,
)
from ors_server.doors.control.operations import (
    LAST_EVENT,
    ControlRequest,
    EventResponse,
    RequestBody,
    RequestQuery,
    encode,
    encode_parts,
    mistakes_of,
    problem_event,
)
from ors_server.doors.http.request_errors import ResponseModel, WrongRequestError
from ors_server.doors.http.sse import comment, event
from ors_server.doors.session_fields import MAX_INTEGER, Position
from ors_server.model.clock import Clock
from ors_server.model.episode import Phase, StopReason
from ors_server.model.errors import (
    CapacityError,
    EpisodeNotFoundError,
    InvalidRequestError,
    OrsServerError,
    ShuttingDownError,
)
from ors_server.model.failures import StatedSummary
from ors_server.model.logs import get_logger
from ors_server.model.trajectory import (
    EpisodeNote,
    EpisodeOrigin,
    EpisodeRecord,
    EpisodeSummary,
    Fork,
    Incident,
    Step,
    Transition,
)
from ors_server.model.wire import Block, ImageBlock, JSONObject
from ors_server.sessions.activity import ActivityFeed
from ors_server.store.aggregates import (
    CallsOfMinute,
    EpisodeTotals,
    PlayedTask,
    RunFigures,
    fill_minutes,
)
from ors_server.store.base import EpisodeStore
from ors_server.store.episode_filter import (
    CONDITIONS,
    PARAMETERS,
    REPEATABLE,
    Condition,
    EpisodeFilter,
    FilterKind,
)
from ors_server.store.episode_order import NEWEST_FIRST, OLDEST_FIRST, EpisodeSorting, parse_order
from ors_server.store.episode_updates import EpisodeUpdate, follow
from ors_server.store.lookup import find_episode
from ors_server.store.series import ReturnHistogram, RolloutGroup, SeriesPoint, check_by

log = get_logger("ors_server.control")

MAX_JOINED = 100
"""Values of one parameter that all have to fit: each is one condition, and SQLite takes 1,000."""
MAX_TEXT = 500
"""Maximum number of characters of a text that is searched for."""

StepNumber: TypeAlias = Annotated[int, Field(ge=1, le=MAX_INTEGER, description="A step's number, from 1.")]
BlockIndex: TypeAlias = Annotated[
    int, Field(ge=0, le=MAX_INTEGER, description="A block's position in its step, from 0.")
]

MAX_NOTE = 10_000
"""Maximum number of characters of a note."""

MAX_MINUTES = 1440
"""Maximum minutes of one answer: a day."""
MAX_POINTS = 10_000
"""Maximum number of points of one answer."""

RunName: TypeAlias = Annotated[str, Field(min_length=1, description="A run: the value of the label `run`.")]

Sort: TypeAlias = Literal[
    "created", "-created", "return", "-return", "steps", "-steps", "duration", "-duration"
]

MAX_FOLLOWERS = 256
"""Streams of steps that are sent at once."""

MAX_PIECE = 64 * 1024
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
    image: str | None = None
    """Id (SHA-256 of its configuration) of the image that was the root of the sandbox; `None` without one."""
    forked_from: Fork | None
    closed: bool
    """Whether the session is gone, so that nothing will be added."""
    episode: StatedSummary
    """The latest figures."""

    @classmethod
    def of(cls, record: EpisodeRecord) -> Self:
        """Show a record."""
        values = {name: getattr(record.origin, name) for name in cls.model_fields if name in _ORIGIN}
        values |= {
            "image": record.origin.image,
            "closed": record.is_closed,
            "episode": StatedSummary.of(record.summary),
        }
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
            summary=self.episode.unstated(),
            prompt=self.prompt,
            transitions=self.transitions,
            incidents=self.incidents,
            is_closed=self.closed,
        )


class PartialEntry(RootModel[dict[str, Any]]):
    """The fields of an episode that `fields` names."""


class EpisodePage(ResponseModel):
    """Episodes on record."""

    # An entry with every field is a mapping, too.
    episodes: Annotated[list[EpisodeEntry] | list[PartialEntry], Field(union_mode="left_to_right")]
    next_cursor: str | None
    """Leads to the next page; `None` on the last one."""
    previous_cursor: str | None = None
    """Leads to the page before, as `before`; `None` on the first one."""
    total: int | None = None
    """How many episodes match, where `total` requested it."""


class RunList(ResponseModel):
    """Runs on record."""

    runs: list[RunFigures]


class PlayedTaskList(ResponseModel):
    """Tasks that were played."""

    tasks: list[PlayedTask]


class NoteBody(RequestBody):
    """A new note about an episode."""

    text: Annotated[str, Field(min_length=1, max_length=MAX_NOTE)]
    verdict: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """A short word for what you decided, such as `cheated`."""
    step: Annotated[int, Field(ge=1, le=MAX_INTEGER)] | None = None
    """Number of the step that it is about; by default it is about the episode."""


class NoteList(ResponseModel):
    """The notes about an episode, oldest first."""

    notes: list[EpisodeNote]


class EpisodeSeries(ResponseModel):
    """Figures over time, in the order of time."""

    points: list[SeriesPoint]


class CallsByMinute(ResponseModel):
    """Each of the last minutes, oldest first; the last one is not over."""

    minutes: list[CallsOfMinute]


class GroupList(ResponseModel):
    """The groups of a run, the one with the oldest episode first."""

    groups: list[RolloutGroup]


class EpisodeStepPage(ResponseModel):
    """A slice of an episode's steps."""

    episode_id: str
    total: int
    """How many steps the episode has so far."""
    steps: list[Step]
    cut: list[CutBlock] = Field(default_factory=list[CutBlock])
    """Blocks that `preview` cut; each is served in full below `/steps/{number}/blocks/{index}`."""


_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")


def _read_instant(value: object, read: Callable[[object], datetime]) -> datetime:
    """Read a time that has an offset, as UTC."""
    if isinstance(value, str) and not _INSTANT.fullmatch(value):
        raise ValueError("expected a time such as 2026-01-31T12:00:00Z, with its offset")
    try:
        return read(value).astimezone(UTC)
    except OverflowError:
        raise ValueError("this time has no UTC equivalent between the years 1 and 9999") from None


def _read_truth(value: object) -> object:
    """Read JSON's two booleans, and no other words for them."""
    if isinstance(value, str):
        if value not in {"true", "false"}:
            raise ValueError("expected true or false")
        return value == "true"
    return value


Instant: TypeAlias = Annotated[datetime, WrapValidator(_read_instant)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Return: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
AnyPhase: TypeAlias = Annotated[
    Phase, WithJsonSchema({"type": "string", "enum": [each.value for each in Phase]})
]
AnyReason: TypeAlias = Annotated[
    StopReason, WithJsonSchema({"type": "string", "enum": [each.value for each in StopReason]})
]


_SOME = Field(max_length=MAX_JOINED)
_PARAMETER_TYPES: Mapping[FilterKind, Any] = {
    FilterKind.NAME: list[Name],
    FilterKind.NAMES: Annotated[list[Name], _SOME],
    FilterKind.MARKS: Annotated[list[Literal["failed", "refused", "penalty", "ungraded"]], _SOME],
    FilterKind.TEXT: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)],
    FilterKind.POSITION: Position,
    FilterKind.PHASE: list[AnyPhase],
    FilterKind.STOP_REASON: list[AnyReason],
    FilterKind.LABELS: Annotated[list[LabelText], _SOME],
    FilterKind.TIME: Instant,
    FilterKind.NUMBER: Return,
    FilterKind.TRUTH: Annotated[bool, BeforeValidator(_read_truth)],
}


class _Selection(RequestQuery):
    repeatable: ClassVar[frozenset[str]] = frozenset(
        PARAMETERS[name] for name, condition in CONDITIONS.items() if condition.kind in REPEATABLE
    )

    @field_validator(*repeatable, mode="before", check_fields=False)
    @classmethod
    def _as_list(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        texts = getattr(self, PARAMETERS["labels"]) or ()
        if len(labels_of(texts)) < len({*texts}):
            raise ValueError("a label has one value; the same key was given with several")
        return self

    def as_filter(self) -> EpisodeFilter:
        """Return the store's filter."""
        values: dict[str, Any] = {}
        for name, condition in CONDITIONS.items():
            value = getattr(self, PARAMETERS[name])
            if value is None:
                continue
            if condition.kind is FilterKind.LABELS:
                value = labels_of(value)
            elif condition.kind in REPEATABLE:
                value = tuple(item.value if isinstance(item, StrEnum) else item for item in value)
                if value[1:] == () and condition.kind not in {FilterKind.NAMES, FilterKind.MARKS}:
                    (value,) = value
            values[name] = value
        return EpisodeFilter(**values)


def _described(condition: Condition) -> str | None:
    several = "Given several times, one of them fits."
    is_either = condition.kind in {FilterKind.NAME, FilterKind.PHASE, FilterKind.STOP_REASON}
    return " ".join(filter(None, (condition.note, several if is_either else ""))) or None


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
                Field(default=None, description=_described(condition)),
            )
            for name, condition in CONDITIONS.items()
        },
    )


def _check_field(name: str) -> str:
    if name not in EpisodeEntry.model_fields:
        raise ValueError(f"expected one of {', '.join(EpisodeEntry.model_fields)}")
    return name


EntryField: TypeAlias = Annotated[
    str,
    AfterValidator(_check_field),
    WithJsonSchema({"type": "string", "enum": [*EpisodeEntry.model_fields]}),
]


class EpisodesQuery(EpisodeSelection):
    """A page of episodes."""

    repeatable: ClassVar[frozenset[str]] = EpisodeSelection.repeatable | {"fields"}

    order: Literal["newest", "oldest"] = "newest"
    """Which ones come first, without `sort`."""
    sort: Sort | None = None
    """What they are ordered by; after a minus the greatest first. Episodes without a duration come last."""
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 100
    cursor: Cursor | None = None
    """`next_cursor` of the page before."""
    before: Cursor | None = None
    """`previous_cursor` of the page after, instead of `cursor`."""
    fields: Annotated[list[EntryField], Field(max_length=100)] | None = None
    """Names of the fields to send of each episode; all by default."""
    total: Annotated[bool, BeforeValidator(_read_truth)] = False
    """Whether to count all episodes that match."""

    @field_validator("fields", mode="before")
    @classmethod
    def _split_fields(cls, value: object) -> object:
        # Query parameters that may be repeated are lists of texts.
        if not isinstance(value, list):
            return value
        return ",".join(map(str, value)).split(",")  # pyright: ignore[reportUnknownArgumentType]

    @model_validator(mode="after")
    def _check_direction(self) -> Self:
        if self.cursor is not None and self.before is not None:
            raise ValueError("give cursor or before, not both")
        return self

    @property
    def page_order(self) -> EpisodeSorting:
        """The order of the pages."""
        if self.sort is not None:
            return parse_order(self.sort)
        return NEWEST_FIRST if self.order == "newest" else OLDEST_FIRST


class TasksQuery(EpisodeSelection):
    """Tasks of the matching episodes."""

    limit: Annotated[int, Field(ge=1, le=MAX_TASKS)] = 1000
    """Maximum number of tasks."""


class SeriesQuery(EpisodeSelection):
    """Figures over time of the matching episodes."""

    repeatable: ClassVar[frozenset[str]] = EpisodeSelection.repeatable | {"by"}

    every: Annotated[str, Field(pattern=r"^[1-9]\d{0,5}[smhd]$")] = "1h"
    """Length of a span of time: a number and s, m, h or d."""
    by: Annotated[list[Name], Field(max_length=4)] | None = None
    """What series are apart by: `environment`, `split`, `environment_version`, `server_version`, or
    `label:KEY`."""

    @field_validator("by")
    @classmethod
    def _check_by(cls, value: list[str] | None) -> list[str] | None:
        problem = check_by(value or ())
        if problem is not None:
            raise ValueError(problem)
        return value

    @property
    def seconds(self) -> float:
        """The length of a span."""
        return int(self.every[:-1]) * {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[self.every[-1]]


class MinutesQuery(RequestQuery):
    """The last minutes."""

    minutes: Annotated[int, Field(ge=1, le=MAX_MINUTES)] = 60
    """How many, the current one included."""


class HistogramQuery(EpisodeSelection):
    """Returns of the matching episodes."""

    bins: Annotated[int, Field(ge=1, le=200)] = 20
    """Number of bins of equal width."""


class StepsQuery(PageQuery):
    """A slice of an episode's steps."""

    preview: Annotated[int, Field(ge=0, le=1 << 20)] | None = None
    """Characters of each block's text to send; images are then sent without their data."""


def _preview(step: Step, length: int, cut: list[CutBlock]) -> Step:
    blocks: list[Block] = []
    for index, block in enumerate(step.blocks):
        text, shown = (block.data, 0) if isinstance(block, ImageBlock) else (block.text, length)
        if len(text) > shown:
            cut.append(CutBlock(number=step.number, index=index, size=len(text)))
            key = "data" if isinstance(block, ImageBlock) else "text"
            blocks.append(block.model_copy(update={key: text[:shown]}))
        else:
            blocks.append(block)
    return replace(step, blocks=tuple(blocks))


class TailQuery(RequestQuery):
    """From where to follow an episode."""

    start: Position = 0
    """Position of the first step, from 0; the header Last-Event-ID wins."""


_POSITION: TypeAdapter[int] = TypeAdapter(Position)


class EpisodeHandlers:
    """Answers requests about the record."""

    def __init__(
        self, store: EpisodeStore, *, clock: Clock, ping_seconds: float, feed: ActivityFeed | None = None
    ) -> None:
        """Read a store; `feed` has what happens in this process's sessions, nothing by default."""
        self._store = store
        self.activity = ActivityHandlers(feed or ActivityFeed(), clock=clock, ping_seconds=ping_seconds)
        self.alarms = AlarmBook(store)
        """The alarms of runs that clients asked about."""
        self._clock = clock
        self._ping_seconds = ping_seconds
        self._is_stopping = False
        self._followers = 0

    def stop(self) -> None:
        """End every stream soon, because a server that stops waits for them."""
        self._is_stopping = True
        self.activity.stop()

    async def list_episodes(self, query: EpisodesQuery) -> EpisodePage:
        """List the episodes on record, live and ended."""
        episode_filter, is_backward = query.as_filter(), query.before is not None
        records = await self._store.page(
            episode_filter,
            after=query.cursor,
            before=query.before,
            limit=query.limit + 1,
            order=query.page_order,
        )
        has_more = len(records) > query.limit
        page = (records[-query.limit :] if is_backward else records[: query.limit]) if has_more else records
        has_next = bool(page) if is_backward else has_more
        has_previous = has_more if is_backward else query.cursor is not None and bool(page)
        entries = [EpisodeEntry.of(record) for record in page]
        chosen = None if query.fields is None else set(query.fields)
        return EpisodePage(
            episodes=entries
            if chosen is None
            else [
                PartialEntry(entry.model_dump(mode="json", by_alias=True, include=chosen))
                for entry in entries
            ],
            next_cursor=page[-1].origin.episode_id if has_next else None,
            previous_cursor=page[0].origin.episode_id if has_previous else None,
            total=(await self._store.totals(episode_filter)).episodes if query.total else None,
        )

    async def list_runs(self, query: EpisodeSelection) -> RunList:
        """List the runs (episodes with the same label `run`), the one with the newest episode first."""
        return RunList(runs=list(await self._store.runs(query.as_filter())))

    async def list_tasks_played(self, query: TasksQuery) -> PlayedTaskList:
        """Return figures of each task over its episodes, by environment, split and index."""
        return PlayedTaskList(tasks=list(await self._store.by_task(query.as_filter(), limit=query.limit)))

    async def get_difficulty(
        self, name: EnvironmentName, split: SplitName, query: DifficultyQuery
    ) -> SplitDifficulty:
        """Return how often each played task of a split was solved, by its index."""
        chosen = EpisodeFilter(environment=(name,), split=(split,), **query.conditions)
        tasks = [TaskDifficulty.of(task) for task in await self._store.by_task(chosen, limit=query.limit)]
        return SplitDifficulty(bands=dict(Counter(task.band for task in tasks)), tasks=tasks)

    async def sum_up_episodes(self, query: EpisodeSelection) -> EpisodeTotals:
        """Return figures over the episodes on record."""
        return await self._store.totals(query.as_filter())

    async def list_series(self, query: SeriesQuery) -> EpisodeSeries:
        """Return figures of the episodes over time, by series."""
        points = await self._store.series(query.as_filter(), query.seconds, query.by or ())
        if len(points) > MAX_POINTS:
            raise InvalidRequestError(
                f"the answer has {len(points):,} points, expected at most {MAX_POINTS:,}: give a longer "
                "`every`, fewer `by`, or a narrower filter"
            )
        return EpisodeSeries(points=list(points))

    async def count_calls(self, query: MinutesQuery) -> CallsByMinute:
        """Return how many calls began in each of the last minutes, in all sessions of every host."""
        now = self._clock.now()
        calls = await self._store.calls_by_minute(now - timedelta(minutes=query.minutes))
        return CallsByMinute(minutes=fill_minutes(calls, now, query.minutes))

    async def count_returns(self, query: HistogramQuery) -> ReturnHistogram:
        """Return how the returns of the graded episodes are distributed."""
        return await self._store.histogram(query.as_filter(), bins=query.bins)

    async def list_groups(self, run: RunName) -> GroupList:
        """List the groups of a run: attempts at one task that belong together."""
        return GroupList(groups=list(await self._store.groups(run)))

    async def list_alarms(self, run: RunName) -> AlarmList:
        """List the open alarms of a run; the first request reads all of its episodes, later ones new ones."""
        watched = await self.alarms.update(run)
        views = [AlarmView.model_validate(alarm.as_json()) for alarm in watched.alarms.open]
        return AlarmList(episodes=watched.alarms.episodes, alarms=views)

    async def get_episode(self, episode: EpisodeName) -> EpisodeRecordView:
        """Return an episode's record without its steps."""
        return EpisodeRecordView.of(await find_episode(self._store, episode))

    async def list_episode_steps(self, episode: EpisodeName, page: StepsQuery) -> EpisodeStepPage:
        """Return a slice of an episode's steps."""
        record = await find_episode(self._store, episode)
        steps = await self._store.steps(record.origin.episode_id, page.start, page.end)
        cut: list[CutBlock] = []
        if page.preview is not None:
            steps = [_preview(step, page.preview, cut) for step in steps]
        return EpisodeStepPage(
            episode_id=record.origin.episode_id,
            total=record.summary.steps,
            steps=list(steps),
            cut=cut,
        )

    async def get_block(self, episode: EpisodeName, number: StepNumber, index: BlockIndex) -> WholeBlock:
        """Return one block of a step, in full."""
        record = await find_episode(self._store, episode)
        steps = await self._store.steps(record.origin.episode_id, number - 1, number)
        if not steps or index >= len(steps[0].blocks):
            raise EpisodeNotFoundError(
                f"the episode {record.origin.episode_id} has no block {index} of step {number}"
            )
        return WholeBlock(block=steps[0].blocks[index])

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

    async def list_notes(self, episode: EpisodeName) -> NoteList:
        """List the notes about an episode, oldest first."""
        record = await find_episode(self._store, episode)
        return NoteList(notes=list(await self._store.notes(record.origin.episode_id)))

    async def add_note(self, request: ControlRequest, episode: EpisodeName, body: NoteBody) -> EpisodeNote:
        """Write a note about an episode; the record stays as it is."""
        record = await find_episode(self._store, episode)
        if body.step is not None and body.step > record.summary.steps:
            raise InvalidRequestError(
                f"the episode has {record.summary.steps} steps; expected one of them, got step {body.step}"
            )
        author = request.caller.credential_id or "local"
        note = EpisodeNote(token_hex(8), author, self._clock.now(), body.text, body.verdict, body.step)
        await self._store.add_note(record.origin.episode_id, note)
        return note

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
                    yield event("end", encode(StatedSummary.of(sent)))


def _pieces(news: EpisodeUpdate, sent: EpisodeSummary | None, *, is_overdue: bool) -> Iterator[bytes]:
    """Write an update: new steps, and figures that have changed; or a comment when silent for too long."""
    piece = b""
    for step in news.steps:
        piece += b"event: step\nid: %d\ndata: " % step.number
        for part in encode_parts(step):
            piece += part
            if len(piece) > MAX_PIECE:
                yield piece
                piece = b""
        piece += b"\n\n"
    if news.record.summary != sent:
        piece += event("summary", encode(StatedSummary.of(news.record.summary)))
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
