"""HTTP with patience: one request, asked again when that is safe, until it is answered or patience ends.

Knows no endpoint. What may be asked again is decided here and nowhere else: a request that the server says it
did not take (429, 503), one that never left (the connection was refused), and one that its caller declares
repeatable, whatever broke.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from random import SystemRandom
from typing import Any, Protocol

import anyio
import httpx2

from ors_server.client.app_transport import AppTransport
from ors_server.client.client_errors import (
    CLOSED,
    BrokenAnswerError,
    ClosedError,
    UnreachableError,
    error_from,
)
from ors_server.clock import Clock, SystemClock
from ors_server.errors import InvalidRequestError, OrsServerError

NOT_TAKEN = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""Statuses with which a server says that it did nothing, and that a later request may succeed."""
PERHAPS_TAKEN = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT})
"""Statuses with which something between says that it does not know."""
EVENT_STREAM = "text/event-stream"

_chance = SystemRandom()


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client insists."""

    seconds: float = 600.0
    """Seconds for which one request is repeated; the time in which a call runs does not count."""
    attempts: int = 6
    """Times that a broken connection is tried in a row, at least 1."""
    longest_pause: float = 10.0
    """Seconds between two attempts at most, unless the server asks for more by `Retry-After`."""
    silence: float = 60.0
    """Seconds without a byte of an answer after which a connection counts as broken; servers send a sign of
    life every 10."""
    call_seconds: float | None = None
    """Seconds that one tool call may take, seen from here; `None` leaves it to the server."""
    ping_seconds: float = 10.0
    """Seconds between two signs of life of an open episode; both reference clients send one every 10."""


@dataclass(slots=True)
class Attempts:
    """The attempts at one request, and the pauses between them."""

    patience: Patience
    clock: Clock
    began: float = field(init=False)
    broken: int = 0
    """Connections that broke in a row."""
    count: int = 0

    def __post_init__(self) -> None:
        """Begin to count time."""
        self.began = self.clock.monotonic()

    def renew(self) -> None:
        """Forget what went wrong: the server has shown that it works on the request."""
        self.began = self.clock.monotonic()
        self.broken = self.count = 0

    async def pause(self, error: OrsServerError, retry_after: float | None = None) -> None:
        """Wait before the next attempt.

        Args:
            error: What went wrong.
            retry_after: Seconds that the server asks for.

        Raises:
            OrsServerError: `error`, if patience has ended.
        """
        self.count += 1
        self.broken += isinstance(error, UnreachableError)
        wait = min(self.patience.longest_pause, 0.1 * 2 ** min(self.count, 10))
        wait *= _chance.uniform(0.5, 1.0)  # so that a crowd does not come back in step
        if retry_after is not None:
            wait = retry_after + wait / 10
        elapsed = self.clock.monotonic() - self.began
        if self.broken >= self.patience.attempts or elapsed + wait > self.patience.seconds:
            raise error
        await self.clock.sleep(wait)


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask."""

    method: str
    path: str
    body: Any = None
    """A JSON value; `None` for no body."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_repeatable: bool = True
    """Whether asking twice does no more than asking once."""
    is_tool_call: bool = False
    """Whether what it began goes on when the request is cancelled."""
    time_limit: float | None = None
    """Seconds without a byte of the answer after which the connection counts as broken; `Patience.silence`
    otherwise."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer's status and its JSON, or its text where it is none."""

    status: int
    content: Any
    was_repeated: bool = False
    """Whether an earlier attempt may have reached the server."""


class Response(Protocol):
    """What is read of a response, whatever carried it; the names are those of `httpx2.Response`."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by lower-case name."""
        ...

    @property
    def text(self) -> str:
        """The body as text, once it was read."""
        ...

    def json(self) -> Any:
        """Return the body's JSON value, once it was read; raises `ValueError` if it is not JSON."""

    async def aread(self) -> bytes:
        """Read the whole body."""
        ...

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """Give the body in pieces, as they arrive."""
        ...


