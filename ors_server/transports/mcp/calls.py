"""A tool call from an MCP request to its result: call ids, progress, cancellation, questions."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import mcp_types as types

from mcp.shared.exceptions import MCPError
from ors_server.engines.base import Engine
from ors_server.sessions.calls import Call
from ors_server.transports.mcp.clients import Context, HandshakeClient, McpClient, Result, is_modern
from ors_server.transports.mcp.content import CALL_ID_KEY, MAX_CALL_ID, tool_result
from ors_server.transports.mcp.loglevels import LogLevels
from ors_server.transports.mcp.rounds import Asked, Rounds

HEARTBEAT = 10.0
"""Seconds between signs of life of a call whose tool reports nothing; hosts give up on silence after 30 or more."""


class Reporter:
    """Sends the progress of one call to the client that asked for it."""

    def __init__(self, client: McpClient) -> None:
        """Start before any progress.

        Args:
            client: Who is told.
        """
        self._client = client
        self._last = float("-inf")
        self._tool_reports = False

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Pass on what a tool reports, unless it goes backwards: MCP's progress may only grow.

        Args:
            progress: How far.
            total: The value at the end.
            message: A line for a person.
        """
        self._tool_reports = True
        await self._send(progress, total, message)

    async def beat(self) -> None:
        """Send signs of life until the tool reports something itself, so that hosts do not give up."""
        elapsed = 0.0
        while True:
            await anyio.sleep(HEARTBEAT)
            elapsed += HEARTBEAT
            if self._tool_reports:
                return
            await self._send(elapsed / 1e6, None, f"still running after {elapsed:.0f} s")

    async def _send(self, progress: float, total: float | None, message: str | None) -> None:
        if progress > self._last:
            self._last = progress
            await self._client.context.session.report_progress(progress, total, message)


class Caller:
    """Makes calls on behalf of MCP requests."""

    def __init__(self, engine: Engine, rounds: Rounds, levels: LogLevels) -> None:
        """Keep what all calls share.

        Args:
            engine: Where sessions live.
            rounds: The calls that wait for a client to come back.
            levels: Which log lines the clients of the handshake era want.
        """
        self._engine = engine
        self._rounds = rounds
        self._levels = levels

    async def call_tool(
        self,
        context: Context,
        params: types.CallToolRequestParams,
        session_id: str,
        arguments: Mapping[str, Any],
    ) -> Result:
        """Play one step.

        Args:
            context: The request.
            params: What it asks for.
            session_id: The episode's session.
            arguments: The tool's arguments.

        Returns:
            A result, or questions.

        Raises:
            MCPError: If the request is wrong, or the failure is not one that an agent could do anything about.
        """
        call_id = _call_id(context)

        async def play(client: McpClient) -> Result:
            return await self._play(client, session_id, params.name, dict(arguments), call_id)

        return await self.converse(context, params, session_id, params.name, play)

    async def converse(
        self,
        context: Context,
        params: types.InputResponseRequestParams,
        session_id: str,
        name: str,
        run: Callable[[McpClient], Awaitable[Result]],
    ) -> Result:
        """Run something that may ask the client, in the way of the client's era.

        Args:
            context: The request.
            params: Its answers, if it brings some.
            session_id: The session that it is about.
            name: What is run: the name of a tool or prompt, or a resource's URI.
            run: Runs it on behalf of the client that it is given.

        Returns:
            Its result, or questions.

        Raises:
            MCPError: If it brings answers to a question that nobody asked.
        """
        if not is_modern(context):
            return await run(HandshakeClient(context, self._levels.of(context)))
        if params.request_state is None and not _may_be_asked(context):
            return await run(McpClient(context))
        what = json.dumps([context.method, name, (context.params or {}).get("arguments")], sort_keys=True)
        asked = Asked(owner=session_id, what=what, call_id=_call_id(context))
        answers = dict(params.input_responses or {})
        if params.request_state is not None:
            return await self._rounds.go_on(params.request_state, asked, context, answers)
        return await self._rounds.begin(asked, context, answers, run)

    async def _play(
        self, client: McpClient, session_id: str, tool: str, arguments: dict[str, Any], call_id: str | None
    ) -> Result:
        visibility = self._engine.visibility_of(session_id)
        if not _wants_progress(client.context):
            call = await self._engine.call(session_id, tool, arguments, call_id=call_id, client=client)
            await _outlive(call, call_id)
        else:
            reporter = Reporter(client)
            call = await self._engine.call(
                session_id, tool, arguments, call_id=call_id, listener=reporter, client=client
            )
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(reporter.beat)
                try:
                    await _outlive(call, call_id)
                finally:
                    tasks.cancel_scope.cancel()
                    if reporter in call.listeners:
                        call.listeners.remove(reporter)
        return tool_result(await call.wait(), visibility)


def _may_be_asked(context: Context) -> bool:
    declared = context.session.client_capabilities
    return declared is not None and not (
        declared.elicitation is None and declared.sampling is None and declared.roots is None
    )


def _call_id(context: Context) -> str | None:
    call_id = (context.meta or {}).get(CALL_ID_KEY)
    if call_id is None:
        return None
    if not isinstance(call_id, str) or not 0 < len(call_id) <= MAX_CALL_ID:
        text = f"{CALL_ID_KEY} is a string of 1 to {MAX_CALL_ID} characters"
        raise MCPError(types.INVALID_PARAMS, text)
    return call_id


def _wants_progress(context: Context) -> bool:
    meta = (context.params or {}).get("_meta") or {}
    return meta.get("progressToken") is not None


async def _outlive(call: Call, call_id: str | None) -> None:
    """Wait for a call; a client that leaves withdraws it, unless it gave an id with which it can come back."""
    try:
        await call.wait()
    except anyio.get_cancelled_exc_class():
        if call_id is None:
            call.cancel()
        raise
