"""The Tasks extension (SEP-2663): a call that takes long is answered with a handle, and its client polls.

MCP's word for the handle is "task"; here it is a deferred call, because a task is a problem to solve. The
server decides which calls are deferred, and defers none of a client that did not declare the extension on the
request. What is kept of ended calls is bounded in number and bytes: the oldest results are forgotten first,
and the record has their steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from secrets import token_urlsafe
from typing import Any, NoReturn, TypeAlias

import mcp_types as types
from typing_extensions import override

from ors_server.doors.access import withhold
from ors_server.doors.mcp.input_requests import WaitingCall
from ors_server.doors.mcp.mcp_results import protocol_error
from ors_server.doors.mcp.sdk import Context, Extension, MCPError, MethodBinding, Result, is_modern
from ors_server.doors.mcp.session_access import SessionAccess
from ors_server.model.errors import OrsServerError
from ors_server.sessions.tool_arguments import size_of_json

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
"""Identifier of the extension, which both sides declare."""
TTL_SECONDS = 3600.0
"""Seconds from the beginning of a call for which it can be polled; a call that ends late has
`RESULT_SECONDS` more."""
RESULT_SECONDS = 600.0
"""Minimum seconds for which the result of an ended call can be polled."""
POLL_MILLISECONDS = 1000
"""Milliseconds that a client should wait between two polls."""
MAX_CALLS = 1024
"""Deferred calls that are kept, running and ended; beyond it, calls are answered when they end."""
MAX_RESULT_BYTES = 64 * 1024 * 1024
"""Bytes of results that are kept, roughly."""

MakeError: TypeAlias = Callable[[Context, OrsServerError], MCPError]


class TaskParams(types.RequestParams):
    """A deferred call."""

    task_id: str


class UpdateTaskParams(types.InputResponseRequestParams):
    """Responses to what the tool of a deferred call asked."""

    task_id: str


@dataclass(slots=True, eq=False)
class DeferredCall:
    """A call whose client polls for its result."""

    id: str
    credential_id: str | None
    """Of the caller who made it, the only one who may poll."""
    session_id: str
    call: WaitingCall
    created_at: datetime
    expires: float
    """Seconds from the clock's origin until which it is kept; a running call is kept longer."""
    updated_at: datetime = field(init=False)
    ttl_ms: int = round(TTL_SECONDS * 1000)
    is_withdrawn: bool = False
    result_size: int = 0
    """Bytes of its result, roughly."""

    def __post_init__(self) -> None:
        self.updated_at = self.created_at

    @property
    def status(self) -> str:
        """The extension's word for the state of the call."""
        outcome = self.call.outcome
        if outcome is None:
            return "input_required" if self.call.is_asking else "working"
        if not isinstance(outcome, Exception):
            return "completed"
        return "cancelled" if self.is_withdrawn else "failed"

    def describe(self) -> Result:
        """Return the fields that every state has."""
        return {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.created_at.isoformat(),
            "lastUpdatedAt": self.updated_at.isoformat(),
            "ttlMs": self.ttl_ms,
            "pollIntervalMs": POLL_MILLISECONDS,
        }


