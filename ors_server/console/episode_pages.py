"""The pages about one episode: its steps, its blocks one by one, its actions, and its live stream."""

import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import anyio.to_thread
from jinja2 import Environment
from pydantic import ValidationError

from ors_server.console.page_types import (
    Answer,
    Download,
    Page,
    PageGroup,
    PageRequest,
    Redirect,
    note_action,
    position_in,
)
from ors_server.console.views import episode as views
from ors_server.console.views.episode_list import read_list_query
from ors_server.console.views.forms import CALL_FILE, call_body
from ors_server.console.views.marks import word_of
from ors_server.doors.control import models as m
from ors_server.doors.control.batches import BatchHandlers
from ors_server.doors.control.episode_jobs import EpisodeJobs, ExportQuery, RegradeBody, RegradedEpisode
from ors_server.doors.control.episodes import EpisodeHandlers, NoteBody
from ors_server.doors.http.request_errors import UnknownPathError
from ors_server.doors.http.sse import comment, event
from ors_server.model.errors import (
    CapacityError,
    InvalidRequestError,
    OrsServerError,
    SessionNotFoundError,
    ShuttingDownError,
)
from ors_server.model.logs import get_logger
from ors_server.model.trajectory import EpisodeRecord, Step
from ors_server.model.wire import Block, ImageBlock, JSONObject, compact_json
from ors_server.store.episode_filter import EpisodeFilter
from ors_server.store.episode_updates import LiveUpdates, follow

log = get_logger("ors_server.console")

MAX_RUNNING = 8
"""Maximum number of running calls that are shown per episode."""
MAX_FOLLOWERS = 200
"""Maximum number of live pages that are sent at once."""
MAX_CACHED_EVENTS = 64
"""Events that are kept as they were written, for the other pages that follow the same episode."""


