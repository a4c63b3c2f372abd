"""Many sessions or calls in one request: each item has its own result, and no item spoils another.

A trainer's step over hundreds of sessions is then one request and not hundreds. Results are those of the
single operations.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from anyio.lowlevel import checkpoint
from pydantic import Field
from pydantic_core import from_json

from ors_server.doors.access import Caller, describe_output
from ors_server.doors.control import models as m
from ors_server.doors.control.handlers import (
    CompletedCall,
    ControlHandlers,
    FailedCall,
    RefusedCall,
    show_call,
)
from ors_server.doors.control.operations import PREFIX, ControlRequest, RequestBody, WrittenAnswer, encode
from ors_server.doors.control.peers import Peers
from ors_server.doors.http.faults import look_up, pending_fields
from ors_server.doors.http.request_errors import Problem, ResponseModel, WrongRequestError
from ors_server.doors.http.sse import LONG_CHARACTERS, STRING_CHARACTERS, text_parts
from ors_server.model.episode import Phase
from ors_server.model.errors import MachineryError, OrsServerError, PayloadTooLargeError
from ors_server.model.visibility import Visibility
from ors_server.model.wire import compact_json
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_call import Call, Completed

MAX_ITEMS = 256
"""Maximum number of items of one request."""
MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Approximate limit on the content of one answer: results beyond it must be requested one by one."""

SLICE = 16
"""Calls of a request that begin before others of it, and other requests, have their turn."""

Item = TypeVar("Item")


class SessionBatch(RequestBody):
    """New sessions."""

    items: Annotated[list[m.SessionBody], Field(min_length=1, max_length=MAX_ITEMS)]


class SessionCallBody(m.CallBody):
    """A tool call in one of many sessions."""

    session_id: m.SessionId


class CallBatch(RequestBody):
    """Tool calls; those of one session begin in the order of the items."""

    items: Annotated[list[SessionCallBody], Field(min_length=1, max_length=MAX_ITEMS)]


class DeletionBatch(RequestBody):
    """Sessions to end."""

    items: Annotated[list[m.SessionId], Field(min_length=1, max_length=MAX_ITEMS)]
    """Their ids."""


class FailedItem(ResponseModel):
    """An item that failed as the single operation would have."""

    ok: Literal[False] = False
    status: int
    """HTTP status of the single operation."""
    problem: Problem


class CreatedItem(ResponseModel):
    """A session that was created."""

    ok: Literal[True] = True
    created: m.CreatedSession


class CalledItem(ResponseModel):
    """A call that has a result."""

    ok: Literal[True] = True
    result: CompletedCall | RefusedCall | FailedCall


class DeletedItem(ResponseModel):
    """A session that has ended, with its final figures."""

    ok: Literal[True] = True
    session: m.SessionView


class CreatedBatch(ResponseModel):
    """One result for each item, in their order."""

    items: list[CreatedItem | FailedItem]


class CalledBatch(ResponseModel):
    """One result for each item, in their order."""

    items: list[CalledItem | FailedItem]


class DeletedBatch(ResponseModel):
    """One result for each item, in their order."""

    items: list[DeletedItem | FailedItem]


class StartedCall(NamedTuple):
    """A call of a batch that runs or has run."""

    call: Call
    visibility: Visibility
    """Its session's."""


class ForwardedItem(NamedTuple):
    """An item of a session that belongs to another host, which runs it."""

    results: "asyncio.Task[list[Any]]"
    """Of all items of that host."""
    position: int


