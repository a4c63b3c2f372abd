"""Shared by the HTTP applications: accepted hosts and origins, limited bodies, answers and their counts."""

import asyncio
import re
import zlib
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Generator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from anyio import Event
from anyio.lowlevel import checkpoint

from ors_server.doors.http.faults import extra_headers, look_up, pending_fields
from ors_server.model.errors import (
    ForbiddenError,
    MalformedRequestError,
    OrsServerError,
    PayloadTooLargeError,
    UnsupportedCodingError,
)
from ors_server.model.json_bounds import NEVER_TOO_MUCH, check_json
from ors_server.model.logs import get_logger
from ors_server.model.wire import compact_json
from ors_server.sessions.call_meters import SECONDS, Histogram

log = get_logger("ors_server.http")

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

STEPS_TO_NOTICE = 8
"""Turns of the event loop until a disconnect is noticed here, through middleware around this application."""
STEPS_TO_CLOSE = 6
"""Turns of the event loop until this package's HTTP server knows that a client has closed: 3 by TCP, up to 6
under TLS."""


EXCHANGE = "ors_server.exchange"
"""Name of the ASGI extension, of this package's HTTP server, that holds a request's `Exchange`."""


class Exchange(Protocol):
    """A request and its answer."""

    disconnected: bool
    """Whether the client left before the answer was written."""
    response_started: bool
    """Whether the answer has begun."""
    status: int
    """Its status, once it has begun."""
    started_at: float
    """When it began, by `time.perf_counter`."""
    on_unread: Callable[[], None] | None
    """Called if the connection breaks after the answer was written and before another request arrives."""


HEADERS = "ors_server.headers"
"""Name under which a request's scope keeps its headers, once they were read."""


class ClientGoneError(ConnectionError):
    """The client closed the connection before its request was whole."""


def read_headers(scope: Scope) -> dict[str, str]:
    """Return a request's headers by lower-case name; the last of a repeated one counts.

    The scope keeps them, for each part that a request passes needs some.
    """
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        headers[name.decode("latin-1")] = value.decode("latin-1")
    scope[HEADERS] = headers
    return headers


async def read_body(
    receive: Receive, limit: int, coding: str | None = None, *, is_json: bool = True
) -> bytes:
    """Read a request's body and decode it.

    Args:
        limit: Most bytes, both as received and decoded.
        is_json: Whether it will be read as JSON, so that its values and their depth are bounded too.

    Raises:
        PayloadTooLargeError: If there is more, or reading it as JSON would take too long.
        UnsupportedCodingError: If the server does not know the coding.
        MalformedRequestError: If the body does not have that coding.
        ClientGoneError: If the client disconnected meanwhile.
    """
    message = await receive()
    whole: bytes = message.get("body", b"")
    if message.get("more_body", False):
        parts, size = [whole], len(whole)
        while message.get("more_body", False) and size <= limit:
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
        whole = b"".join(parts)
    if message["type"] == "http.disconnect":
        raise ClientGoneError
    if len(whole) > limit:
        raise PayloadTooLargeError(f"the body has more than {limit} bytes (setting max_body_bytes)")
    if coding is not None and whole:
        whole = await decode(whole, coding, limit)
    if is_json and len(whole) > NEVER_TOO_MUCH:
        await check_json(whole)
    return whole


GZIP = frozenset({"gzip", "x-gzip"})
DECODED_STEP = 1 << 18
"""Bytes that are decoded before other tasks run."""
MEMBERS = 64
"""Maximum number of parts of one gzip body."""


