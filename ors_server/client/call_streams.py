"""Makes tool calls over the Open Reward Standard so that none runs twice and no answer is missed.

A server of ours takes the client's own id with a call and never runs it again, so whatever breaks, the call
is sent again as it was. Another server tells its id in the stream's first event: from then on the answer can
be fetched again, before it nothing can, and a call that breaks off there is reported as lost instead of being
repeated.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import quote
from uuid import uuid4

import anyio
import httpx2
from pydantic import BaseModel, ValidationError

from ors_server.client.call_result import CallResult, read_known, read_output, refusal_of, refused, step_of
from ors_server.client.client_errors import (
    BrokenAnswerError,
    CallLostError,
    CallTimeoutError,
    UnreachableError,
    error_from,
    named_error,
)
from ors_server.client.connection import (
    EVENT_STREAM,
    NOT_TAKEN,
    PERHAPS_TAKEN,
    Attempts,
    Connection,
    Request,
    Response,
    content_of,
    never_left,
    retry_after,
)
from ors_server.client.event_reader import EventReader
from ors_server.errors import Blame, EnvironmentFailedError, OrsServerError, ToolFailedError
from ors_server.wire import GroupCandidate, GroupScore, JSONObject, ToolOutput

UNKNOWN_ID = "unknown task_id"
"""What a server says of a call that it does not remember (both reference servers)."""

WORKING_SECONDS = 5.0
"""Seconds for which a stream has to stay open to show that the server works on the call: one that something
between cuts every minute is no reason to give up."""


@dataclass(slots=True)
class _Sent:
    """A call on its way, or a group of candidates."""

    id: str
    """The client's own id."""
    tool: str
    arguments: JSONObject
    server_id: str | None = None
    """The id under which the answer can be fetched; `None` until the server has told it."""
    candidates: Sequence[GroupCandidate] | None = None
    """What is scored, in place of a call."""

    @property
    def endpoint(self) -> str:
        """Where it is sent, below the environment."""
        return "call" if self.candidates is None else "score_group"

    @property
    def body(self) -> JSONObject:
        """The request's body."""
        known = {} if self.server_id is None else {"task_id": self.server_id}
        if self.candidates is not None:
            return {"candidates": [one.model_dump(mode="json") for one in self.candidates], **known}
        return {"name": self.tool, "input": self.arguments, **known}