class BatchHandlers:
    """Handles the operations below `/batches`; items of other hosts' sessions are sent to their hosts."""

    def __init__(self, handlers: ControlHandlers, manager: SessionManager, peers: Peers) -> None:
        self._handlers = handlers
        self._manager = manager
        self._peers = peers

    async def create_sessions(self, request: ControlRequest, body: SessionBatch) -> CreatedBatch:
        """Create many sessions; their setups continue in the background."""

        async def create(session: m.SessionBody) -> CreatedItem:
            return CreatedItem(created=await self._handlers.create_session(request, session))

        async with asyncio.TaskGroup() as tasks:
            forwarded = self._forward(request, "sessions", [item.session_id for item in body.items], tasks)
            return CreatedBatch(items=await _resolve_all(body.items, create, forwarded))

    async def call_tools(self, request: ControlRequest, body: CallBatch) -> WrittenAnswer[CalledBatch]:
        """Call tools in many sessions and wait for all results; calls continue if the caller disconnects.

        Calls begin a slice at a time, and the results that are there are written before the next slice, so
        that other requests are served meanwhile. A call that waits holds back the writing of later results,
        and not their calls.
        """
        answer = _CallsAnswer(request.caller)
        started_items: list[StartedCall | FailedItem | ForwardedItem] = []
        written = 0
        async with asyncio.TaskGroup() as tasks:
            forwarded = self._forward(request, "calls", [item.session_id for item in body.items], tasks)
            for number, item in enumerate(body.items):
                started_items.append(forwarded.get(number) or await self._start(item))
                if number % SLICE != SLICE - 1:
                    continue
                await checkpoint()  # calls that need not wait end here
                while written < len(started_items):
                    first = started_items[written]
                    is_waiting = isinstance(first, StartedCall) and not first.call.is_done
                    if is_waiting or (isinstance(first, ForwardedItem) and not first.results.done()):
                        break
                    await answer.add(first)
                    written += 1
            for started in started_items[written:]:
                await answer.add(started)
        return WrittenAnswer(await answer.finish())

    async def delete_sessions(self, request: ControlRequest, body: DeletionBatch) -> DeletedBatch:
        """End many sessions and return their final figures."""

        async def delete(session_id: str) -> DeletedItem:
            return DeletedItem(session=await self._handlers.delete_session(session_id))

        async with asyncio.TaskGroup() as tasks:
            forwarded = self._forward(request, "deletions", body.items, tasks)
            return DeletedBatch(items=await _resolve_all(body.items, delete, forwarded))

    async def end_session(self, request: ControlRequest, session_id: str) -> bool:
        """End a session, whichever host has it; return whether one had it.

        Raises:
            MachineryError: If its host does not answer, or refuses.
        """
        if self._peers.slot.has(session_id):
            return await self._manager.delete(session_id)
        body = DeletionBatch(items=[session_id])
        forwarded = replace(request, raw_body=body.model_dump_json().encode())
        (item,) = (await self.delete_sessions(forwarded, body)).items
        if isinstance(item, FailedItem):
            raise MachineryError(item.problem.detail)
        return item.session.episode.phase == Phase.DELETED

    def _forward(
        self,
        request: ControlRequest,
        kind: str,
        session_ids: Sequence[str | None],
        tasks: asyncio.TaskGroup,
    ) -> dict[int, ForwardedItem]:
        """Send the items of other hosts' sessions to their hosts; return them by their number."""
        if not self._peers.are_asked(request.headers):
            return {}
        slot = self._peers.slot
        numbers_by_host: dict[int, list[int]] = {}
        for number, session_id in enumerate(session_ids):
            if session_id is not None and not slot.has(session_id):
                numbers_by_host.setdefault(slot.host_of(session_id), []).append(number)
        if not numbers_by_host:
            return {}
        sent: list[Any] = from_json(request.raw_body)["items"]

        async def run(host: int, items: list[Any]) -> list[Any]:
            try:
                return await self._peers.run_batch(host, f"{PREFIX}/batches/{kind}", items, request.headers)
            except OrsServerError as error:
                return [_failed_item(error)] * len(items)

        forwarded: dict[int, ForwardedItem] = {}
        for host, numbers in numbers_by_host.items():
            results = tasks.create_task(run(host, [sent[number] for number in numbers]))
            forwarded |= {number: ForwardedItem(results, position) for position, number in enumerate(numbers)}
        return forwarded

    async def _start(self, item: SessionCallBody) -> StartedCall | FailedItem:
        try:
            session = await self._manager.obtain(item.session_id)
            call = await session.call(
                item.name, item.arguments, call_id=item.call_id, model_turn=item.model_turn
            )
        except OrsServerError as error:
            return _failed_item(error)
        return StartedCall(call, session.visibility)


