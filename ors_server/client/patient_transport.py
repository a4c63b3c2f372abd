"""Repeats the HTTP requests of the MCP SDK, which repeats none.

Requests to an ors-server may be repeated, because a call's id is in its `_meta`. The SDK closes the whole
connection when a request fails, so a failed request is answered with status 503.
"""

import re
from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import cast

import anyio
import httpx2
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError
from typing_extensions import override

from ors_server.client.bounded_http import (
    EVENT_STREAM,
    MAX_PROBLEM_BYTES,
    AnswerBounds,
    BrokenAnswerError,
    redirect_error,
    shown,
    tls_context,
)
from ors_server.client.client_errors import UnreachableError, error_from
from ors_server.client.connection import (
    NOT_ACCEPTED,
    PERHAPS_ACCEPTED,
    Attempts,
    Patience,
    retry_after,
)
from ors_server.model.clock import Clock
from ors_server.model.errors import OrsServerError
from ors_server.model.json_bounds import MAX_VALUES

BOUNDS = AnswerBounds(max_stream_bytes=None, max_values=MAX_VALUES)
"""Of an answer over MCP, and of one event of a stream, which has no end.

There are fewer values than of other answers: the SDK reads them on the event loop, and more than once.
"""
MIN_COUNTED_BYTES = 1 << 16
"""Bytes of an answer, or of an event, above which its JSON is counted before the SDK reads it."""
MAX_EVENT_BYTES = 2 << 20
"""Bytes of an event that are kept until its end; the SDK takes up to half as many."""
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


class PatientTransport(httpx2.AsyncBaseTransport):
    """Repeats requests over another transport.

    Attributes:
        last_error: The error of the latest request, if it failed; `None` after an answer.
    """

    def __init__(self, transport: httpx2.AsyncBaseTransport | None, patience: Patience, clock: Clock) -> None:
        """Send over `transport`, which is not closed here, or over sockets."""
        self._external_transport = transport
        self._inner = transport or httpx2.AsyncHTTPTransport(verify=tls_context())
        self._patience = patience
        self._clock = clock
        self.last_error: OrsServerError | None = None

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        attempts = Attempts(self._patience, self._clock)
        # The body must be in memory to be sent again.
        await request.aread()
        try:
            while True:
                response = await self._attempt(request, attempts)
                if response is not None:
                    self.last_error = None
                    return response
        except OrsServerError as error:
            self.last_error = error
            return httpx2.Response(503, json={"detail": str(error), "code": error.code}, request=request)

    async def _attempt(self, request: httpx2.Request, attempts: Attempts) -> httpx2.Response | None:
        try:
            with anyio.fail_after(self._patience.answer_seconds):
                response = await self._inner.handle_async_request(request)
                response.request = request
                await BOUNDS.apply(response)
                if HTTPStatus.MULTIPLE_CHOICES <= response.status_code < HTTPStatus.BAD_REQUEST:
                    target = response.headers.get("location", "nowhere")
                    raise redirect_error(f"{request.method} {request.url}", target)
                if EVENT_STREAM in response.headers.get("content-type", ""):
                    inner = cast("httpx2.AsyncByteStream", response.stream)  # of async clients only
                    response.stream = _CheckedEvents(inner, f"an event of {request.url}")
                    return response
                await response.aread()
                # Refuses JSON that would hold the event loop when the SDK reads it.
                if response.is_success and len(response.content) > MIN_COUNTED_BYTES:
                    content_type = response.headers.get("content-type", "")
                    await _check_message(response.content, content_type, f"the answer of {request.url}")
        except TimeoutError as error:
            raise BrokenAnswerError(
                f"the answer of {request.method} {request.url} was not complete within "
                f"{self._patience.answer_seconds:g} seconds"
            ) from error
        except httpx2.RequestError as error:
            what = str(error) or type(error).__name__
            await attempts.pause(UnreachableError(f"{request.method} {request.url} was not answered: {what}"))
            return None
        if response.status_code not in NOT_ACCEPTED | PERHAPS_ACCEPTED:
            if response.is_error and len(response.content) >= MAX_PROBLEM_BYTES:
                raise error_from(response.text, response.status_code)
            return response
        await attempts.pause(error_from(response.text, response.status_code), retry_after(response))
        return None

    @override
    async def aclose(self) -> None:
        if self._external_transport is None:
            await self._inner.aclose()


async def _check_message(body: bytes, content_type: str, source: str) -> None:
    """Refuse what would hold the event loop when the SDK reads it: many values, or no message of JSON-RPC.

    Of the latter, the SDK writes the whole value into an error, once for each kind of message.
    """
    message = await BOUNDS.parse(body, content_type, source)
    try:
        jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError as error:
        raise BrokenAnswerError(f"{source}: expected a message of JSON-RPC, got {shown(body)}") from error


class _CheckedEvents(httpx2.AsyncByteStream):
    """An event stream whose long events are passed on once their values were counted."""

    def __init__(self, inner: httpx2.AsyncByteStream, source: str) -> None:
        self._inner, self._source = inner, source

    @override
    async def __aiter__(self) -> AsyncGenerator[bytes]:
        buffer = bytearray()
        async for piece in self._inner:
            searched = max(0, len(buffer) - 3)  # the end of an event may come in two pieces
            buffer += piece
            while (end := _EVENT_END.search(buffer, searched)) is not None:
                event = bytes(buffer[: end.end()])
                del buffer[: end.end()]
                searched = 0
                await self._check(event)
                yield event
            if len(buffer) > MAX_EVENT_BYTES:
                raise BrokenAnswerError(f"{self._source} has more than {MAX_EVENT_BYTES} bytes")
        if buffer:
            await self._check(bytes(buffer))
            yield bytes(buffer)

    async def _check(self, event: bytes) -> None:
        """Refuse an event whose JSON would hold the event loop when the SDK reads it."""
        if len(event) > MIN_COUNTED_BYTES:
            data = b"\n".join(line[5:] for line in event.splitlines() if line.startswith(b"data:"))
            await _check_message(data, "", self._source)

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()
