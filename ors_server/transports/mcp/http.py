"""The door over HTTP: both eras behind one session manager, under every path of the lobby and of episodes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from ors_server._version import __version__
from ors_server.errors import OrsServerError, SessionNotFoundError
from ors_server.sessions.manager import SessionManager
from ors_server.settings import Settings
from ors_server.transports.access import Keyring, credential_from
from ors_server.transports.http import (
    ClientGoneError,
    Message,
    Receive,
    Scope,
    Send,
    headers_of,
    read_body,
    send_fault,
    send_json,
)
from ors_server.transports.mcp.door import McpDoor
from ors_server.transports.mcp.ground import FIGURES_HEADER, VISITOR_KEY, Ground, Visitor
from ors_server.transports.mcp.long_results import LongResults
from ors_server.transports.mcp.sdk import StreamableHTTPSessionManager, TransportSecuritySettings

PATHS = ("/mcp", "/sessions/{session_id}/mcp", "/agent/{token}/mcp")
"""The lobby, an episode for whoever has a credential, and an episode for whoever knows the URL."""

SESSION_HEADER = "x-session-id"
"""Names the session on the lobby's path, with the value that the ORS door uses."""


METHODS = ("GET", "POST", "DELETE")
CODING = b"content-encoding"


class McpHttp:
    """Serves MCP over HTTP as an ASGI application."""

    def __init__(self, engine: SessionManager, keyring: Keyring, settings: Settings) -> None:
        """Open the door over an engine.

        Args:
            engine: Where sessions live.
            keyring: Identifies callers.
            settings: The server's settings.
        """
        self._keyring = keyring
        self._max_body_bytes = settings.max_body_bytes
        self._stops = anyio.Event()
        self._door = McpDoor(
            Ground(engine, keyring, attempts_per_task=settings.attempts_per_task), version=__version__
        )
        self._manager = StreamableHTTPSessionManager(
            self._door.server,
            # Host and Origin were judged before any door, also for spellings that the SDK does not know.
            security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            max_request_body_size=settings.max_body_bytes,
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Hold what outlives single requests; entered once, before the first request."""
        async with self._door.running(), self._manager.run():
            yield

    def begin_to_stop(self) -> None:
        """End the streams that go on for as long as a client reads."""
        self._stops.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        if scope["method"] not in METHODS:
            await send_json(send, {"detail": "Method Not Allowed"}, 405, {"allow": ", ".join(METHODS)})
            return
        try:
            scope[VISITOR_KEY] = self._identify(scope)
            received = await self._read(scope, receive)
        except ClientGoneError:
            return
        except OrsServerError as error:
            await send_fault(send, error)
            return
        sending = LongResults(scope).sending(send)
        if scope["method"] == "GET":
            await self._stream(scope, received, sending)
        else:
            await self._manager.handle_request(scope, received, sending)

    async def _read(self, scope: Scope, receive: Receive) -> Receive:
        """Check the body before the SDK reads it; return a channel that gives it again."""
        if scope["method"] != "POST":
            return receive
        coding = next((value.decode("latin-1") for name, value in scope["headers"] if name == CODING), None)
        body = await read_body(receive, self._max_body_bytes, coding)
        pending = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return pending.pop() if pending else await receive()

        return again

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a stream for what the server says of itself, to its end or the server's."""
        is_open = False

        async def send_on(message: Message) -> None:
            nonlocal is_open
            is_open = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._end, tasks.cancel_scope)
            await self._manager.handle_request(scope, receive, send_on)
            tasks.cancel_scope.cancel()
        if is_open:
            await send({"type": "http.response.body", "body": b""})

    async def _end(self, scope: anyio.CancelScope) -> None:
        await self._stops.wait()
        scope.cancel()

    def _identify(self, scope: Scope) -> Visitor:
        """Say who makes a request, and at which endpoint.

        Raises:
            SessionNotFoundError: If the path is none of ours.
            UnauthenticatedError: If the caller is unknown.
        """
        headers = headers_of(scope)
        asks = headers.get(FIGURES_HEADER, "").strip().lower() == "meta"
        match scope["path"].rstrip("/").split("/")[1:]:
            case ["mcp"]:
                session_id = headers.get(SESSION_HEADER)
            case ["sessions", session_id, "mcp"]:
                pass
            case ["agent", token, "mcp"]:
                caller = self._keyring.identify_agent(token)
                return Visitor(caller, caller.session_id, asks)
            case _:
                raise SessionNotFoundError(
                    f"there is nothing at {scope['path']}; the paths are {', '.join(PATHS)}"
                )
        return Visitor(self._keyring.identify(credential_from(headers)), session_id, asks)