class _CallsAnswer:
    """The answer to a batch of calls, written as JSON.

    Completed calls are written from their steps, and short ones together: models for each block and output
    take as long as the call, and an encoder for each item takes longer than the encoding.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._pieces: list[bytes] = []
        self._texts: list[str] = []
        """Written and in no piece yet."""
        self._texts_size = 0
        self._size = 0
        """Of the results so far, with those that were too long to be sent."""
        self._before_next = '{"items":['
        self._rows: list[tuple[str, dict[str, Any]]] = []
        """Items that are written together next, by their call ids."""
        self._rows_size = 0

    async def add(self, item: StartedCall | FailedItem | ForwardedItem) -> None:
        """Write an item, after waiting for its result."""
        if isinstance(item, ForwardedItem):
            await self._write_rows()
            forwarded = (await item.results)[item.position]
            if not isinstance(forwarded, FailedItem):
                call_id = forwarded["result"]["call_id"] if forwarded["ok"] else None
                await self._write(call_id, [compact_json(forwarded)])
                return
            item = forwarded
        if isinstance(item, FailedItem):
            await self._write_rows()
            await self._append([encode(item)])
            return
        call = item.call
        result = call.result or await call.wait()
        if not isinstance(result, Completed):
            await self._write_rows()
            try:
                text = encode(CalledItem(result=show_call(call, self._caller, item.visibility)))
            except OrsServerError as error:
                text = encode(_failed_item(error))
            await self._write(call.id, [text])
            return
        row: dict[str, Any] = {
            "ok": True,
            "result": {
                "call_id": call.id,
                "kind": "completed",
                "step": result.step,
                "is_error": result.is_error,
                "output": describe_output(result.recorded, self._caller, item.visibility),
            },
        }
        if result.size is not None and result.size < LONG_CHARACTERS:
            self._rows.append((call.id, row))
            self._rows_size += result.size
            if self._rows_size > STRING_CHARACTERS:
                await self._write_rows()
            return
        await self._write_rows()
        texts: list[str] = []
        for part in text_parts(row):
            texts.append(part)
            await checkpoint()
        await self._write(call.id, texts)

    async def finish(self) -> list[bytes]:
        """Return the whole answer, in pieces for a few writes to the connection."""
        await self._write_rows()
        self._texts.append("]}")
        return [*self._pieces, "".join(self._texts).encode("ascii")]

    async def _write_rows(self) -> None:
        rows, self._rows, self._rows_size = self._rows, [], 0
        if not rows:
            return
        text = compact_json([row for _, row in rows])[1:-1]
        if self._size + len(text) <= MAX_ANSWER_BYTES:
            self._size += len(text)
            await self._append([text])
            return
        for call_id, row in rows:
            await self._write(call_id, [compact_json(row)])

    async def _write(self, call_id: str | None, texts: list[str]) -> None:
        """Write a result, or the id by which to ask for it if it is too long for this answer."""
        self._size += sum(map(len, texts))
        if call_id is not None and self._size > MAX_ANSWER_BYTES:
            error = PayloadTooLargeError(
                f"the call ran, but the results of this request exceed {MAX_ANSWER_BYTES} bytes: repeat "
                f"this call alone with its call id {call_id!r} to get its result"
            )
            texts = [encode(_failed_item(error))]
        await self._append(texts)

    async def _append(self, texts: list[str]) -> None:
        self._texts += [self._before_next, *texts]
        self._texts_size += sum(map(len, texts))
        self._before_next = ","
        if self._texts_size > STRING_CHARACTERS:
            self._pieces.append("".join(self._texts).encode("ascii"))
            self._texts, self._texts_size = [], 0
            await checkpoint()


async def _resolve_all(
    items: Sequence[Item],
    run: Callable[[Item], Awaitable[ResponseModel]],
    forwarded: Mapping[int, ForwardedItem],
) -> list[Any]:
    """Run all items and wait for their results; each that fails becomes its problem."""

    async def resolve(number: int, item: Item) -> Any:
        sent = forwarded.get(number)
        if sent is not None:
            return (await sent.results)[sent.position]
        try:
            return await run(item)
        except OrsServerError as error:
            return _failed_item(error)

    return list(await asyncio.gather(*(resolve(number, item) for number, item in enumerate(items))))


def _failed_item(error: OrsServerError) -> FailedItem:
    mistakes = error.mistakes if isinstance(error, WrongRequestError) else None
    problem = Problem(
        detail=str(error), code=error.code, blame=error.blame, mistakes=mistakes, **pending_fields(error)
    )
    return FailedItem(status=look_up(error).control_status, problem=problem)
