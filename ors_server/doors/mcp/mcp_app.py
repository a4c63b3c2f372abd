"""MCP over HTTP: both eras behind one SDK transport, under the paths of the lobby and of sessions."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from ors_server._version import __version__
from ors_server.doors.access import Keyring
from ors_server.doors.http.messages import (
    HEADERS,
    ClientGoneError,
    Message,
    Receive,
    Scope,
    Send,
    read_body,
    read_headers,
    send_fault,
    send_json,
)
from ors_server.doors.mcp.envelopes import (
    BATCH_VERSIONS,
    EnvelopeError,
    MessageBatch,
    check_body,
    check_message,
    refuse_batch,
)
from ors_server.doors.mcp.long_results import LongResults
from ors_server.doors.mcp.mcp_server import MAX_HANDSHAKE_BYTES, McpServer
from ors_server.doors.mcp.sdk import (
    StreamableHTTPSessionManager,
    TransportSecuritySettings,
    begins_connection,
)
from ors_server.doors.mcp.session_access import REQUESTER_KEY, REWARDS_HEADER, Requester, SessionAccess
from ors_server.model.errors import OrsServerError, PayloadTooLargeError, SessionNotFoundError
from ors_server.model.host_slot import HostSlot
from ors_server.model.settings import Settings
from ors_server.sessions.manager import SessionManager

PATHS = ("/mcp", "/sessions/{session_id}/mcp", "/agent/{token}/mcp")
"""The lobby, a session for callers with a credential, and a session for callers who know its URL."""

SESSION_HEADER = "x-session-id"
"""Names the session on the lobby's path; the same header as in ORS."""

_ALL_TOOLS = b"tools=all"
"""In the query of the lobby's URL: lists the tools of every environment, for hosts that list tools once."""
_METHODS = ("GET", "POST", "DELETE")
_CONTENT_ENCODING = "content-encoding"
_VERSION_HEADER = "mcp-protocol-version"
_ACCEPTED = 202
_BAD_REQUEST = 400

_ServeMessage = Callable[[bytes, Receive, Send], Awaitable[None]]
"""Serves one message of a batch: its text, what the client sends after it, and where its response goes."""


