"""Repeats the HTTP requests of the MCP SDK, which repeats none.

Requests to an ors-server may be repeated, because a call's id is in its `_meta`. The SDK closes the whole
connection when a request fails, so a failed request is answered with status 503.
"""

import anyio
import httpx2
from typing_extensions import override

from ors_server.client.bounded_http import EVENT_STREAM, AnswerBounds, BrokenAnswerError
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

BOUNDS = AnswerBounds(max_stream_bytes=None)
"""Of the answers over MCP. A stream of notifications has no end; the SDK bounds each of its events."""


LONG = 1 << 16
"""Bytes of an answer above which its JSON is counted before the SDK reads it."""


class PatientTransport(httpx2.AsyncBaseTransport):
    """Repeats requests over another transport.

    Attributes:
        last_error: The error of the latest request, if it failed; `None` after an answer.
    """

    def __init__(self, transport: httpx2.AsyncBaseTransport | None, patience: Patience, clock: Clock) -> None:
        """Send over `given`, which is not closed here, or over sockets."""
        self._given = transport
        self._inner = transport or httpx2.AsyncHTTPTransport()
        self._patience = patience
        self._clock = clock
        self.last_error: OrsServerError | None = None

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        attempts = Attempts(self._patience, self._clock)
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
                if EVENT_STREAM in response.headers.get("content-type", ""):
                    return response
                await response.aread()
                await _check_json(response)
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
            return response
        await attempts.pause(error_from(response.text, response.status_code), retry_after(response))
        return None

    @override
    async def aclose(self) -> None:
        if self._given is None:
            await self._inner.aclose()


async def _check_json(response: httpx2.Response) -> None:
    """Refuse JSON that would hold the event loop when the SDK reads it."""
    content_type = response.headers.get("content-type", "")
    if response.is_success and response.content and len(response.content) > LONG:
        await BOUNDS.parse(response.content, content_type, f"the answer of {response.request.url}")
