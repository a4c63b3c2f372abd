"""What the control API does: each handler asks the engine and shows its answer.

Who may ask is not known here; the table of routes says it, and the door enforces it.
"""

import base64
import binascii
import json
from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import quote

from pydantic import SecretStr

from ors_server._version import __version__
from ors_server.authoring.definition import EnvironmentDefinition
from ors_server.errors import (
    AuthorError,
    EnvironmentFailedError,
    InvalidRequestError,
    NotSupportedError,
    ShuttingDownError,
)
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_request import ForkRequest, SessionRequest, SessionStatus
from ors_server.sessions.snapshots import SessionSnapshot
from ors_server.settings import Settings
from ors_server.transports import control_models as m
from ors_server.transports.access import Keyring
from ors_server.transports.control_calls import CallAnswer, CancelAnswer, show_call
from ors_server.transports.control_requests import (
    CallBody,
    ForkBody,
    PageQuery,
    SessionOrderBody,
    SessionsQuery,
)
from ors_server.transports.control_routes import Request
from ors_server.transports.sse import compact_json
from ors_server.wire import JSONObject, ToolListing

Rank: TypeAlias = tuple[str, str]
"""A session's place among all: when it was created, and its id."""


class ControlHandlers:
    """Answers the control API's requests."""

    def __init__(
        self,
        engine: SessionManager,
        keyring: Keyring,
        settings: Settings,
        *,
        describe: Callable[[], m.Description],
        shutdown: Callable[[], None] | None = None,
    ) -> None:
        """Keep what the answers need.

        Args:
            engine: Where sessions live.
            keyring: Mints agent tokens.
            settings: The server's settings.
            describe: Describes this API.
            shutdown: Stops the server soon after it returned; `None` where nobody can.
        """
        self._describe = describe
        self._engine = engine
        self._keyring = keyring
        self._settings = settings
        self._shutdown = shutdown
        self._stopping = False

    # The server

    async def get_health(self, _request: Request) -> m.Health:
        """Answer, and say what isolates the commands of agents."""
        found = self._engine.isolation
        isolation = None if found is None else m.Isolation.model_validate(found)
        return m.Health(sandbox=isolation, queues=self._engine.queues, loop=self._engine.loop.summary())

    async def get_readiness(self, _request: Request) -> m.Readiness:
        """Say that new sessions are welcome, unless the server is stopping or cannot write its record."""
        if self._stopping:
            raise ShuttingDownError("the server is stopping")
        self._engine.check_ready()
        return m.Readiness()

    async def get_version(self, _request: Request) -> m.Version:
        """Say which server this is."""
        return m.Version(version=__version__)

    async def get_description(self, _request: Request) -> m.Description:
        """Describe the control API."""
        return self._describe()

    async def get_settings(self, _request: Request) -> m.SettingsView:
        """Show the settings without what is secret in them."""
        secrets = {
            name: getattr(self._settings, name) is not None
            for name, field in Settings.model_fields.items()
            if SecretStr in getattr(field.annotation, "__args__", (field.annotation,))
        }
        values = json.loads(self._settings.model_dump_json(exclude=set(secrets)))
        return m.SettingsView(values=values, secrets=secrets)

    async def shut_down(self, _request: Request) -> m.Stopping:
        """Ask whoever runs the server to stop it."""
        if self._shutdown is None:
            raise NotSupportedError("whoever runs this server did not offer to stop it")
        self._stopping = True
        self._shutdown()
        return m.Stopping()

    # Environments

    async def list_environments(self, _request: Request) -> m.EnvironmentList:
        """List what is served."""
        found = self._engine.environments.values()
        return m.EnvironmentList(environments=[self._brief(each) for each in found])

    async def get_environment(self, request: Request) -> m.EnvironmentView:
        """Show one environment in full."""
        definition = self._engine.environment(request.path["name"])
        return m.EnvironmentView(
            **dict(self._brief(definition)),
            visibility=definition.visibility,
            policy=definition.policy,
            splits=[
                m.SplitCount(name=split.name, type=split.type, tasks=await _count(definition, split.name))
                for split in definition.splits
            ],
            tools=definition.listing,
            toolsets=list(definition.session_toolsets),
            volatile=list(definition.volatile),
        )

    async def list_tasks(self, request: Request) -> m.TaskPage:
        """Show a slice of a split's tasks."""
        page = request.query(PageQuery)
        definition, split = self._engine.environment(request.path["name"]), request.path["split"]
        total = await definition.tasks.num_tasks(split)
        end = min(page.end, total)
        tasks = await definition.tasks.get_task_range(split, page.start, end) if page.start < end else []
        return m.TaskPage(
            environment=definition.name,
            split=split,
            total=total,
            tasks=[
                m.TaskView(index=page.start + i, task_spec=_check_task(task)) for i, task in enumerate(tasks)
            ],
        )

    async def get_task(self, request: Request) -> m.TaskView:
        """Show one task."""
        definition, index = self._engine.environment(request.path["name"]), request.path["index"]
        task = await definition.tasks.get_task(request.path["split"], index)
        return m.TaskView(index=index, task_spec=_check_task(task))

    # Sessions

    async def create_session(self, request: Request) -> m.CreatedSession:
        """Make a session; its setup goes on in the background."""
        wanted = request.body(SessionOrderBody)
        if self._stopping:
            raise ShuttingDownError("the server is stopping")
        order = SessionRequest(
            environment=wanted.environment,
            session_id=wanted.session_id,
            task_spec=wanted.task_spec,
            split=wanted.split,
            index=wanted.index,
            toolset=wanted.toolset,
            secrets=wanted.secrets or {},
            policy=wanted.policy or {},
            visibility=wanted.visibility,
            seed=wanted.seed,
            labels=wanted.labels or {},
            credential_id=request.caller.credential_id,
        )
        status = await self._engine.create(order)
        return self._created(request, status)

    async def list_sessions(self, request: Request) -> m.SessionPage:
        """Show a page of the live sessions, in the order of their creation."""
        query = request.query(SessionsQuery)
        after = None if query.cursor is None else decode_cursor(query.cursor)
        environment = None if query.environment is None else self._engine.environment(query.environment).name
        found = sorted(
            (
                status
                for status in await self._engine.sessions()
                if environment in {None, status.origin.environment}
                and query.phase in {None, status.summary.phase}
            ),
            key=_rank,
        )
        rest = found if after is None else [status for status in found if _rank(status) > after]
        page = rest[: query.limit]
        return m.SessionPage(
            sessions=[show_session(status) for status in page],
            next_cursor=encode_cursor(_rank(page[-1])) if len(rest) > len(page) else None,
        )

    async def get_session(self, request: Request) -> m.SessionView:
        """Show a session's state and totals."""
        return show_session(await self._engine.status(request.session_id))

    async def delete_session(self, request: Request) -> m.SessionView:
        """End a session; one that has ended already shows its final figures again."""
        await self._engine.delete(request.session_id)
        return show_session(await self._engine.status(request.session_id))

    async def list_steps(self, request: Request) -> m.StepPage:
        """Show a slice of a session's steps."""
        page = request.query(PageQuery)
        steps = await self._engine.steps(request.session_id, page.start, page.end)
        status = await self._engine.status(request.session_id)
        return m.StepPage(
            session_id=request.session_id,
            total=status.summary.steps - status.pending_steps,
            steps=[m.StepView.of(step) for step in steps],
        )

    async def take_snapshot(self, request: Request) -> m.SnapshotView:
        """Keep a session as it is, once no call runs."""
        return show_snapshot(await self._engine.snapshot(request.session_id))

    async def list_snapshots(self, request: Request) -> m.SnapshotList:
        """Show what was kept."""
        kept = await self._engine.snapshots(request.session_id)
        return m.SnapshotList(snapshots=[show_snapshot(snapshot) for snapshot in kept])

    async def discard_snapshot(self, request: Request) -> m.SnapshotList:
        """Discard a snapshot and show the others."""
        await self._engine.discard(request.session_id, request.path["snapshot_id"])
        return await self.list_snapshots(request)

    async def restore_snapshot(self, request: Request) -> m.SnapshotView:
        """Bring a session back to a snapshot, once no call runs."""
        restored = await self._engine.restore(request.session_id, request.path["snapshot_id"])
        return show_snapshot(restored)

    async def fork_session(self, request: Request) -> m.ForkedSessions:
        """Make copies of a session, once no call runs."""
        wanted = request.body(ForkBody)
        wish = ForkRequest(wanted.count, wanted.snapshot_id, request.caller.credential_id)
        made = await self._engine.fork(request.session_id, wish)
        return m.ForkedSessions(sessions=[self._created(request, status) for status in made])

    async def mint_token(self, request: Request) -> m.AgentAccess:
        """Say how an agent reaches a live session."""
        self._engine.definition_of(request.session_id)
        return self._access(request, request.session_id)

    # Play

    async def get_prompt(self, request: Request) -> m.PromptView:
        """Show the prompt, waiting for setup."""
        return m.PromptView(blocks=list(await self._engine.prompt(request.session_id)))

    async def get_messages(self, request: Request) -> m.MessagesView:
        """Show the prompt as a conversation, waiting for setup."""
        return m.MessagesView(messages=await self._engine.messages(request.session_id))

    async def get_tools(self, request: Request) -> ToolListing:
        """Show every tool, without waiting for setup."""
        return await self._engine.tools(request.session_id)

    async def call_tool(self, request: Request) -> CallAnswer:
        """Call a tool and wait for its result; the call runs on if the caller leaves."""
        wanted = request.body(CallBody)
        visibility = self._engine.visibility_of(request.session_id)
        call = await self._engine.call(
            request.session_id, wanted.name, wanted.arguments, call_id=wanted.call_id
        )
        with call.reading():
            await call.wait()
        return CallAnswer(show_call(call, request.caller, visibility))

    async def cancel_call(self, request: Request) -> CancelAnswer:
        """Stop a call that still runs."""
        call_id = request.path["call_id"]
        cancelled = await self._engine.cancel(request.session_id, call_id)
        return CancelAnswer(call_id=call_id, cancelled=cancelled)

    def _brief(self, definition: EnvironmentDefinition) -> m.EnvironmentBrief:
        return m.EnvironmentBrief(
            name=definition.name,
            version=definition.version,
            description=definition.description,
            default=definition is self._engine.environment(None),
        )

    def _created(self, request: Request, status: SessionStatus) -> m.CreatedSession:
        access = self._access(request, status.origin.session_id)
        return m.CreatedSession(**access.model_dump(), status=show_session(status))

    def _access(self, request: Request, session_id: str) -> m.AgentAccess:
        token = self._keyring.mint(session_id, self._engine.episode_of(session_id) or "")
        return m.AgentAccess(
            session_id=session_id,
            agent_token=token,
            agent_url=f"{request.base_url}/agent/{token}/mcp",
            mcp_url=f"{request.base_url}/sessions/{quote(session_id, safe='')}/mcp",
        )


