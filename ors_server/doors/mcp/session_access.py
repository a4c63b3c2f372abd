"""Finds the session of an MCP request, and checks that its caller may use it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from weakref import WeakValueDictionary

import anyio
import mcp_types as types

from ors_server.doors.access import Caller, Keyring, Role
from ors_server.doors.labels import labels_for
from ors_server.doors.mcp.mcp_results import RESULT_KEY, SESSION_KEY
from ors_server.doors.mcp.sdk import Context, MCPError
from ors_server.model.errors import ForbiddenError
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_request import ForkRequest, SessionRequest
from ors_server.store.episode_filter import EpisodeFilter

REWARDS_HEADER = "x-ors-rewards"
"""A request with this header and the value `meta` asks for each call's reward, in the result's `_meta`."""

REQUESTER_KEY = "ors_server.requester"
"""Key of an HTTP request's ASGI scope under which its requester is."""

ATTEMPT_LABEL = "attempt"
"""Label of a recorded episode: its number among the key's episodes of that task, from 1."""

TEST_ATTEMPTS = 1
"""Episodes of one task of a test split that a key may start where no setting says otherwise."""

Start: TypeAlias = Callable[[SessionRequest], Awaitable[str]]
_Task: TypeAlias = tuple[str, str, str, int]


@dataclass(frozen=True, slots=True)
class Requester:
    """The caller of a request, and the session whose endpoint it was sent to."""

    caller: Caller
    session_id: str | None = None
    """The session that the URL or a header names, if one does."""
    wants_rewards: bool = False
    """Whether a header asks for rewards."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Of its HTTP request, by lower-case name."""
    lists_all: bool = field(default=False, kw_only=True)
    """Whether its URL asks for the tools of every environment."""


class AttemptLimits:
    """Counts the episodes that agent-role keys start, and refuses more than the limit; trainers have none."""

    def __init__(self, sessions: SessionManager, limit: int | None) -> None:
        """Use one limit for every task.

        Args:
            limit: Episodes of one task for each key, on every split; 0 for any number; `None` for one on test
                splits and any number elsewhere.
        """
        self._sessions = sessions
        self._limit = limit
        self._locks: WeakValueDictionary[_Task, asyncio.Lock] = WeakValueDictionary()

    async def start(self, caller: Caller, request: SessionRequest, start: Start) -> str:
        """Start an episode of a task given by split and index; return the session's id.

        Raises:
            ForbiddenError: If the caller has no attempt left.
        """
        if caller.role > Role.AGENT or caller.credential_id is None:
            return await start(request)
        if caller.is_visitor:
            await self._admit_visitor(caller.credential_id)
        definition = self._sessions.environment(request.environment)
        split, index = request.split or "", request.index or 0
        task = (caller.credential_id, definition.name, split, index)
        async with self._locks.setdefault(task, asyncio.Lock()):
            earlier = EpisodeFilter(
                environment=definition.name, split=split, index=index, credential_id=caller.credential_id
            )
            count = (await self._sessions.services.store.totals(earlier)).episodes
            limit = self._limit
            if limit is None:
                is_test = any(listed.name == split and listed.type == "test" for listed in definition.splits)
                limit = TEST_ATTEMPTS if is_test else 0
            if limit and count >= limit:  # 0: any number
                raise _no_attempt_left(earlier, count, limit)
            labels = {**request.labels, ATTEMPT_LABEL: str(count + 1)}
            session_id = await start(replace(request, labels=labels))
            if limit and not await self._claim(session_id, range(1, limit + 1)):
                raise _no_attempt_left(earlier, limit, limit)
            return session_id

    async def _admit_visitor(self, visitor: str) -> None:
        """Count the start as a call, and end the visitor's sessions whose episodes are over.

        Those would stay until they are idle, and a visitor may have few sessions. Starting counts, because a
        setup may cost more than any call.

        Raises:
            CapacityError: If the visitor has made its calls of the minute.
        """
        services = self._sessions.services
        services.call_rates.admit(visitor, services.clock.monotonic())
        for session in list(self._sessions.live_sessions):
            is_own = session.recorder.origin.credential_id == visitor
            if is_own and session.status().summary.stop_reason is not None:
                await self._sessions.delete(session.id)

    async def _claim(self, session_id: str, numbers: Sequence[int]) -> bool:
        """Ask for one of a task's attempts, and end an episode that gets none; return whether it got one.

        The lock is this server's alone. Another server of the record may have counted the attempts at the
        same moment, when neither episode was on record; the record gives each number once.
        """
        store = self._sessions.services.store
        try:
            number = await store.claim_attempt(self._sessions.episode_of(session_id) or "", numbers)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self._sessions.delete(session_id)
            raise
        if number is None:
            await self._sessions.delete(session_id)
        return number is not None


def _no_attempt_left(attempts: EpisodeFilter, count: int, limit: int) -> ForbiddenError:
    return ForbiddenError(
        f"this key has started {attempts.environment}/{attempts.split}/{attempts.index} {count} times, and "
        f"may do so {limit} times (setting attempts_per_task); start another task"
    )


