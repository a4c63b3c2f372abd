"""A tool call from an MCP request to its result: call ids, progress, cancellation, questions."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import mcp_types as types

from ors_server.sessions.session_call import Call
from ors_server.transports.mcp.clients import HandshakeClient, McpClient, may_be_asked
from ors_server.transports.mcp.content import CALL_ID_KEY, MAX_CALL_ID, Figures, tool_result
from ors_server.transports.mcp.ground import Ground
from ors_server.transports.mcp.loglevels import LogLevels
from ors_server.transports.mcp.rounds import Asked, Rounds
from ors_server.transports.mcp.sdk import Context, MCPError, Result, is_modern

HEARTBEAT = 10.0
"""Seconds between signs of life of a call whose tool reports nothing; hosts give up on silence after 30."""


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


@dataclass(frozen=True, slots=True)
class Answers:
    """What a request brings that goes on with an earlier one."""

    state: str | None = None
    """What the client was given with the questions."""
    responses: Mapping[str, object] = field(default_factory=dict[str, object])
    """By the questions' keys."""

    @classmethod
    def of(cls, params: types.InputResponseRequestParams) -> "Answers":
        """Read them from a request's parameters.

        Args:
            params: The parameters.
        """
        return cls(params.request_state, dict(params.input_responses or {}))


NO_ANSWERS = Answers()


class Player:
    """Makes calls on sessions on behalf of MCP requests."""

    def __init__(self, ground: Ground, rounds: Rounds, levels: LogLevels) -> None:
        """Keep what all calls share.

        Args:
            ground: Where sessions live, and who asks for figures.
            rounds: The calls that wait for a client to come back.
            levels: Which log lines the clients of the handshake era want.
        """
        self._ground = ground
        self._engine = ground.engine
        self._rounds = rounds
        self._levels = levels

    async def call_tool(
        self,
        context: Context,
        session_id: str,
        tool: str,
        arguments: dict[str, Any],
        answers: Answers = NO_ANSWERS,
    ) -> Result:
        """Play one step.

        Args:
            context: The request.
            session_id: The episode's session.
            tool: The tool's name.
            arguments: Its arguments.
            answers: What the request brings for an earlier question.

        Returns:
            A result, or questions.

        Raises:
            MCPError: If the request is wrong, or the failure is one that no agent could do anything about.
        """
        call_id = _call_id(context)

        async def play(client: McpClient) -> Result:
            return await self._play(client, session_id, tool, arguments, call_id)

        return await self.converse(context, session_id, answers, play)

    async def converse(
        self,
        context: Context,
        session_id: str,
        answers: Answers,
        run: Callable[[McpClient], Awaitable[Result]],
    ) -> Result:
        """Run something that may ask the client, in the way of the client's era.

        Args:
            context: The request.
            session_id: The session that it is about.
            answers: What the request brings for an earlier question.
            run: Runs it on behalf of the client that it is given.

        Returns:
            Its result, or questions.

        Raises:
            MCPError: If it brings answers to a question that nobody asked.
        """
        if not is_modern(context):
            return await run(HandshakeClient(context, self._levels.of(context)))
        if answers.state is None and not may_be_asked(context):
            return await run(McpClient(context))
        asked = Asked(owner=session_id, what=_subject(context), call_id=_call_id(context))
        if answers.state is not None:
            return await self._rounds.go_on(answers.state, asked, context, answers.responses)
        return await self._rounds.begin(asked, context, answers.responses, run)

    async def _play(
        self, client: McpClient, session_id: str, tool: str, arguments: dict[str, Any], call_id: str | None
    ) -> Result:
        asked = self._ground.asks_for_figures(client.context)
        figures = Figures.of(self._engine.visibility_of(session_id), asked=asked)
        if not _wants_progress(client.context):
            call = await self._engine.call(session_id, tool, arguments, call_id=call_id, client=client)
            with call.reading():
                if not call.is_done:
                    await _outlive(call, call_id)
                return tool_result(call, figures)
        reporter = Reporter(client)
        call = await self._engine.call(
            session_id, tool, arguments, call_id=call_id, listener=reporter, client=client
        )
        try:
            with call.reading():
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(reporter.beat)
                    await _outlive(call, call_id)
                    tasks.cancel_scope.cancel()
        finally:
            if reporter in call.listeners:
                call.listeners.remove(reporter)
        await call.wait()
        return tool_result(call, figures)


def _subject(context: Context) -> str:
    """Return what a request is about: a later request must say the same to go on with it."""
    params = context.params or {}
    subject = [context.method, params.get("name"), params.get("uri"), params.get("arguments")]
    return json.dumps(subject, sort_keys=True)


def _call_id(context: Context) -> str | None:
    call_id = (context.meta or {}).get(CALL_ID_KEY)
    if call_id is None:
        return None
    if not isinstance(call_id, str) or not 0 < len(call_id) <= MAX_CALL_ID:
        text = f"{CALL_ID_KEY} is a string of 1 to {MAX_CALL_ID} characters"
        raise MCPError(types.INVALID_PARAMS, text)
    return call_id


def _wants_progress(context: Context) -> bool:
    meta = (context.params or {}).get("_meta")
    return isinstance(meta, dict) and cast("Result", meta).get("progressToken") is not None


async def _outlive(call: Call, call_id: str | None) -> None:
    """Wait for a call; a client that leaves withdraws it, unless it gave an id to come back with."""
    try:
        await call.wait()
    except anyio.get_cancelled_exc_class():
        if call_id is None:
            call.cancel()
        raise
