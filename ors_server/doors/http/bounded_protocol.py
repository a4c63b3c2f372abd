"""One connection: uvicorn's protocol over httptools, with limits on size and slowness.

Bytes are counted before they are parsed, because the parser keeps a header until it is complete. Progress is
checked from outside, twice a second, so that a request costs no timer and a late event loop is not held
against the client. A refused request gets an answer, and further bytes are read and discarded for a moment:
closing a connection with unread bytes would lose the answer.

uvicorn documents its settings, not how to derive from its classes, so this is the only module that imports
it. The bases below were checked against uvicorn 0.54.0, and `pyproject.toml` admits 0.54 only;
`tests/contract/test_uvicorn.py` lists each inherited name that is used, and names what a release changed.

What every request passes is written out here instead of calling uvicorn's: an answer's head and body leave in
one system call and not in two, no request sets a timer, and the end of its task costs no turn of the event
loop. Together that was a fifth of the processor time of a short call.
"""

import asyncio
import math
import urllib.parse
from collections import Counter
from collections.abc import Callable
from enum import Enum, auto
from functools import lru_cache
from time import perf_counter
from typing import Any, cast

import httptools
from typing_extensions import override
from uvicorn import Config, Server
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from ors_server.doors.http.connection_limits import ConnectionLimits, Connections
from ors_server.doors.http.faults import extra_headers, look_up
from ors_server.doors.http.messages import EXCHANGE
from ors_server.doors.http.websocket import OFFER, WebSocketOffer, read_key
from ors_server.model.enumerations import quick_members
from ors_server.model.errors import (
    HeaderTooLargeError,
    MalformedRequestError,
    OrsServerError,
    RequestTimeoutError,
    TooManyConnectionsError,
)
from ors_server.model.wire import compact_json

__all__ = ["STATUS_LINE", "BaseProtocol", "Config", "RequestResponseCycle", "Server", "ServerState"]


BaseProtocol = HttpToolsProtocol
"""uvicorn's HTTP/1.1 over httptools."""

MAX_CACHED_HEADERS = 1024
"""Maximum number of headers of answers whose lines are cached: most answers have the same ones."""
MAX_CACHED_TARGETS = 256
"""Maximum number of request targets whose parts are cached; a target is limited as all headers are."""


@quick_members
class HeaderEffect(Enum):
    """What a header of an answer says about how the answer is written."""

    LENGTH = auto()
    """The number of bytes of the body."""
    CHUNKED = auto()
    CLOSE = auto()
    """The connection is closed after the answer."""


@lru_cache(MAX_CACHED_HEADERS)
def write_header(name: bytes, value: bytes) -> tuple[bytes, HeaderEffect | None]:
    """Return a header's line and its effect, if it has one; `RuntimeError` if HTTP cannot express it."""
    if HEADER_RE.search(name):
        raise RuntimeError("Invalid HTTP header name.")
    if HEADER_VALUE_RE.search(value):
        raise RuntimeError("Invalid HTTP header value.")
    name = name.lower()
    effect: HeaderEffect | None = None
    if name == b"content-length":
        effect = HeaderEffect.LENGTH
    elif name == b"transfer-encoding" and value.lower() == b"chunked":
        effect = HeaderEffect.CHUNKED
    elif name == b"connection" and b"close" in [token.lower().strip() for token in value.split(b",")]:
        effect = HeaderEffect.CLOSE
    return b"%b: %b\r\n" % (name, value), effect


@lru_cache(MAX_CACHED_TARGETS)
def split_target(target: bytes) -> tuple[str, bytes, bytes]:
    """Return the decoded path, the path as it was sent, and the query of a request's target."""
    parsed = httptools.parse_url(target)
    path = parsed.path.decode("ascii")
    return urllib.parse.unquote(path) if "%" in path else path, parsed.path, parsed.query or b""


