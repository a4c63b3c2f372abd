"""All sessions of one process: created within limits, found by id, expired when idle, ended once."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from secrets import randbelow, token_hex
from types import MappingProxyType

import anyio

from ors_server.authoring.definition import EnvironmentDefinition, ToolsetDefinition
from ors_server.episode import EpisodeEvent, StopReason
from ors_server.errors import (
    EnvironmentFailedError,
    InvalidRequestError,
    SessionDeletedError,
    SessionExistsError,
    SessionExpiredError,
    SessionNotFoundError,
    ShuttingDownError,
    UnknownEnvironmentError,
)
from ors_server.policy import EpisodePolicy
from ors_server.recording import task_digest
from ors_server.sessions.episode_recorder import EpisodeRecorder
from ors_server.sessions.forking import make_fork
from ors_server.sessions.json_copies import JSONCopyError, copy_json
from ors_server.sessions.lifecycle import make_instance, tear_down
from ors_server.sessions.quotas import Quotas, RecentIds, SessionLimits
from ors_server.sessions.session import Session
from ors_server.sessions.session_request import ForkRequest, SessionRequest
from ors_server.sessions.session_services import Services
from ors_server.trajectory import EpisodeOrigin
from ors_server.visibility import Visibility
from ors_server.wire import JSONObject

SEEDS = 2**53
"""How many seeds there are: as many integers as every JSON reader keeps exact."""


class _Creation:
    """A session that is being made."""

    __slots__ = ("ended", "is_withdrawn")

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.is_withdrawn = False


class SessionManager:
    """Creates, finds and ends sessions."""

    def __init__(
        self,
        definitions: Sequence[EnvironmentDefinition],
        services: Services,
        *,
        limits: SessionLimits,
        visibility: Visibility = Visibility.NEGOTIATED,
        server_version: str,
    ) -> None:
        """Serve environments; the first one is the default.

        Args:
            definitions: The environments, at least one, each name once.
            services: What all sessions share.
            limits: How many sessions may live, and how long unused.
            visibility: What agents see of rewards where neither environment nor session says otherwise.
            server_version: Written into each record.
        """
        self.environments: Mapping[str, EnvironmentDefinition] = MappingProxyType(
            {d.name: d for d in definitions}
        )
        self._default = definitions[0]
        self._services = services
        self._limits = limits
        self._visibility = visibility
        self._server_version = server_version
        self._policies = {d.name: d.policy.model_dump(mode="json") for d in definitions}
        self._quotas = Quotas(limits)
        self._sessions: dict[str, Session] = {}
        self._creations: dict[str, _Creation] = {}
        self._being_released: set[Session] = set()
        self._expired = RecentIds()
        self._stopping = False

    def environment(self, name: str | None) -> EnvironmentDefinition:
        """Return an environment by name, in any case; the default one for `None`.

        Raises:
            UnknownEnvironmentError: If no such environment is served.
        """
        if name is None:
            return self._default
        found = self.environments.get(name) or self.environments.get(name.lower())
        if found is None:
            served = ", ".join(self.environments)
            raise UnknownEnvironmentError(f"unknown environment {name!r}; served are {served}")
        return found

    async def create(self, request: SessionRequest) -> Session:
        """Make a session and begin its setup.

        Returns:
            The session; its setup may still run.

        Raises:
            UnknownEnvironmentError, UnknownSplitError, UnknownTaskError, InvalidRequestError: If the order is
                wrong.
            SessionExistsError: If the wanted id is live.
            CapacityError: If a limit is reached.
            EnvironmentFailedError: If the environment's constructor raised; then there is no session.
            SandboxUnavailableError: If the session needs a sandbox and this server has none.
        """
        if self._stopping:
            raise ShuttingDownError("the server is shutting down")
        definition = self.environment(request.environment)
        session_id = request.session_id or token_hex(16)
        if session_id in self._sessions or session_id in self._creations:
            raise SessionExistsError("Session already exists")
        make = partial(self._make, session_id, request, definition)
        return await self._add(session_id, definition, request.credential_id, make)

    async def fork(self, session_id: str, request: ForkRequest) -> list[Session]:
        """Make copies of a live session, each of which goes on by itself; all of them, or none.

        Raises:
            SessionNotFoundError: If no live session has the id.
            NotSupportedError: If the environment's sessions cannot be copied.
            EpisodeOverError: If the episode has ended.
            UnknownSnapshotError: If the session keeps no such snapshot.
            CapacityError: If a limit is reached.
            SandboxError: If the files could not be copied.
        """
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
        """Return a live session and note that it was asked for.

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
        """End a session, waiting until its environment is torn down.

        Args:
            session_id: Its id; an unknown one is no error.

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

    def queues(self) -> JSONObject:
        """Return what waits for its turn: name of a limiter to its figures."""
        return self._services.queues()

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

    async def _make(
        self, session_id: str, request: SessionRequest, definition: EnvironmentDefinition
    ) -> Session:
        toolset = _toolset(definition, request.toolset)
        sandboxes = self._services.sandboxes
        needs_sandbox = definition.sandbox_for(toolset) is not None
        if needs_sandbox:
            sandboxes.require()
        policy = definition.policy.override(request.policy)
        visibility = request.visibility or definition.visibility or self._visibility
        task_spec = await _task(definition, request)
        origin = EpisodeOrigin(
            session_id=session_id,
            environment=definition.name,
            environment_version=definition.version,
            server_version=self._server_version,
            task_spec=task_spec,
            task_hash=hash_task(task_spec),
            split=request.split,
            index=request.index,
            created_at=self._services.clock.now(),
            policy=self._policies[definition.name] if policy is definition.policy else _dump(policy),
            credential_id=request.credential_id,
            sandbox=sandboxes.tier if needs_sandbox else None,
            seed=randbelow(SEEDS) if request.seed is None else request.seed,
            visibility=visibility.value,
            toolset=request.toolset,
            labels=dict(request.labels),
            packages=definition.packages,
        )
        recorder = EpisodeRecorder(origin, policy, self._services)
        copied = _copy_task(task_spec)
        instance = await make_instance(definition, copied, request.secrets, policy.setup_time_limit)
        try:
            await recorder.open()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await tear_down(definition, instance, self._services, session_id)
            raise
        return Session(
            recorder, definition, instance, visibility=visibility, task_spec=copied, toolset=toolset
        )


def _dump(policy: EpisodePolicy) -> JSONObject:
    return policy.model_dump(mode="json")


def expired(sessions: Iterable[Session], now: float, idle_seconds: float) -> list[Session]:
    """Return the sessions that have been idle for too long.

    Args:
        sessions: Any sessions.
        now: Seconds from the clock's origin.
        idle_seconds: How long is too long.
    """
    return [session for session in sessions if session.idle_seconds(now) >= idle_seconds]


def hash_task(task_spec: JSONObject) -> str:
    """Return the SHA-256 of a task's canonical JSON (sorted keys, no spaces, ASCII), hexadecimal.

    Raises:
        EnvironmentFailedError: If the task is not JSON.
    """
    try:
        return task_digest(task_spec)
    except (TypeError, ValueError, RecursionError) as error:
        raise EnvironmentFailedError(f"the task is not JSON: {error}") from error


def _copy_task(task_spec: JSONObject) -> JSONObject:
    try:
        return copy_json(task_spec)
    except JSONCopyError as error:
        raise EnvironmentFailedError(f"the task is not JSON: {error}") from error


async def _task(definition: EnvironmentDefinition, request: SessionRequest) -> JSONObject:
    if request.task_spec is not None:
        try:
            return _copy_task(request.task_spec)
        except EnvironmentFailedError as error:
            raise InvalidRequestError(str(error)) from error
    if request.split is None or request.index is None:
        raise InvalidRequestError("Provide either task_spec or both split and index, not both/neither")
    return await definition.tasks.get_task(request.split, request.index)


def _toolset(definition: EnvironmentDefinition, name: str | None) -> ToolsetDefinition | None:
    if name is None:
        return None
    toolset = definition.session_toolsets.get(name)
    if toolset is None:
        options = sorted(definition.session_toolsets)
        raise InvalidRequestError(f"unknown toolset {name!r}; valid options are {options}")
    return toolset
