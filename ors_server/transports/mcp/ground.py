"""Where sessions live and who may enter them, as the MCP door sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import mcp_types as types

from ors_server.errors import ForbiddenError
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_request import ForkRequest, SessionRequest
from ors_server.transports.access import Caller, Keyring, Role
from ors_server.transports.mcp.attempts import Attempts
from ors_server.transports.mcp.content import RESULT_KEY, SESSION_KEY
from ors_server.transports.mcp.sdk import Context, MCPError

FIGURES_HEADER = "x-ors-rewards"
"""A request with this header and the value `meta` asks for the call's figures in the result's `_meta`."""

VISITOR_KEY = "ors_server.visitor"
"""Where an HTTP request's ASGI scope holds its visitor."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who makes a request, and at which session's endpoint."""

    caller: Caller
    session_id: str | None = None
    """The session that the URL or a header names; `None` leaves it to the request itself."""
    asks_for_figures: bool = False
    """Whether a header asks for the figures of calls."""


class Ground:
    """Finds the session that each request is about, and checks that the caller may enter it.

    Attributes:
        engine: Where sessions live.
    """

    def __init__(
        self,
        engine: SessionManager,
        keyring: Keyring,
        only_visitor: Visitor | None = None,
        *,
        attempts_per_task: int | None = None,
    ) -> None:
        """Keep what decides.

        Args:
            engine: Where sessions live.
            keyring: Mints agent tokens.
            only_visitor: Who makes every request that has no HTTP, as over stdio.
            attempts_per_task: How often an agent-role key may start a task, as for `Attempts`.
        """
        self.engine = engine
        self._attempts = Attempts(engine, attempts_per_task)
        self._keyring = keyring
        self._only_visitor = only_visitor or Visitor(Caller(Role.TRAINER))

    def address(self, context: Context) -> str | None:
        """Return the session that a request is about: by URL, by header, by `_meta`, by the caller's token.

        Args:
            context: The request.

        Returns:
            The session's id, or `None` for the lobby.

        Raises:
            ForbiddenError: If the caller may not enter that session.
            MCPError: If `_meta` names a session by something that is no string.
        """
        visitor = self._visitor(context)
        session_id = visitor.session_id
        if session_id is None and context.meta is not None:
            named = context.meta.get(SESSION_KEY)
            if named is not None and not isinstance(named, str):
                raise MCPError(types.INVALID_PARAMS, f"{SESSION_KEY} is a string")
            session_id = named
        if session_id is None:
            session_id = visitor.caller.session_id
        if session_id is not None:
            visitor.caller.require_session(session_id, self.engine.episode_of(session_id))
        return session_id

    async def enter(self, context: Context, session_id: str) -> None:
        """Check that the caller may play a session that an argument of the lobby's tools names.

        Args:
            context: The request.
            session_id: The session.

        Raises:
            ForbiddenError: If it belongs to another agent.
            SessionNotFoundError: If it is not live.
        """
        caller = self._visitor(context).caller
        if caller.role > Role.AGENT:
            return
        origin = (await self.engine.status(session_id)).origin
        if caller.credential_id is None or origin.credential_id != caller.credential_id:
            raise ForbiddenError("an agent's credential reaches the episodes that it started only")

    def asks_for_figures(self, context: Context) -> bool:
        """Say whether a caller asked for rewards: by a trainer's key, a header, or a declared extension.

        Args:
            context: The request.
        """
        visitor = self._visitor(context)
        if visitor.asks_for_figures or visitor.caller.has_trainer_key:
            return True
        declared = context.session.client_capabilities
        if declared is None:
            return False
        return RESULT_KEY in (declared.extensions or {}) or RESULT_KEY in (declared.experimental or {})

    async def start(self, context: Context, order: SessionRequest) -> str:
        """Make a session for the caller.

        Args:
            context: The request.
            order: What is wanted.

        Returns:
            The session's id.

        Raises:
            ForbiddenError: If the caller has started that task often enough.
        """
        caller = self._visitor(context).caller
        order = replace(order, credential_id=caller.credential_id)
        return await self._attempts.start(caller, order, self._create)

    async def _create(self, order: SessionRequest) -> str:
        return (await self.engine.create(order)).origin.session_id

    async def fork(self, context: Context, session_id: str, wish: ForkRequest) -> list[str]:
        """Make copies of a session for the caller.

        Args:
            context: The request.
            session_id: The session.
            wish: How many, and from when.

        Returns:
            Their ids.
        """
        caller = self._visitor(context).caller
        made = await self.engine.fork(session_id, replace(wish, credential_id=caller.credential_id))
        return [status.origin.session_id for status in made]

    def require_trainer(self, context: Context) -> None:
        """Refuse callers that are not trainers.

        Args:
            context: The request.

        Raises:
            ForbiddenError: If the caller's role is lower.
        """
        self._visitor(context).caller.require(Role.TRAINER)

    def ways_in(self, session_id: str) -> Mapping[str, str]:
        """Return where and with what a session can be played.

        Args:
            session_id: The session.
        """
        token = self._keyring.mint(session_id, self.engine.episode_of(session_id) or "")
        return {
            "path": f"/sessions/{session_id}/mcp",
            "agent_path": f"/agent/{token}/mcp",
            "agent_token": token,
        }

    def _visitor(self, context: Context) -> Visitor:
        request = context.request
        if request is None:
            return self._only_visitor
        visitor: Visitor = request.scope[VISITOR_KEY]
        return visitor