class _Member(Protocol):
    """One compressed part of a body, while it is decoded; zlib does not name the type."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def unconsumed_tail(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


async def decode(body: bytes, coding: str, limit: int) -> bytes:
    """Decode a body of at most `limit` decoded bytes.

    Raises:
        UnsupportedCodingError: If the server does not know the coding.
        MalformedRequestError: If the body does not have that coding.
        PayloadTooLargeError: If the decoded body is longer.
    """
    names = [name.strip().lower() for name in coding.split(",")]
    codings = [name for name in names if name not in ("", "identity")]
    if not codings:
        return body
    if len(codings) > 1 or codings[0] not in GZIP:
        raise UnsupportedCodingError(
            f"the body has the Content-Encoding {coding[:100]!r}; send it as it is, or with gzip"
        )
    return await _gunzip(body, limit)


async def _gunzip(body: bytes, limit: int) -> bytes:
    out: list[bytes] = []
    size, members, start = 0, 0, 0
    member: _Member | None = None
    data, is_full = b"", False
    while data or is_full or start < len(body):
        if not (data or is_full):
            data, start = body[start : start + DECODED_STEP], start + DECODED_STEP
        if member is None:
            if members == MEMBERS:
                raise MalformedRequestError(
                    f"the gzip body has more than {MEMBERS} parts; compress it as a whole"
                )
            member, members = zlib.decompressobj(wbits=31), members + 1
        try:
            piece = member.decompress(data, DECODED_STEP)
        except zlib.error as error:
            raise MalformedRequestError(
                f"the body is not gzip, as its Content-Encoding says: {error}"
            ) from error
        out.append(piece)
        size += len(piece)
        if size > limit:
            raise PayloadTooLargeError(
                f"the body, decoded, has more than {limit} bytes (setting max_body_bytes)"
            )
        is_full = len(piece) == DECODED_STEP and not member.eof
        data = member.unused_data if member.eof else member.unconsumed_tail
        if member.eof:
            member = None
        await checkpoint()
    if member is not None:
        raise MalformedRequestError("the gzip body is incomplete; send all of it")
    return b"".join(out)


@contextmanager
def watching_for_disconnect(
    receive: Receive, exchange: Exchange | None = None
) -> Generator[Callable[[], Awaitable[bool]]]:
    """Watch for the client of a request, whose body was read, to disconnect.

    Without an exchange, the channel is read in its own task, as middleware around this application expects.

    Yields:
        Returns whether the client has disconnected, at once.
    """
    if exchange is not None:

        async def is_gone() -> bool:
            for _ in range(STEPS_TO_CLOSE):
                await asyncio.sleep(0)  # noqa: TID251  (as below)
            return exchange.disconnected

        yield is_gone
        return
    watcher = asyncio.ensure_future(until_disconnected(receive))

    async def has_left() -> bool:
        for _ in range(STEPS_TO_NOTICE):
            await asyncio.sleep(0)  # noqa: TID251  (each creation waits so; anyio's costs five times as much)
        return watcher.done()

    try:
        yield has_left
    finally:
        watcher.cancel()


async def until_disconnected(receive: Receive) -> None:
    """Wait until the client disconnects; what else it sends is dropped."""
    while (await receive())["type"] != "http.disconnect":
        await checkpoint()


_COUNTED_METHODS = frozenset({"GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH"})


class RequestCounter:
    """Counts the answers of one door to one method with one status."""

    __slots__ = ("answers", "seconds")

    def __init__(self) -> None:
        """Begin at zero."""
        self.answers = 0
        self.seconds = Histogram(SECONDS)
        """How long requests waited for the first byte of their answer."""


@dataclass(slots=True)
class HttpMeters:
    """Counts the requests of a process by door."""

    answers: dict[tuple[str, str, int], RequestCounter] = field(
        default_factory=dict[tuple[str, str, int], RequestCounter]
    )
    """Counts by door, method and status."""
    open_requests: int = 0
    """Requests that are being served, streams included."""

    def count(self, door: str, method: str, answer: Exchange, began: float) -> None:
        """Count a request that has ended, if it was answered.

        Args:
            began: Time at which it was received, by `time.perf_counter`.
        """
        self.open_requests -= 1
        if not answer.response_started:
            return
        counter = self.answers.get((door, method, answer.status))
        if counter is None:
            method = method if method in _COUNTED_METHODS else "other"
            counter = self.answers.setdefault((door, method, answer.status), RequestCounter())
        counter.answers += 1
        waited, seconds = answer.started_at - began, counter.seconds
        seconds.counts[bisect_left(seconds.bounds, waited)] += 1
        seconds.total += waited


class WatchedAnswer:
    """An answer over an HTTP server that does not say whether it has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.disconnected = False
        self.response_started = False
        self.status = 0
        self.started_at = 0.0
        self.on_unread: Callable[[], None] | None = None  # such a server never says so

    async def send(self, message: Message) -> None:
        """Send a message of the answer."""
        if not self.response_started:
            self.response_started, self.status, self.started_at = True, message["status"], perf_counter()
        await self._send(message)


def base_url(scope: Scope, headers: Mapping[str, str]) -> str:
    """Return where the caller reached the server: scheme, host, mount point; no slash at the end."""
    return f"{scope.get('scheme', 'http')}://{headers.get('host', 'localhost')}{scope.get('root_path', '')}"


async def send_pieces(
    send: Send,
    status: int,
    pieces: Sequence[bytes],
    content_type: bytes,
    extra: Mapping[str, str] | None = None,
) -> None:
    """Send a whole answer of one or more pieces, so that a long one need not be joined."""
    headers = [(b"content-type", content_type), (b"content-length", b"%d" % sum(map(len, pieces)))]
    if extra:
        headers += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in extra.items()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for piece in pieces[:-1]:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": pieces[-1]})


async def send_json(
    send: Send, value: Any, status: int = 200, extra: Mapping[str, str] | None = None
) -> None:
    """Send a JSON answer."""
    body = compact_json(value).encode()
    await send_pieces(send, status, (body,), b"application/json", extra)


async def send_fault(send: Send, error: OrsServerError) -> None:
    """Send an error as `{"detail", "code", "blame"}` with its status; the standard has only the first."""
    problem = {"detail": str(error), "code": error.code, "blame": error.blame, **pending_fields(error)}
    await send_json(send, problem, look_up(error).status, extra_headers(error))


