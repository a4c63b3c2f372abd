"""A small client of HTTP and server-sent events for the conformance suites.

Every request has its own connection. Nothing is repaired, retried or redirected, and a malformed answer
raises `BrokenWireError`. The module knows nothing about the Open Reward Standard.
"""

import contextlib
import json
import re
import select
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream
from typing_extensions import override

HEAD_LIMIT = 64 * 1024
"""Bytes that the status line and the headers of an answer may take."""
MAX_BYTES = 64 * 1024 * 1024
"""Bytes that the body of an answer may have."""
FLOOD_PIECE = 64 * 1024
"""Bytes that a flood sends at a time."""
TIME_LIMIT = 30.0
"""Seconds that one exchange may take by default."""


class BrokenWireError(Exception):
    """The answer is not HTTP, or incomplete."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A request to send."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def encode(self, host: str) -> bytes:
        """Encode the request; a `Content-Length` among the headers stays as it is."""
        own = {"Host": host, "Connection": "close", "Accept-Encoding": "gzip, deflate"}
        if self.method == "POST":
            own["Content-Length"] = str(len(self.body))
        merged = own | dict(self.headers)
        lines = [
            f"{self.method} {self.path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in merged.items()),
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


def post(path: str, body: Any = None, **headers: str) -> WireRequest:
    """Return a POST with a JSON body or without one; header names have underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is None:
        return WireRequest("POST", path, headers=named)
    return WireRequest("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json", **named})


def get(path: str, **headers: str) -> WireRequest:
    """Return a GET; header names have underscores."""
    return WireRequest(
        "GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()}
    )


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """A complete HTTP answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_refusal(self) -> bool:
        """Whether the status is 4xx."""
        return HTTPStatus.BAD_REQUEST <= self.status < HTTPStatus.INTERNAL_SERVER_ERROR

    def json(self) -> Any:
        """Return the body's JSON, or raise `BrokenWireError`."""
        if not self.headers.get("content-type", "").startswith("application/json"):
            kind = self.headers.get("content-type")
            raise BrokenWireError(f"expected application/json, got {kind!r}: {self.body[:200]!r}")
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise BrokenWireError(f"expected JSON, got {self.body[:200]!r}") from error

    @override
    def __str__(self) -> str:
        return f"{self.status} {self.body[:300].decode(errors='replace')}"


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event; `data` is its data lines joined by line feeds, each less one leading space."""

    name: str
    data: str


class Body:
    """The body of an answer as it arrives."""

    def __init__(self, stream: BufferedByteReceiveStream, headers: Mapping[str, str]) -> None:
        self._stream = stream
        self._chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        length = headers.get("content-length", "-1")  # -1: no length is stated
        if length != "-1" and not (length.isascii() and length.isdigit() and int(length[:20]) <= MAX_BYTES):
            raise BrokenWireError(f"expected a Content-Length up to {MAX_BYTES}, got {length[:100]!r}")
        self._left = int(length)
        self.is_complete = False
        """Whether the body is as long as its framing states."""

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body piece by piece; raises `BrokenWireError` if the connection ends before the body."""
        total = 0
        try:
            async for piece in self._chunks() if self._chunked else self._plain():
                # Counted here and not trusted to the headers: a chunked body states no length.
                total += len(piece)
                if total > MAX_BYTES:
                    raise BrokenWireError(f"the body has more than {MAX_BYTES:,} bytes")
                yield piece
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError) as error:
            raise BrokenWireError("the connection ended before the answer was complete") from error
        except ValueError as error:
            raise BrokenWireError("a chunk of the answer does not begin with its size") from error
        self.is_complete = True

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int((await self._stream.receive_until(b"\r\n", 1024)).split(b";")[0], 16):
            while size > 0:
                piece = await self._stream.receive(min(size, 65536))
                size -= len(piece)
                yield piece
            # The line end after a chunk.
            await self._stream.receive_exactly(2)
        # Trailers, up to the blank line.
        while await self._stream.receive_until(b"\r\n", HEAD_LIMIT):
            pass

    async def _plain(self) -> AsyncIterator[bytes]:
        # Without a length the end of the connection ends the body.
        if self._left < 0:
            with contextlib.suppress(anyio.EndOfStream):
                while True:
                    yield await self._stream.receive()
        while self._left > 0:
            piece = await self._stream.receive(min(self._left, 65536))
            self._left -= len(piece)
            yield piece


