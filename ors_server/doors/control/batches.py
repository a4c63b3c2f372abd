"""Many sessions or calls in one request: each item has its own result, and no item spoils another.

A trainer's step over hundreds of sessions is then one request and not hundreds. Results are those of the
single operations.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import Field

from ors_server.doors.control import models as m
from ors_server.doors.control.handlers import (
    CompletedCall,
    ControlHandlers,
    FailedCall,
    RefusedCall,
    show_call,
)
from ors_server.doors.control.operations import ControlRequest, RequestBody
from ors_server.doors.http.faults import look_up, pending_fields
from ors_server.doors.http.request_errors import Problem, ResponseModel, WrongRequestError
from ors_server.model.errors import OrsServerError, PayloadTooLargeError
from ors_server.model.wire import TextBlock
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


StartedItem: TypeAlias = tuple[SessionCallBody, Call] | FailedItem


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

    async def call_tools(self, request: ControlRequest, body: CallBatch) -> CalledBatch:
        """Call tools in many sessions and wait for all results; calls continue if the caller disconnects."""
        started_items = [await self._start(item) for item in body.items]
        items: list[CalledItem | FailedItem] = []
        size = 0
        for started in started_items:
            if isinstance(started, FailedItem):
                items.append(started)
                continue
            item, call = started
            result = await call.wait()
            blocks = result.recorded.blocks if isinstance(result, Completed) else ()
            size += sum(len(block.text if isinstance(block, TextBlock) else block.data) for block in blocks)
            items.append(self._show(request, item, call, is_too_large=size > MAX_ANSWER_BYTES))
        return CalledBatch(items=items)

    async def delete_sessions(self, body: DeletionBatch) -> DeletedBatch:
        """End many sessions and return their final figures."""

        async def delete(session_id: str) -> DeletedItem:
            return DeletedItem(session=await self._handlers.delete_session(session_id))

        return DeletedBatch(items=await _resolve_all([delete(session_id) for session_id in body.items]))

    async def _start(self, item: SessionCallBody) -> StartedItem:
        try:
            session = await self._manager.obtain(item.session_id)
            call = await session.call(
                item.name, item.arguments, call_id=item.call_id, model_turn=item.model_turn
            )
        except OrsServerError as error:
            return _failed_item(error)
        return item, call

    def _show(
        self, request: ControlRequest, item: SessionCallBody, call: Call, *, is_too_large: bool
    ) -> CalledItem | FailedItem:
        try:
            if is_too_large:
                raise PayloadTooLargeError(
                    f"the call ran, but the results of this request exceed {MAX_ANSWER_BYTES} bytes: "
                    f"repeat this call alone with its call id {call.id!r} to get its result"
                )
            visibility = self._manager.find(item.session_id).visibility
            return CalledItem(result=show_call(call, request.caller, visibility))
        except OrsServerError as error:
            return _failed_item(error)


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
