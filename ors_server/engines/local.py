"""Sessions in this process, on one event loop."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from ors_server.admission import Admission
from ors_server.authoring.client import CallingClient
from ors_server.authoring.context import ProgressListener
from ors_server.authoring.definition import Blocks, EnvironmentDefinition
from ors_server.clock import Clock, SystemClock
from ors_server.engines.background import Background
from ors_server.errors import CallCancelledError, SessionNotFoundError
from ors_server.logs import get_logger
from ors_server.loop_watch import LoopFigures, LoopWatch
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.quotas import SessionLimits
from ors_server.sessions.record_health import RecordHealth
from ors_server.sessions.sandboxing import NO_SANDBOXES, Sandboxes
from ors_server.sessions.session import ReadResource
from ors_server.sessions.session_call import Call, Failure
from ors_server.sessions.session_request import ForkRequest, SessionRequest, SessionStatus
from ors_server.sessions.session_services import Services, default_gradings
from ors_server.sessions.snapshots import SessionSnapshot
from ors_server.store.base import EpisodeFilter, EpisodeStore
from ors_server.store.memory import MemoryStore
from ors_server.trajectory import EpisodeRecord, Step
from ors_server.visibility import Visibility
from ors_server.wire import GroupCandidate, JSONObject, Message, ToolListing
from ors_server.workers import DEFAULT_THREADS, Workers, set_workers

log = get_logger("ors_server.engine")


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How a local engine works."""

    limits: SessionLimits = field(default_factory=SessionLimits)
    visibility: Visibility = Visibility.NEGOTIATED
    max_output_bytes: int = 8 * 1024 * 1024
    """Most bytes of one tool output."""
    teardown_time_limit: float = 60.0
    """Seconds that a teardown may take."""
    lingering_time_limit: float = 30.0
    """Seconds for which the environment of a session that ended waits for code that ignores its stop."""
    ending_time_limit: float = 2.0
    """Seconds of that for which whoever ends a session waits too."""
    turn_time_limit: float = 5.0
    """Seconds that a call waits for a turn which the thread of a call that was stopped still keeps."""
    gradings_at_once: int | None = None
    """Gradings that run programs at once; two per processor by default."""
    server_version: str = "0"
    worker_threads: int = DEFAULT_THREADS
    """Threads for authors' blocking code."""


