"""The pages about one episode: its steps, its blocks one by one, and its live stream."""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio.to_thread
from jinja2 import Environment

from ors_server.console.page_types import (
    Answer,
    Download,
    LiveEvents,
    Page,
    PageGroup,
    PageRequest,
    Redirect,
    note_action,
    whole_number,
)
from ors_server.console.views import episode as views
from ors_server.console.views.episode_list import ListQuery, read_list_query
from ors_server.console.views.forms import CALL_FILE, call_body
from ors_server.console.views.marks import word_of
from ors_server.doors.control.batches import BatchHandlers
from ors_server.doors.http.request_errors import UnknownPathError
from ors_server.doors.http.sse import comment, event
from ors_server.model.errors import (
    CapacityError,
    OrsServerError,
    SessionNotFoundError,
    ShuttingDownError,
)
from ors_server.model.logs import get_logger
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.model.wire import Block, ImageBlock, compact_json
from ors_server.store.base import RecordReader
from ors_server.store.episode_filter import EpisodeFilter
from ors_server.store.episode_updates import LiveUpdates, follow

log = get_logger("ors_server.console")

MAX_RUNNING = 8
"""Running calls of an episode that are shown."""
MAX_FOLLOWERS = 200
"""Live pages that are sent at once."""
KEPT_EVENTS = 64
"""Events that are kept as they were written, for the other pages that follow the same episode."""