@dataclass(slots=True)
class _Heard:
    """What a stream has told so far."""

    pieces: list[str] = field(default_factory=list[str])
    result: str | None = None
    failure: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the stream said all that it ever will."""
        return self.result is not None or self.failure is not None


class Caller:
    """Makes the calls of one session."""

    def __init__(
        self, connection: Connection, environment: str, session_id: str, *, knows_call_ids: bool
    ) -> None:
        """Keep where calls go.

        Args:
            connection: The server.
            environment: Name of the session's environment.
            session_id: The session.
            knows_call_ids: Whether the server is one of ours, which takes a client's own ids.
        """
        self._connection = connection
        self._path = f"/{quote(environment, safe='')}/"
        self._control = f"/_ors/sessions/{quote(session_id, safe='')}/calls"
        self._headers = {"X-Session-ID": session_id, "Accept": EVENT_STREAM}
        self._knows_call_ids = knows_call_ids

    async def call(self, call_id: str, tool: str, arguments: JSONObject) -> CallResult:
        """Call a tool and wait for what it comes to.

        Args:
            call_id: The call's id; with a server of ours, the same id never runs twice.
            tool: The tool's name.
            arguments: As the agent gives them.

        Raises:
            CallTimeoutError: If the client's own time limit is over.
            CallLostError: If the answer is lost and asking again could run the call twice.
            OrsServerError: If the call failed through no fault of the agent's, or the server refused.
        """
        sent = _Sent(call_id, tool, arguments, call_id if self._knows_call_ids else None)
        limit = self._connection.patience.call_seconds
        if limit is None:
            return await self._insist(sent)
        with anyio.move_on_after(limit):
            return await self._insist(sent)
        raise CallTimeoutError(
            f"the call {call_id!r} of {tool!r} was not answered within {limit} seconds; it may still run"
        )

    async def score_group(self, candidates: Sequence[GroupCandidate]) -> list[GroupScore]:
        """Have rollouts of the session's task scored against each other.

        Raises:
            EnvironmentFailedError: If the scoring failed.
            OrsServerError: If the server refused.
        """
        call_id = str(uuid4())
        sent = _Sent(call_id, "score_group", {}, call_id if self._knows_call_ids else None, candidates)
        heard = await self._hear(sent, Attempts(self._connection.patience, self._connection.clock))
        if heard.result is None:
            raise EnvironmentFailedError(heard.failure or "the scoring failed")
        try:
            return [read_known(GroupScore, score) for score in json.loads(heard.result)["scores"]]
        except (ValueError, KeyError, TypeError) as error:
            raise BrokenAnswerError(f"expected scores of a group, got {heard.result[:200]!r}") from error

    async def _insist(self, sent: _Sent) -> CallResult:
        attempts = Attempts(self._connection.patience, self._connection.clock)
        while True:
            heard = await self._hear(sent, attempts)
            result = await self._conclude(sent, heard, attempts)
            if result is not None:
                return result

    async def _hear(self, sent: _Sent, attempts: Attempts) -> _Heard:
        """Send the call until its stream was read to the end."""
        limit, path = self._connection.patience.silence, self._path + sent.endpoint
        while True:
            request = Request("POST", path, sent.body, self._headers, is_tool_call=True, time_limit=limit)
            began = self._connection.clock.monotonic()
            try:
                heard = await self._listen(request, sent, attempts)
            except UnreachableError as error:
                if self._connection.clock.monotonic() - began > WORKING_SECONDS:
                    attempts.renew()
                if sent.server_id is None and not never_left(error):
                    raise CallLostError(
                        "the connection broke before the server had told the id of the call of "
                        f"{sent.tool!r}; it may have run, so it is not sent again"
                    ) from error
                await attempts.pause(error)
                continue
            if heard is not None:
                return heard

    async def _listen(self, request: Request, sent: _Sent, attempts: Attempts) -> _Heard | None:
        """Send the call once and read its stream; `None` if the server did not take it yet.

        Raises:
            UnreachableError: If the stream ended before its result.
        """
        async with self._connection.opened(request) as response:
            if response.status_code == HTTPStatus.OK:
                return await self._read(response, sent)
            await response.aread()
        error = error_from(content_of(response), response.status_code)
        may_repeat = NOT_TAKEN | PERHAPS_TAKEN if sent.server_id is not None else NOT_TAKEN
        if response.status_code not in may_repeat:
            raise error
        await attempts.pause(error, retry_after(response))
        return None

    async def _read(self, response: Response, sent: _Sent) -> _Heard:
        if EVENT_STREAM not in response.headers.get("content-type", ""):
            await response.aread()
            raise BrokenAnswerError(f"a call is answered by {EVENT_STREAM}, not {response.text[:200]!r}")
        heard, reader = _Heard(), EventReader()
        try:
            async for piece in response.aiter_bytes():  # to its end, so that the connection can be used again
                for event in reader.feed(piece):
                    _take(event.name, event.data, heard, sent)
        except httpx2.RequestError:
            if not heard.is_whole:
                raise
        if heard.is_whole:
            return heard
        raise UnreachableError(f"the stream of the call of {sent.tool!r} ended before its result")

    async def _conclude(self, sent: _Sent, heard: _Heard, attempts: Attempts) -> CallResult | None:
        """Read what a stream told; `None` if the call is worth asking for again."""
        if heard.result is not None:
            return _read_result(sent, heard.result)
        text = heard.failure or "the tool failed"
        if not self._knows_call_ids:
            if text == UNKNOWN_ID:
                raise CallLostError(
                    f"the server no longer remembers the answer to the call of {sent.tool!r} under its id "
                    f"{sent.server_id!r}; it has run, so it is not sent again"
                )
            raise ToolFailedError(text)
        return await self._explain(sent, text, attempts)

    async def _explain(self, sent: _Sent, text: str, attempts: Attempts) -> CallResult | None:
        """Ask a server of ours by the same id, in the words of its control API, whose fault it was."""
        body = {"name": sent.tool, "arguments": sent.arguments, "call_id": sent.id}
        told = await self._connection.ask(Request("POST", self._control, body))
        if told["kind"] == "completed":
            return _completed(sent, told["output"], told["step"], is_error=told["is_error"])
        if told["kind"] == "refused":
            return refused(sent.id, sent.tool, told["detail"], told["reason"], told["step"])
        error = named_error(told["code"], told["blame"], told["detail"]) or OrsServerError(text)
        if error.blame is not Blame.MACHINERY:
            raise error
        await attempts.pause(error)
        return None


def _take(name: str, data: str, heard: _Heard, sent: _Sent) -> None:
    match name:
        case "task_id" if sent.server_id is None:
            sent.server_id = data.strip()
        case "chunk":
            heard.pieces.append(data)
        case "end":
            heard.result = "".join([*heard.pieces, data])
        case "error":
            heard.failure = data
        case _:
            pass


class _Result(BaseModel):
    """The result of a call that has just the fields of this version of the standard."""

    ok: Literal[True]
    output: ToolOutput


def _read_result(sent: _Sent, text: str) -> CallResult:
    try:
        output = _Result.model_validate_json(text).output
    except ValidationError:
        return _read_other_result(sent, text)
    return _with_output(sent, output, None)


def _read_other_result(sent: _Sent, text: str) -> CallResult:
    try:
        told = json.loads(text)
        if told["ok"]:
            return _completed(sent, told["output"], None)
        return refused(sent.id, sent.tool, str(told["error"]), told.get("reason"))
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenAnswerError(f"a call's result has not the standard's form: {text[:200]!r}") from error


def _completed(
    sent: _Sent, given: Mapping[str, Any], step: int | None, *, is_error: bool = False
) -> CallResult:
    return _with_output(sent, read_output(given), step, is_error=is_error)


def _with_output(sent: _Sent, output: ToolOutput, step: int | None, *, is_error: bool = False) -> CallResult:
    error = (output.metadata or {}).get("error")
    return CallResult(
        sent.id,
        sent.tool,
        output,
        step=step or step_of(output),
        refusal=refusal_of(output),
        is_error=is_error or isinstance(error, dict),
    )
