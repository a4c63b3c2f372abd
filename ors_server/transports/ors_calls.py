"""Streams a call's answer: its id at once, keep-alives while it runs, its result exactly once at the end."""

from datetime import UTC, datetime

from ors_server.errors import OrsServerError
from ors_server.logs import get_logger
from ors_server.sessions.calls import Call, CallResult, Completed, Fault, Refusal
from ors_server.transports import http
from ors_server.transports.access import Caller
from ors_server.transports.redaction import redact
from ors_server.transports.sse import comment, compact_json, event, result_events
from ors_server.visibility import Visibility
from ors_server.wire import TextBlock, ToolOutput

log = get_logger("ors_server.ors")

NO_RESULT = Fault(OrsServerError("the call has no result"))

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


PATIENCE = 0.1
"""Seconds that the call's id is held back for a call that may end with it: more than a step of a busy server
takes, for a second write costs a tenth of a call."""


LONGEST_WRITE = 1024 * 1024
"""Bytes that are handed to the connection at once."""


class CallStreams:
    """Writes answers as event streams."""

    def __init__(self, ping_seconds: float) -> None:
        """Set the rhythm.

        Args:
            ping_seconds: Seconds between two keep-alive comments.
        """
        self._ping_seconds = ping_seconds

    async def send_whole(self, send: http.Send, body: bytes) -> None:
        """Send a stream that is complete already.

        Args:
            send: The ASGI channel.
            body: Its events.
        """
        headers = [*_HEADERS, (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while len(body) > LONGEST_WRITE:  # so that a client which does not read holds this up and not memory
            await send({"type": "http.response.body", "body": body[:LONGEST_WRITE], "more_body": True})
            body = body[LONGEST_WRITE:]
        await send({"type": "http.response.body", "body": body})

    async def follow(self, call: Call, caller: Caller, visibility: Visibility, send: http.Send) -> None:
        """Send a call's id and, when it is there, its result.

        A call that ends at once, or as soon as its step is on record, costs one write.

        Args:
            call: The call.
            caller: Who reads the answer.
            visibility: The session's setting.
            send: The ASGI channel.

        Raises:
            CapacityError: If too many others read the same call's answer.
        """
        with call.reading():
            await self._follow(call, caller, visibility, send)

    async def _follow(self, call: Call, caller: Caller, visibility: Visibility, send: http.Send) -> None:
        opening = event("task_id", call.id)
        if await call.wait_for(PATIENCE) is not None:
            await self.send_whole(send, opening + _encode(call, caller, visibility))
            return
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": opening, "more_body": True})
        while await call.wait_for(self._ping_seconds) is None:
            ping = comment(f"ping - {datetime.now(UTC)}")
            await send({"type": "http.response.body", "body": ping, "more_body": True})
        await send({"type": "http.response.body", "body": _encode(call, caller, visibility)})


def _encode(call: Call, caller: Caller, visibility: Visibility) -> bytes:
    try:
        return encode_result(call.result or NO_RESULT, caller, visibility)
    except Exception:  # a stream that has begun must end with an event, whatever happened
        log.exception("result_defect", tool=call.tool, call_id=call.id)
        return event("error", "the server failed; its log has the details")


def encode_result(result: CallResult, caller: Caller, visibility: Visibility) -> bytes:
    """Write a call's result as the last events of its stream.

    Args:
        result: The result.
        caller: Who reads it.
        visibility: The session's setting.
    """
    if isinstance(result, Fault):
        return event("error", str(result.error) or type(result.error).__name__)
    if isinstance(result, Refusal):
        refused = {"ok": False, "error": result.error, "reason": result.reason.value}
        return result_events(compact_json(refused))
    if not isinstance(result, Completed):
        scores = [score.model_dump() for score in result.scores]
        return result_events(compact_json({"scores": scores}))
    return result_events(_output_json(redact(result.output, caller, visibility)))


def _output_json(output: ToolOutput) -> str:
    blocks = [
        {"text": block.text, "detail": block.detail, "type": "text"}
        if isinstance(block, TextBlock)
        else {"data": block.data, "mimeType": block.mimeType, "detail": block.detail, "type": "image"}
        for block in output.blocks
    ]
    body = {
        "blocks": blocks,
        "metadata": output.metadata,
        "reward": output.reward,
        "finished": output.finished,
    }
    return compact_json({"ok": True, "output": body})
