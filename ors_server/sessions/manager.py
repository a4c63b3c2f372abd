"""What the doors ask of the sessions of this process, and everything that runs beneath them."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType

import anyio

from ors_server.admission import Admission
from ors_server.authoring.call_context import ProgressListener
from ors_server.authoring.calling_client import CallingClient
from ors_server.authoring.definition import Blocks, EnvironmentDefinition
from ors_server.clock import Clock, SystemClock
from ors_server.errors import CallCancelledError, SessionNotFoundError, UnknownEnvironmentError
from ors_server.loop_watch import LoopFigures, LoopWatch
from ors_server.sessions.background_tasks import BackgroundTasks
from ors_server.sessions.record_health import RecordHealth
from ors_server.sessions.sandboxing import NO_SANDBOXES, Sandboxes
from ors_server.sessions.session import ReadResource
from ors_server.sessions.session_call import Call, Failure
from ors_server.sessions.session_creation import SessionMaker, hash_task
from ors_server.sessions.session_registry import SessionRegistry
from ors_server.sessions.session_request import ForkRequest, SessionRequest, SessionStatus
from ors_server.sessions.session_services import Services, SessionOptions, default_gradings
from ors_server.sessions.snapshots import SessionSnapshot
from ors_server.store.base import EpisodeFilter, EpisodeStore
from ors_server.store.memory import MemoryStore
from ors_server.trajectory import EpisodeRecord, Step
from ors_server.visibility import Visibility
from ors_server.wire import GroupCandidate, JSONObject, Message, ToolListing
from ors_server.workers import Workers, set_workers

__all__ = ["SessionManager", "hash_task", "open_manager"]


class SessionManager:
    """Creates, plays and ends sessions; `open_manager` makes one.

    Every method that takes a session id raises `SessionNotFoundError` if no live session has it, unless it
    says otherwise, and counts as activity of that session.
    """

    def __init__(
        self, definitions: Sequence[EnvironmentDefinition], services: Services, registry: SessionRegistry
    ) -> None:
        """Serve environments; the first one is the default."""
        self.environments: Mapping[str, EnvironmentDefinition] = MappingProxyType(
            {definition.name: definition for definition in definitions}
        )
        """The environments by name, the default one first."""
        self._default = definitions[0]
        self._services = services
        self._registry = registry

    @property
    def isolation(self) -> JSONObject | None:
        """What isolates the commands of agents, as recorded with every episode; `None` where nothing does."""
        return self._services.sandboxes.tier

    def check_ready(self) -> None:
        """Check that new sessions can be played.

        Raises:
            StoreError: If the record cannot be written.
        """
        self._services.health.check()

    @property
    def queues(self) -> JSONObject:
        """What waits for its turn: name of a limiter to its figures (`AdmissionFigures.summary`)."""
        return self._services.queues()

    @property
    def loop(self) -> LoopFigures:
        """How late the event loop is, and whose code held it."""
        return self._services.watch.figures()

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

    # Sessions

    async def create(self, request: SessionRequest) -> SessionStatus:
        """Make a session; its setup goes on in the background.

        Raises:
            ClientError: If the request is wrong or the id is live.
            CapacityError: If a limit is reached.
            EnvironmentFailedError: If the environment's constructor raised; then there is no session.
            SandboxUnavailableError: If the session needs a sandbox and this server has none.
        """
        session = await self._registry.create(request, self.environment(request.environment))
        return session.status()

    async def fork(self, session_id: str, request: ForkRequest) -> Sequence[SessionStatus]:
        """Make copies of a live session, each of which goes on by itself; all of them, or none.

        A copy's record begins with copies of the steps that both share, and its sums with theirs.

        Raises:
            NotSupportedError: If the environment's sessions cannot be copied.
            EpisodeOverError: If the episode has ended.
            UnknownSnapshotError: If the session keeps no such snapshot.
            CapacityError: If a limit is reached.
            SandboxError: If the files could not be copied.
        """
        return [session.status() for session in await self._registry.fork(session_id, request)]

    async def ping(self, session_id: str) -> None:
        """Keep a session alive."""
        self._registry.find(session_id)

    async def delete(self, session_id: str) -> bool:
        """End a session and tear its environment down; return whether there was one of that id."""
        return await self._registry.delete(session_id)

    async def end_sessions(self) -> None:
        """Refuse new sessions and end all live ones; calls that still run fail with `ShuttingDownError`."""
        await self._registry.end_all()

    def definition_of(self, session_id: str) -> EnvironmentDefinition:
        """Return the environment that a live session plays."""
        return self._registry.find(session_id).definition

    def visibility_of(self, session_id: str) -> Visibility:
        """Return what an agent of a live session sees of rewards."""
        return self._registry.find(session_id).visibility

    def episode_of(self, session_id: str) -> str | None:
        """Return the id of the episode that a live session plays; `None` without one. No activity."""
        session = self._registry.peek(session_id)
        return None if session is None else session.recorder.origin.episode_id

    # Play

    async def prompt(self, session_id: str) -> Blocks:
        """Return the prompt, after setup."""
        return await self._registry.find(session_id).prompt()

    async def messages(self, session_id: str) -> list[Message]:
        """Return the prompt as a conversation, after setup."""
        return await self._registry.find(session_id).messages()

    async def tools(self, session_id: str) -> ToolListing:
        """Return the announcements of everything that the session offers, without waiting for setup."""
        return await self._registry.find(session_id).tools()

    async def call(
        self,
        session_id: str,
        tool: str,
        arguments: JSONObject,
        *,
        call_id: str | None = None,
        listener: ProgressListener | None = None,
        client: CallingClient | None = None,
    ) -> Call:
        """Begin a call, or return the one that has this id already; never waits for the tool.

        Args:
            call_id: The caller's own id; the same id in the same session never runs twice.

        Raises:
            EnvironmentFailedError: If setup has failed.
            CallIdReusedError: If the id is that of a call with another tool or other arguments.
        """
        session = self._registry.find(session_id)
        if call_id is not None:
            await session.load_recorded(call_id)
        return session.begin(tool, arguments, call_id=call_id, listener=listener, client=client)

    async def resume(self, session_id: str, call_id: str) -> Call:
        """Return the call of that id.

        Raises:
            UnknownCallError: If the session knows no such call.
        """
        session = self._registry.find(session_id)
        await session.load_recorded(call_id)
        return session.resume(call_id)

    async def cancel(self, session_id: str, call_id: str) -> bool:
        """Cancel a running call, which is then recorded as cancelled and pays nothing, and wait for its end.

        Returns:
            Whether it was running; a call that is done keeps its result.

        Raises:
            UnknownCallError: If the session knows no such call.
        """
        call = await self.resume(session_id, call_id)
        if call.is_done:
            return False
        call.cancel()
        result = await call.wait()
        return isinstance(result, Failure) and isinstance(result.error, CallCancelledError)

    async def score_group(
        self, session_id: str, candidates: list[GroupCandidate], *, call_id: str | None = None
    ) -> Call:
        """Begin to score a group of rollouts of the session's task.

        Raises:
            NotSupportedError: If the environment scores no groups.
        """
        session = self._registry.find(session_id)
        await session.load_recorded(call_id)
        return session.begin_scoring(candidates, call_id=call_id)

    async def offered_prompt(
        self, session_id: str, name: str, arguments: Mapping[str, str], client: CallingClient | None = None
    ) -> list[Message]:
        """Render a prompt that the environment offers besides its task.

        Raises:
            NotSupportedError: If it offers no prompt of that name.
        """
        return await self._registry.find(session_id).offered_prompt(name, arguments, client)

    async def read_resource(
        self, session_id: str, uri: str, client: CallingClient | None = None
    ) -> ReadResource:
        """Read a resource that the environment offers.

        Raises:
            NotSupportedError: If it offers no resource of that name.
        """
        return await self._registry.find(session_id).read_resource(uri, client)

    # Snapshots

    async def snapshot(self, session_id: str) -> SessionSnapshot:
        """Take a snapshot of a session between two calls; it is kept as long as the session.

        Raises:
            NotSupportedError: If the environment's sessions cannot be copied.
            EpisodeOverError: If the episode has ended.
            CapacityError: If the session keeps too many.
            SandboxError: If a file could not be copied.
        """
        return await self._registry.find(session_id).snapshots.keep()

    async def snapshots(self, session_id: str) -> Sequence[SessionSnapshot]:
        """Return the snapshots that a session keeps, oldest first."""
        return self._registry.find(session_id).snapshots.all()

    async def discard(self, session_id: str, snapshot_id: str) -> None:
        """Discard a snapshot.

        Raises:
            UnknownSnapshotError: If the session keeps no such snapshot.
        """
        await self._registry.find(session_id).snapshots.discard(snapshot_id)

    async def restore(self, session_id: str, snapshot_id: str) -> SessionSnapshot:
        """Bring a session's files and memory back to a snapshot; steps and sums stay, for they were paid.

        Raises:
            UnknownSnapshotError: If the session keeps no such snapshot.
            EpisodeOverError: If the episode has ended.
            SandboxError: If the files could not be brought back.
        """
        return await self._registry.find(session_id).snapshots.restore(snapshot_id)

    # The record

    async def status(self, session_id: str) -> SessionStatus:
        """Return a session as a trainer sees it, also after its end, as long as its record is kept."""
        session = self._registry.peek(session_id)
        if session is not None:
            return session.status()
        record = await self._recorded(session_id)
        return SessionStatus(
            record.origin, record.summary, Visibility(record.origin.visibility), None, 0, None
        )

    async def sessions(self) -> Sequence[SessionStatus]:
        """Return all live sessions, oldest first; no activity."""
        return [session.status() for session in self._registry.live()]

    async def count_episodes(self, episode_filter: EpisodeFilter) -> int:
        """Count the episodes of the record that meet a filter, live ones included; no activity."""
        return (await self._services.store.totals(episode_filter)).episodes

    async def steps(self, session_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """Return the steps from position `start` (from 0) to before `stop`, also after the session's end."""
        session = self._registry.peek(session_id)
        origin = session.recorder.origin if session else (await self._recorded(session_id)).origin
        return await self._services.store.steps(origin.episode_id, start, stop)

    async def _recorded(self, session_id: str) -> EpisodeRecord:
        record = await self._services.store.find(session_id)
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
) -> AsyncGenerator[SessionManager, None]:
    """Serve sessions in this process; leaving the context ends every session.

    Args:
        definitions: The environments, at least one, each name once; the first one is the default.
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
        options=options,
        sandboxes=sandboxes,
        health=RecordHealth(clock),
        workers=workers,
        gradings=Admission(options.gradings_at_once or default_gradings(), clock=clock),
        watch=LoopWatch(),
    )
    policies = {each.name: each.policy.model_dump(mode="json") for each in definitions}
    registry = SessionRegistry(services, SessionMaker(services, policies))
    background.spawn(registry.reap)
    with services.watch.watching():
        try:
            yield SessionManager(definitions, services, registry)
        finally:
            with anyio.CancelScope(shield=True):
                await registry.aclose()
                await background.aclose(options.lingering_time_limit)
                await services.resources.aclose()
                await store.aclose()
