"""WebSockets (RFC 6455) on connections of the HTTP server, without extensions.

A request that asks for one is served as any other, so that Host, Origin, keys and limits are checked in the
same way. Its handler finds a `WebSocketOffer` in the scope and accepts it, or answers as for any request.

Frames are bounded before they are read. So is the queue of messages for the handler: while it is full,
nothing is read from the connection, and no ping is answered. Otherwise pings are answered, also during a long
call. Each frame of a client is masked; a
frame that breaks the rules ends the connection with the code that section 7.4.1 names.
"""

import asyncio
import base64
import hashlib
from typing import Any, Protocol

from typing_extensions import override

OFFER = "ors_server.websocket"
"""Name of the ASGI extension that holds a request's `WebSocketOffer`."""
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""Section 1.3."""
_VERSION = b"13"
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_HEAD = 2
"""Bytes of a frame before its length is known."""
_MAX_CONTROL = 125
_TWO_BYTES, _EIGHT_BYTES = 126, 127
NORMAL, GOING_AWAY, PROTOCOL_ERROR, UNSUPPORTED, INVALID_TEXT, TOO_BIG = 1000, 1001, 1002, 1003, 1007, 1009
_NO_CODE = 1005
PING_SECONDS = 30.0
"""Seconds without a byte after which a client is asked whether it is there; after as many again it is not."""
MAX_WAITING = 16
"""Reading pauses at this many queued messages, or when their total length exceeds `max_bytes`."""
CLOSING_SECONDS = 2.0
"""Seconds for which the client's answer to a closing frame is awaited."""


class ClosedSocketError(Exception):
    """The connection is closed, by either side or by the network; its `code` says why."""

    def __init__(self, code: int) -> None:
        super().__init__(f"the WebSocket is closed ({code})")
        self.code = code


class FrameError(Exception):
    """A frame breaks the rules."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class FrameReader:
    """Takes bytes and gives whole messages; knows no connection."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._message = bytearray()
        self._opcode: int | None = None
        """Of the message whose frames are arriving."""

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Take bytes and return what is complete, as opcode and content: messages and control frames.

        Raises:
            FrameError: If a frame breaks the rules or is too long.
        """
        self._buffer += data
        complete: list[tuple[int, bytes]] = []
        while (frame := self._take_frame()) is not None:
            is_last, opcode, content = frame
            if opcode >= _CLOSE:
                complete.append((opcode, content))
                continue
            if (opcode == _CONTINUATION) == (self._opcode is None):
                raise FrameError(PROTOCOL_ERROR, "a frame continues nothing, or interrupts a message")
            self._opcode = self._opcode or opcode
            self._message += content
            if is_last:
                complete.append((self._opcode, bytes(self._message)))
                self._opcode = None
                self._message.clear()
        return complete

    def _take_frame(self) -> tuple[bool, int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < _HEAD:
            return None
        is_last, opcode, length = bool(buffer[0] & 0x80), buffer[0] & 0x0F, buffer[1] & 0x7F
        if buffer[0] & 0x70 or not buffer[1] & 0x80 or _BINARY < opcode < _CLOSE or opcode > _PONG:
            raise FrameError(PROTOCOL_ERROR, "expected a masked frame of a known kind")
        if opcode >= _CLOSE and (length > _MAX_CONTROL or not is_last):
            raise FrameError(PROTOCOL_ERROR, "a control frame is too long or in parts")
        start = _HEAD
        if length >= _TWO_BYTES:
            start = 4 if length == _TWO_BYTES else 10
            if len(buffer) < start:
                return None
            length = int.from_bytes(buffer[_HEAD:start])
        if length + len(self._message) > self._max_bytes:
            raise FrameError(TOO_BIG, f"a message has more than {self._max_bytes} bytes")
        end = start + 4 + length
        if len(buffer) < end:
            return None
        mask, content = bytes(buffer[start : start + 4]), buffer[start + 4 : end]
        del buffer[:end]
        # One operation on long integers: a loop over bytes would hold the event loop for a long message.
        repeated = (mask * (length // 4 + 1))[:length]
        return is_last, opcode, (int.from_bytes(content) ^ int.from_bytes(repeated)).to_bytes(length)


def write_frame(opcode: int, content: bytes) -> bytes:
    """Return a whole frame of a server, which is not masked."""
    size = len(content)
    if size < _TWO_BYTES:
        head = bytes((0x80 | opcode, size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, _TWO_BYTES)) + size.to_bytes(2)
    else:
        head = bytes((0x80 | opcode, _EIGHT_BYTES)) + size.to_bytes(8)
    return head + content


class HttpConnection(Protocol):
    """The HTTP side of a connection, which counts it and knows when its buffers are full."""

    transport: Any
    flow: Any

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection no more."""
        ...

    def pause_writing(self) -> None:
        """Note that the buffer is full."""
        ...

    def resume_writing(self) -> None:
        """Note that it is not."""
        ...


