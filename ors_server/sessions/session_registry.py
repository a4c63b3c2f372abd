"""The live sessions of one process: created within limits, found by id, expired when idle, ended once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from secrets import token_hex

import anyio

from ors_server.authoring.definition import EnvironmentDefinition
from ors_server.episode import EpisodeEvent, StopReason
from ors_server.errors import (
    SessionDeletedError,
    SessionExistsError,
    SessionExpiredError,
    SessionNotFoundError,
    ShuttingDownError,
)
from ors_server.sessions.forking import make_fork
from ors_server.sessions.quotas import Quotas, RecentIds
from ors_server.sessions.session import Session
from ors_server.sessions.session_creation import SessionMaker
from ors_server.sessions.session_request import ForkRequest, SessionRequest
from ors_server.sessions.session_services import Services


class _Creation:
    """A session that is being made."""

    __slots__ = ("ended", "is_withdrawn")

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.is_withdrawn = False


class SessionRegistry:
    """Creates, finds and ends sessions."""

    def __init__(self, services: Services, maker: SessionMaker) -> None:
        """Start without sessions."""
        self._services = services
        self._maker = maker
        self._limits = services.options.limits
        self._quotas = Quotas(self._limits)
        self._sessions: dict[str, Session] = {}
        self._creations: dict[str, _Creation] = {}
        self._being_released: set[Session] = set()
        self._expired = RecentIds()
        self._stopping = False

    async def create(self, request: SessionRequest, definition: EnvironmentDefinition) -> Session:
        """Make a session and begin its setup, which may still run when this returns."""
        if self._stopping:
            raise ShuttingDownError("the server is shutting down")
        session_id = request.session_id or token_hex(16)
        if session_id in self._sessions or session_id in self._creations:
            raise SessionExistsError("Session already exists")
        make = partial(self._maker.make, session_id, request, definition)
        return await self._add(session_id, definition, request.credential_id, make)

    async def fork(self, session_id: str, request: ForkRequest) -> list[Session]:
        """Make copies of a live session, each of which goes on by itself; all of them, or none."""
        if self._stopping:
            raise ShuttingDownError("the server is shutting down")
        parent = self.find(session_id)
        kept = None if request.snapshot_id is None else parent.snapshots.find(request.snapshot_id)
        snapshot = kept or await parent.snapshots.take()
        children: list[Session] = []
        try:
            shared = parent.recorder.origin.episode_id
            steps = await self._services.store.steps(shared, 0, snapshot.state.steps)
            for _ in range(request.count):
                child_id = token_hex(16)
                make = partial(make_fork, parent, child_id, request.credential_id, snapshot, steps)
                child = await self._add(child_id, parent.definition, request.credential_id, make)
                children.append(child)
        except BaseException:
            with anyio.CancelScope(shield=True):
                for child in children:
                    await self._end(child, EpisodeEvent.DELETE, StopReason.DELETED)
            raise
        finally:
            if kept is None:
                with anyio.CancelScope(shield=True):
                    await snapshot.aclose()
        return children

    async def _add(
        self,
        session_id: str,
        definition: EnvironmentDefinition,
        credential_id: str | None,
        make: Callable[[], Awaitable[Session]],
    ) -> Session:
        self._quotas.add(definition.name, credential_id)
        creation = self._creations[session_id] = _Creation()
        try:
            session = await make()
        except BaseException:
            self._quotas.remove(definition.name, credential_id)
            raise
        else:
            self._sessions[session_id] = session
            self._expired.discard(session_id)
            await self._begin(session, creation)
            return session
        finally:
            del self._creations[session_id]
            creation.ended.set()

    def find(self, session_id: str) -> Session:
        """Return a live session and note its use.

        Raises:
            SessionNotFoundError: If it never existed or was deleted.
            SessionExpiredError: If it expired, and not many others have since.
        """
        session = self._sessions.get(session_id)
        if session is None:
            if session_id in self._expired:
                idle = self._limits.idle_seconds
                raise SessionExpiredError(f"Active environment not found: it expired after {idle:g} s idle")
            raise SessionNotFoundError("Active environment not found")
        session.touch()
        return session

    def live(self) -> list[Session]:
        """Return all live sessions, oldest first, without touching them."""
        return list(self._sessions.values())

    def peek(self, session_id: str) -> Session | None:
        """Return a live session without touching it, or `None`."""
        return self._sessions.get(session_id)

    async def delete(self, session_id: str) -> bool:
        """End a session, waiting until its environment is torn down; an unknown id is no error.

        Returns:
            Whether there was such a session, or one that was being made.
        """
        creation = self._creations.get(session_id)
        if creation is not None:
            creation.is_withdrawn = True
            await creation.ended.wait()
            return True
        session = self._sessions.get(session_id)
        if session is None:
            return False
        await self._end(session, EpisodeEvent.DELETE, StopReason.DELETED)
        return True

    async def reap(self) -> None:
        """Look for idle sessions again and again, ending each in the background; returns never."""
        while True:
            await self._services.clock.sleep(self._limits.reap_seconds)
            self._services.log_queues()
            self._expire_idle()

    def _expire_idle(self) -> None:
        now = self._services.clock.monotonic()
        for session in expired(self.live(), now, self._limits.idle_seconds):
            self._services.spawn(self._expire, session)

    async def end_all(self) -> None:
        """Refuse new sessions and end all live ones, side by side; their calls fail with the reason."""
        self._stopping = True
        async with anyio.create_task_group() as group:
            for session in self.live():
                group.start_soon(self._end, session, EpisodeEvent.DELETE, StopReason.DELETED)

    async def aclose(self) -> None:
        """End all sessions, those being made included, and wait until nothing is left of them."""
        await self.end_all()
        for creation in list(self._creations.values()):
            await creation.ended.wait()
        for session in list(self._being_released):
            await session.until_released()

    async def _begin(self, session: Session, creation: _Creation) -> None:
        if not (creation.is_withdrawn or self._stopping):
            session.start()
            return
        await self._end(session, EpisodeEvent.DELETE, StopReason.DELETED)
        if self._stopping:
            raise ShuttingDownError("the server is shutting down")
        raise SessionDeletedError("Session deleted")

    async def _expire(self, session: Session) -> None:
        if expired([session], self._services.clock.monotonic(), self._limits.idle_seconds):
            await self._end(session, EpisodeEvent.EXPIRE, StopReason.EXPIRED)
            self._expired.add(session.id)

    async def _end(self, session: Session, event: EpisodeEvent, reason: StopReason) -> None:
        await session.aclose(event, reason, server_stops=self._stopping)
        if not session.is_released:
            self._being_released.add(session)
            self._services.spawn(self._wait_for_release, session)
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]
            self._quotas.remove(session.definition.name, session.recorder.origin.credential_id)

    async def _wait_for_release(self, session: Session) -> None:
        await session.until_released()
        self._being_released.discard(session)


def expired(sessions: Iterable[Session], now: float, idle_seconds: float) -> list[Session]:
    """Return the sessions that have been idle for too long."""
    return [session for session in sessions if session.idle_seconds(now) >= idle_seconds]
