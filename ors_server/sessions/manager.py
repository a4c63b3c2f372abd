"""The live sessions of one process, as the doors use them: created within limits, found by id, ended once."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from secrets import randbelow
from types import MappingProxyType
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from ors_server.environments.definition import EnvironmentDefinition, ToolsetDefinition
from ors_server.environments.environment import requested_image
from ors_server.environments.simulated_user.conversation import replay_turns
from ors_server.model.clock import Clock, SystemClock
from ors_server.model.episode import EpisodeEvent, StopReason
from ors_server.model.errors import (
    EnvironmentFailedError,
    InvalidRequestError,
    SessionDeletedError,
    SessionExistsError,
    SessionExpiredError,
    SessionInterruptedError,
    SessionNotFoundError,
    ShuttingDownError,
    StartingError,
    UnknownEnvironmentError,
)
from ors_server.model.host_slot import host_name
from ors_server.model.logs import secret_values
from ors_server.model.recording import task_digest
from ors_server.model.trajectory import (
    NOTHING,
    SEEDS,
    EpisodeOrigin,
    EpisodeRecord,
    EpisodeSummary,
    Fork,
    Step,
    make_episode_id,
)
from ors_server.model.visibility import Visibility
from ors_server.model.wire import JSONObject
from ors_server.resources.resource_pool import ResourcePool
from ors_server.sessions.episode_recorder import EpisodeRecorder
from ors_server.sessions.key_limits import CallRates
from ors_server.sessions.lifecycle import make_instance, tear_down
from ors_server.sessions.session import Session
from ors_server.sessions.session_request import (
    ForkRequest,
    Quotas,
    RecentIds,
    SessionRequest,
    SessionStatus,
    creation_digest,
    needs_secrets,
)
from ors_server.sessions.session_services import (
    NO_SANDBOXES,
    BackgroundTasks,
    RecordHealth,
    Sandboxes,
    Services,
    SessionOptions,
    default_gradings,
)
from ors_server.sessions.snapshots import SessionSnapshot
from ors_server.sessions.tool_arguments import JSONCopyError, copy_json, read_through
from ors_server.store.base import EpisodeStore
from ors_server.store.memory import MemoryStore
from ors_server.timing.admission import Admission
from ors_server.timing.loop_watch import LoopWatch
from ors_server.timing.workers import Workers, set_workers


async def make_session(
    session_id: str,
    request: SessionRequest,
    definition: EnvironmentDefinition,
    services: Services,
    own_policy: JSONObject,
) -> Session:
    """Make a session under an id that no live one has, and write its origin to the store.

    Args:
        own_policy: The environment's own policy as it is recorded.

    Raises:
        InvalidRequestError, UnknownSplitError, UnknownTaskError: If the request is wrong.
        EnvironmentFailedError: If the environment's constructor failed, or the task is not JSON.
        SandboxUnavailableError: If the session needs a sandbox and this server cannot start one.
        StoreError: If the origin could not be written.
    """
    toolset = find_toolset(definition, request.toolset)
    limits = definition.sandbox_for(toolset)
    if limits is not None:
        services.sandboxes.require()
    policy = definition.policy.override(request.policy)
    is_own = policy is definition.policy
    visibility = request.visibility or definition.visibility or services.options.visibility
    task_spec = await _find_task(definition, request)
    task_hash, copied = await read_through(lambda task: (task_digest(task), _copy_task(task)), task_spec)
    split, index = request.split, request.index
    if request.task_spec is not None:
        split, index = await services.task_places.find(definition, task_hash) or (None, None)
    origin = EpisodeOrigin(
        session_id=session_id,
        environment=definition.name,
        environment_version=definition.version,
        server_version=services.options.server_version,
        task_spec=task_spec,
        task_hash=task_hash,
        split=split,
        index=index,
        created_at=services.clock.now(),
        policy=own_policy if is_own else policy.model_dump(mode="json"),
        credential_id=request.credential_id,
        sandbox=services.sandboxes.tier if limits is not None else None,
        seed=randbelow(SEEDS) if request.seed is None else request.seed,
        visibility=visibility.value,
        toolset=request.toolset,
        labels=dict(request.labels) if request.labels else NOTHING,
        packages=definition.packages,
        creation=creation_digest(request),
        has_secrets=needs_secrets(request),
    )
    recorder = EpisodeRecorder(origin, policy, services)
    secret_values.keep(recorder, request.secrets.values())
    instance = await make_instance(definition, copied, request.secrets, policy.setup_time_limit)
    if request.user_turns is not None:
        replay_turns(instance, request.user_turns)
    image = None if limits is None else requested_image(instance, limits)
    if image is not None:
        recorder.origin = replace(origin, sandbox={**(origin.sandbox or {}), "image": image})
    try:
        await recorder.open()
    except BaseException:
        with anyio.CancelScope(shield=True):
            await tear_down(definition, instance, services, session_id)
        raise
    return Session(recorder, definition, instance, visibility, copied, toolset)


async def make_fork(
    parent: Session,
    session_id: str,
    credential_id: str | None,
    snapshot: SessionSnapshot,
    steps: Sequence[Step],
) -> Session:
    """Make a session with its own instance, files and record; it is ready at once."""
    before = parent.recorder.origin
    services = parent.recorder.services
    origin = replace(
        before,
        session_id=session_id,
        episode_id=make_episode_id(),
        created_at=services.clock.now(),
        credential_id=credential_id,
        creation=None,
        forked_from=Fork(before.session_id, snapshot.state.steps),
    )
    recorder = EpisodeRecorder(origin, parent.recorder.policy, services)
    secret_values.keep(recorder, parent.secrets.values())
    task_spec = await read_through(copy_json, before.task_spec)
    limit = recorder.policy.setup_time_limit
    instance = await make_instance(parent.definition, task_spec, parent.secrets, limit)
    session = Session(recorder, parent.definition, instance, parent.visibility, task_spec, parent.toolset)
    try:
        await session.start_from_snapshot(snapshot, steps)
    except BaseException:
        with anyio.CancelScope(shield=True):
            await session.aclose(EpisodeEvent.DELETE, StopReason.DELETED)
        raise
    return session


def _copy_task(task_spec: JSONObject) -> JSONObject:
    try:
        return copy_json(task_spec)
    except JSONCopyError as error:
        raise EnvironmentFailedError(f"the task is not JSON: {error}") from error


async def _find_task(definition: EnvironmentDefinition, request: SessionRequest) -> JSONObject:
    if request.task_spec is not None:
        try:
            return await read_through(_copy_task, request.task_spec)
        except EnvironmentFailedError as error:
            raise InvalidRequestError(str(error)) from error
    if request.split is None or request.index is None:
        raise InvalidRequestError("Provide either task_spec or both split and index, not both/neither")
    return await definition.tasks.get_task(request.split, request.index)


def find_toolset(definition: EnvironmentDefinition, name: str | None) -> ToolsetDefinition | None:
    """Return a toolset that a session may be created with; `InvalidRequestError` if there is no such one."""
    if name is None:
        return None
    toolset = definition.session_toolsets.get(name)
    if toolset is None:
        options = sorted(definition.session_toolsets)
        raise InvalidRequestError(f"unknown toolset {name!r}; valid options are {options}")
    return toolset


class _Creation:
    """A session that is being made."""

    __slots__ = ("ended", "is_withdrawn")

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.is_withdrawn = False


class Recoverer(Protocol):
    """Takes up the sessions that an earlier server left open; one that cannot be taken up is closed."""

    def episode_of(self, session_id: str) -> str | None:
        """Return the id of the episode that waits to be taken up; `None` if none does."""
        ...

    async def waiting(self) -> Sequence[SessionStatus]:
        """Return the sessions that wait to be taken up."""
        ...

    async def resume(self, session_id: str) -> None:
        """Rebuild the session, once however many ask for it; do nothing if none waits.

        Raises:
            SessionInterruptedError: If it cannot be rebuilt.
            CapacityError: If a limit is reached; then it still waits.
            MachineryError: If something underneath failed; then it still waits.
        """
        ...

    def forget(self, session_id: str) -> None:
        """Forget that the session could not be taken up, because its id is used again."""
        ...

    async def close(self, session_id: str) -> bool:
        """Close the record of a session that waits, because it is deleted; return whether one waited."""
        ...


class SessionManager:
    """Creates, finds, plays and ends sessions; `open_manager` makes one.

    Every method that takes a session id raises `SessionNotFoundError` if no live session has it, unless it
    says otherwise, and counts as activity of that session.
    """

    def __init__(self, definitions: Sequence[EnvironmentDefinition], services: Services) -> None:
        """Serve environments; the first one is the default."""
        self.environments: Mapping[str, EnvironmentDefinition] = {}
        """The environments by name, the default one first."""
        self.replace_environments(definitions)
        self.services = services
        """What all sessions share."""
        self.suspends = services.options.suspends
        """Whether the sessions' records stay open when the server stops, for another one to continue."""
        self._limits = services.options.limits
        self._quotas = Quotas(self._limits, services.options.limits_of)
        self._sessions: dict[str, Session] = {}
        self._creations: dict[str, _Creation] = {}
        self._being_released: set[Session] = set()
        self._expired = RecentIds()
        self._stopping = False
        self._is_draining = False
        self.recoverer: Recoverer | None = None
        """Takes up what an earlier server left open; set before the first request."""

    def replace_environments(self, definitions: Sequence[EnvironmentDefinition]) -> None:
        """Serve other environments from now on, at least one; live sessions keep theirs."""
        self.environments = MappingProxyType({definition.name: definition for definition in definitions})
        self._default = definitions[0]
        self._policies = {
            definition.name: definition.policy.model_dump(mode="json") for definition in definitions
        }

    def environment(self, name: str | None) -> EnvironmentDefinition:
        """Return an environment by name, in any case; the default one for `None`.

        Raises:
            UnknownEnvironmentError: If no such environment is served.
        """
        if name is None:
            return self._default
        definition = self.environments.get(name) or self.environments.get(name.lower())
        if definition is None:
            served = ", ".join(self.environments)
            raise UnknownEnvironmentError(f"unknown environment {name!r}; expected one of {served}")
        return definition

    async def remember_tasks(
        self, definition: EnvironmentDefinition, split: str, first: int, tasks: Sequence[JSONObject]
    ) -> None:
        """Remember where tasks are that a client reads, for it may send one back by value.

        Args:
            first: Index of the first one; tasks that are counted from a split's end are not remembered.
        """
        if first >= 0:
            await self.services.task_places.remember(definition, split, first, tasks)

    # Sessions

    async def create(self, request: SessionRequest) -> SessionStatus:
        """Make a session; its setup continues in the background.

        Raises:
            ClientError: If the request is wrong or the id is live.
            CapacityError: If a limit is reached.
            EnvironmentFailedError: If the environment's constructor raised; then there is no session.
            SandboxUnavailableError: If the session needs a sandbox and this server cannot start one.
        """
        definition = self.environment(request.environment)
        if self._stopping:
            raise ShuttingDownError("the server is shutting down")
        if self._is_draining:
            raise ShuttingDownError("the server is stopping")
        session_id = request.session_id or self.services.options.slot.draw_session_id()
        self.services.options.slot.check(session_id)
        try:
            await self._resume(session_id)
        except SessionInterruptedError:  # its id is free now
            if self.recoverer is not None:
                self.recoverer.forget(session_id)
        live = self._sessions.get(session_id)
        if live is not None and live.is_rebuilt:
            creation = live.recorder.origin.creation
            if creation is not None and creation == creation_digest(request):
                return live.status()  # the client repeats the request, whose answer was lost with the server
        if live is not None or session_id in self._creations:
            raise SessionExistsError("Session already exists")
        policy = self._policies[definition.name]
        make = partial(make_session, session_id, request, definition, self.services, policy)
        session = await self._add(session_id, definition, request.credential_id, make)
        return session.status()

    async def fork(self, session_id: str, request: ForkRequest) -> Sequence[SessionStatus]:
        """Make copies of a live session, each of which continues separately; all of them, or none.

        A copy's record begins with copies of the steps that both share, and its sums with theirs.

        Raises:
            NotSupportedError: If the environment's sessions cannot be copied.
            EpisodeOverError: If the episode has ended.
            UnknownSnapshotError: If the session keeps no such snapshot.
            CapacityError: If a limit is reached.
            SandboxError: If the files could not be copied.
        """
        if self._stopping:
            raise ShuttingDownError("the server is shutting down")
        parent = await self.obtain(session_id)
        snapshot_kept = None if request.snapshot_id is None else parent.snapshots.find(request.snapshot_id)
        snapshot = snapshot_kept or await parent.snapshots.take()
        children: list[Session] = []
        try:
            shared = parent.recorder.origin.episode_id
            steps = await self.services.store.steps(shared, 0, snapshot.state.steps)
            for _ in range(request.count):
                child_id = self.services.options.slot.draw_session_id()
                make = partial(make_fork, parent, child_id, request.credential_id, snapshot, steps)
                child = await self._add(child_id, parent.definition, request.credential_id, make)
                children.append(child)
            await checkpoint_if_cancelled()  # a caller that left knows no ids
        except BaseException:
            with anyio.CancelScope(shield=True):
                for child in children:
                    await self._end(child, EpisodeEvent.DELETE, StopReason.DELETED)
            raise
        finally:
            if snapshot_kept is None:
                with anyio.CancelScope(shield=True):
                    await snapshot.aclose()
        return [child.status() for child in children]

    async def take_over(self, record: EpisodeRecord, make: Callable[[], Awaitable[Session]]) -> None:
        """Take a session up that an earlier server left open; it counts against the limits as a new one.

        Raises:
            CapacityError: If a limit is reached.
            SessionDeletedError: If it was deleted meanwhile.
            ShuttingDownError: If the server is stopping.
        """
        if self._stopping:
            raise ShuttingDownError("the server is shutting down")
        origin = record.origin
        await self._add(origin.session_id, self.environment(origin.environment), origin.credential_id, make)

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

    async def _begin(self, session: Session, creation: _Creation) -> None:
        if not (creation.is_withdrawn or self._stopping):
            session.start()
            return
        if self._stopping:
            await self._stop(session)
            raise ShuttingDownError("the server is shutting down")
        await self._end(session, EpisodeEvent.DELETE, StopReason.DELETED)
        raise SessionDeletedError("Session deleted")

    async def obtain(self, session_id: str) -> Session:
        """Return a session as `find` does; one that an earlier server left open is rebuilt first.

        Raises:
            SessionInterruptedError: If it cannot be rebuilt.
            CapacityError: If a limit keeps it from being rebuilt now.
            StartingError: If it belongs to another host.
        """
        session = self._sessions.get(session_id)
        if session is None:
            self._check_slot(session_id)
            await self._resume(session_id)
            return self.find(session_id)
        session.last_use.at = self.services.clock.monotonic()
        return session

    def _check_slot(self, session_id: str) -> None:
        """Refuse a request for a session of another host: the front has an older table than this host.

        Raises:
            StartingError: If it is another host's; a repeat reaches that one.
        """
        slot = self.services.options.slot
        if not slot.has(session_id) and session_id not in self._sessions:
            raise StartingError(
                f"the session belongs to host {host_name(slot.host_of(session_id))}, and this is "
                f"{slot.name}; repeat the request"
            )

    async def _resume(self, session_id: str) -> None:
        if self.recoverer is not None and session_id not in self._sessions:
            await self.recoverer.resume(session_id)

    def find(self, session_id: str) -> Session:
        """Return a live session and keep it alive.

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
        session.last_use.at = self.services.clock.monotonic()
        return session

    def episode_of(self, session_id: str) -> str | None:
        """Return the id of the episode that a session plays, live or to be rebuilt; `None` without one.

        It does not count as activity, and rebuilds nothing.
        """
        session = self._sessions.get(session_id)
        if session is not None:
            return session.recorder.origin.episode_id
        return None if self.recoverer is None else self.recoverer.episode_of(session_id)

    async def delete(self, session_id: str) -> bool:
        """End a session, waiting until its environment is torn down; an unknown id is not an error.

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
            self._check_slot(session_id)
            return self.recoverer is not None and await self.recoverer.close(session_id)
        await self._end(session, EpisodeEvent.DELETE, StopReason.DELETED)
        return True

    def peek(self, session_id: str) -> Session | None:
        """Return a live session; it does not count as activity, and rebuilds nothing."""
        return self._sessions.get(session_id)

    def live_summary(self, origin: EpisodeOrigin) -> EpisodeSummary | None:
        """Return the current figures of an episode that a session of this process plays, else `None`."""
        session = self._sessions.get(origin.session_id)
        is_playing = session is not None and session.recorder.origin.episode_id == origin.episode_id
        return session.recorder.summary() if session is not None and is_playing else None

    @property
    def live_sessions(self) -> Collection[Session]:
        """All live sessions; reading them does not count as activity."""
        return self._sessions.values()

    def drain(self) -> None:
        """Take no new sessions from now on; live ones continue."""
        self._is_draining = True

    def check_ready(self) -> None:
        """Check that new sessions can be made.

        Raises:
            ShuttingDownError: If the server is stopping.
            StoreError: If the record could not be written lately.
        """
        if self._stopping or self._is_draining:
            raise ShuttingDownError("the server is stopping")
        self.services.health.check()

    async def end_sessions(self) -> None:
        """Refuse new sessions and end all live ones; calls that still run fail with `ShuttingDownError`.

        If the options say so, the records stay open, and running calls have some time to end.
        """
        self._stopping = True
        async with anyio.create_task_group() as group:
            for session in list(self._sessions.values()):
                group.start_soon(self._stop, session)

    async def _stop(self, session: Session) -> None:
        options = self.services.options
        if self.suspends:
            await session.suspend(options.suspend_time_limit)
        await self._end(session, EpisodeEvent.DELETE, StopReason.SHUTDOWN)

    async def aclose(self) -> None:
        """End all sessions, those being made included, and wait until nothing is left of them."""
        await self.end_sessions()
        for creation in list(self._creations.values()):
            await creation.ended.wait()
        for session in list(self._being_released):
            await session.until_released()

    async def _end(self, session: Session, event: EpisodeEvent, reason: StopReason) -> None:
        on_end = partial(self._forget, session, event)
        await session.aclose(event, reason, server_stops=self._stopping, on_end=on_end)

    def _forget(self, session: Session, event: EpisodeEvent) -> None:
        """Take out a session that has ended; the ending does so, even if all who asked for it have left."""
        if not session.is_released:
            self._being_released.add(session)
            self.services.spawn(self._wait_for_release, session)
        if self._sessions.get(session.id) is session:
            del self._sessions[session.id]
            self._quotas.remove(session.definition.name, session.recorder.origin.credential_id)
            if event is EpisodeEvent.EXPIRE:
                self._expired.add(session.id)

    async def _wait_for_release(self, session: Session) -> None:
        await session.until_released()
        self._being_released.discard(session)

    async def reap(self) -> None:
        """Look for idle sessions again and again, ending each in the background; returns never."""
        while True:
            await self.services.clock.sleep(self._limits.reap_seconds)
            self.services.log_queues()
            self._expire_idle()

    def _expire_idle(self) -> None:
        # Not in `reap`, whose frame would keep the last session alive until its next look.
        for session in self._idle(self._sessions.values()):
            self.services.spawn(self._expire, session)

    async def _expire(self, session: Session) -> None:
        if self._idle([session]):
            await self._end(session, EpisodeEvent.EXPIRE, StopReason.EXPIRED)

    def _idle(self, sessions: Iterable[Session]) -> list[Session]:
        now = self.services.clock.monotonic()
        return [session for session in sessions if session.idle_seconds(now) >= self._limits.idle_seconds]

    # The record

    async def status(self, session_id: str) -> SessionStatus:
        """Return a session as a trainer sees it, also after its end, as long as its record is kept."""
        with suppress(SessionInterruptedError):
            await self._resume(session_id)
        session = self._sessions.get(session_id)
        if session is not None:
            return session.status()
        record = await self._recorded(session_id)
        return SessionStatus(
            record.origin, record.summary, Visibility(record.origin.visibility), None, 0, None
        )

    async def origin_of(self, session_id: str) -> EpisodeOrigin:
        """Return what a session was created from, also after its end; it rebuilds nothing."""
        session = self._sessions.get(session_id)
        return (await self._recorded(session_id)).origin if session is None else session.recorder.origin

    async def sessions(self) -> Sequence[SessionStatus]:
        """Return all live sessions, and those that wait to be rebuilt; no activity."""
        waiting = () if self.recoverer is None else await self.recoverer.waiting()
        live = [session.status() for session in self._sessions.values()]
        return [*live, *(status for status in waiting if status.origin.session_id not in self._sessions)]

    async def steps(self, session_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """Return the steps from position `start` (from 0) to before `stop`, also after the session's end."""
        episode_id = self.episode_of(session_id) or (await self._recorded(session_id)).origin.episode_id
        return await self.services.store.steps(episode_id, start, stop)

    async def _recorded(self, session_id: str) -> EpisodeRecord:
        record = await self.services.store.find(session_id)
        if record is None:
            raise SessionNotFoundError(f"no session {session_id!r} is live or on record")
        return record


@asynccontextmanager
async def open_manager(
    definitions: Sequence[EnvironmentDefinition],
    options: SessionOptions | None = None,
    *,
    clock: Clock | None = None,
    store: EpisodeStore | None = None,
    sandboxes: Sandboxes = NO_SANDBOXES,
    resources: ResourcePool | None = None,
) -> AsyncGenerator[SessionManager, None]:
    """Serve sessions in this process; leaving the context ends every session.

    Args:
        definitions: The environments, at least one, each name once; the first one is the default.
        resources: What sessions share, which is not closed here; their own by default, which is.
    """
    options = options or SessionOptions()
    clock = clock or SystemClock()
    store = store or MemoryStore()
    background = BackgroundTasks()
    workers = Workers(options.worker_threads, environments=len(definitions))
    set_workers(workers)
    services = Services(
        clock=clock,
        store=store,
        spawn=background.spawn,
        tasks=background.tasks,
        options=options,
        sandboxes=sandboxes,
        health=RecordHealth(clock),
        workers=workers,
        gradings=Admission(options.gradings_at_once or default_gradings(), clock=clock),
        watch=LoopWatch(),
        resources=resources or ResourcePool(),
        call_rates=CallRates(options.limits_of),
    )
    manager = SessionManager(definitions, services)
    background.spawn(manager.reap)
    with services.watch.watching():
        try:
            yield manager
        finally:
            with anyio.CancelScope(shield=True):
                await manager.aclose()
                await background.aclose(options.lingering_time_limit)
                if resources is None:
                    await services.resources.aclose()
                await store.aclose()