async def serve_head(app: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer HEAD as GET is answered, without a body: the answer ends where the body would begin."""
    is_ended = Event()

    async def send_start(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})
            is_ended.set()

    async def receive_until_ended() -> Message:
        if is_ended.is_set():
            return {"type": "http.disconnect"}
        return await receive()

    await app({**scope, "method": "GET"}, receive_until_ended, send_start)


LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})

METHODS = b"GET, HEAD, POST, DELETE"
"""The methods of all endpoints."""
EXPOSED = b"Mcp-Session-Id, X-Session-ID, Retry-After, WWW-Authenticate, X-Backend-State, Allow"
"""Headers of answers that a page of another origin may read besides the safelisted ones."""
MAX_CACHED_HOSTS = 256
"""Maximum number of spellings of accepted Host headers that are cached."""
PREFLIGHT_SECONDS = 600
"""Seconds for which a browser caches a preflight answer."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@\[\]\\]+)(?::[0-9]*)?")
"""A Host header's value: a name or address, and a port (RFC 3986, section 3.2.2); in lower case."""

_Header: TypeAlias = tuple[bytes, bytes]


class HostGuard:
    """Refuses requests with a foreign Host or Origin, so that no web page gets in by DNS rebinding.

    A page of an accepted origin may read the answers (CORS); preflight requests are answered here.
    """

    def __init__(self, app: Application, *, hosts: list[str], origins: list[str]) -> None:
        """Guard an application.

        Args:
            hosts: Accepted Host values besides loopback ones, `name` or `name:port`; `*` accepts all.
            origins: Accepted Origin values besides loopback ones.
        """
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origin.lower() for origin in origins)
        self.accepted: set[str | None] = set()
        """Host headers that were accepted."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that is allowed; answer 400, 421 or 403 to others."""
        hosts, origins = 0, 0
        host, origin = "", b""
        for name, value in scope["headers"]:
            if name == b"host":
                host, hosts = value.decode("latin-1"), hosts + 1
            elif name == b"origin":
                origin, origins = value, origins + 1
        if hosts != 1 or not (host in self.accepted or self._is_known_host(host)):
            await _send_misdirected(send, scope, host, hosts)
        elif not origins:
            await self._app(scope, receive, send)
        elif origins > 1 or not self._is_known_origin(origin.decode("latin-1").strip(), host or ""):
            named = origin.decode("latin-1")
            detail = f"requests from {named!r} are not accepted; add it to the setting allowed_origins"
            await send_fault(send, ForbiddenError(detail))
        else:
            await self._serve_page(origin, scope, receive, send)

    async def _serve_page(self, origin: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = (b"access-control-allow-origin", origin.strip())
        if scope["method"] == "OPTIONS":
            requested = dict(scope["headers"])
            if b"access-control-request-method" in requested:
                await send(
                    {
                        "type": "http.response.start",
                        "status": 204,
                        "headers": [allowed, *_preflight_headers(requested)],
                    }
                )
                await send({"type": "http.response.body", "body": b""})
                return

        async def send_readable(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra: list[_Header] = [
                    allowed,
                    (b"vary", b"Origin"),
                    (b"access-control-expose-headers", EXPOSED),
                ]
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        await self._app(scope, receive, send_readable)

    def _is_known_host(self, value: str) -> bool:
        host = value.strip().lower()
        form = _HOST.fullmatch(host)
        name = host if form is None else form[1]
        is_known = not self._hosts.isdisjoint(("*", host, name)) or name in LOOPBACK_NAMES
        if is_known and len(self.accepted) < MAX_CACHED_HOSTS:
            self.accepted.add(value)
        return is_known

    def _is_known_origin(self, origin: str, host: str) -> bool:
        if origin.lower() in self._origins:
            return True
        try:
            parts = urlsplit(origin)
            # A page of this server itself, whose name was accepted as the Host.
            is_own = parts.netloc.lower() == host.strip().lower()
            return is_own or parts.hostname in LOOPBACK_NAMES
        except ValueError:
            return False


def _preflight_headers(requested: dict[bytes, bytes]) -> list[_Header]:
    """Allow what a preflight requests: the origin was accepted, and the page must know the credentials."""
    headers = [
        (b"access-control-allow-methods", METHODS),
        (b"access-control-max-age", b"%d" % PREFLIGHT_SECONDS),
        (b"vary", b"Origin, Access-Control-Request-Method, Access-Control-Request-Headers"),
    ]
    names = requested.get(b"access-control-request-headers")
    if names:
        headers.append((b"access-control-allow-headers", names))
    return headers


async def _send_misdirected(send: Send, scope: Scope, host: str, count: int) -> None:
    if count > 1:
        await send_fault(send, MalformedRequestError("the request has several Host headers; send one"))
    elif not count and scope.get("http_version") == "1.1":
        await send_fault(send, MalformedRequestError("the request has no Host header; send one"))
    else:
        named = host.strip().lower()
        detail = f"the Host {named!r} is not accepted; add it to the setting allowed_hosts"
        await send_json(send, {"detail": detail, "code": "misdirected", "blame": "client"}, 421)