class McpApp:
    """Serves MCP over HTTP as an ASGI application."""

    def __init__(self, sessions: SessionManager, keyring: Keyring, settings: Settings) -> None:
        self._keyring = keyring
        self._slot = settings.slot
        self._max_body_bytes = settings.max_body_bytes
        self._stopping = anyio.Event()
        self._server = McpServer(
            SessionAccess(sessions, keyring, attempts_per_task=settings.attempts_per_task),
            version=__version__,
        )
        self._transport = StreamableHTTPSessionManager(
            self._server.server,
            # HostGuard has checked Host and Origin, also in spellings that the SDK does not know.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=settings.max_body_bytes,
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Hold what outlives single requests; entered once, before the first request."""
        async with self._server.running(), self._transport.run():
            yield

    def begin_to_stop(self) -> None:
        """End the streams that last until a client closes them."""
        self._stopping.set()
        self._server.end_subscriptions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if not self._slot.is_alone:
            scope, send = _mark_connections(self._slot, scope, send)
        if scope["method"] not in _METHODS:
            await send_json(send, {"detail": "Method Not Allowed"}, 405, {"allow": ", ".join(_METHODS)})
            return
        try:
            scope[REQUESTER_KEY] = self._requester_of(scope)
            if scope["method"] == "POST":
                await self._post(scope, receive, send)
                return
        except ClientGoneError:
            return
        except OrsServerError as error:
            await send_fault(send, error)
            return
        sending = LongResults(scope).sending(send)
        if scope["method"] == "GET":
            await self._stream(scope, receive, sending)
        else:
            await self._transport.handle_request(scope, receive, sending)

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a body before the SDK reads it, and serve its message, or its messages one by one."""
        headers = scope.get(HEADERS) or read_headers(scope)
        body = await read_body(receive, self._max_body_bytes, headers.get(_CONTENT_ENCODING))
        version = headers.get(_VERSION_HEADER)
        if len(body) > MAX_HANDSHAKE_BYTES and begins_connection(headers.get("mcp-session-id"), version):
            raise PayloadTooLargeError(
                f"expected at most {MAX_HANDSHAKE_BYTES:,} bytes of a request without Mcp-Session-Id, which "
                f"is initialize, got {len(body):,}; leave out icons and long descriptions of the client"
            )

        async def serve(text: bytes, receive_more: Receive, send_part: Send) -> None:
            part = dict(scope)  # the SDK and `LongResults` keep what they know of one message in it
            pending: list[Message] = [{"type": "http.request", "body": text, "more_body": False}]

            async def receive_on() -> Message:  # the body, and then what the client sends after it
                return pending.pop() if pending else await receive_more()

            await self._transport.handle_request(part, receive_on, LongResults(part).sending(send_part))

        try:
            checked = check_body(body)
            if isinstance(checked, MessageBatch) and version is not None and version not in BATCH_VERSIONS:
                raise refuse_batch(version)
        except EnvelopeError as error:
            await send_json(send, error.answer, _BAD_REQUEST)
            return
        if isinstance(checked, MessageBatch):
            await _serve_batch(checked, receive, send, serve)
        else:
            await serve(checked, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a stream of the server's own messages until either side ends it."""
        is_open = False

        async def send_on(message: Message) -> None:
            nonlocal is_open
            is_open = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._cancel_on_stop, tasks.cancel_scope)
            await self._transport.handle_request(scope, receive, send_on)
            tasks.cancel_scope.cancel()
        if is_open:
            await send({"type": "http.response.body", "body": b""})

    async def _cancel_on_stop(self, scope: anyio.CancelScope) -> None:
        await self._stopping.wait()
        scope.cancel()

    def _requester_of(self, scope: Scope) -> Requester:
        """Return who sends a request, and to which session's endpoint.

        Raises:
            SessionNotFoundError: If the path is not one of `PATHS`.
            UnauthenticatedError: If the caller is unknown.
        """
        headers = scope.get(HEADERS) or read_headers(scope)
        lists_all = False
        asks = headers.get(REWARDS_HEADER, "").strip().lower() == "meta"
        match scope["path"].rstrip("/").split("/")[1:]:
            case ["mcp"]:
                session_id = headers.get(SESSION_HEADER)
                lists_all = _ALL_TOOLS in scope["query_string"].split(b"&")
            case ["sessions", session_id, "mcp"]:
                pass
            case ["agent", token, "mcp"]:
                caller = self._keyring.identify_agent(token)
                return Requester(caller, caller.session_id, asks)
            case _:
                raise SessionNotFoundError(
                    f"nothing is served at {scope['path']}; MCP is served at {', '.join(PATHS)}"
                )
        return Requester(
            self._keyring.caller_of(headers, scope), session_id, asks, headers, lists_all=lists_all
        )


_SESSION_ID = b"mcp-session-id"


def _mark_connections(slot: HostSlot, scope: Scope, send: Send) -> tuple[Scope, Send]:
    """Return a request and its channel, between which and the client the ids carry the host's name.

    The SDK draws the ids of connections, which say nothing about a session. The front routes a connection by
    the name of its host in front of its id, which is added to answers and taken off requests here.
    """
    mark = f"{slot.name}-".encode()

    async def send_marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [
                (key, mark + value if key.lower() == _SESSION_ID else value)
                for key, value in message["headers"]
            ]
            message = {**message, "headers": headers}
        await send(message)

    headers = [
        (key, value.removeprefix(mark) if key == _SESSION_ID else value) for key, value in scope["headers"]
    ]
    return {**scope, "headers": headers, HEADERS: None}, send_marked


async def _serve_batch(batch: MessageBatch, receive: Receive, send: Send, serve: _ServeMessage) -> None:
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