class Connection:
    """A server, reached over pooled connections; or an application of this process, called directly."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        patience: Patience,
        clock: Clock | None = None,
        app: AppTransport | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Open nothing yet.

        Args:
            http: Sends requests; its base URL is the server's.
            patience: How long to insist.
            clock: The source of time.
            app: Answers requests in place of `http`, at less processor time.
            headers: Sent with every request to `app`.
        """
        self.http = http
        self.patience = patience
        self.clock = clock or SystemClock()
        self._app = app
        self._root = http.base_url.raw_path.decode("ascii").rstrip("/")
        own = {"Host": http.base_url.netloc.decode("ascii"), "Content-Type": "application/json"}
        self._headers = _encode_headers({**(headers or {}), **own})

    async def ask(self, request: Request) -> Any:
        """Send a request and return the answer's JSON.

        Args:
            request: What to ask.

        Raises:
            OrsServerError: What the server answered, if that is no success; or that it cannot be reached.
        """
        answer = await self.answer(request)
        if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise error_from(answer.content, answer.status)
        if isinstance(answer.content, str):
            raise BrokenAnswerError(
                f"{request.method} {request.path} was answered by something that is not JSON: "
                f"{answer.content[:200]!r}; is the URL that of an ORS server?"
            )
        return answer.content

    async def answer(self, request: Request) -> Answer:
        """Send a request, again where that is safe and worth while, and return the answer whatever it is.

        Args:
            request: What to ask.

        Raises:
            UnreachableError: If no answer came.
        """
        attempts = Attempts(self.patience, self.clock)
        was_lost = False
        while True:
            try:
                async with self.opened(request) as response:
                    await response.aread()
            except UnreachableError as error:
                if not (request.is_repeatable or never_left(error)):
                    raise
                was_lost = was_lost or not never_left(error)
                await attempts.pause(error)
                continue
            if not self._may_repeat(request, response.status_code):
                return Answer(response.status_code, content_of(response), was_lost)
            was_lost = was_lost or response.status_code in PERHAPS_TAKEN
            failure = error_from(content_of(response), response.status_code)
            await attempts.pause(failure, retry_after(response))

    @asynccontextmanager
    async def opened(self, request: Request) -> AsyncGenerator[Response]:
        """Send a request once and give its answer as soon as the headers are there.

        Args:
            request: What to ask.

        Raises:
            UnreachableError: If the connection cannot be made or breaks, also while the answer is read.
        """
        self.check_open()
        data = None if request.body is None else _encode(request)
        if self._app is not None:
            sent = [*self._headers, *_encode_headers(request.headers)]
            answer = self._app.answer if request.is_tool_call else self._app.answer_apart
            yield await answer(request.method, self._root + request.path, sent, data)
            return
        headers = dict(request.headers)
        if data is not None:
            headers["Content-Type"] = "application/json"
        limit = request.time_limit or self.patience.silence
        try:
            async with self.http.stream(
                request.method,
                request.path,
                content=data,
                headers=headers,
                timeout=httpx2.Timeout(limit, connect=min(limit, 30.0)),
            ) as response:
                yield response
        except (httpx2.RequestError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            what = str(error) or type(error).__name__
            raise UnreachableError(
                f"{request.method} {request.path} at {self.http.base_url} was not answered: {what}"
            ) from error

    def check_open(self) -> None:
        """Check that the client was not closed.

        Raises:
            ClosedError: If it was.
        """
        if self.http.is_closed:
            raise ClosedError(CLOSED)

    def _may_repeat(self, request: Request, status: int) -> bool:
        return status in NOT_TAKEN or (request.is_repeatable and status in PERHAPS_TAKEN)


def _encode_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]


def _encode(request: Request) -> bytes:
    try:
        return json.dumps(request.body, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        what = f"what {request.method} {request.path} is sent cannot be written as JSON: {error}"
        raise InvalidRequestError(what) from error


def never_left(error: UnreachableError) -> bool:
    """Say whether a request cannot have reached the server.

    Args:
        error: What went wrong.
    """
    return isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)


def retry_after(response: Response) -> float | None:
    """Return the seconds that an answer asks its client to wait; `None` if it does not say.

    Args:
        response: The answer.
    """
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


def content_of(response: Response) -> Any:
    """Return an answer's JSON, or its text where it is none.

    Args:
        response: An answer that was read.
    """
    try:
        return response.json()
    except ValueError:
        return response.text
