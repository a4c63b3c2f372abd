"""The door over HTTP: both eras behind one session manager, under every path at which an episode or the lobby is."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ors_server import __version__
from ors_server.engines.base import Engine
from ors_server.settings import Settings
from ors_server.transports.access import Keyring
from ors_server.transports.mcp.door import McpDoor
from ors_server.transports.mcp.ground import Ground

PATHS = ("/mcp", "/sessions/{session_id}/mcp", "/agent/{token}/mcp")


class McpHttp:
    def __init__(self, door: McpDoor, security: TransportSecuritySettings, max_body: int = 4 * 1024 * 1024) -> None:
        self._door = door
        self._manager = StreamableHTTPSessionManager(
            door.server, security_settings=security, max_request_body_size=max_body
        )

    @classmethod
    def over(cls, engine: Engine, keyring: Keyring, settings: Settings) -> "McpHttp":
        """Open the door over an engine.

        Args:
            engine: Where sessions live.
            keyring: Identifies callers.
            settings: The server's settings.
        """
        hosts = ["127.0.0.1:*", "localhost:*", "[::1]:*", "127.0.0.1", "localhost", *settings.allowed_hosts]
        security = TransportSecuritySettings(
            enable_dns_rebinding_protection="*" not in settings.allowed_hosts,
            allowed_hosts=hosts,
            allowed_origins=["http://127.0.0.1:*", "http://localhost:*", *settings.allowed_origins],
        )
        del keyring
        return cls(McpDoor(Ground(engine), version=__version__), security, settings.max_body_bytes)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._door.running(), self._manager.run():
            yield

    def routes(self) -> list[Route]:
        return [Route(path, endpoint=self) for path in PATHS]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)
