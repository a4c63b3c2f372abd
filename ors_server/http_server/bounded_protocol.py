"""One connection: uvicorn's protocol over httptools, with bounds on what a client may send and how slowly.

What a client sends is counted before it is parsed, for the parser keeps a header until it is complete. Time
is counted by looks from outside, a few per second, so that a request costs no timer and a late event loop is
not held against the client. Whatever is refused is answered, and then read and thrown away for a moment: a
connection that is closed with something unread takes the answer with it.
"""

import json
import math
from collections import Counter
from enum import Enum, auto
from typing import Any, cast

import httptools
from typing_extensions import override

from ors_server.errors import (
    HeaderTooLargeError,
    MalformedRequestError,
    OrsServerError,
    RequestTimeoutError,
    TooManyConnectionsError,
)
from ors_server.http_server.connection_limits import ConnectionLimits, Connections
from ors_server.http_server.uvicorn_base import (
    STATUS_LINE,
    BaseProtocol,
    RequestResponseCycle,
    ServerState,
)
from ors_server.transports.faults import extra_headers, look_up

LEAST_PROGRESS = 1024
"""Bytes of a body that count as progress; its end always does."""
LINGER_SECONDS = 1.0
"""For which what a refused client still sends is read and thrown away."""


class Reading(Enum):
    """What a connection waits for from its client."""

    FIRST = auto()
    """The first request."""
    HEADERS = auto()
    """The rest of a request's headers."""
    BODY = auto()
    """The rest of a request's body."""
    NOTHING = auto()
    """Nothing, or the next request."""
    REFUSED = auto()
    """The end: whatever comes is thrown away."""


# Names of the module, for each request passes several of them.
_FIRST, _HEADERS, _BODY, _NOTHING, _REFUSED = Reading


class BoundedServerState(ServerState):
    """What the connections of one server share."""

    def __init__(self, limits: ConnectionLimits, connections: Connections) -> None:
        """Start without connections.

        Args:
            limits: What each may take.
            connections: Counts them.
        """
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
        self._most_header_bytes = self.server_state.limits.header_bytes
        self._reading = _FIRST
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
            self.server_state.open.enter(self._address)
        except TooManyConnectionsError as error:
            self._is_counted = False
            if self.server_state.open.turn_away():
                self._refuse(error)
            else:  # later: whoever is cut off at once comes back at once, and the loop would only accept
                self._reading = _REFUSED
                self.loop.call_soon(transport.abort)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._is_counted:
            self.server_state.open.leave(self._address)
        else:
            self.server_state.open.forget()

    @property
    def _address(self) -> str | None:
        return None if self.client is None else self.client[0]

    # What comes from the client

    @override
    def data_received(self, data: bytes) -> None:
        most = self._most_header_bytes
        if len(data) > most:
            for start in range(0, len(data), most):
                self.data_received(data[start : start + most])
            return
        if self._reading is _REFUSED:
            return
        self._piece = len(data)
        self._fed += self._piece
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._go_on_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(self._fault or MalformedRequestError(f"this is no request of HTTP/1.1: {error}"))
        else:
            if self._fed - self._marked_piece > most:
                self._refuse(self._too_large())

    # The parser gives away what it has: `_fed` counts from there, or, as there is no telling where in its
    # piece that was, from the piece's beginning. So the parser keeps at most `_fed` bytes, and at least all
    # but those of that piece.

    @override
    def on_message_begin(self) -> None:
        self.stop_idle_timer()
        super().on_message_begin()
        self._reading = _HEADERS
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
        if self._fed > self._most_header_bytes and self._header_size() > self._most_header_bytes:
            raise self._failed(self._too_large())
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise self._failed(MalformedRequestError("this server is no proxy: it knows no CONNECT"))
            self._is_upgrade = True
            return
        self.stop_idle_timer()
        self._reading = _BODY
        self._waited = 0.0
        self._received = 0
        self._fed = self._marked_piece = self._piece
        super().on_headers_complete()
        self.headers = []  # trailers must not be taken for headers
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
        self._reading = _NOTHING
        self._fed = self._marked_piece = self._piece
        super().on_message_complete()

    def _go_on_without_upgrade(self, rest: bytes) -> None:
        """Parse a request again that wished for another protocol, without the wish (RFC 9110, section 7.8).

        The parser takes what comes after such a request's headers for the other protocol's.
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
            f"the request's line and headers have more than {self._most_header_bytes} bytes "
            "(setting max_header_bytes); send what is long in the body"
        )

    def _failed(self, error: OrsServerError) -> OrsServerError:
        """Keep an error that stops the parser, which replaces it by one of its own."""
        self._fault = error
        return error

    # Time

    def look(self, seconds: float) -> None:
        """Refuse a client that makes no progress.

        Args:
            seconds: How long it may have worked since the last look.
        """
        if self._reading is _BODY and (self.flow.read_paused or self._received >= LEAST_PROGRESS):
            self._waited = 0.0
            self._received = 0
            return
        self._waited += seconds
        if self._waited > self._patience():
            self._lose_patience()

    def _patience(self) -> float:
        """Return the seconds for which the client may do nothing."""
        limits = self.server_state.limits
        match self._reading:
            case Reading.FIRST | Reading.HEADERS:
                return limits.header_seconds
            case Reading.BODY:
                return limits.body_seconds
            case Reading.REFUSED if self._is_answered:
                return LINGER_SECONDS
            case _:
                return math.inf

    def _lose_patience(self) -> None:
        limits = self.server_state.limits
        match self._reading:
            case Reading.HEADERS:
                self._refuse(_slow(f"the headers took {limits.header_seconds:g} s", "header_seconds"))
            case Reading.BODY:
                self._refuse(_slow(f"the body stopped for {limits.body_seconds:g} s", "body_seconds"))
            case Reading.REFUSED:
                self.transport.abort()
            case _:
                self.transport.close()

    # The end

    def _refuse(self, error: OrsServerError) -> None:
        """Answer with an error once what came before is answered, and close the connection."""
        is_answered_early = self._reading is _BODY and self.cycle.response_complete
        self._reading = _REFUSED
        self._waited = 0.0
        self.server_state.refused[error.code] += 1
        self.stop_idle_timer()
        self.flow.resume_reading()
        if is_answered_early:
            self.transport.close()
        elif not self._is_serving:
            self._answer(error)
        else:
            self._break_off(error)

    def _break_off(self, error: OrsServerError) -> None:
        """Refuse what came last, in the turn of its answer."""
        cycle = self.cycle
        if not cycle.more_body or self.pipeline:
            if cycle.more_body:
                self.pipeline.popleft()  # the newest, which has not run yet
            self._refusal = error
            return
        cycle.disconnected = True  # the application is told that its client has left
        cycle.message_event.set()
        if cycle.response_started:
            self.transport.abort()
        else:
            self._answer(error)

    @property
    def _is_serving(self) -> bool:
        """Whether an answer is still to come; there is no cycle before the first request."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _answer(self, error: OrsServerError) -> None:
        problem = {"detail": str(error), "code": error.code, "blame": error.blame}
        body = json.dumps(problem, separators=(",", ":")).encode()
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
    return RequestTimeoutError(f"{what} (setting {setting}); send the request again, at once")


_OF_UPGRADES = frozenset({b"upgrade", b"http2-settings"})
"""Headers, and words of Connection, that belong to a wish for another protocol."""
