"""Makes tool calls over the Open Reward Standard so that none runs twice and no answer is missed.

An ors-server takes the client's id with a call and never runs that id again, so the client repeats a call
that broke. Other servers send their id in the stream's first event: from then on the answer can be fetched
again. A call that breaks before that is reported as lost, and not repeated.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import quote

import anyio
import httpx2
from pydantic import TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from ors_server.client.bounded_http import EVENT_STREAM
from ors_server.client.call_arguments import new_call_id
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
    BOUNDS,
    NOT_ACCEPTED,
    PERHAPS_ACCEPTED,
    Attempts,
    Connection,
    HttpRequest,
    Response,
    content_of,
    retry_after,
    was_not_sent,
)
from ors_server.client.event_reader import EventReader
from ors_server.client.typed_answers import (
    CallKind,
    CompletedFields,
    FailedFields,
    RefusedFields,
    read_answer,
)
from ors_server.model.errors import Blame, EnvironmentFailedError, OrsServerError, ToolFailedError
from ors_server.model.json_bounds import parse_json
from ors_server.model.model_turn import MODEL_TURN
from ors_server.model.wire import (
    Block,
    GroupCandidate,
    GroupScore,
    JSONObject,
    Rows,
    ToolOutput,
    make_of_checked,
)

UNKNOWN_ID = "unknown task_id"
"""Error of a call that a server does not remember (both reference servers)."""

END_SECONDS = 5.0
"""Seconds in which a stream must end after its result; then its connection is closed."""
MAX_FAILURE = 100_000
"""Characters of a failure's text."""
MIN_COUNTED_CHARACTERS = 1 << 16
"""Characters of a result above which its values are counted before it is read."""
WORKING_SECONDS = 5.0
"""Seconds after which an open stream shows that the server works on the call, so that a proxy that cuts
streams every minute does not end the attempts."""


@dataclass(slots=True)
class _SentCall:
    """A call that was sent, or a group of candidates."""

    id: str
    """The client's own id."""
    tool: str
    arguments: JSONObject
    server_id: str | None = None
    """The id under which the answer can be fetched; `None` until the server has sent it."""
    candidates: Sequence[GroupCandidate] | None = None
    """The group to score, in place of a call."""
    model_turn: JSONObject | None = None
    """What the model wrote before the call."""

    @property
    def endpoint(self) -> str:
        """The last part of its path, below the environment."""
        return "call" if self.candidates is None else "score_group"

    @property
    def body(self) -> JSONObject:
        """The request's body."""
        repeated_id = {} if self.server_id is None else {"task_id": self.server_id}
        if self.candidates is not None:
            return {
                "candidates": [candidate.model_dump(mode="json") for candidate in self.candidates],
                **repeated_id,
            }
        turn = {} if self.model_turn is None else {MODEL_TURN: self.model_turn}
        return {"name": self.tool, "input": self.arguments, **repeated_id, **turn}