class LocalEngine:
    """Plays sessions in this process; use it as made by `open_local_engine`."""

    def __init__(
        self,
        manager: SessionManager,
        store: EpisodeStore,
        watch: LoopWatch,
        health: RecordHealth,
        isolation: JSONObject | None = None,
    ) -> None:
        """Keep the manager and the store.

        Args:
            manager: Holds the sessions.
            store: Holds the record.
            watch: Says how the event loop does.
            health: Says whether the record can be written.
            isolation: What isolates the commands of agents.
        """
        self._manager = manager
        self._store = store
        self._isolation = isolation
        self._watch = watch
        self._health = health

    @property
    def environments(self) -> Mapping[str, EnvironmentDefinition]:
        """The environments by name, the default one first."""
        return self._manager.environments

    @property
    def isolation(self) -> JSONObject | None:
        """What isolates the commands of agents; `None` where nothing does."""
        return self._isolation

    def check_ready(self) -> None:
        """Check that the record can be written."""
        self._health.check()

    @property
    def queues(self) -> JSONObject:
        """What waits for its turn."""
        return self._manager.queues()

    @property
    def loop(self) -> LoopFigures:
        """How the event loop does."""
        return self._watch.figures()

    def environment(self, name: str | None) -> EnvironmentDefinition:
        """Return an environment by name, in any case; the default one for `None`.

        Args:
            name: The name.
        """
        return self._manager.environment(name)

    async def create(self, request: SessionRequest) -> SessionStatus:
        """Make a session; its setup goes on in the background.

        Args:
            request: What is wanted.
        """
        return (await self._manager.create(request)).status()

    async def ping(self, session_id: str) -> None:
        """Keep a session alive."""
        self._manager.find(session_id)

    async def prompt(self, session_id: str) -> Blocks:
        """Return the prompt, after setup."""
        return await self._manager.find(session_id).prompt()

    async def messages(self, session_id: str) -> list[Message]:
        """Return the prompt as a conversation, after setup."""
        return await self._manager.find(session_id).messages()

    async def tools(self, session_id: str) -> ToolListing:
        """Return the announcements of everything that the session offers."""
        return await self._manager.find(session_id).tools()

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
        """Begin a call, or return the one that has this id already.

        Args:
            session_id: The session.
            tool: The tool's name.
            arguments: As the agent sent them.
            call_id: The caller's own id.
            listener: Told of progress.
            client: The calling program.
        """
        session = self._manager.find(session_id)
        if call_id is not None:
            await session.load_recorded(call_id)
        return session.begin(tool, arguments, call_id=call_id, listener=listener, client=client)

    async def resume(self, session_id: str, call_id: str) -> Call:
        """Return the call of that id.

        Args:
            session_id: The session.
            call_id: The call's id.
        """
        session = self._manager.find(session_id)
        await session.load_recorded(call_id)
        return session.resume(call_id)

    async def cancel(self, session_id: str, call_id: str) -> bool:
        """Ask a running call to stop, and wait until it has.

        Args:
            session_id: The session.
            call_id: The call's id.
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

        Args:
            session_id: The session.
            candidates: The rollouts.
            call_id: The caller's own id.
        """
        session = self._manager.find(session_id)
        await session.load_recorded(call_id)
        return session.begin_scoring(candidates, call_id=call_id)

    async def offered_prompt(
        self, session_id: str, name: str, arguments: Mapping[str, str], client: CallingClient | None = None
    ) -> list[Message]:
        """Render a prompt that the environment offers besides its task.

        Args:
            session_id: The session.
            name: The prompt's name.
            arguments: Its arguments.
            client: The calling program.
        """
        return await self._manager.find(session_id).offered_prompt(name, arguments, client)

    async def read_resource(
        self, session_id: str, uri: str, client: CallingClient | None = None
    ) -> ReadResource:
        """Read a resource that the environment offers.

        Args:
            session_id: The session.
            uri: The resource's name.
            client: The calling program.
        """
        return await self._manager.find(session_id).read_resource(uri, client)

    async def snapshot(self, session_id: str) -> SessionSnapshot:
        """Take a snapshot of a session between two calls, and keep it."""
        return await self._manager.find(session_id).snapshots.keep()

    async def snapshots(self, session_id: str) -> Sequence[SessionSnapshot]:
        """Return the snapshots that a session keeps, oldest first."""
        return self._manager.find(session_id).snapshots.all()

    async def discard(self, session_id: str, snapshot_id: str) -> None:
        """Discard a snapshot.

        Args:
            session_id: The session.
            snapshot_id: The snapshot's id.
        """
        await self._manager.find(session_id).snapshots.discard(snapshot_id)

    async def restore(self, session_id: str, snapshot_id: str) -> SessionSnapshot:
        """Bring a session's files and memory back to a snapshot.

        Args:
            session_id: The session.
            snapshot_id: The snapshot's id.
        """
        return await self._manager.find(session_id).snapshots.restore(snapshot_id)

    async def fork(self, session_id: str, request: ForkRequest) -> Sequence[SessionStatus]:
        """Make copies of a live session, each of which goes on by itself.

        Args:
            session_id: The session.
            request: How many, and from when.
        """
        return [session.status() for session in await self._manager.fork(session_id, request)]

    async def delete(self, session_id: str) -> bool:
        """End a session and tear its environment down; an unknown id is no error."""
        return await self._manager.delete(session_id)

    async def end_sessions(self) -> None:
        """Refuse new sessions and end all live ones."""
        await self._manager.end_all()

    def definition_of(self, session_id: str) -> EnvironmentDefinition:
        """Return the environment that a live session plays."""
        return self._manager.find(session_id).definition

    def episode_of(self, session_id: str) -> str | None:
        """Return the id of the episode that a live session plays; `None` without one."""
        session = self._manager.peek(session_id)
        return None if session is None else session.recorder.origin.episode_id

    def visibility_of(self, session_id: str) -> Visibility:
        """Return what an agent of a live session sees of rewards."""
        return self._manager.find(session_id).visibility

    async def status(self, session_id: str) -> SessionStatus:
        """Return a session as a trainer sees it, also after its end, as long as its record is kept."""
        session = self._manager.peek(session_id)
        if session is not None:
            return session.status()
        record = await self._recorded(session_id)
        return SessionStatus(
            record.origin, record.summary, Visibility(record.origin.visibility), None, 0, None
        )

    async def sessions(self) -> Sequence[SessionStatus]:
        """Return all live sessions, oldest first."""
        return [session.status() for session in self._manager.live()]

    async def count_episodes(self, wanted: EpisodeFilter) -> int:
        """Count the episodes of the record, live ones included.

        Args:
            wanted: Which ones.
        """
        return (await self._store.totals(wanted)).episodes

    async def steps(self, session_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """Return a slice of a session's steps, also after its end, as long as its record is kept.

        Args:
            session_id: The session.
            start: First position, from 0.
            stop: Last position, exclusive.
        """
        session = self._manager.peek(session_id)
        origin = (await self._recorded(session_id)).origin if session is None else session.recorder.origin
        return await self._store.steps(origin.episode_id, start, stop)

    async def _recorded(self, session_id: str) -> EpisodeRecord:
        record = await self._store.find(session_id)
        if record is None:
            raise SessionNotFoundError(f"no session {session_id!r} is live or on record")
        return record


@asynccontextmanager
async def open_local_engine(
    definitions: Sequence[EnvironmentDefinition],
    options: EngineOptions | None = None,
    *,
    clock: Clock | None = None,
    store: EpisodeStore | None = None,
    sandboxes: Sandboxes = NO_SANDBOXES,
) -> AsyncGenerator[LocalEngine, None]:
    """Run an engine in this process; leaving the context ends every session.

    Args:
        definitions: The environments, the default one first.
        options: How it works.
        clock: The source of time.
        store: Where the record is kept; memory by default.
        sandboxes: Where sessions get their sandboxes.
    """
    options = options or EngineOptions()
    clock = clock or SystemClock()
    store = store or MemoryStore()
    background = Background()
    workers = Workers(options.worker_threads, environments=len(definitions))
    set_workers(workers)
    watch = LoopWatch()
    services = Services(
        clock=clock,
        store=store,
        spawn=background.spawn,
        max_output_bytes=options.max_output_bytes,
        teardown_time_limit=options.teardown_time_limit,
        lingering_time_limit=options.lingering_time_limit,
        ending_time_limit=options.ending_time_limit,
        turn_time_limit=options.turn_time_limit,
        sandboxes=sandboxes,
        watch=watch,
        health=RecordHealth(clock),
        workers=workers,
        gradings=Admission(options.gradings_at_once or default_gradings(), clock=clock),
    )
    manager = SessionManager(
        definitions,
        services,
        limits=options.limits,
        visibility=options.visibility,
        server_version=options.server_version,
    )
    background.spawn(manager.reap)
    with watch.watching():
        try:
            yield LocalEngine(manager, store, watch, services.health, sandboxes.tier)
        finally:
            with anyio.CancelScope(shield=True):
                await manager.aclose()
                await background.aclose(options.lingering_time_limit)
                await services.resources.aclose()
                await store.aclose()