class DeferredCalls(Extension):
    """The deferred calls of a server, and the extension's methods."""

    identifier = TASKS_EXTENSION

    def __init__(self, access: SessionAccess, make_error: MakeError) -> None:
        """Keep none yet.

        Args:
            make_error: Makes the error that the client of a request may read.
        """
        self._access = access
        self._services = access.sessions.services
        self._make_error = make_error
        self._calls: dict[str, DeferredCall] = {}
        """By id, oldest first."""
        self._result_bytes = 0

    @override
    def methods(self) -> Sequence[MethodBinding]:
        """Return the extension's methods; it has neither `tasks/list` nor `tasks/result`."""
        return [
            MethodBinding("tasks/get", TaskParams, self._get),
            MethodBinding("tasks/update", UpdateTaskParams, self._update),
            MethodBinding("tasks/cancel", TaskParams, self._cancel),
        ]

    def defer(self, context: Context, session_id: str, call: WaitingCall) -> Result | None:
        """Return the handle of a call that takes long, or `None` if no more can be kept."""
        if not self._services.options.slot.is_alone and self._access.find_session(context) is None:
            return None  # of several hosts, a poll at the lobby may reach another one
        self._forget_expired()
        deferred = next((deferred for deferred in self._calls.values() if deferred.call is call), None)
        if deferred is None:
            if len(self._calls) >= MAX_CALLS and not self._forget_oldest_result():
                return None
            deferred = DeferredCall(
                token_urlsafe(24),
                self._access.credential_of(context),
                session_id,
                call,
                self._services.clock.now(),
                self._services.clock.monotonic() + TTL_SECONDS,
            )
            self._calls[deferred.id] = deferred
            call.is_deferred = True
            self._services.spawn(self._follow, deferred)
        return {"resultType": "task", **deferred.describe()}

    async def _follow(self, deferred: DeferredCall) -> None:
        """Wait for a call's end, and keep its result within the bounds."""
        await deferred.call.over.wait()
        clock = self._services.clock
        deferred.updated_at = clock.now()
        expires = clock.monotonic() + RESULT_SECONDS
        if expires > deferred.expires:
            deferred.ttl_ms += round((expires - deferred.expires) * 1000)
            deferred.expires = expires
        outcome = deferred.call.outcome
        if deferred.id in self._calls and isinstance(outcome, dict):
            deferred.result_size = size_of_json(outcome, MAX_RESULT_BYTES)
            self._result_bytes += deferred.result_size
        while self._result_bytes > MAX_RESULT_BYTES and self._forget_oldest_result(but=deferred):
            pass

    def _forget(self, deferred: DeferredCall) -> None:
        del self._calls[deferred.id]
        self._result_bytes -= deferred.result_size

    def _forget_oldest_result(self, but: DeferredCall | None = None) -> bool:
        """Forget the ended call that began first; return whether there was one."""
        ended = (other for other in self._calls.values() if other.call.is_over and other is not but)
        oldest = next(ended, None)
        if oldest is not None:
            self._forget(oldest)
        return oldest is not None

    def _forget_expired(self) -> None:
        now = self._services.clock.monotonic()
        for expired in [
            other for other in self._calls.values() if other.call.is_over and other.expires <= now
        ]:
            self._forget(expired)

    def _find(self, context: Context, task_id: str) -> DeferredCall:
        """Return a call of the caller's own.

        Raises:
            MCPError: If the client did not declare the extension, or has no such call: another caller's looks
                like one that does not exist.
        """
        if not is_modern(context):
            raise MCPError(types.METHOD_NOT_FOUND, f"{context.method} needs protocol version 2026-07-28")
        if not may_be_deferred(context):
            raise MCPError(
                types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                f"declare the extension {TASKS_EXTENSION} in the capabilities of each request",
                {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}},
            )
        self._forget_expired()
        deferred = self._calls.get(task_id)
        if deferred is None or deferred.credential_id != self._access.credential_of(context):
            _refuse_unknown(task_id)
        if self._access.find_session(context) not in {None, deferred.session_id}:
            _refuse_unknown(task_id)
        return deferred

    async def _get(self, context: Context, params: TaskParams) -> Result:
        deferred = self._find(context, params.task_id)
        described: Result = {"resultType": "complete", **deferred.describe()}
        outcome = deferred.call.outcome
        match deferred.status:
            case "input_required":
                described["inputRequests"] = deferred.call.numbered_questions()
            case "completed":
                described["result"] = outcome
            case "failed":
                error = self._error_of(context, outcome)
                described["error"] = error
                described["statusMessage"] = error["message"]
            case _:  # "working" and "cancelled" have no further fields
                pass
        return described

    async def _update(self, context: Context, params: UpdateTaskParams) -> Result:
        """Pass on the responses to open questions; others are ignored."""
        deferred = self._find(context, params.task_id)
        deferred.call.add_numbered_responses(context, dict(params.input_responses or {}))
        deferred.updated_at = self._services.clock.now()
        return {"resultType": "complete"}

    async def _cancel(self, context: Context, params: TaskParams) -> Result:
        deferred = self._find(context, params.task_id)
        if not deferred.call.is_over:
            deferred.is_withdrawn = True
            deferred.call.withdraw()
        return {"resultType": "complete"}

    def _error_of(self, context: Context, outcome: object) -> dict[str, Any]:
        if isinstance(outcome, OrsServerError):
            outcome = self._make_error(context, outcome)
        if not isinstance(outcome, MCPError):
            outcome = protocol_error(withhold(OrsServerError("the server failed; its log has the details")))
        return outcome.error.model_dump(mode="json", exclude_none=True)


def _refuse_unknown(task_id: str) -> NoReturn:
    raise MCPError(
        types.INVALID_PARAMS,
        f"no task of this caller has the id {task_id!r:.100}: it never existed, or has expired",
    )


def may_be_deferred(context: Context) -> bool:
    """Whether the client of a request declared that it polls for calls that take long."""
    if not is_modern(context):
        return False
    declared = context.session.client_capabilities
    return declared is not None and TASKS_EXTENSION in (declared.extensions or {})