class SessionAccess:
    """Finds the session of each request, and checks that the caller may use it."""

    def __init__(
        self,
        sessions: SessionManager,
        keyring: Keyring,
        only_requester: Requester | None = None,
        *,
        attempts_per_task: int | None = None,
    ) -> None:
        """Use one session manager and one key ring for every request.

        Args:
            only_requester: Who makes every request that did not come over HTTP; a trainer by default.
            attempts_per_task: How often an agent-role key may start a task, as for `AttemptLimits`.
        """
        self.sessions = sessions
        self._attempt_limits = AttemptLimits(sessions, attempts_per_task)
        self._keyring = keyring
        self._only_requester = only_requester or Requester(Caller(Role.TRAINER))

    def find_session(self, context: Context) -> str | None:
        """Return the session that a request is about, or `None` for the lobby.

        The first that names one decides: the URL or a header, the request's `_meta`, the caller's token.

        Raises:
            ForbiddenError: If the caller may not use that session.
            MCPError: If `_meta` names a session by something other than a string.
        """
        requester = self._requester(context)
        session_id = requester.session_id
        if session_id is None and context.meta is not None:
            named = context.meta.get(SESSION_KEY)
            if named is not None and not isinstance(named, str):
                raise MCPError(
                    types.INVALID_PARAMS,
                    f"expected a string as {SESSION_KEY} in _meta, got {type(named).__name__}",
                )
            session_id = named
        if session_id is None:
            session_id = requester.caller.session_id
        if session_id is not None:
            requester.caller.require_session(session_id, self.sessions.episode_of(session_id))
        return session_id

    def credential_of(self, context: Context) -> str | None:
        """Return the id of the credential with which a request was sent; `None` on a server without keys."""
        return self._requester(context).caller.credential_id

    def lists_all(self, context: Context) -> bool:
        """Whether the URL of a request asks for the tools of every environment."""
        return self._requester(context).lists_all

    async def require_own(self, context: Context, session_id: str) -> None:
        """Check that the caller may play a session that an argument of a lobby tool names.

        Raises:
            ForbiddenError: If another agent started it.
            SessionNotFoundError: If it is not live.
        """
        caller = self._requester(context).caller
        if caller.role > Role.AGENT:
            return
        origin = await self.sessions.origin_of(session_id)
        if caller.credential_id is None or origin.credential_id != caller.credential_id:
            raise ForbiddenError(
                "this session was started with another credential; an agent may play its own episodes only"
            )

    def wants_rewards(self, context: Context) -> bool:
        """Whether a caller asked for rewards: by a trainer's key, a header, or a declared extension."""
        requester = self._requester(context)
        if requester.wants_rewards or requester.caller.has_trainer_key:
            return True
        declared = context.session.client_capabilities
        if declared is None:
            return False
        return RESULT_KEY in (declared.extensions or {}) or RESULT_KEY in (declared.experimental or {})

    def is_public(self, context: Context) -> bool:
        """Whether the caller's credential is one that every caller may have, as `Caller.is_public`."""
        return self._requester(context).caller.is_public

    def may_read_reasons(self, context: Context) -> bool:
        """Whether a caller reads why an author's code failed: if it asked for rewards, and is not public."""
        return self.wants_rewards(context) and not self.is_public(context)

    async def create(self, context: Context, request: SessionRequest) -> str:
        """Create a session for the caller and return its id.

        Raises:
            ForbiddenError: If the caller has no attempt at that task left.
        """
        requester = self._requester(context)
        caller = requester.caller
        labels = labels_for(caller, requester.headers, request.labels)
        request = replace(request, credential_id=caller.credential_id, labels=labels)
        return await self._attempt_limits.start(caller, request, self._create_session)

    async def _create_session(self, request: SessionRequest) -> str:
        return (await self.sessions.create(request)).origin.session_id

    async def fork(self, context: Context, session_id: str, request: ForkRequest) -> list[str]:
        """Copy a session for the caller and return the ids of the copies."""
        caller = self._requester(context).caller
        forks = await self.sessions.fork(session_id, replace(request, credential_id=caller.credential_id))
        return [status.origin.session_id for status in forks]

    def require_trainer(self, context: Context) -> None:
        """Refuse callers below the trainer's role; `ForbiddenError` if the caller's role is lower."""
        self._requester(context).caller.require(Role.TRAINER)

    def endpoints(self, session_id: str) -> Mapping[str, str]:
        """Return the paths and the agent token with which a session can be played."""
        token = self._keyring.mint(session_id, self.sessions.episode_of(session_id) or "")
        return {
            "path": f"/sessions/{session_id}/mcp",
            "agent_path": f"/agent/{token}/mcp",
            "agent_token": token,
        }

    def _requester(self, context: Context) -> Requester:
        request = context.request
        if request is None:
            return self._only_requester
        requester: Requester = request.scope[REQUESTER_KEY]
        return requester
