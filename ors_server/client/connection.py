"""HTTP requests, repeated when that is safe, until they are answered or the limits of `Patience` are reached.

A request is repeated if the server did not accept it (429, 503), if it was not sent (the connection was
refused), or if its caller declares it repeatable. The module knows no endpoint.
"""

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from random import SystemRandom
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, TypeAlias

import anyio
import httpx2

from ors_server.client.app_transport import AppTransport, WholeResponse
from ors_server.client.bounded_http import AnswerBounds, redirect_error
from ors_server.client.client_errors import (
    CLOSED,
    BrokenAnswerError,
    ClosedError,
    UnreachableError,
    error_from,
)
from ors_server.model.clock import Clock, SystemClock
from ors_server.model.errors import InvalidRequestError, OrsServerError
from ors_server.model.wire import compact_json

NOT_ACCEPTED = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""Statuses of requests that had no effect and may succeed later."""
PERHAPS_ACCEPTED = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT})
"""Statuses of a proxy that does not know whether the server accepted the request."""
BOUNDS = AnswerBounds(max_values=4_000_000)
"""Of a server's answers: a split of 100,000 tasks can be read at once."""

_random = SystemRandom()


@dataclass(frozen=True, slots=True)
class Patience:
    """Limits of a client's retries and waits."""

    seconds: float = 600.0
    """Seconds for which one request is repeated, without the time in which a call runs."""
    attempts: int = 6
    """Connections that may break in a row, at least 1."""
    longest_pause: float = 10.0
    """Maximum seconds between two attempts, unless `Retry-After` is longer."""
    silence: float = 60.0
    """Seconds without a byte after which a connection counts as broken; servers send a ping every 10."""
    call_seconds: float | None = None
    """Seconds that one tool call may take for the client; `None` leaves it to the server."""
    ping_seconds: float = 10.0
    """Seconds between two pings of an open episode; both reference clients use 10."""
    answer_seconds: float = 1_200.0
    """Seconds that one answer may take, from the request to its last byte; a tool call's, to its first."""
    closing_seconds: float = 30.0
    """Seconds that the end of an episode waits for the server to delete the session."""


@dataclass(slots=True)
class Attempts:
    """Counts the attempts at one request, and pauses between them."""

    patience: Patience
    clock: Clock
    began: float = field(init=False)
    broken: int = 0
    """Connections that broke in a row."""
    count: int = 0

    def __post_init__(self) -> None:
        self.began = self.clock.monotonic()

    def renew(self) -> None:
        """Start again, because the server has shown that it works on the request."""
        self.began = self.clock.monotonic()
        self.broken = self.count = 0

    async def pause(self, error: OrsServerError, retry_after: float | None = None) -> None:
        """Wait before the next attempt, at least `retry_after` seconds.

        Raises:
            OrsServerError: `error`, if a limit is reached.
        """
        self.count += 1
        self.broken += isinstance(error, UnreachableError)
        wait = min(self.patience.longest_pause, 0.1 * 2 ** min(self.count, 10))
        wait *= _random.uniform(0.5, 1.0)  # so that many clients do not return at the same time
        if retry_after is not None:
            # Never before the server allows it, and a little later, so that clients do not return together.
            wait = retry_after + wait / 10
        elapsed = self.clock.monotonic() - self.began
        # Broken connections are counted; refusals of a full server are bounded by time alone.
        if self.broken >= self.patience.attempts or elapsed + wait > self.patience.seconds:
            raise error
        await self.clock.sleep(wait)


class HttpRequest(NamedTuple):
    """A request of the client."""

    method: str
    path: str
    body: Any = None
    """A JSON value; `None` for no body."""
    headers: Mapping[str, str] = MappingProxyType({})
    is_repeatable: bool = True
    """Whether sending it twice has no further effect."""
    is_tool_call: bool = False
    """Whether the server continues with it when the request is cancelled."""
    time_limit: float | None = None
    """Overrides `Patience.silence`, in seconds."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer's status and JSON, or its text if it is not JSON."""

    status: int
    content: Any
    was_repeated: bool = False
    """Whether an earlier attempt may have reached the server."""
    fault: BrokenAnswerError | None = None
    """Why the answer is not JSON within the bounds."""
    location: str = ""
    """Where the answer redirects to; nothing follows it."""


Response: TypeAlias = WholeResponse | httpx2.Response
"""An answer of either transport."""


