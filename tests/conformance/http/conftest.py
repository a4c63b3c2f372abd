"""Our server as it listens, and a client that writes bytes and not requests."""

import contextlib
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

LIMIT = 30.0
"""Seconds that anything may take."""
INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        },
    }
).encode()


@dataclass
class Answer:
    """What came back for one request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection to the server."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
        self._stream = self.socket.makefile("rb")

    def write(self, *pieces: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                self.socket.sendall(piece)

    def read(self, *, has_body: bool = True) -> Answer:
        """Reads the next answer."""
        first = self._stream.readline()
        assert first.startswith(b"HTTP/1.1 "), first
        headers = {}
        for line in iter(self._stream.readline, b"\r\n"):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = b""
        if has_body and headers.get("transfer-encoding") == "chunked":
            while size := int(self._stream.readline(), 16):
                body += self._stream.read(size + 2)[:-2]
            self._stream.readline()
        elif has_body:
            body = self._stream.read(int(headers.get("content-length", 0)))
        return Answer(int(first.split()[1]), headers, body)

    def rest(self) -> bytes:
        """Reads until the server closes the connection."""
        try:
            return self._stream.read()
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self._stream.close()
        self.socket.close()


@pytest.fixture
def dial() -> Iterator[Callable[[int], Wire]]:
    with contextlib.ExitStack() as open_wires:

        def dial(port: int) -> Wire:
            wire = Wire(port)
            open_wires.callback(wire.close)
            return wire

        yield dial


@pytest.fixture(scope="module")
def port(serve_live: Callable[..., Any], refenv: str) -> int:
    found: int = serve_live(f"{refenv}:RefEnv").port
    return found


@pytest.fixture
def ask(dial: Callable[[int], Wire], port: int) -> Callable[..., Answer]:
    """Sends bytes on a connection of their own and reads one answer."""

    def ask(*pieces: bytes, has_body: bool = True) -> Answer:
        wire = dial(port)
        wire.write(*pieces)
        return wire.read(has_body=has_body)

    return ask


def request(line: str, *headers: str, body: bytes | None = None, host: str | None = "localhost") -> bytes:
    lines = [f"{line} HTTP/1.1", *([] if host is None else [f"Host: {host}"]), *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")
