"""Where sessions live and who may enter them, as the MCP door sees it."""

from collections.abc import Mapping

from ors_server.engines.base import Engine
from ors_server.sessions.order import SessionOrder
from ors_server.transports.mcp.clients import Context
from ors_server.transports.mcp.content import SESSION_KEY


class Ground:
    """Finds sessions for requests."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def address(self, context: Context) -> str | None:
        request = context.request
        if request is not None:
            session_id = request.path_params.get("session_id") or request.headers.get("x-session-id")
            if session_id is not None:
                return str(session_id)
        session_id = (context.meta or {}).get(SESSION_KEY)
        return None if session_id is None else str(session_id)

    def enter(self, context: Context, session_id: str) -> None:
        pass

    async def start(self, context: Context, order: SessionOrder) -> str:
        return (await self.engine.create(order)).origin.session_id

    def require_trainer(self, context: Context) -> None:
        pass

    def ways_in(self, session_id: str) -> Mapping[str, str]:
        return {"path": f"/sessions/{session_id}/mcp"}
