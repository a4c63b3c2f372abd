"""Standard input and output as MCP's lines: each is checked before the SDK reads it, and batches are split.

The SDK says nothing to a line that is not a message, and answers the requests of a batch nowhere.
"""

import json
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, BinaryIO, cast

import anyio

from ors_server.doors.mcp.envelopes import (
    BATCH_VERSIONS,
    EnvelopeError,
    MessageBatch,
    check_body,
    check_message,
    refuse_batch,
    request_id_of,
)
from ors_server.doors.mcp.sdk import stdio_server

_STDIN, _STDOUT, _STDERR = 0, 1, 2


@contextmanager
def taken_stdio() -> Generator[tuple[BinaryIO, BinaryIO]]:
    """Take over standard input and output for the protocol, without reading yet; yield both.

    Meanwhile the file descriptor 0 is empty, and 1 leads to standard error: what environments and their
    children read and print never meets the protocol.
    """
    with (
        _taken(sys.stdin.buffer, _STDIN) as incoming,
        _taken(sys.stdout.buffer, _STDOUT) as outgoing,
    ):
        yield incoming, outgoing


@asynccontextmanager
async def checked_stdio(incoming: BinaryIO, outgoing: BinaryIO) -> AsyncGenerator[tuple[Any, Any], None]:
    """Read and write the protocol; yield the SDK's streams of messages.

    The end waits for the client to close its side.
    """
    answers = _Answers(anyio.wrap_file(outgoing))
    lines = _Lines(anyio.wrap_file(incoming), answers)
    async with stdio_server(cast("Any", lines), cast("Any", answers)) as streams:
        yield streams


@contextmanager
def _taken(stream: BinaryIO, descriptor: int) -> Generator[BinaryIO]:
    try:
        is_standard = stream.fileno() == descriptor
    except OSError:
        is_standard = False
    if not is_standard:
        yield stream
        return
    private = os.dup(descriptor)
    other = os.open(os.devnull, os.O_RDONLY) if descriptor == _STDIN else os.dup(_STDERR)
    os.dup2(other, descriptor)
    os.close(other)
    try:
        # A thread may still read when this ends, so the private descriptor stays open.
        yield os.fdopen(private, "rb" if descriptor == _STDIN else "wb", closefd=False)
    finally:
        os.dup2(private, descriptor)


class _Answers:
    """Where answers go, one a line; those to a batch wait for each other and go as one array."""

    def __init__(self, output: anyio.AsyncFile[bytes]) -> None:
        self._output = output
        self._lock = anyio.Lock()
        self._batches: list[_OpenBatch] = []

    async def write(self, line: str) -> None:
        """Write what the SDK wrote: one message and a line feed."""
        if self._batches:
            answer = json.loads(line)
            batch = next((batch for batch in self._batches if batch.waits_for(answer)), None)
            if batch is not None:
                batch.waiting.remove(answer["id"])
                batch.answers.append(answer)
                await self._send_complete()
                return
        await self._write(line)

    async def flush(self) -> None:
        """Do nothing: every line is flushed."""

    async def send(self, answer: Any) -> None:
        """Write an answer that did not come from the SDK."""
        await self._write(json.dumps(answer) + "\n")

    async def open_batch(self, batch: "_OpenBatch") -> None:
        """Wait for the answers to a batch; one without requests is answered now, if it has an error."""
        self._batches.append(batch)
        await self._send_complete()

    async def withdraw(self, request_id: object) -> None:
        """Wait no longer for an answer: the client cancelled the request, and the SDK may answer nothing."""
        for batch in self._batches:
            batch.waiting = [waiting for waiting in batch.waiting if waiting != request_id]
        await self._send_complete()

    async def _send_complete(self) -> None:
        complete = [batch for batch in self._batches if not batch.waiting]
        self._batches = [batch for batch in self._batches if batch.waiting]
        for batch in complete:
            if batch.answers:
                await self.send(batch.answers)

    async def _write(self, line: str) -> None:
        async with self._lock:
            await self._output.write(line.encode())
            await self._output.flush()


class _OpenBatch:
    """A batch, the ids of whose requests are not all answered."""

    def __init__(self) -> None:
        self.waiting: list[str | int] = []
        self.answers: list[Any] = []

    def waits_for(self, answer: Any) -> bool:
        return "method" not in answer and answer.get("id") in self.waiting


class _Lines:
    """The client's messages, one a line, as the SDK may read them."""

    def __init__(self, source: anyio.AsyncFile[bytes], answers: _Answers) -> None:
        self._source = source
        self._answers = answers
        self._version: object = None

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._source:
            if not line.strip():
                continue
            try:
                checked = check_body(line.decode(errors="replace").encode())
                if not isinstance(checked, MessageBatch):
                    yield await self._note(checked)
                    continue
                if self._version not in BATCH_VERSIONS:
                    raise refuse_batch(self._version if isinstance(self._version, str) else None)
            except EnvelopeError as error:
                await self._answers.send(error.answer)
                continue
            for text in await self._open(checked):
                yield await self._note(text)

    async def _note(self, text: bytes) -> str:
        """Return the text of one message; remember the version that it negotiates, and what it cancels."""
        if b'"initialize"' in text or b'"notifications/cancelled"' in text:
            message = _read(text)
            params = cast("dict[str, object]", message.get("params") or {})
            if message.get("method") == "initialize":
                self._version = params.get("protocolVersion")
            elif message.get("method") == "notifications/cancelled":
                await self._answers.withdraw(params.get("requestId"))
        return text.decode()

    async def _open(self, batch: MessageBatch) -> list[bytes]:
        """Check the messages of a batch; the SDK answers those that are returned."""
        pending = _OpenBatch()
        texts: list[bytes] = []
        for message in batch.messages:
            try:
                texts.append(check_message(message))
            except EnvelopeError as error:
                pending.answers.append(error.answer)
                continue
            request_id = request_id_of(message)
            if request_id is not None:
                pending.waiting.append(request_id)
        await self._answers.open_batch(pending)
        return texts


def _read(text: bytes) -> dict[str, Any]:
    try:
        message: object = json.loads(text)
    except ValueError:
        return {}
    return cast("dict[str, Any]", message) if isinstance(message, dict) else {}