class EventStream:
    """An answer of server-sent events, read line by line, with its timing."""

    def __init__(self, status: int, headers: Mapping[str, str], body: Body) -> None:
        self.status = status
        self.headers = headers
        self.lines: list[bytes] = []
        """Every line so far, without its end."""
        self.events: list[Event] = []
        """Every event so far."""
        self.comments = 0
        """Number of comment lines."""
        self.longest_silence = 0.0
        """Seconds, the longest time without a byte."""
        self._body = body
        self._events = self._read()

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream of events."""
        return self.status == HTTPStatus.OK and self.headers.get("content-type", "").startswith(
            "text/event-stream"
        )

    @property
    def is_complete(self) -> bool:
        """Whether the answer is as long as its framing states."""
        return self._body.is_complete

    async def next(self) -> Event | None:
        """Wait for an event; return `None` at the end of the answer."""
        return await anext(self._events, None)

    async def rest(self) -> list[Event]:
        """Read to the end of the answer, and return all its events."""
        async for _ in self._events:
            pass
        return self.events

    async def answer(self) -> WireAnswer:
        """Read an answer that is not a stream."""
        body = b"".join([piece async for piece in self._body.pieces()])
        return WireAnswer(self.status, self.headers, body)

    async def _read_lines(self) -> AsyncIterator[bytes]:
        pending: list[bytes] = []  # joined once the line has ended
        last = anyio.current_time()
        async for piece in self._body.pieces():
            now = anyio.current_time()
            self.longest_silence, last = max(self.longest_silence, now - last), now
            *whole, rest = piece.split(b"\n")
            if whole:
                # A line may be spread over many pieces; only whole lines are given on.
                whole[0] = b"".join([*pending, whole[0]])
                pending = []
            pending.append(rest)
            for line in whole:
                yield line.removesuffix(b"\r")
        if line := b"".join(pending):
            yield line

    async def _read(self) -> AsyncIterator[Event]:
        name, data = "", list[str]()
        async for line in self._read_lines():
            self.lines.append(line)
            label, _, value = line.decode(errors="replace").partition(":")
            # A blank line ends an event; without a name and data there is no event.
            if not line:
                if name or data:
                    self.events.append(Event(name, "\n".join(data)))
                    yield self.events[-1]
                name, data = "", []
            elif not label:
                self.comments += 1
            elif label == "event":
                name = value.removeprefix(" ")
            elif label == "data":
                data.append(value.removeprefix(" "))


class OrsWire:
    """One server, with a new connection for every request."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"expected a URL like http://127.0.0.1:8080, got {url!r}")
        self._host = parts.hostname
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._prefix = parts.path.rstrip("/")
        self._netloc = parts.netloc.rpartition("@")[2]
        self._headers = dict(headers or {})

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[ByteStream]:
        """Open a connection for raw bytes, or raise `BrokenWireError`."""
        try:
            if self._tls is None:
                stream: ByteStream = await anyio.connect_tcp(self._host, self._port)
            else:
                stream = await anyio.connect_tcp(self._host, self._port, ssl_context=self._tls)
        except OSError as error:
            raise BrokenWireError(f"no server listens at {self._host}:{self._port}") from error
        async with stream:
            yield stream

    def encode(self, request: WireRequest) -> bytes:
        """Encode a request as it would be sent."""
        headers = {**self._headers, **request.headers}
        return WireRequest(request.method, self._prefix + request.path, request.body, headers).encode(
            self._netloc
        )

    @asynccontextmanager
    async def stream(
        self, request: WireRequest, time_limit: float = TIME_LIMIT
    ) -> AsyncGenerator[EventStream]:
        """Send a request and yield the answer when its headers have arrived; leaving closes the connection.

        The time limit includes the body of the `with` statement; then `TimeoutError` is raised.
        """
        with anyio.fail_after(time_limit):
            async with self.connection() as stream:
                await stream.send(self.encode(request))
                buffered = BufferedByteReceiveStream(stream)
                status, headers = await _read_head(buffered)
                yield EventStream(status, headers, Body(buffered, headers))

    async def send(self, request: WireRequest, time_limit: float = TIME_LIMIT) -> WireAnswer:
        """Send a request and read the whole answer."""
        async with self.stream(request, time_limit) as stream:
            return await stream.answer()

    async def flood(self, request: WireRequest, max_bytes: int, time_limit: float = TIME_LIMIT) -> int:
        """Send a request with a body of spaces until the server answers, and return the status.

        Args:
            max_bytes: Bytes of the body after which sending stops; the headers state its length.
            time_limit: Seconds until a silent server is given up.
        """
        head = self.encode(request)
        # Twice, as the thread's own limit is of each operation: connecting, and waiting for the answer.
        with anyio.fail_after(time_limit * 2):
            head_of_answer = await anyio.to_thread.run_sync(self._flood, head, max_bytes, time_limit)
        first = re.match(rb"HTTP/1\.\d (\d{3}) ", head_of_answer)
        if first is None:
            raise BrokenWireError(f"expected an HTTP/1.x status line, got {head_of_answer[:100]!r}")
        return int(first[1])

    def _flood(self, head: bytes, max_bytes: int, time_limit: float) -> bytes:
        """Write until an answer can be read; a plain socket can still read after a refused write."""
        with socket.create_connection((self._host, self._port), time_limit) as plain:
            stream = self._tls.wrap_socket(plain, server_hostname=self._host) if self._tls else plain
            left = [head, *[b" " * FLOOD_PIECE] * (max_bytes // FLOOD_PIECE)]
            try:
                while left and not select.select([stream], [], [], 0)[0]:
                    # Both directions at once: a server may answer before it has read the body.
                    if select.select([stream], [stream], [], time_limit)[1]:
                        sent = stream.send(left[0])
                        left[0] = left[0][sent:]
                        left = left if left[0] else left[1:]
            except ConnectionError:
                left = []
            try:
                return stream.recv(4096)
            except ConnectionError as error:
                raise BrokenWireError("the connection ended before the answer's headers did") from error


async def _read_head(stream: BufferedByteReceiveStream) -> tuple[int, dict[str, str]]:
    try:
        head = (await stream.receive_until(b"\r\n\r\n", HEAD_LIMIT)).decode("latin-1")
    except (
        anyio.EndOfStream,
        anyio.IncompleteRead,
        anyio.DelimiterNotFound,
        anyio.BrokenResourceError,
    ) as error:
        raise BrokenWireError("the connection ended before the answer's headers did") from error
    first, *lines = head.split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
        raise BrokenWireError(f"expected an HTTP/1.x status line, got {first!r}")
    pairs = (line.partition(":") for line in lines)
    return int(rest[:3]), {name.strip().lower(): value.strip() for name, _, value in pairs}