class BoundedCycle(RequestResponseCycle):
    """A request and its answer.

    The head of an answer whose length is known waits for the body, which its sender has already, so that both
    are one write. The head of a stream leaves at once.
    """

    _head: bytes | None = None
    """The head that waits."""
    status = 0
    """Status of the answer, once it has begun."""
    started_at = 0.0
    """When it began, by `time.perf_counter`."""
    on_unread: Callable[[], None] | None = None
    """Called if the connection breaks after the answer was written and before another request arrives."""

    @override
    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        kind = message["type"]
        if not self.response_started:
            if kind != "http.response.start":
                raise RuntimeError(f"Expected ASGI message 'http.response.start', but got '{kind}'.")
            self._start(message["status"], message.get("headers", ()))
        elif self.response_complete or kind != "http.response.body":
            raise RuntimeError(f"Unexpected ASGI message '{kind}' after the answer's head or its end.")
        else:
            self._write(message.get("body", b""), more_body=message.get("more_body", False))

    def _start(self, status: int, headers: Any) -> None:
        self.response_started, self.status, self.started_at = True, status, perf_counter()
        self.waiting_for_100_continue = False
        lines = [STATUS_LINE[status]]
        closes = False
        for name, value in (*self.default_headers, *headers):
            line, effect = write_header(name, value)
            lines.append(line)
            if effect is None:
                continue
            if effect is HeaderEffect.LENGTH:
                if self.chunked_encoding is None:
                    self.expected_content_length, self.chunked_encoding = int(value), False
            elif effect is HeaderEffect.CHUNKED:
                self.expected_content_length, self.chunked_encoding = 0, True
            else:
                self.keep_alive, closes = False, True
        if not (self.keep_alive or closes):
            lines.append(b"connection: close\r\n")
        if self.chunked_encoding is None and self.scope["method"] != "HEAD" and status not in _WITHOUT_BODY:
            self.chunked_encoding = True
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        head = b"".join(lines)
        if self.chunked_encoding:
            self.transport.write(head)
        else:
            self._head = head

    def _write(self, body: bytes, *, more_body: bool) -> None:
        if self.scope["method"] == "HEAD":
            self.expected_content_length, body = 0, b""
        elif self.chunked_encoding:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            if not more_body:
                body += b"0\r\n\r\n"
        else:
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0:
                raise RuntimeError("Response content longer than Content-Length")
        if self._head is not None:
            body, self._head = self._head + body, None
        self.transport.write(body)
        if not more_body:
            if self.expected_content_length:
                raise RuntimeError("Response content shorter than Content-Length")
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()


_WITHOUT_BODY = frozenset({204, 304})
"""Statuses of answers that never have a body."""

MIN_PROGRESS = 1024
"""Bytes of a body that count as progress; its end always counts."""
LINGER_SECONDS = 1.0
"""Seconds for which further bytes of a refused client are read and discarded."""


class ReadState(Enum):
    """The part of a request for which a connection waits."""

    FIRST = auto()
    """The first request."""
    HEADERS = auto()
    """The rest of a request's headers."""
    BODY = auto()
    """The rest of a request's body."""
    NOTHING = auto()
    """Nothing, or the next request."""
    REFUSED = auto()
    """Nothing: further bytes are discarded."""


# Names of the module, for each request passes several of them: looked up on the class, even as plain
# attributes, they would be almost a hundredth of the instructions of a `/call`.
_FIRST, _HEADERS, _BODY, _NOTHING, _REFUSED = ReadState


class BoundedServerState(ServerState):
    """State that the connections of one server share."""

    def __init__(self, limits: ConnectionLimits, connections: Connections) -> None:
        super().__init__()
        self.limits = limits
        self.open = connections
        self.refused: Counter[str] = Counter()
        """Refusals that are not logged yet, by code."""


