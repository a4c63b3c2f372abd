"""What a transport asks of the place where sessions live."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from ors_server.authoring.client import CallingClient
from ors_server.authoring.context import ProgressListener
from ors_server.authoring.definition import Blocks, EnvironmentDefinition
from ors_server.loop_watch import LoopFigures
from ors_server.sessions.session_call import Call
from ors_server.sessions.session_request import ForkRequest, SessionRequest, SessionStatus
from ors_server.sessions.snapshots import SessionSnapshot
from ors_server.store.base import EpisodeFilter
from ors_server.trajectory import Step
from ors_server.visibility import Visibility
from ors_server.wire import GroupCandidate, JSONObject, Message, ToolListing


class Engine(Protocol):
    """Creates, plays and ends sessions.

    Every method that takes a session id raises `SessionNotFoundError` if no live session has it, unless it
    says otherwise, and counts as activity of that session.
    """

    @property
    def environments(self) -> Mapping[str, EnvironmentDefinition]:
        """The environments by name, the default one first."""
        ...

    @property
    def isolation(self) -> JSONObject | None:
        """What isolates the commands of agents, as recorded with every episode; `None` where nothing does."""
        ...

    def check_ready(self) -> None:
        """Check that new sessions can be played.

        Raises:
            StoreError: If the record cannot be written.
        """
        ...

    @property
    def queues(self) -> JSONObject:
        """What waits for its turn: name of a limiter to its figures (`AdmissionFigures.summary`)."""
        ...

    @property
    def loop(self) -> LoopFigures:
        """How the event loop does, and whose code held it."""
        ...

    def environment(self, name: str | None) -> EnvironmentDefinition:
        """Return an environment by name, in any case; the default one for `None`.

        Args:
            name: The name.

        Raises:
            UnknownEnvironmentError: If no such environment is served.
        """
        ...

    async def create(self, request: SessionRequest) -> SessionStatus:
        """Make a session; its setup goes on in the background.

        Args:
            request: What is wanted.

        Raises:
            ClientError: If the order is wrong or the id is live.
            CapacityError: If a limit is reached.
            EnvironmentFailedError: If the environment's constructor raised; then there is no session.
        """
        ...

    async def ping(self, session_id: str) -> None:
        """Keep a session alive."""
        ...

    async def prompt(self, session_id: str) -> Blocks:
        """Return the prompt, after setup."""
        ...

    async def messages(self, session_id: str) -> list[Message]:
        """Return the prompt as a conversation, after setup."""
        ...

    async def tools(self, session_id: str) -> ToolListing:
        """Return the announcements of everything that the session offers, without waiting for setup."""
        ...

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
            session_id: The session.
            tool: The tool's name.
            arguments: As the agent sent them.
            call_id: The caller's own id; the same id in the same session never runs twice.
            listener: Told of progress.
            client: The calling program, of which a tool may ask something.

        Raises:
            EnvironmentFailedError: If setup has failed.
        """
        ...

    async def resume(self, session_id: str, call_id: str) -> Call:
        """Return the call of that id.

        Raises:
            UnknownCallError: If the session knows no such call.
        """
        ...

    async def cancel(self, session_id: str, call_id: str) -> bool:
        """Ask a running call to stop; it is then recorded as cancelled and pays nothing.

        Returns:
            Whether it was running; a call that is done keeps its result.

        Raises:
            UnknownCallError: If the session knows no such call.
        """
        ...

    async def score_group(
        self, session_id: str, candidates: list[GroupCandidate], *, call_id: str | None = None
    ) -> Call:
        """Begin to score a group of rollouts of the session's task.

        Raises:
            NotSupportedError: If the environment scores no groups.
        """
        ...

    async def offered_prompt(
        self, session_id: str, name: str, arguments: Mapping[str, str], client: CallingClient | None = None
    ) -> list[Message]:
        """Render a prompt that the environment offers besides its task.

        Raises:
            NotSupportedError: If it offers no prompt of that name.
        """
        ...

    async def read_resource(
        self, session_id: str, uri: str, client: CallingClient | None = None
    ) -> "ResourceContent":
        """Read a resource that the environment offers.

        Raises:
            NotSupportedError: If it offers no resource of that name.
        """
        ...

    async def snapshot(self, session_id: str) -> SessionSnapshot:
        """Take a snapshot of a session between two calls; it is kept as long as the session.

        Raises:
            NotSupportedError: If the environment's sessions cannot be copied.
            EpisodeOverError: If the episode has ended.
            CapacityError: If the session keeps too many.
            SandboxError: If a file could not be copied.
        """
        ...

    async def snapshots(self, session_id: str) -> Sequence[SessionSnapshot]:
        """Return the snapshots that a session keeps, oldest first."""
        ...

    async def discard(self, session_id: str, snapshot_id: str) -> None:
        """Discard a snapshot.

        Raises:
            UnknownSnapshotError: If the session keeps no such snapshot.
        """
        ...

    async def restore(self, session_id: str, snapshot_id: str) -> SessionSnapshot:
        """Bring a session's files and memory back to a snapshot; steps and sums stay, for they were paid.

        Raises:
            UnknownSnapshotError: If the session keeps no such snapshot.
            EpisodeOverError: If the episode has ended.
            SandboxError: If the files could not be brought back.
        """
        ...

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
        ...

    async def delete(self, session_id: str) -> bool:
        """End a session and tear its environment down; an unknown id is no error.

        Returns:
            Whether there was such a session.
        """
        ...

    async def end_sessions(self) -> None:
        """Refuse new sessions and end all live ones; calls that still run fail with `ShuttingDownError`."""
        ...

    def definition_of(self, session_id: str) -> EnvironmentDefinition:
        """Return the environment that a live session plays."""
        ...

    def episode_of(self, session_id: str) -> str | None:
        """Return the id of the episode that a live session plays; `None` without one. No activity."""
        ...

    def visibility_of(self, session_id: str) -> Visibility:
        """Return what an agent of a live session sees of rewards."""
        ...

    async def status(self, session_id: str) -> SessionStatus:
        """Return a session as a trainer sees it, also after its end, as long as its record is kept."""
        ...

    async def sessions(self) -> Sequence[SessionStatus]:
        """Return all live sessions, oldest first; no activity."""
        ...

    async def count_episodes(self, wanted: EpisodeFilter) -> int:
        """Count the episodes of the record, live ones included; no activity.

        Args:
            wanted: Which ones.
        """
        ...

    async def steps(self, session_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """Return a slice of a session's steps, also after its end, as long as its record is kept.

        Args:
            session_id: The session.
            start: First position, from 0.
            stop: Last position, exclusive.
        """
        ...


class ResourceContent(Protocol):
    """What reading a resource gives."""

    @property
    def uri(self) -> str:
        """The name that was asked for."""
        ...

    @property
    def mime_type(self) -> str:
        """The type of the content."""
        ...

    @property
    def content(self) -> str | bytes:
        """Text, or bytes."""
        ...