@dataclass(slots=True)
class _StreamContent:
    """The content of a stream so far."""

    pieces: list[str] = field(default_factory=list[str])
    result: str | None = None
    failure: str | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the result or the failure has arrived."""
        return self.result is not None or self.failure is not None


class ToolCaller:
    """Makes the calls of one session."""

    def __init__(
        self, connection: Connection, environment: str, session_id: str, *, knows_call_ids: bool
    ) -> None:
        self._connection = connection
        self._path = f"/{quote(environment, safe='')}/"
        self._control = f"/_ors/sessions/{quote(session_id, safe='')}/calls"
        self._headers = {"X-Session-ID": session_id, "Accept": EVENT_STREAM}
        self._knows_call_ids = knows_call_ids

    async def call(
        self, call_id: str, tool: str, arguments: JSONObject, model_turn: JSONObject | None = None
    ) -> CallResult:
        """Call a tool and return its result."""
        # An ors-server knows the call by the client's own id, so it can be repeated from the start.
        known_id = call_id if self._knows_call_ids else None
        sent = _SentCall(call_id, tool, arguments, known_id, model_turn=model_turn)
        limit = self._connection.patience.call_seconds
        if limit is None:
            return await self._send_until_done(sent)
        with anyio.move_on_after(limit):
            return await self._send_until_done(sent)
        raise CallTimeoutError(
            f"the call {call_id!r} of {tool!r} was not answered within {limit} seconds; it may still run"
        )

    async def score_group(self, candidates: Sequence[GroupCandidate]) -> list[GroupScore]:
        """Score rollouts of the session's task against each other."""
        call_id = new_call_id()
        sent = _SentCall(call_id, "score_group", {}, call_id if self._knows_call_ids else None, candidates)
        content = await self._read_stream(sent, Attempts(self._connection.patience, self._connection.clock))
        if content.result is None:
            raise EnvironmentFailedError(content.failure or "the scoring failed")
        try:
            scores = await parse_json(content.result.encode(), BOUNDS.max_values)
            return [read_known(GroupScore, score) for score in scores["scores"]]
        except (ValueError, KeyError, TypeError) as error:
            raise BrokenAnswerError(f"expected scores of a group, got {content.result[:200]!r}") from error

    async def _send_until_done(self, sent: _SentCall) -> CallResult:
        attempts = Attempts(self._connection.patience, self._connection.clock)
        while True:
            content = await self._read_stream(sent, attempts)
            result = await self._conclude(sent, content, attempts)
            if result is not None:
                return result

    async def _read_stream(self, sent: _SentCall, attempts: Attempts) -> _StreamContent:
        """Send the call until its stream has been read to the end."""
        limit, path = self._connection.patience.silence, self._path + sent.endpoint
        while True:
            request = HttpRequest("POST", path, sent.body, self._headers, is_tool_call=True, time_limit=limit)
            began = self._connection.clock.monotonic()
            try:
                content = await self._send_once(request, sent, attempts)
            except UnreachableError as error:
                if self._connection.clock.monotonic() - began > WORKING_SECONDS:
                    attempts.renew()
                # Without an id the server cannot recognise a repetition, and the call may have been accepted.
                if sent.server_id is None and not was_not_sent(error):
                    raise CallLostError(
                        "the connection broke before the server sent the id of the call of "
                        f"{sent.tool!r}; it may have run, so it is not sent again"
                    ) from error
                await attempts.pause(error)
                continue
            if content is not None:
                return content

    async def _send_once(
        self, request: HttpRequest, sent: _SentCall, attempts: Attempts
    ) -> _StreamContent | None:
        """Send the call once and read its stream; `None` if the server has not accepted it yet."""
        async with self._connection.opened(request) as response:
            is_stream = EVENT_STREAM in response.headers.get("content-type", "")
            if response.status_code == HTTPStatus.OK and is_stream:
                return await _read(response, sent)
            with self._connection.time_limit(request):
                await response.aread()
            content, _ = await content_of(response)
            if response.status_code == HTTPStatus.OK:
                raise BrokenAnswerError(
                    f"expected {EVENT_STREAM} in answer to a call, got {response.text[:200]!r}"
                )
        error = error_from(content, response.status_code)
        # A proxy's error leaves open whether the call began: repeating it needs an id that the server knows.
        may_repeat = NOT_ACCEPTED | PERHAPS_ACCEPTED if sent.server_id is not None else NOT_ACCEPTED
        if response.status_code not in may_repeat:
            raise error
        await attempts.pause(error, retry_after(response))
        return None

    async def _conclude(
        self, sent: _SentCall, content: _StreamContent, attempts: Attempts
    ) -> CallResult | None:
        """Read a stream's content; `None` if the call has to be repeated."""
        if content.result is not None:
            return await _read_result(sent, content.result)
        text = (content.failure or "the tool failed")[:MAX_FAILURE]
        if not self._knows_call_ids:
            if text == UNKNOWN_ID:
                raise CallLostError(
                    f"the server no longer remembers the answer to the call of {sent.tool!r} under its id "
                    f"{sent.server_id!r}; it has run, so it is not sent again"
                )
            raise ToolFailedError(text)
        return await self._explain(sent, text, attempts)

    async def _explain(self, sent: _SentCall, text: str, attempts: Attempts) -> CallResult | None:
        """Repeat the call at an ors-server's control API, which states the failure's code and blame."""
        body = {"name": sent.tool, "arguments": sent.arguments, "call_id": sent.id}
        answer = await self._connection.ask(HttpRequest("POST", self._control, body))
        kind = read_answer(CallKind, answer, f"the answer of POST {self._control}")["kind"]
        if kind == "completed":
            done = read_answer(CompletedFields, answer, f"the completed call {sent.id!r}")
            return _with_output(sent, read_output(done["output"]), done["step"], is_error=done["is_error"])
        if kind == "refused":
            refusal = read_answer(RefusedFields, answer, f"the refused call {sent.id!r}")
            return refused(sent.id, sent.tool, refusal["detail"], refusal["reason"], refusal["step"])
        failed = read_answer(FailedFields, answer, f"the failed call {sent.id!r}")
        error = named_error(failed["code"], failed["blame"], failed["detail"]) or OrsServerError(text)
        if error.blame is not Blame.MACHINERY:
            raise error
        await attempts.pause(error)
        return None


