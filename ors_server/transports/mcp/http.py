"""The door over HTTP: both eras behind one session manager, under every path at which an episode or the lobby is."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ors_server.transports.mcp.door import McpDoor

PATHS = ("/mcp", "/sessions/{session_id}/mcp", "/agent/{token}/mcp")


class McpHttp:
    def __init__(self, door: McpDoor, security: TransportSecuritySettings, max_body: int = 4 * 1024 * 1024) -> None:
        self._door = door
        self._manager = StreamableHTTPSessionManager(
            door.server, security_settings=security, max_request_body_size=max_body
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._door.running(), self._manager.run():
            yield

    def routes(self) -> list[Route]:
        return [Route(path, endpoint=self) for path in PATHS]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)