class WebSocket(asyncio.Protocol):
    """An open WebSocket: one message is received at a time."""

    def __init__(self, connection: HttpConnection, max_bytes: int) -> None:
        self._connection = connection
        self._transport = connection.transport
        self._reader = FrameReader(max_bytes)
        self._max_bytes = max_bytes
        self._waiting: list[str] = []
        """Messages that the handler has not received yet."""
        self._changed = asyncio.Event()
        self._closed: int | None = None
        self._sent_close = False
        self._has_heard = True
        self._is_full = False

    def _has_too_much(self) -> bool:
        return len(self._waiting) >= MAX_WAITING or sum(map(len, self._waiting)) > self._max_bytes

    async def receive(self) -> str:
        """Return the next message; raises `ClosedSocketError` once the connection is closed."""
        while not self._waiting:
            if self._closed is not None:
                raise ClosedSocketError(self._closed)
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), PING_SECONDS)
            except TimeoutError:
                if not self._has_heard:
                    await self.close(GOING_AWAY)
                    continue
                self._has_heard = False
                self._write(_PING, b"")
        message = self._waiting.pop(0)
        if self._is_full and self._closed is None and not self._has_too_much():
            self._is_full = False
            self._transport.resume_reading()
        return message

    async def send(self, text: str) -> None:
        """Send a message, waiting while the connection's buffer is full."""
        if self._closed is not None:
            raise ClosedSocketError(self._closed)
        if self._connection.flow.write_paused:
            await self._connection.flow.drain()
        self._write(_TEXT, text.encode())

    async def close(self, code: int = NORMAL) -> None:
        """Close the connection, and wait a moment for the client to agree."""
        self._send_close(code)
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                while self._closed is None:
                    self._waiting.clear()
                    self._transport.resume_reading()
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            self._closed = code
        self._transport.close()

    # The connection's side

    @override
    def data_received(self, data: bytes) -> None:
        self._has_heard = True
        if self._closed is not None:
            return
        try:
            for opcode, content in self._reader.feed(data):
                self._take(opcode, content)
        except FrameError as error:
            self._send_close(error.code)
            self._end(error.code)
            self._transport.close()

    @override
    def eof_received(self) -> None:
        self._end(_NO_CODE)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._end(_NO_CODE)
        self._connection.connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        self._connection.pause_writing()

    @override
    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def _take(self, opcode: int, content: bytes) -> None:
        if opcode == _PING:
            self._write(_PONG, content)
        elif opcode == _CLOSE:
            code = int.from_bytes(content[:2]) if len(content) > 1 else _NO_CODE
            self._send_close(NORMAL if code == _NO_CODE else code)
            self._end(code)
        elif opcode == _BINARY:
            raise FrameError(UNSUPPORTED, "expected text")
        elif opcode == _TEXT:
            try:
                self._waiting.append(content.decode())
            except UnicodeDecodeError as error:
                raise FrameError(INVALID_TEXT, "a text is not UTF-8") from error
            if not self._is_full and self._has_too_much():
                self._is_full = True
                self._transport.pause_reading()
            self._changed.set()

    def _end(self, code: int) -> None:
        if self._closed is None:
            self._closed = code
        self._changed.set()

    def _send_close(self, code: int) -> None:
        if not self._sent_close:
            self._sent_close = True
            self._write(_CLOSE, code.to_bytes(2))

    def _write(self, opcode: int, content: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(write_frame(opcode, content))


class WebSocketOffer:
    """A request to open a WebSocket, which its handler may accept."""

    def __init__(self, key: bytes, connection: HttpConnection) -> None:
        self._key = key
        self._connection = connection
        self.cycle: Any = None
        """The request and its answer, of the HTTP server."""

    def accept(self, max_bytes: int) -> WebSocket:
        """Switch the connection to frames; the request's handler returns when the WebSocket is closed.

        Args:
            max_bytes: Most bytes of one message.
        """
        digest = base64.b64encode(hashlib.sha1(self._key + _GUID, usedforsecurity=False).digest())
        socket = WebSocket(self._connection, max_bytes)
        transport = self._connection.transport
        transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            b"sec-websocket-accept: " + digest + b"\r\n\r\n"
        )
        self.cycle.response_started, self.cycle.status = True, 101
        transport.set_protocol(socket)
        return socket

    def finish(self) -> None:
        """Note that the request is over, so that the HTTP server writes nothing more."""
        self.cycle.response_complete = True


def read_key(method: bytes, headers: list[tuple[bytes, bytes]]) -> bytes | None:
    """Return the key with which a request asks for a WebSocket; `None` if it asks for none.

    Args:
        method: The request's method, in upper case.
        headers: By lower-case name.
    """
    named = dict(headers)
    key = named.get(b"sec-websocket-key", b"")
    if method != b"GET" or named.get(b"upgrade", b"").lower() != b"websocket":
        return None
    if named.get(b"sec-websocket-version") != _VERSION or not key:
        return None
    return key