async def _read(response: Response, sent: _SentCall) -> _StreamContent:
    content, reader = _StreamContent(), EventReader()
    try:
        with anyio.CancelScope() as scope:
            async for piece in response.aiter_bytes():  # to its end, so that the connection can be reused
                for event in reader.feed(piece):
                    _take(event.name, event.data, content, sent)
                if content.is_whole:
                    # A server that keeps the stream open after the result must not hold the caller.
                    scope.deadline = min(scope.deadline, anyio.current_time() + END_SECONDS)
    except (httpx2.RequestError, BrokenAnswerError):
        # After the result, a fault of the stream changes nothing.
        if not content.is_whole:
            raise
    if content.is_whole:
        return content
    raise UnreachableError(f"the stream of the call of {sent.tool!r} ended before its result")


def _take(name: str, data: str, content: _StreamContent, sent: _SentCall) -> None:
    match name:
        case "task_id" if sent.server_id is None:
            sent.server_id = data.strip()
        case "chunk":
            content.pieces.append(data)
        case "end":
            content.result = "".join([*content.pieces, data])
        case "error":
            content.failure = data
        case _:
            pass


@with_config(extra="forbid", strict=True, allow_inf_nan=False)
class _Output(TypedDict):
    """A `ToolOutput` with all its fields, which is read in less than half the time of the model."""

    blocks: Rows[Block]
    metadata: JSONObject | None
    reward: float | None
    finished: bool


@with_config(extra="forbid")
class _Result(TypedDict):
    """A call's result with exactly the fields of this version of the standard."""

    ok: Literal[True]
    output: _Output


_RESULT = TypeAdapter(_Result)


async def _read_result(sent: _SentCall, text: str) -> CallResult:
    # A long text is counted first: the parser in C would hold the caller's event loop for millions of values.
    if len(text) > MIN_COUNTED_CHARACTERS:
        try:
            return _read_other_result(sent, text, await parse_json(text.encode(), BOUNDS.max_values))
        except ValueError as error:
            raise _broken_result(text) from error
    try:
        # The usual answer is read by one strict validator; anything else takes the tolerant way below.
        values: Any = _RESULT.validate_json(text)["output"]
    except ValidationError:
        try:
            return _read_other_result(sent, text, json.loads(text))
        except (ValueError, RecursionError) as error:
            raise _broken_result(text) from error
    return _with_output(sent, make_of_checked(ToolOutput, values))


def _read_other_result(sent: _SentCall, text: str, answer: Any) -> CallResult:
    try:
        if answer["ok"]:
            return _with_output(sent, read_output(answer["output"]))
        reason = answer.get("reason")
        return refused(sent.id, sent.tool, str(answer["error"]), reason if isinstance(reason, str) else None)
    except (KeyError, TypeError) as error:
        raise _broken_result(text) from error


def _broken_result(text: str) -> BrokenAnswerError:
    return BrokenAnswerError(f"expected a call's result in the standard's form, got {text[:200]!r}")


def _with_output(
    sent: _SentCall, output: ToolOutput, step: int | None = None, *, is_error: bool = False
) -> CallResult:
    error = (output.metadata or {}).get("error")
    return CallResult(
        sent.id,
        sent.tool,
        output,
        step=step or step_of(output),
        refusal=refusal_of(output),
        is_error=is_error or isinstance(error, dict),
    )
