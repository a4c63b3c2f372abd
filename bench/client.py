"""Just enough of an HTTP client to load a server from another core without getting in the way."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any


class Connection:
    """One persistent HTTP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        """Keep the two ends."""
        self._reader = reader
        self._writer = writer
        self._port = port

    async def post(self, path: str, headers: Mapping[str, str], body: Any) -> tuple[dict[str, str], bytes]:
        """Post JSON.

        Returns:
            The answer's headers by lower-case name, and its body.

        Raises:
            RuntimeError: If the status is not 200 or 202.
        """
        payload = json.dumps(body).encode()
        lines = [
            f"POST {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self._port}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"Content-Length: {len(payload)}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self._writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + payload)
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *rest = head.decode().strip().split("\r\n")
        answer = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
        content = await self._read_body(answer)
        if first.split()[1] not in {"200", "202"}:
            raise RuntimeError(f"{path}: {first}: {content[:200]!r}")
        return answer, content

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def _read_body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            return await self._reader.readexactly(int(headers.get("content-length", 0)))
        content = b""
        while (size := int(await self._reader.readline(), 16)) > 0:
            content += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)
        return content


async def connect(port: int) -> Connection:
    """Open a connection, which the caller closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    return Connection(reader, writer, port)


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncIterator[Connection]:
    """Hold a connection for the length of a with statement."""
    connection = await connect(port)
    try:
        yield connection
    finally:
        connection.close()


async def create_sessions(port: int, session_ids: list[str]) -> None:
    """Create sessions of the echo environment, one after another."""
    async with connected(port) as connection:
        for session_id in session_ids:
            await create_session(connection, session_id)


async def create_session(connection: Connection, session_id: str) -> None:
    """Create one session of the echo environment."""
    order = {"env_name": "echo", "split": "test", "index": 0}
    await connection.post("/create", {"X-Session-ID": session_id}, order)