@dataclass(eq=False)
class EpisodePages(PageGroup):
    """Answers requests about one episode."""

    _ping_seconds: float
    _batches: BatchHandlers
    _templates: Environment
    _written: OrderedDict[tuple[str, int], tuple[object, bytes]] = field(
        default_factory=OrderedDict[tuple[str, int], tuple[object, bytes]]
    )
    """By episode and number of the step, 0 for the figures: what an event is about, and the event."""
    _followers: int = 0
    _is_stopping: bool = False

    def __post_init__(self) -> None:
        self._live = LiveUpdates(self._manager.live_summary)

    def stop(self) -> None:
        """End every stream soon, because a server that stops waits for them."""
        self._is_stopping = True

    async def show(self, request: PageRequest) -> Answer:
        """Show an episode and a page of its steps: the one with `step`, else the first."""
        record = await self._find(request)
        episode_id = record.origin.episode_id
        number = request.number("step")
        start = 0 if not number else (number - 1) // views.STEPS_PER_PAGE * views.STEPS_PER_PAGE
        steps = await self._store.steps(episode_id, start, start + views.STEPS_PER_PAGE)
        same_task = EpisodeFilter(environment=record.origin.environment, task_hash=record.origin.task_hash)
        siblings = await self._store.page(same_task, limit=views.MAX_SIBLINGS)
        listed = read_list_query(request.value("list") or "")
        previous, following = await self._neighbours(listed, record)
        running = self._running_calls(record)
        notes = await self._store.notes(episode_id)

        return Page(
            "episode",
            lambda: {
                "record": record,
                "siblings": siblings,
                "steps": views.view_steps(steps),
                "running": tuple(running.values()),
                "notes": notes,
                "start": start,
                "chosen": number,
                "list_query": listed.text,
                "previous": previous,
                "following": following,
                "per_page": views.STEPS_PER_PAGE,
            },
        )

    async def _neighbours(self, listed: ListQuery, record: EpisodeRecord) -> tuple[str | None, str | None]:
        """Return the ids of the episodes before and after this one in the list it was opened from."""
        selected, this = listed.episode_filter, record.origin.episode_id
        previous = await self._store.page(selected, before=this, limit=1, order=listed.order)
        following = await self._store.page(selected, after=this, limit=1, order=listed.order)
        return (
            previous[-1].origin.episode_id if previous else None,
            following[0].origin.episode_id if following else None,
        )

    async def show_raw(self, request: PageRequest) -> Answer:
        """Show a step exactly, with every field."""
        record, step = await self._step(request)
        return Page("raw", lambda: {"record": record, "step": step})

    async def block(self, request: PageRequest) -> Answer:
        """Return one block: an image to be shown, anything else to be saved."""
        record, step = await self._step(request)
        return answer_with_block(step.blocks, request, f"{record.origin.episode_id[:8]}-step{step.number}")

    async def call_file(self, request: PageRequest) -> Answer:
        """Return a step's call as the file that a command sends."""
        _, step = await self._step(request)
        return Download(call_body(step.tool, step.arguments).encode(), "application/json", CALL_FILE)

    async def prompt_block(self, request: PageRequest) -> Answer:
        """Return one block of the prompt, as `block` does."""
        record = await self._find(request)
        return answer_with_block(record.prompt or (), request, f"{record.origin.episode_id[:8]}-prompt")

    async def _step(self, request: PageRequest) -> tuple[EpisodeRecord, Step]:
        record = await self._find(request)
        return record, await find_step(self._store, record, request)

    async def end(self, request: PageRequest) -> Answer:
        """End the session of a live episode, whichever host has it."""
        record = await self._find(request)
        session_id = record.origin.session_id
        if record.is_closed or not await self._batches.end_session(request.control, session_id):
            raise SessionNotFoundError("no host has this session any more: its episode is on record only")
        note_action(request, "end_session", session_id)
        return Redirect(f"{request.root}/episodes/{record.origin.episode_id}")

    # Live

    async def follow(self, request: PageRequest) -> Answer:
        """Stream the steps after number `after`, written as the page has them, until the record is closed."""
        record = await self._find(request)
        if self._followers >= MAX_FOLLOWERS:
            raise CapacityError(f"{MAX_FOLLOWERS} live pages are open already; close one, or retry")
        return LiveEvents(self._events(record.origin.episode_id, request.number("after") or 0))

    async def _events(self, episode_id: str, start: int) -> AsyncGenerator[bytes, None]:
        self._followers += 1
        try:
            async with aclosing(self._updates(episode_id, start)) as pieces:
                async for piece in pieces:
                    yield piece
        except OrsServerError as error:
            yield event("failure", compact_json({"code": error.code, "message": str(error)}))
        except Exception:  # a stream that has begun must end with an event in every case
            log.exception("console_stream_defect", episode_id=episode_id)
            yield event("failure", compact_json({"code": "error", "message": "the server failed"}))
        finally:
            self._followers -= 1

    async def _updates(self, episode_id: str, start: int) -> AsyncGenerator[bytes, None]:
        sent: object = None
        last_sent = self._clock.monotonic()
        cards: Mapping[str, views.CallView] | None = None
        doubtful: set[str] = set()
        updates = follow(self._store, episode_id, start=start, clock=self._clock, live=self._live)
        async with aclosing(updates):
            async for update in updates:
                if self._is_stopping:
                    raise ShuttingDownError("the server is stopping; the page comes back by itself")
                pieces = [
                    await self._write_once(
                        episode_id, step.number, step, partial(self._step_event, episode_id, step)
                    )
                    for step in update.steps
                ]
                if update.record.summary != sent:
                    sent = update.record.summary
                    write = partial(self._summary_event, update.record)
                    pieces.append(await self._write_once(episode_id, 0, sent, write))
                playing = self._running_calls(update.record)
                # A call that has just ended stays until its step is there, which this poll may have missed.
                written = doubtful | {step.call_id for step in update.steps}
                earlier: Mapping[str, views.CallView] = cards or {}
                gone = earlier.keys() - playing.keys() - written
                doubtful = gone
                latest = {name: earlier[name] for name in earlier if name in gone} | dict(playing)
                if not update.is_last and (cards is None or latest.keys() != cards.keys()):
                    parts: Any = self._parts()
                    html = str(parts.running(tuple(latest.values())))
                    pieces.append(event("running", compact_json({"html": html})))
                cards = latest
                if update.is_last:
                    pieces.append(event("end", "{}"))
                now = self._clock.monotonic()
                if not pieces and now - last_sent >= self._ping_seconds:
                    pieces.append(comment("ping"))
                for piece in pieces:
                    last_sent = now
                    yield piece

    async def _write_once(
        self, episode_id: str, number: int, subject: object, write: Callable[[], bytes]
    ) -> bytes:
        """Return an event about a step, or about the latest figures; it is written once for all pages."""
        written = self._written.get((episode_id, number))
        if written is None or written[0] != subject:
            written = self._written[episode_id, number] = subject, await anyio.to_thread.run_sync(write)
            while len(self._written) > KEPT_EVENTS:
                self._written.popitem(last=False)
        return written[1]

    def _step_event(self, episode_id: str, step: Step) -> bytes:
        view = views.view_step(step)
        parts: Any = self._parts()
        data = {
            "number": step.number,
            "step": parts.step(view, episode_id),
            "outline": parts.outline_entry(view),
            "cell": parts.strip_cell(view),
        }
        return event("step", compact_json(data))

    def _running_calls(self, record: EpisodeRecord) -> Mapping[str, views.CallView]:
        """Return the calls of an episode that run on this host, by id; the latest of many."""
        origin = record.origin
        session = None if record.is_closed else self._manager.peek(origin.session_id)
        if session is None or session.recorder.origin.episode_id != origin.episode_id:
            return {}
        calls = session.playing_calls()[-MAX_RUNNING:]
        return {call.id: views.view_call(call.tool, call.arguments, seconds) for call, seconds in calls}

    def _summary_event(self, record: EpisodeRecord) -> bytes:
        parts: Any = self._parts()
        now = self._clock.now()
        data = {
            "facts": parts.facts(record, now),
            "mark": parts.mark(word_of(record)),
            "end": str(parts.end(record, now)).strip(),
            "figures": parts.figures(record.summary),
        }
        return event("summary", compact_json(data))

    def _parts(self) -> Any:
        return self._templates.get_template("episode_parts.html.j2").module


async def find_step(store: RecordReader, record: EpisodeRecord, request: PageRequest) -> Step:
    """Return the step whose number a path has."""
    position = position_in(request.path["number"])
    steps = await store.steps(record.origin.episode_id, position, position + 1)
    if not steps:
        raise UnknownPathError(f"the episode has {record.summary.steps} steps; there is no such step")
    return steps[0]


def position_in(text: str) -> int:
    """Return the position from 0 of a number from 1."""
    number = whole_number(text)
    if not number:
        raise UnknownPathError("expected a number from 1")
    return number - 1


def answer_with_block(blocks: Sequence[Block], request: PageRequest, name: str) -> Download:
    """Return one block of several: an image to be shown, anything else to be saved."""
    position = position_in(request.path["index"])
    if position >= len(blocks):
        raise UnknownPathError("there is no such block")
    block = blocks[position]
    name = f"{name}-block{position + 1}"
    if not isinstance(block, ImageBlock):
        return Download(block.text.encode(errors="replace"), "text/plain; charset=utf-8", f"{name}.txt")
    content = views.image_bytes(block)
    if block.mimeType in views.SAFE_IMAGES:
        return Download(content, block.mimeType)
    ending = "svg" if block.mimeType.startswith("image/svg") else "bin"
    return Download(content, "application/octet-stream", f"{name}.{ending}")
