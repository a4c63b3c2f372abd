"""Streams a call's answer: its id at once, keep-alives while it runs, its result exactly once at the end.

A client that repeats a call because the answer was lost gets the answer of the call that it began before.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import NamedTuple

import anyio
from anyio.lowlevel import checkpoint

from ors_server.doors.access import Caller, describe_output, may_read_reasons, withhold
from ors_server.doors.http import messages as http
from ors_server.doors.http.sse import (
    EVENT_CHARACTERS,
    EVENT_HEADERS,
    LONG_CHARACTERS,
    comment,
    event,
    result_events,
    result_parts,
    text_parts,
)
from ors_server.model.errors import OrsServerError, ToolFailedError
from ors_server.model.logs import get_logger
from ors_server.model.trajectory import REWARD_REASON
from ors_server.model.visibility import Visibility
from ors_server.model.wire import TextBlock, compact_json
from ors_server.sessions.session_call import MAX_READERS, Call, CallResult, Completed, Failure, Refusal, wake

log = get_logger("ors_server.ors")

NO_RESULT = Failure(OrsServerError("the call has no result"))

FIRST_WRITE_DELAY = 0.1
"""Seconds that the call's id waits to be sent together with the result: longer than a step of a busy server
takes, because a second write costs a tenth of a call."""

MAX_WRITE = 1024 * 1024
"""Maximum number of bytes that are given to the connection at once."""

WRITE_PAUSE = 1.0
"""Seconds between two attempts to store a step, once its stream has begun."""
WRITE_ATTEMPTS = 60
"""Attempts to store a step; then the stream ends with the error that the step is pending."""


MAX_UNANSWERED = 16
"""Maximum number of unanswered calls of one session that are remembered."""
MAX_SESSIONS_UNANSWERED = 1_024
"""Maximum number of sessions of which they are remembered; the oldest are forgotten first."""


class CallRetries:
    """Finds the call that a client without call ids sends again because its connection broke.

    Such a client (`openreward`) would otherwise play two steps. Only a call whose client left before the
    call's id was written is found: an id that was lost in the network looks like one that arrived.
    """

    def __init__(self) -> None:
        self.unanswered: dict[str, dict[str, http.Exchange]] = {}
        """Calls whose clients have not received the id yet, by session and call id."""

    def take(self, session_id: str) -> list[str]:
        """Return the ids of the session's calls whose clients left, oldest first; each is returned once."""
        calls = self.unanswered.pop(session_id, {})
        lost = [call_id for call_id, exchange in calls.items() if exchange.disconnected]
        rest = {call_id: exchange for call_id, exchange in calls.items() if call_id not in lost}
        if rest:
            self.unanswered[session_id] = rest
        return lost

    def note(self, session_id: str, call_id: str, exchange: http.Exchange) -> None:
        """Note a call that is about to be answered."""
        calls = self.unanswered.setdefault(session_id, {})
        calls[call_id] = exchange
        if len(calls) > MAX_UNANSWERED:
            del calls[next(iter(calls))]
        while len(self.unanswered) > MAX_SESSIONS_UNANSWERED:
            del self.unanswered[next(iter(self.unanswered))]

    def forget_answered(self, session_id: str, call_id: str, exchange: http.Exchange) -> None:
        """Forget a call whose id was written, unless its client had left before."""
        calls = self.unanswered.get(session_id)
        if calls is None or exchange.disconnected:
            return
        calls.pop(call_id, None)
        if not calls:
            del self.unanswered[session_id]


class ResultReader(NamedTuple):
    """The caller who reads a result, and what the session lets agents see."""

    caller: Caller
    visibility: Visibility


