"""Tool calls of MCP requests: call ids, progress, cancellation, questions."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import anyio
import mcp_types as types

from ors_server.doors.mcp.calling_clients import HandshakeClient, McpCallingClient, may_be_asked
from ors_server.doors.mcp.deferred_calls import DeferredCalls, may_be_deferred
from ors_server.doors.mcp.input_requests import InputRequests, RequestKey
from ors_server.doors.mcp.log_levels import LogLevels
from ors_server.doors.mcp.mcp_results import CALL_ID_KEY, MAX_CALL_ID, ResultFields, tool_result
from ors_server.doors.mcp.sdk import Context, MCPError, Result, is_modern, is_plain_call
from ors_server.doors.mcp.session_access import SessionAccess
from ors_server.model.model_turn import MODEL_TURN
from ors_server.sessions.session_call import Call

HEARTBEAT = 10.0
"""Seconds between signs of life of a call whose tool reports nothing; hosts give up on silence after 30."""


class ProgressReporter:
    """Sends the progress of one call to the client that made it."""

    def __init__(self, client: McpCallingClient) -> None:
        self._client = client
        self._last = float("-inf")
        self._tool_reports = False

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass on what a tool reports, unless it goes backwards: MCP's progress may only grow."""
        self._tool_reports = True
        await self._send(progress, total, message)

    async def keep_alive(self) -> None:
        """Send progress until the tool reports some itself, so that hosts do not give up."""
        elapsed = 0.0
        while True:
            await anyio.sleep(HEARTBEAT)
            elapsed += HEARTBEAT
            if self._tool_reports:
                return
            await self._send(elapsed / 1e6, None, f"still running after {elapsed:.0f} s")

    async def _send(self, progress: float, total: float | None, message: str | None) -> None:
        if progress > self._last and not self._client.is_deferred:
            self._last = progress
            await self._client.context.session.report_progress(progress, total, message)


@dataclass(frozen=True, slots=True)
class InputResponses:
    """The responses in a request that continues an earlier one."""

    state: str | None = None
    """As the client received it with the questions."""
    by_name: Mapping[str, object] = field(default_factory=dict[str, object])
    """The responses by the names of the questions."""

    @classmethod
    def of(cls, params: types.InputResponseRequestParams) -> "InputResponses":
        """Read them from a request's parameters."""
        return cls(params.request_state, dict(params.input_responses or {}))


NO_RESPONSES = InputResponses()


class McpCalls:
    """Calls tools of sessions for MCP requests."""

    def __init__(
        self, access: SessionAccess, input_requests: InputRequests, levels: LogLevels, deferred: DeferredCalls
    ) -> None:
        self._access = access
        self._deferred = deferred
        self._sessions = access.sessions
        self._input_requests = input_requests
        self._levels = levels

    async def call_tool(
        self,
        context: Context,
        session_id: str,
        tool: str,
        arguments: dict[str, Any],
        responses: InputResponses = NO_RESPONSES,
    ) -> Result:
        """Call a tool once and return its result, or questions to the client.

        Raises:
            MCPError: If the request is wrong, or the failure is one that no agent could do anything about.
        """
        call_id = _call_id(context)

        async def run(client: McpCallingClient) -> Result:
            return await self._call(client, session_id, tool, arguments, call_id)

        return await self.run_for_client(context, session_id, responses, run)

    async def run_for_client(
        self,
        context: Context,
        session_id: str,
        responses: InputResponses,
        run: Callable[[McpCallingClient], Awaitable[Result]],
    ) -> Result:
        """Run something that may ask the client, as the client's era allows; return its result, or questions.

        Raises:
            MCPError: If no call waits for these responses.
        """
        if not is_modern(context):
            return await run(HandshakeClient(context, self._levels.of(context)))
        # The SDK admits a handle only as the answer of a plain call.
        is_deferrable = may_be_deferred(context) and context.method == "tools/call" and is_plain_call(context)
        if responses.state is None and not may_be_asked(context) and not is_deferrable:
            return await run(McpCallingClient(context))
        params = context.params or {}
        # Method, name, URI and arguments: a later request repeats them to continue this one.
        subject = json.dumps(
            [context.method, *(params.get(name) for name in ("name", "uri", "arguments"))], sort_keys=True
        )
        key = RequestKey(owner=session_id, subject=subject, call_id=_call_id(context))
        if responses.state is not None:
            return await self._input_requests.resume(responses.state, key, context, responses.by_name)
        defer = partial(self._deferred.defer, context, session_id) if is_deferrable else None
        return await self._input_requests.start(key, context, responses.by_name, run, defer)

    async def _call(
        self,
        client: McpCallingClient,
        session_id: str,
        tool: str,
        arguments: dict[str, Any],
        call_id: str | None,
    ) -> Result:
        asked = self._access.wants_rewards(client.context)
        session = await self._sessions.obtain(session_id)
        is_public = self._access.is_public(client.context)
        fields = ResultFields.of(session.visibility, asked=asked, is_public=is_public)
        turn = cast("Mapping[str, Any] | None", (client.context.meta or {}).get(MODEL_TURN))
        meta = (client.context.params or {}).get("_meta")
        if not isinstance(meta, dict) or cast("Result", meta).get("progressToken") is None:
            call = await session.call(tool, arguments, call_id=call_id, client=client, model_turn=turn)
            call.begin_sending()
            try:
                if call.result is None:
                    await _wait_or_withdraw(call, client, call_id)
                return tool_result(call, fields)
            finally:
                call.senders -= 1
        reporter = ProgressReporter(client)
        call = await session.call(
            tool, arguments, call_id=call_id, listener=reporter, client=client, model_turn=turn
        )
        try:
            call.begin_sending()
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(reporter.keep_alive)
                    await _wait_or_withdraw(call, client, call_id)
                    tasks.cancel_scope.cancel()
            finally:
                call.senders -= 1
        finally:
            if reporter in call.listeners:
                call.listeners.remove(reporter)
        await call.wait()
        return tool_result(call, fields)


def _call_id(context: Context) -> str | None:
    call_id = (context.meta or {}).get(CALL_ID_KEY)
    if call_id is None:
        return None
    if not isinstance(call_id, str) or not 0 < len(call_id) <= MAX_CALL_ID:
        text = f"expected a string of 1 to {MAX_CALL_ID} characters as {CALL_ID_KEY}"
        raise MCPError(types.INVALID_PARAMS, text)
    return call_id


async def _wait_or_withdraw(call: Call, client: McpCallingClient, call_id: str | None) -> None:
    """Wait for a call; a client that leaves withdraws it, unless it sent an id to come back with."""
    try:
        await call.wait()
    except anyio.get_cancelled_exc_class():
        if call_id is None or client.is_withdrawn:
            call.cancel()
        raise
