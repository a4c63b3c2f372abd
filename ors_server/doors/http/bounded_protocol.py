"""One connection: uvicorn's protocol over httptools, with limits on size and slowness.

Bytes are counted before they are parsed, because the parser keeps a header until it is complete. Progress is
checked from outside, twice a second, so that a request costs no timer and a late event loop is not held
against the client. A refused request gets an answer, and further bytes are read and discarded for a moment:
closing a connection with unread bytes would lose the answer.

uvicorn documents its settings, not how to derive from its classes, so this is the only module that imports
it. The bases below were checked against uvicorn 0.54.0, and `pyproject.toml` admits 0.54 only;
`tests/contract/test_uvicorn.py` lists each inherited name that is used, and names what a release changed.
"""

import math
from collections import Counter
from enum import Enum, auto
from typing import Any, cast

import httptools
from typing_extensions import override
from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from ors_server.doors.http.connection_limits import ConnectionLimits, Connections
from ors_server.doors.http.faults import extra_headers, look_up
from ors_server.doors.http.messages import EXCHANGE
from ors_server.model.compact_json import compact_json
from ors_server.model.errors import (
    HeaderTooLargeError,
    MalformedRequestError,
    OrsServerError,
    RequestTimeoutError,
    TooManyConnectionsError,
)

__all__ = ["STATUS_LINE", "BaseProtocol", "Config", "RequestResponseCycle", "Server", "ServerState"]


class BaseProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 over httptools, with a public name for what is used of its private ones."""

    def stop_idle_timer(self) -> None:
        """Stop the timer that closes an idle connection; without one, do nothing."""
        self._unset_keepalive_if_required()


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


# Names of the module, for each request passes several of them.
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
        self.stop_idle_timer()
        super().on_message_begin()
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
        if self._fed > self._max_header_bytes and self._header_size() > self._max_header_bytes:
            raise self._parser_error(self._too_large())
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise self._parser_error(
                    MalformedRequestError("this server is not a proxy: CONNECT is not supported")
                )
            self._is_upgrade = True
            return
        self.stop_idle_timer()
        self._state = _BODY
        self._waited = 0.0
        self._received = 0
        self._fed = self._marked_piece = self._piece
        super().on_headers_complete()
        self.headers = []  # trailers must not be taken for headers
        cast("dict[str, Any]", self.scope)["extensions"] = {EXCHANGE: self.cycle}
        if self._is_stopping:
            self.cycle.keep_alive = False

    @override
    def on_body(self, body: bytes) -> None:
        self._received += len(body)
        self._fed = self._marked_piece = self._piece
        super().on_body(body)

    @override
    def on_message_complete(self) -> None:
        if self._is_upgrade:
            return
        self._state = _NOTHING
        self._fed = self._marked_piece = self._piece
        super().on_message_complete()

    def _parse_without_upgrade(self, rest: bytes) -> None:
        """Parse a request that asked for another protocol again, as if it had not (RFC 9110, section 7.8).

        The parser takes everything after such a request's headers for the other protocol.
        """
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

    def _header_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

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
        self.stop_idle_timer()
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
        is_last = not self.pipeline
        super().on_response_complete()
        if is_last and self._refusal is not None:
            self.stop_idle_timer()
            self._answer(self._refusal)

    @override
    def shutdown(self) -> None:
        self._is_stopping = True
        super().shutdown()


def _slow(what: str, setting: str) -> RequestTimeoutError:
    return RequestTimeoutError(f"{what} (setting {setting}); send the whole request again without pauses")


_OF_UPGRADES = frozenset({b"upgrade", b"http2-settings"})
"""Headers, and words of the header Connection, that request another protocol."""