class BoundedProtocol(BaseProtocol):
    """Speaks HTTP/1.1 with one client."""

    server_state: BoundedServerState

    @override
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._application: Any = getattr(self.config, "loaded_app")  # noqa: B009  (uvicorn types it by halves)
        self._max_header_bytes = self.server_state.limits.header_bytes
        self._state = _FIRST
        self._waited = 0.0
        self._received = 0
        self._piece = 0
        self._marked_piece = 0
        self._fed = 0
        self._is_counted = True
        self._is_answered = False
        self._is_upgrade = False
        self._offer: WebSocketOffer | None = None
        """The WebSocket for which the request asked that is parsed now."""
        self._refusal: OrsServerError | None = None
        self._fault: OrsServerError | None = None
        self._is_stopping = False

    @override
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        try:
            self.server_state.open.add(self._address)
        except TooManyConnectionsError as error:
            self._is_counted = False
            if self.server_state.open.add_refused():
                self._refuse(error)
            else:  # not at once: its client would reconnect at once, and the loop would only accept
                self._state = _REFUSED
                self.loop.call_soon(transport.abort)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._is_counted:
            self.server_state.open.remove(self._address)
        else:
            self.server_state.open.remove_refused()
        cycle = cast("BoundedCycle | None", self.cycle)
        # A peer that ends before it has read everything resets the connection; otherwise it closes it.
        if exc is not None and cycle is not None and cycle.response_complete and cycle.on_unread is not None:
            cycle.on_unread()

    @property
    def _address(self) -> str | None:
        return None if self.client is None else self.client[0]

    # Input

    @override
    def data_received(self, data: bytes) -> None:
        limit = self._max_header_bytes
        if len(data) > limit:
            for start in range(0, len(data), limit):
                self.data_received(data[start : start + limit])
            return
        if self._state is _REFUSED:
            return
        self._piece = len(data)
        self._fed += self._piece
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._parse_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(self._fault or MalformedRequestError(f"expected an HTTP/1.1 request: {error}"))
        else:
            if self._fed - self._marked_piece > limit:
                self._refuse(self._too_large())

    # The parser gives away what it has: `_fed` counts from there, or, as there is no telling where in its
    # piece that was, from the piece's beginning. So the parser keeps at most `_fed` bytes, and at least all
    # but those of that piece.

    @override
    def on_message_begin(self) -> None:
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self._state = _HEADERS
        self._waited = 0.0
        self._fed = self._marked_piece = self._piece

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        value = value.rstrip()  # RFC 9110, section 5.5; the parser has stripped the other end
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    @override
    def on_headers_complete(self) -> None:
        if self._fed > self._max_header_bytes:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self._max_header_bytes:
                raise self._parser_error(self._too_large())
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise self._parser_error(
                    MalformedRequestError("this server is not a proxy: CONNECT is not supported")
                )
            self._is_upgrade = True
            return
        self._state = _BODY
        self._waited = 0.0
        self._received = 0
        self._fed = self._marked_piece = self._piece
        headers, self.headers = self.headers, []  # trailers must not be taken for headers
        before = cast("RequestResponseCycle | None", self.cycle)
        self.cycle = cycle = self._make_cycle(headers)
        if before is None or before.response_complete:
            self._serve(cycle)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self._application))

    def _make_cycle(self, headers: list[tuple[bytes, bytes]]) -> BoundedCycle:
        path, raw_path, query = split_target(self.url)
        version = self.parser.get_http_version()
        extensions: dict[str, Any] = {}
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "method": self.parser.get_method().decode("ascii"),
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": headers,
            "state": self.app_state.copy(),
            "extensions": extensions,
        }
        cycle = extensions[EXCHANGE] = BoundedCycle(
            cast("Any", scope),
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=not self._is_stopping and version != "1.0" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        if self._offer is not None:
            extensions[OFFER], self._offer = self._offer, None
            extensions[OFFER].cycle = cycle
        return cycle

    def _serve(self, cycle: RequestResponseCycle) -> None:
        task = self.loop.create_task(self._run(cycle))
        self.server_state.tasks.add(task)

    async def _run(self, cycle: RequestResponseCycle) -> None:
        try:
            await cycle.run_asgi(self._application)
        finally:  # a callback of the task would cost a turn of the event loop
            task = asyncio.current_task(self.loop)  # finding the loop is a system call in Python 3.11
            self.server_state.tasks.discard(cast("asyncio.Task[None]", task))
            # The scope and its cycle name each other: left to the garbage collector, the requests would make
            # it run three times as often, and each run holds up all others.
            cast("Any", cycle.scope)["extensions"].clear()

    @override
    def on_body(self, body: bytes) -> None:
        self._received += len(body)
        self._fed = self._marked_piece = self._piece
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            cycle.message_event.set()

    @override
    def on_message_complete(self) -> None:
        if self._is_upgrade:
            return
        self._state = _NOTHING
        self._fed = self._marked_piece = self._piece
        if not self.cycle.response_complete:
            self.cycle.more_body = False
            self.cycle.message_event.set()

    def _parse_without_upgrade(self, rest: bytes) -> None:
        """Parse a request that asked for another protocol again, as if it had not (RFC 9110, section 7.8).

        The parser takes everything after such a request's headers for the other protocol. The handler of a
        request for a WebSocket may still accept it, if no bytes followed the headers.
        """
        if not rest:
            key = read_key(self.parser.get_method(), self.headers)
            self._offer = None if key is None else WebSocketOffer(key, cast("Any", self))
        lines = [
            b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        ]
        for name, value in self.headers:
            kept = value
            if name == b"connection":
                tokens = (token.strip() for token in value.split(b","))
                kept = b", ".join(token for token in tokens if token.lower() not in _OF_UPGRADES)
            if name not in _OF_UPGRADES and (kept or not value):
                lines.append(b"%b: %b" % (name, kept))
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._is_upgrade = False
        self.data_received(b"\r\n".join([*lines, b"", b""]) + rest)

    def _too_large(self) -> HeaderTooLargeError:
        return HeaderTooLargeError(
            f"the request's line and headers have more than {self._max_header_bytes} bytes "
            "(setting max_header_bytes); send long values in the body"
        )

    def _parser_error(self, error: OrsServerError) -> OrsServerError:
        """Save our error: the parser replaces it with its own."""
        self._fault = error
        return error

    # Time

    def check_progress(self, seconds: float) -> None:
        """Refuse a client that made no progress; `seconds` have passed since the last check."""
        if self._state is _BODY and (self.flow.read_paused or self._received >= MIN_PROGRESS):
            self._waited = 0.0
            self._received = 0
            return
        self._waited += seconds
        if self._waited > self._time_limit():
            self._time_out()

    def _time_limit(self) -> float:
        """Return the seconds for which the client may send nothing."""
        limits = self.server_state.limits
        match self._state:
            case ReadState.FIRST | ReadState.HEADERS:
                return limits.header_seconds
            case ReadState.BODY:
                return limits.body_seconds
            case ReadState.REFUSED if self._is_answered:
                return LINGER_SECONDS
            case ReadState.NOTHING if not self._is_serving:
                return self.timeout_keep_alive
            case _:
                return math.inf

    def _time_out(self) -> None:
        limits = self.server_state.limits
        match self._state:
            case ReadState.HEADERS:
                self._refuse(_slow(f"the headers took {limits.header_seconds:g} s", "header_seconds"))
            case ReadState.BODY:
                self._refuse(_slow(f"the body stopped for {limits.body_seconds:g} s", "body_seconds"))
            case ReadState.REFUSED:
                self.transport.abort()
            case _:
                self.transport.close()

    # Refusals and shutdown

    def _refuse(self, error: OrsServerError) -> None:
        """Answer with an error after the answers to earlier requests, and close the connection."""
        is_answered_early = self._state is _BODY and self.cycle.response_complete
        self._state = _REFUSED
        self._waited = 0.0
        self.server_state.refused[error.code] += 1
        self.flow.resume_reading()
        if is_answered_early:
            self.transport.close()
        elif not self._is_serving:
            self._answer(error)
        else:
            self._refuse_latest(error)

    def _refuse_latest(self, error: OrsServerError) -> None:
        cycle = self.cycle
        if not cycle.more_body or self.pipeline:
            if cycle.more_body:
                self.pipeline.popleft()  # the newest, which has not run yet
            self._refusal = error
            return
        cycle.disconnected = True  # tells the application that its client has left
        cycle.message_event.set()
        if cycle.response_started:
            self.transport.abort()
        else:
            self._answer(error)

    @property
    def _is_serving(self) -> bool:
        """Whether an answer is outstanding; there is no cycle before the first request."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _answer(self, error: OrsServerError) -> None:
        problem = {"detail": str(error), "code": error.code, "blame": error.blame}
        body = compact_json(problem).encode()
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            *((name.encode(), value.encode()) for name, value in extra_headers(error).items()),
        ]
        lines = [STATUS_LINE[look_up(error).status], *(b"%b: %b\r\n" % header for header in headers), b"\r\n"]
        self._is_answered = True
        self.transport.write(b"".join([*lines, body]))
        if self.transport.can_write_eof():
            self.transport.write_eof()

    @override
    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._waited = 0.0  # from now on, the connection is idle
        self.flow.resume_reading()
        if self.pipeline:
            if not self.transport.is_closing():
                self._serve(self.pipeline.pop()[0])
        elif self._refusal is not None:
            self._answer(self._refusal)

    @override
    def shutdown(self) -> None:
        self._is_stopping = True
        super().shutdown()


def _slow(problem: str, setting: str) -> RequestTimeoutError:
    return RequestTimeoutError(f"{problem} (setting {setting}); send the whole request again without pauses")


_OF_UPGRADES = frozenset({b"upgrade", b"http2-settings"})
"""Headers, and words of the header Connection, that request another protocol."""