class CallStreams:
    """Writes answers as event streams."""

    def __init__(self, ping_seconds: float, *, fails_unjudged: bool = False) -> None:
        """Send a keep-alive comment every `ping_seconds` seconds.

        Args:
            fails_unjudged: Whether the answer to a call whose judgement failed is an error.
        """
        self._ping_seconds = ping_seconds
        self._fails_unjudged = fails_unjudged
        self._first_waits: deque[tuple[float, asyncio.Future[None]]] = deque()
        """When the id of a call is written without its result, and what wakes its stream; the oldest first.

        One timer serves all of them, because one for each call costs as much as its tool.
        """
        self._timer: asyncio.TimerHandle | None = None

    async def send_whole(self, send: http.Send, body: bytes) -> None:
        """Send a stream whose events are complete."""
        headers = [*EVENT_HEADERS, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while len(body) > MAX_WRITE:  # so that a client which does not read holds this up and not memory
            await send({"type": "http.response.body", "body": body[:MAX_WRITE], "more_body": True})
            body = body[MAX_WRITE:]
        await send({"type": "http.response.body", "body": body})

    async def follow(
        self,
        call: Call,
        reader: ResultReader,
        send: http.Send,
        repeat: Callable[[], Awaitable[Call]] | None = None,
        on_sent: Callable[[], None] | None = None,
    ) -> None:
        """Send a call's id and, once it is there, its result.

        A call that ends at once, or as soon as its step is stored, costs one write. A stream that has begun
        waits a while for a step that could not be stored.

        Args:
            repeat: Makes the same call again if its step could not be stored.
            on_sent: Is called once the call's id was written.

        Raises:
            CapacityError: If too many others read the same call's answer.
            StoreError: If the step could not be stored, before anything was sent.
        """
        if call.senders >= MAX_READERS:
            call.refuse_sender()
        call.senders += 1
        try:
            if call.result is None:
                ended = call.add_reader()
                loop = ended.get_loop()
                self._first_waits.append((loop.time() + FIRST_WRITE_DELAY, ended))
                if self._timer is None:
                    self._timer = loop.call_later(FIRST_WRITE_DELAY, self._end_first_waits)
                try:
                    await ended
                finally:
                    if call.result is None:
                        call.remove_reader(ended)
            result = self._shown(call) if self._fails_unjudged else call.result
            opening = b"event: task_id\ndata: %b\n\n" % call.id.encode()
            if call.is_named:  # else the server made it, and it is one line
                opening = event("task_id", call.id)
            if result is None or (isinstance(result, Completed) and _is_long(result)):
                await send({"type": "http.response.start", "status": 200, "headers": [*EVENT_HEADERS]})
                await send({"type": "http.response.body", "body": opening, "more_body": True})
                if on_sent is not None:
                    on_sent()
                await self._send_parts(call, reader, send, repeat)
                return
            if isinstance(result, Failure) and call.is_unwritten:
                raise result.error
            await self.send_whole(send, opening + _encode(result, call, reader))
            if on_sent is not None:
                on_sent()
        finally:
            call.senders -= 1

    def _end_first_waits(self) -> None:
        """Wake the streams that have waited for `FIRST_WRITE_DELAY`."""
        self._timer = None
        loop, waits = asyncio.get_running_loop(), self._first_waits
        while waits:
            due, ended = waits[0]
            if not ended.done():
                if due > loop.time():
                    self._timer = loop.call_at(due, self._end_first_waits)
                    return
                wake(ended)
            waits.popleft()

    async def _send_parts(
        self,
        call: Call,
        reader: ResultReader,
        send: http.Send,
        repeat: Callable[[], Awaitable[Call]] | None,
    ) -> None:
        await self._wait(call, send)
        if repeat is not None and call.is_unwritten:
            call = await self._retry_write(call, repeat, send)
        shown = self._shown(call)
        if isinstance(shown, Completed) and _is_long(shown):
            # Piece by piece, so that others run between them.
            answer = {"ok": True, "output": describe_output(shown.recorded, *reader)}
            for part in result_parts(text_parts(answer)):
                await send({"type": "http.response.body", "body": part, "more_body": True})
                await checkpoint()
            await send({"type": "http.response.body", "body": b""})
            return
        await send({"type": "http.response.body", "body": _encode(shown, call, reader)})

    def _shown(self, call: Call) -> CallResult | None:
        """Return the result as it is sent; `None` while the call runs."""
        result = call.result
        if self._fails_unjudged and isinstance(result, Completed) and result.recorded.is_unjudged:
            reason = (result.recorded.metadata or {}).get(REWARD_REASON)
            return Failure(ToolFailedError(f"the judgement of {call.tool!r} failed: {reason}"), result.step)
        return result

    async def _wait(self, call: Call, send: http.Send) -> None:
        while await call.wait_for(self._ping_seconds) is None:
            await _send_ping(send)

    async def _retry_write(self, call: Call, repeat: Callable[[], Awaitable[Call]], send: http.Send) -> Call:
        """Repeat the call until its step is stored, at most `WRITE_ATTEMPTS` times."""
        attempts = 0
        while call.is_unwritten and attempts < WRITE_ATTEMPTS:
            attempts += 1
            await anyio.sleep(WRITE_PAUSE)
            await _send_ping(send)
            try:
                call = await repeat()
            except OrsServerError:  # the session is gone; what is known of the call is all there will be
                break
            await self._wait(call, send)
        return call


async def _send_ping(send: http.Send) -> None:
    ping = comment(f"ping - {datetime.now(UTC)}")
    await send({"type": "http.response.body", "body": ping, "more_body": True})


def _is_long(result: Completed) -> bool:
    """Say whether writing a result at once would hold up others."""
    length = 0
    for block in result.recorded.blocks:
        length += len(block.text if isinstance(block, TextBlock) else block.data)
    return length > LONG_CHARACTERS


def _encode(result: CallResult | None, call: Call, reader: ResultReader) -> bytes:
    try:
        return encode_result(result or NO_RESULT, reader.caller, reader.visibility, call.id)
    except Exception:  # a stream that has begun must end with an event in every case
        log.exception("result_defect", tool=call.tool, call_id=call.id)
        return event("error", "the server failed; its log has the details")


def encode_result(
    result: CallResult, caller: Caller, visibility: Visibility, call_id: str | None = None
) -> bytes:
    """Write a call's result as the last events of its stream.

    Args:
        visibility: The session's setting.
        call_id: The id under which the log holds an error message that is withheld.
    """
    if isinstance(result, Failure):
        is_plain = may_read_reasons(caller, visibility)
        error = result.error if is_plain else withhold(result.error, call_id)
        return event("error", str(error) or type(error).__name__)
    if isinstance(result, Refusal):
        refused = {"ok": False, "error": result.error, "reason": result.reason.value}
        return result_events(compact_json(refused))
    if not isinstance(result, Completed):
        scores = [score.model_dump() for score in result.scores]
        return result_events(compact_json({"scores": scores}))
    payload = compact_json({"ok": True, "output": describe_output(result.recorded, caller, visibility)})
    if len(payload) > EVENT_CHARACTERS:
        return result_events(payload)
    return b"event: end\ndata: %b\n\n" % payload.encode("ascii")
