"""The door over HTTP: both eras behind one session manager, under every path of the lobby and of episodes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from ors_server import __version__
from ors_server.engines.base import Engine
from ors_server.errors import OrsServerError, SessionNotFoundError
from ors_server.settings import Settings
from ors_server.transports.access import Keyring, credential_from
from ors_server.transports.http import (
    LOOPBACK_NAMES,
    ClientGoneError,
    Message,
    Receive,
    Scope,
    Send,
    headers_of,
    read_body,
    send_fault,
)
from ors_server.transports.mcp.door import McpDoor
from ors_server.transports.mcp.ground import FIGURES_HEADER, VISITOR_KEY, Ground, Visitor
from ors_server.transports.mcp.long_results import LongResults

PATHS = ("/mcp", "/sessions/{session_id}/mcp", "/agent/{token}/mcp")
"""The lobby, an episode for whoever has a credential, and an episode for whoever knows the URL."""

SESSION_HEADER = "x-session-id"
"""Names the session on the lobby's path, with the value that the ORS door uses."""


class McpHttp:
    """Serves MCP over HTTP as an ASGI application."""

    def __init__(self, engine: Engine, keyring: Keyring, settings: Settings) -> None:
        """Open the door over an engine.

        Args:
            engine: Where sessions live.
            keyring: Identifies callers.
            settings: The server's settings.
        """
        self._keyring = keyring
        self._max_body_bytes = settings.max_body_bytes
        self._door = McpDoor(Ground(engine, keyring), version=__version__)
        self._manager = StreamableHTTPSessionManager(
            self._door.server,
            security_settings=security(settings),
            max_request_body_size=settings.max_body_bytes,
        )

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Hold what outlives single requests; entered once, before the first request."""
        async with self._door.running(), self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        try:
            scope[VISITOR_KEY] = self._identify(scope)
            received = await self._read(scope, receive)
        except ClientGoneError:
            return
        except OrsServerError as error:
            await send_fault(send, error)
            return
        await self._manager.handle_request(scope, received, LongResults(scope).sending(send))

    async def _read(self, scope: Scope, receive: Receive) -> Receive:
        """Check the body before the SDK reads it; return a channel that gives it again."""
        if scope["method"] != "POST":
            return receive
        body = await read_body(receive, self._max_body_bytes)
        pending = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return pending.pop() if pending else await receive()

        return again

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


def security(settings: Settings) -> TransportSecuritySettings:
    """Make the transport's own protection against DNS rebinding agree with the server's.

    Args:
        settings: The server's settings.
    """
    names = [*sorted(LOOPBACK_NAMES), *settings.allowed_hosts]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in sorted(LOOPBACK_NAMES)]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection="*" not in settings.allowed_hosts,
        allowed_hosts=[spelling for name in names for spelling in (name, f"{name}:*")],
        allowed_origins=[
            *settings.allowed_origins,
            *(spelling for origin in origins for spelling in (origin, f"{origin}:*")),
        ],
    )
