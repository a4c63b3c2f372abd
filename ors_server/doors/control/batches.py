"""Many sessions or calls in one request: each item has its own result, and no item spoils another.

A trainer's step over hundreds of sessions is then one request and not hundreds. Results are those of the
single operations.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Annotated, Literal, NamedTuple, TypeVar

from anyio.lowlevel import checkpoint
from pydantic import Field

from ors_server.doors.access import describe_output
from ors_server.doors.control import models as m
from ors_server.doors.control.handlers import (
    CompletedCall,
    ControlHandlers,
    FailedCall,
    RefusedCall,
    show_call,
)
from ors_server.doors.control.operations import ControlRequest, RequestBody, WrittenAnswer, encode
from ors_server.doors.http.faults import look_up, pending_fields
from ors_server.doors.http.request_errors import Problem, ResponseModel, WrongRequestError
from ors_server.doors.http.sse import LONG, TEXT_PART, text_parts
from ors_server.model.errors import OrsServerError, PayloadTooLargeError
from ors_server.model.visibility import Visibility
from ors_server.model.wire import compact_json
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_call import Call, Completed

MAX_ITEMS = 256
"""Most items of one request."""
MAX_ANSWER_BYTES = 32 * 1024 * 1024
"""Approximate limit on the content of one answer: results beyond it must be requested one by one."""

Result = TypeVar("Result")


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


class BatchHandlers:
    """Handles the operations below `/batches`."""

    def __init__(self, handlers: ControlHandlers, manager: SessionManager) -> None:
        self._handlers = handlers
        self._manager = manager

    async def create_sessions(self, request: ControlRequest, body: SessionBatch) -> CreatedBatch:
        """Create many sessions; their setups continue in the background."""

        async def create(session: m.SessionBody) -> CreatedItem:
            return CreatedItem(created=await self._handlers.create_session(request, session))

        return CreatedBatch(items=await _resolve_all([create(session) for session in body.items]))

    async def call_tools(self, request: ControlRequest, body: CallBatch) -> WrittenAnswer[CalledBatch]:
        """Call tools in many sessions and wait for all results; calls continue if the caller disconnects."""
        started_items = [await self._start(item) for item in body.items]
        pieces: list[bytes] = []
        held, held_size, size = ['{"items":['], 0, 0
        for number, item in enumerate(started_items):
            if number:
                held.append(",")
            texts = [encode(item)] if isinstance(item, FailedItem) else await _write_call(item, request)
            item_size = sum(map(len, texts))
            size += item_size
            if size > MAX_ANSWER_BYTES and not isinstance(item, FailedItem):
                texts = [encode(_failed_item(_too_large(item)))]
            held += texts
            held_size += item_size
            if held_size > TEXT_PART:  # a few writes to the connection, and others run between them
                pieces.append("".join(held).encode("ascii"))
                held, held_size = [], 0
                await checkpoint()
        held.append("]}")
        pieces.append("".join(held).encode("ascii"))
        return WrittenAnswer(pieces)

    async def delete_sessions(self, body: DeletionBatch) -> DeletedBatch:
        """End many sessions and return their final figures."""

        async def delete(session_id: str) -> DeletedItem:
            return DeletedItem(session=await self._handlers.delete_session(session_id))

        return DeletedBatch(items=await _resolve_all([delete(session_id) for session_id in body.items]))

    async def _start(self, item: SessionCallBody) -> StartedCall | FailedItem:
        try:
            session = await self._manager.obtain(item.session_id)
            call = await session.call(
                item.name, item.arguments, call_id=item.call_id, model_turn=item.model_turn
            )
        except OrsServerError as error:
            return _failed_item(error)
        return StartedCall(call, session.visibility)


async def _write_call(started: StartedCall, request: ControlRequest) -> list[str]:
    """Wait for a call and write its item as JSON, in parts.

    A completed call is written from its step: a model for each block and output takes as long as the call.
    """
    call = started.call
    result = call.result or await call.wait()
    if not isinstance(result, Completed):
        try:
            return [encode(CalledItem(result=show_call(call, request.caller, started.visibility)))]
        except OrsServerError as error:
            return [encode(_failed_item(error))]
    item = {
        "ok": True,
        "result": {
            "call_id": call.id,
            "kind": "completed",
            "step": result.step,
            "is_error": result.is_error,
            "output": describe_output(result.recorded, request.caller, started.visibility),
        },
    }
    if result.size is not None and result.size < LONG:
        return [compact_json(item)]
    texts: list[str] = []
    for part in text_parts(item):
        texts.append(part)
        await checkpoint()
    return texts


def _too_large(started: StartedCall) -> PayloadTooLargeError:
    return PayloadTooLargeError(
        f"the call ran, but the results of this request exceed {MAX_ANSWER_BYTES} bytes: "
        f"repeat this call alone with its call id {started.call.id!r} to get its result"
    )


async def _resolve_all(items: Sequence[Awaitable[Result]]) -> list[Result | FailedItem]:
    """Wait for all items; each that fails becomes its problem."""

    async def resolve(item: Awaitable[Result]) -> Result | FailedItem:
        try:
            return await item
        except OrsServerError as error:
            return _failed_item(error)

    return list(await asyncio.gather(*map(resolve, items)))


def _failed_item(error: OrsServerError) -> FailedItem:
    mistakes = error.mistakes if isinstance(error, WrongRequestError) else None
    problem = Problem(
        detail=str(error), code=error.code, blame=error.blame, mistakes=mistakes, **pending_fields(error)
    )
    return FailedItem(status=look_up(error).control_status, problem=problem)
