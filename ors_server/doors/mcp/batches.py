"""One HTTP response to a batch of messages: a stream of the events of each, in order."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from ors_server.doors.http.messages import Message, Receive, Send, send_json
from ors_server.doors.mcp.envelopes import EnvelopeError, MessageBatch, check_message

ServeMessage = Callable[[bytes, Receive, Send], Awaitable[None]]
"""Serves one message of a batch: its text, what the client sends after it, and where its response goes."""

_ACCEPTED = 202
_BAD_REQUEST = 400


async def serve_batch(batch: MessageBatch, receive: Receive, send: Send, serve: ServeMessage) -> None:
    """Serve the messages of a batch one after another, so that their effects have the order of the batch."""
    response = _BatchResponse(receive, send)
    for message in batch.messages:
        try:
            text = check_message(message)
        except EnvelopeError as error:
            await response.add(error.answer)
            continue
        response.begin_part()
        await serve(text, response.receive, response.send_part)
        if response.is_over:
            return
    await response.close()


class _BatchResponse:
    """The response to a batch, made of those to its messages.

    Attributes:
        is_over: Whether the client left, or the first message was refused for a reason that holds for all.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_streaming = False
        self._answers: list[Any] = []
        self._status = 0
        self._is_accepted = False
        self._is_stream_part = False
        self._body = b""
        self.is_over = False

    async def receive(self) -> Message:
        message = await self._receive()
        self.is_over |= message["type"] == "http.disconnect"
        return message

    def begin_part(self) -> None:
        self._status, self._is_stream_part, self._body = 0, False, b""

    async def send_part(self, message: Message) -> None:
        """Receive the response to one message."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._is_accepted |= self._status < _BAD_REQUEST
            headers = {name.lower(): value for name, value in message["headers"]}
            self._is_stream_part = headers.get(b"content-type", b"").startswith(b"text/event-stream")
            if self._is_stream_part and not self._is_streaming:
                self._is_streaming = True
                await self._send(message)
                await self._flush()
            elif self._is_refusal:
                await self._send(message)
        elif self._is_refusal:
            self.is_over = not message.get("more_body", False)
            await self._send(message)
        elif self._is_stream_part:
            if message.get("body"):
                await self._send({**message, "more_body": True})
        else:
            self._body += message.get("body", b"")
            if self._body and not message.get("more_body", False):
                await self.add(json.loads(self._body))

    @property
    def _is_refusal(self) -> bool:
        """Whether the SDK refuses the request by its headers: each message of the batch has the same."""
        return not self._is_stream_part and self._status >= _BAD_REQUEST and not self._is_streaming

    async def add(self, answer: Any) -> None:
        """Add the answer to one message."""
        self._answers.append(answer)
        if self._is_streaming:
            await self._flush()

    async def _flush(self) -> None:
        for answer in self._answers:
            event = f"event: message\r\ndata: {json.dumps(answer)}\r\n\r\n".encode()
            await self._send({"type": "http.response.body", "body": event, "more_body": True})
        self._answers.clear()

    async def close(self) -> None:
        """End the response: a stream, the errors of messages that are none, or nothing to say."""
        if self._is_streaming:
            await self._send({"type": "http.response.body", "body": b""})
        elif self._answers:
            await send_json(self._send, self._answers, 200 if self._is_accepted else _BAD_REQUEST)
        else:
            await self._send({"type": "http.response.start", "status": _ACCEPTED, "headers": []})
            await self._send({"type": "http.response.body", "body": b""})