@dataclass(eq=False)
class EpisodePages(PageGroup):
    """Answers requests about one episode."""

    _ping_seconds: float
    _batches: BatchHandlers
    _handlers: EpisodeHandlers
    _jobs: EpisodeJobs
    _templates: Environment
    _event_cache: OrderedDict[tuple[str, int], tuple[object, bytes]] = field(
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
        # The episodes before and after this one in the list it was opened from.
        selected, order = listed.episode_filter, listed.order
        previous = await self._store.page(selected, before=episode_id, limit=1, order=order)
        following = await self._store.page(selected, after=episode_id, limit=1, order=order)
        running = self._running_calls(record)
        notes = await self._store.notes(episode_id)
        return Page.of(
            "episode",
            record=record,
            siblings=siblings,
            steps=steps,
            running=tuple(running.values()),
            notes=notes,
            start=start,
            chosen=number,
            list_query=listed.text,
            previous=next((other.origin.episode_id for other in previous), None),
            following=next((other.origin.episode_id for other in following), None),
            per_page=views.STEPS_PER_PAGE,
        )

    async def show_raw(self, request: PageRequest) -> Answer:
        """Show a step exactly, with every field."""
        record = await self._find(request)
        step = await self._find_step(record, request)
        return Page.of("raw", record=record, step=step)

    async def block(self, request: PageRequest) -> Answer:
        """Return one block: an image to be shown, anything else to be saved."""
        record = await self._find(request)
        step = await self._find_step(record, request)
        return answer_with_block(step.blocks, request, f"{record.origin.episode_id[:8]}-step{step.number}")

    async def call_file(self, request: PageRequest) -> Answer:
        """Return a step's call as the file that a command sends."""
        step = await self._find_step(await self._find(request), request)
        return Download(call_body(step.tool, step.arguments).encode(), "application/json", CALL_FILE)

    async def prompt_block(self, request: PageRequest) -> Answer:
        """Return one block of the prompt, as `block` does."""
        record = await self._find(request)
        return answer_with_block(record.prompt or (), request, f"{record.origin.episode_id[:8]}-prompt")

    async def end(self, request: PageRequest) -> Answer:
        """End the session of a live episode, whichever host has it."""
        record = await self._find(request)
        session_id = record.origin.session_id
        if record.is_closed or not await self._batches.end_session(request.control, session_id):
            raise SessionNotFoundError("no host has this session any more: its episode is on record only")
        note_action(request, "end_session", session_id)
        return Redirect(f"{request.root}/episodes/{record.origin.episode_id}")

    # Actions: each calls the control API's operation, checks the same roles, and writes a line to the log.

    async def add_note(self, request: PageRequest) -> Answer:
        """Write a note about an episode or a step."""
        episode_id = (await self._find(request)).origin.episode_id
        form = request.form
        step = form.get("step", "").strip()
        try:
            body = NoteBody(
                text=form.get("text", "").replace("\r\n", "\n").strip(),
                verdict=form.get("verdict", "").strip() or None,
                step=int(step) if step else None,
            )
        except (ValidationError, ValueError) as error:
            raise InvalidRequestError(
                "expected a text of 1 to 10,000 characters, a verdict of at most 100, the number of a step"
            ) from error
        await self._handlers.add_note(request.control, episode_id, body)
        note_action(request, "note", episode_id=episode_id)
        return Redirect(f"{request.root}/episodes/{episode_id}#notes")

    async def replay(self, request: PageRequest) -> Answer:
        """Play an episode again, and lead to the new one, which is live."""
        episode_id = (await self._find(request)).origin.episode_id
        replayed = await self._jobs.replay_episode(request.control, episode_id)
        note_action(request, "replay", replayed.session_id, episode_id)
        return Redirect(f"{request.root}/episodes/{replayed.episode_id}")

    async def fork(self, request: PageRequest) -> Answer:
        """Copy a live session, and lead to the copy."""
        record = await self._find(request)
        session_id = record.origin.session_id
        forks = await self._control.fork_session(request.control, session_id, m.ForkBody())
        note_action(request, "fork", session_id, record.origin.episode_id)
        return Redirect(f"{request.root}/episodes/{forks.sessions[0].status.episode_id}")

    async def export(self, request: PageRequest) -> Answer:
        """Return an episode as a file of lines."""
        episode_id = (await self._find(request)).origin.episode_id
        try:
            query = ExportQuery.model_validate({"format": request.value("format") or "openai"})
        except ValidationError as error:
            raise InvalidRequestError("expected the format openai, sharegpt, trl or plain") from error
        exported = await self._jobs.export_episode(episode_id, query)
        if exported.left_out is not None:
            raise InvalidRequestError(f"{query.format} cannot hold this episode: {exported.left_out}")
        note_action(request, "export", episode_id=episode_id)
        lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in exported.rows)
        name = f"{episode_id[:8]}-{query.format}.jsonl"
        return Download(lines.encode(errors="replace"), "application/x-ndjson", name)

    async def show_regrade(self, request: PageRequest) -> Answer:
        """Show the form that asks with which reward to grade an episode again."""
        return await self._regrade_page(request)

    async def regrade(self, request: PageRequest) -> Answer:
        """Judge an episode by the reward that a form names, and show the result; nothing is recorded."""
        try:
            options: object = json.loads(request.form.get("options", "").strip() or "{}")
        except (ValueError, RecursionError):
            options = None
        if not isinstance(options, dict):
            return await self._regrade_page(request, problem="Options: expected a JSON object.")
        try:
            body = RegradeBody(reward=request.form.get("reward", ""), options=cast("JSONObject", options))
        except ValidationError:
            return await self._regrade_page(request, problem="Choose a reward.")
        episode_id = (await self._find(request)).origin.episode_id
        note_action(request, "regrade", episode_id=episode_id)
        try:
            return await self._regrade_page(request, await self._jobs.regrade_episode(episode_id, body))
        except OrsServerError as error:
            return await self._regrade_page(request, problem=str(error))

    async def _regrade_page(
        self, request: PageRequest, regraded: RegradedEpisode | None = None, problem: str | None = None
    ) -> Answer:
        record, rewards = await self._find(request), self._jobs.reward_names()
        status = 200 if problem is None else 422
        return Page.of("regrade", status, record=record, rewards=rewards, problem=problem, regraded=regraded)

    # Live

    async def follow(self, request: PageRequest) -> Answer:
        """Stream the steps after number `after`, written as the page has them, until the record is closed."""
        record = await self._find(request)
        if self._followers >= MAX_FOLLOWERS:
            raise CapacityError(f"{MAX_FOLLOWERS} live pages are open already; close one, or retry")
        return self._events(record.origin.episode_id, request.number("after") or 0)

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
        last_summary: object = None
        last_sent = self._clock.monotonic()
        shown_calls: Mapping[str, views.CallView] | None = None
        unconfirmed_ids: set[str] = set()
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
                if update.record.summary != last_summary:
                    last_summary = update.record.summary
                    write = partial(self._summary_event, update.record)
                    pieces.append(await self._write_once(episode_id, 0, last_summary, write))
                playing = self._running_calls(update.record)
                # A call that has just ended stays until its step is there, which this poll may have missed.
                finished_ids = unconfirmed_ids | {step.call_id for step in update.steps}
                previous_calls: Mapping[str, views.CallView] = shown_calls or {}
                unconfirmed_ids = previous_calls.keys() - playing.keys() - finished_ids
                current_calls = {
                    call_id: view for call_id, view in previous_calls.items() if call_id in unconfirmed_ids
                } | dict(playing)
                if not update.is_last and (shown_calls is None or current_calls.keys() != shown_calls.keys()):
                    parts: Any = self._parts()
                    html = str(parts.running(tuple(current_calls.values())))
                    pieces.append(event("running", compact_json({"html": html})))
                shown_calls = current_calls
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
        cached = self._event_cache.get((episode_id, number))
        if cached is None or cached[0] != subject:
            cached = self._event_cache[episode_id, number] = subject, await anyio.to_thread.run_sync(write)
            while len(self._event_cache) > MAX_CACHED_EVENTS:
                self._event_cache.popitem(last=False)
        return cached[1]

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
