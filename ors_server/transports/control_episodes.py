"""The record over the control API: episodes found, filtered, read step by step, and followed while they run.

The store alone is asked, so that an episode is read alike while it is played, after its end, and by another
server that shares the store.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing

from anyio.lowlevel import checkpoint
from pydantic import TypeAdapter, ValidationError

from ors_server.clock import Clock
from ors_server.errors import CapacityError, OrsServerError, ShuttingDownError
from ors_server.logs import get_logger
from ors_server.store.base import RecordReader
from ors_server.store.episode_updates import EpisodeUpdate, follow
from ors_server.store.lookup import find_episode
from ors_server.trajectory import EpisodeRecord, EpisodeSummary
from ors_server.transports.control_models import Problem, StepView
from ors_server.transports.control_models_episodes import (
    EpisodeEntry,
    EpisodePage,
    EpisodeRecordView,
    EpisodeStepPage,
    EpisodeTotalsView,
    show_figures,
)
from ors_server.transports.control_requests import PageQuery, Position
from ors_server.transports.control_requests_episodes import EpisodeSelection, EpisodesQuery, TailQuery
from ors_server.transports.control_routes import (
    EventStream,
    Request,
    WrongRequestError,
    encode,
    encode_parts,
    mistakes_of,
)
from ors_server.transports.sse import comment, event

log = get_logger("ors_server.control")

LAST_EVENT = "last-event-id"
"""The header with which a reader of events comes back: the number of the last step that it has."""

MAX_FOLLOWERS = 256
"""Streams of steps that are sent at once."""

LONGEST_PIECE = 64 * 1024
"""Bytes of steps that are put together into one write."""

_POSITION: TypeAdapter[int] = TypeAdapter(Position)


class EpisodeHandlers:
    """Answers requests about the record."""

    def __init__(self, store: RecordReader, *, clock: Clock, ping_seconds: float) -> None:
        """Keep what the answers need.

        Args:
            store: The record.
            clock: Measures the pauses of streams.
            ping_seconds: Seconds of silence after which a stream says that it is alive.
        """
        self._store = store
        self._clock = clock
        self._ping_seconds = ping_seconds
        self._is_stopping = False
        self._followers = 0

    def stop(self) -> None:
        """End every stream soon; the server is about to stop, and would wait for them."""
        self._is_stopping = True

    async def list_episodes(self, request: Request) -> EpisodePage:
        """Show a page of episodes."""
        query = request.query(EpisodesQuery)
        found = await self._store.page(
            query.as_filter(),
            after=query.cursor,
            limit=query.limit + 1,
            newest_first=query.order == "newest",
        )
        page = found[: query.limit]
        return EpisodePage(
            episodes=[EpisodeEntry.of(record) for record in page],
            next_cursor=page[-1].origin.episode_id if len(found) > len(page) else None,
        )

    async def sum_up_episodes(self, request: Request) -> EpisodeTotalsView:
        """Show figures over all episodes that are meant."""
        wanted = request.query(EpisodeSelection).as_filter()
        return EpisodeTotalsView.of(await self._store.totals(wanted))

    async def get_episode(self, request: Request) -> EpisodeRecordView:
        """Show one episode in full, but for its steps."""
        return EpisodeRecordView.of(await self._find(request))

    async def list_episode_steps(self, request: Request) -> EpisodeStepPage:
        """Show a slice of an episode's steps."""
        page = request.query(PageQuery)
        record = await self._find(request)
        steps = await self._store.steps(record.origin.episode_id, page.start, page.end)
        return EpisodeStepPage(
            episode_id=record.origin.episode_id,
            total=record.summary.steps,
            steps=[StepView.of(step) for step in steps],
        )

    async def follow_episode(self, request: Request) -> EventStream:
        """Send an episode's steps as they come."""
        start = request.query(TailQuery).start
        if LAST_EVENT in request.headers:
            start = read_last_event(request.headers[LAST_EVENT])
        record = await self._find(request)
        if self._followers >= MAX_FOLLOWERS:
            raise CapacityError(f"{MAX_FOLLOWERS} readers follow episodes of this server already")
        return EventStream(self._events(record.origin.episode_id, start))

    async def _find(self, request: Request) -> EpisodeRecord:
        return await find_episode(self._store, request.path["episode"])

    async def _events(self, episode_id: str, start: int) -> AsyncGenerator[bytes, None]:
        self._followers += 1
        try:
            async with aclosing(self._tell(episode_id, start)) as pieces:
                async for piece in pieces:
                    yield piece
        except OrsServerError as error:
            yield tell_problem(error)
        except Exception:  # a stream that has begun must end with an event, whatever happened
            log.exception("tail_defect", episode_id=episode_id)
            yield tell_problem(OrsServerError("the server failed; its log has the details"))
        finally:
            self._followers -= 1

    async def _tell(self, episode_id: str, start: int) -> AsyncGenerator[bytes, None]:
        told: EpisodeSummary | None = None
        spoke = self._clock.monotonic()
        async with aclosing(follow(self._store, episode_id, start=start, clock=self._clock)) as looks:
            async for news in looks:
                if self._is_stopping:
                    raise ShuttingDownError("the server is stopping; come back with Last-Event-ID")
                now = self._clock.monotonic()
                for piece in _pieces(news, told, is_overdue=now - spoke >= self._ping_seconds):
                    spoke = now
                    yield piece
                    await checkpoint()  # others run between two long pieces
                told = news.record.summary
                if news.is_last:
                    yield event("end", encode(show_figures(told)))


def _pieces(news: EpisodeUpdate, told: EpisodeSummary | None, *, is_overdue: bool) -> Iterator[bytes]:
    """Write what a look showed: the steps, and the figures if they have changed; or a sign of life."""
    piece = b""
    for step in news.steps:
        piece += b"event: step\nid: %d\ndata: " % step.number
        for part in encode_parts(StepView.of(step)):
            piece += part
            if len(piece) > LONGEST_PIECE:
                yield piece
                piece = b""
        piece += b"\n\n"
    if news.record.summary != told:
        piece += event("summary", encode(show_figures(news.record.summary)))
    if not news.steps and not piece and is_overdue:
        piece = comment("ping")
    if piece:
        yield piece


def read_last_event(value: str) -> int:
    """Return the position that follows the last step that a reader has.

    Args:
        value: The header's value: that step's number.

    Raises:
        WrongRequestError: If it is no number of a step.
    """
    try:
        return _POSITION.validate_python(value)
    except ValidationError as error:
        raise WrongRequestError(mistakes_of("header", error, LAST_EVENT)) from error


def tell_problem(error: OrsServerError) -> bytes:
    """Write a failure as an event.

    Args:
        error: Any error of ours.
    """
    return event("error", encode(Problem(detail=str(error), code=error.code, blame=error.blame)))