def show_session(status: SessionStatus) -> m.SessionView:
    """Show a session's state and totals.

    Args:
        status: As the engine tells it.
    """
    return m.SessionView.model_validate(status.as_json())


def show_snapshot(snapshot: SessionSnapshot) -> m.SnapshotView:
    """Show what was kept.

    Args:
        snapshot: As the engine tells it.
    """
    return m.SnapshotView.model_validate(snapshot.as_json())


def encode_cursor(rank: Rank) -> str:
    """Write the place at which a page ends.

    Args:
        rank: The place of the page's last session.
    """
    return base64.urlsafe_b64encode("\n".join(rank).encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> Rank:
    """Read a place that `encode_cursor` wrote.

    Args:
        cursor: What came.

    Raises:
        InvalidRequestError: If it is none of ours.
    """
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        text = ""
    moment, separator, session_id = text.partition("\n")
    if not separator:
        raise InvalidRequestError("the cursor is not a next_cursor of this server")
    return moment, session_id


def _rank(status: SessionStatus) -> Rank:
    return status.origin.created_at.isoformat(timespec="microseconds"), status.origin.session_id


async def _count(definition: EnvironmentDefinition, split: str) -> int | None:
    try:
        return await definition.tasks.num_tasks(split)
    except AuthorError:
        return None


def _check_task(task: JSONObject) -> JSONObject:
    try:
        compact_json(task)
    except (TypeError, ValueError, RecursionError) as error:
        raise EnvironmentFailedError(f"a task of this environment is not JSON: {error}") from error
    return task