class Connection:
    """Pooled connections to a server, or direct calls of an application in this process."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        patience: Patience,
        clock: Clock | None = None,
        app: AppTransport | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Open nothing yet; an `app` answers in place of `http`, faster, and receives the `headers`."""
        self.http = http
        self.patience = patience
        self.clock = clock or SystemClock()
        self._app = app
        self._root = http.base_url.raw_path.decode("ascii").rstrip("/")
        own = {"Host": http.base_url.netloc.decode("ascii"), "Content-Type": "application/json"}
        self._headers = _encode_headers({**(headers or {}), **own})

    async def ask(self, request: HttpRequest) -> Any:
        """Send a request and return the answer's JSON; raise the error that it reports."""
        return value_of(request, await self.answer(request))

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """Send a request, repeat it where that is safe, and return the answer, also an error."""
        attempts = Attempts(self.patience, self.clock)
        was_lost = False
        while True:
            try:
                with self.time_limit(request):
                    async with self.opened(request) as response:
                        await response.aread()
                    content, fault = await content_of(response)
            except UnreachableError as error:
                if not (request.is_repeatable or was_not_sent(error)):
                    raise
                # A later "already exists" may then be the effect of our own first attempt.
                was_lost = was_lost or not was_not_sent(error)
                await attempts.pause(error)
                continue
            status = response.status_code
            may_repeat = status in NOT_ACCEPTED or (request.is_repeatable and status in PERHAPS_ACCEPTED)
            if not may_repeat:
                is_redirect = HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST
                location = response.headers.get("location", "") if is_redirect else ""
                return HttpAnswer(status, content, was_lost, fault, location)
            was_lost = was_lost or status in PERHAPS_ACCEPTED
            failure = error_from(content, status)
            await attempts.pause(failure, retry_after(response))

    @asynccontextmanager
    async def opened(self, request: HttpRequest) -> AsyncGenerator[Response]:
        """Send a request once and yield its answer when the headers have arrived.

        Raises:
            UnreachableError: Also while the answer is read.
        """
        self.check_open()
        data = None if request.body is None else _encode(request)
        if self._app is not None:
            sent = [*self._headers, *_encode_headers(request.headers)]
            # The application itself keeps a cancelled tool call running; any other request needs its own task
            # for that.
            answer = self._app.answer if request.is_tool_call else self._app.answer_apart
            yield await answer(request.method, self._root + request.path, sent, data)
            return
        headers = dict(request.headers)
        tracing: Any = sys.modules.get("opentelemetry.propagate")
        if tracing is not None:  # the program may use it: the server's spans go below the current one
            tracing.inject(headers)
        if data is not None:
            headers["Content-Type"] = "application/json"
        limit = request.time_limit or self.patience.silence
        sent_request = self.http.build_request(
            request.method,
            request.path,
            content=data,
            headers=headers,
            # A host that does not accept connections is given up sooner than one that works on a request.
            timeout=httpx2.Timeout(limit, connect=min(limit, 30.0)),
        )
        try:
            with self.time_limit(request):
                response = await self.http.send(sent_request, stream=True)
            try:
                yield response
            finally:
                await response.aclose()
        except (httpx2.RequestError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            what = str(error) or type(error).__name__
            raise UnreachableError(
                f"{request.method} {request.path} at {self.http.base_url} was not answered: {what}"
            ) from error

    def time_limit(self, request: HttpRequest) -> "_TimeLimit":
        """Bound the time of an answer that is sent so slowly that no silence is too long.

        In its with statement, `BrokenAnswerError` is raised once `Patience.answer_seconds` are over.
        """
        return _TimeLimit(self, request)

    def check_open(self) -> None:
        """Raise `ClosedError` if the client was closed."""
        if self.http.is_closed:
            raise ClosedError(CLOSED)


class _TimeLimit:
    """`anyio.fail_after` with our error. Hot path: a generator would cost a tenth of a call more."""

    __slots__ = ("_connection", "_request", "_scope")

    def __init__(self, connection: Connection, request: HttpRequest) -> None:
        self._connection, self._request = connection, request

    def __enter__(self) -> None:
        seconds = self._connection.patience.answer_seconds
        self._scope = anyio.CancelScope(deadline=anyio.current_time() + seconds)
        self._scope.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        is_swallowed = self._scope.__exit__(kind, error, trace)
        if not self._scope.cancelled_caught:
            return is_swallowed
        request, connection = self._request, self._connection
        raise BrokenAnswerError(
            f"the answer of {request.method} {request.path} at {connection.http.base_url} was not complete "
            f"within {connection.patience.answer_seconds:g} seconds"
        )


def _encode_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]


def _encode(request: HttpRequest) -> bytes:
    try:
        return compact_json(request.body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        what = f"the body of {request.method} {request.path} cannot be written as JSON: {error}"
        raise InvalidRequestError(what) from error


def value_of(request: HttpRequest, answer: HttpAnswer) -> Any:
    """Return the JSON of a request's answer; raise the error that it reports."""
    if answer.location:
        raise redirect_error(f"{request.method} {request.path}", answer.location)
    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
        raise error_from(answer.content, answer.status)
    if isinstance(answer.content, str):
        reason = f" ({answer.fault})" if answer.fault else ""
        raise BrokenAnswerError(
            f"expected JSON in answer to {request.method} {request.path}, got "
            f"{answer.content[:200]!r}{reason}; is the URL that of an ORS server?"
        )
    return answer.content


def was_not_sent(error: UnreachableError) -> bool:
    """Return whether a request cannot have reached the server."""
    return isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)


def retry_after(response: Response) -> float | None:
    """Return the seconds of `Retry-After`; `None` without one."""
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None


async def content_of(response: Response) -> tuple[Any, BrokenAnswerError | None]:
    """Return the JSON of an answer that was read, or its text, and why that is not JSON."""
    if isinstance(response, WholeResponse):  # of an application in this process, which needs no bounds
        try:
            return response.json(), None
        except (ValueError, RecursionError):
            return response.text, None
    try:
        source = f"the answer of {response.request.method} {response.request.url}"
        return await BOUNDS.parse(response.content, response.headers.get("content-type", ""), source), None
    except BrokenAnswerError as error:
        return response.text, error
