"""The control API's handlers for the server, its environments and its sessions.

Each handler asks the session manager and shows its answer. Who may ask is not known here: the table of
operations says it, and `ControlApp` enforces it.
"""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, TypeAlias
from urllib.parse import quote

import anyio.to_thread
from pydantic import Field, RootModel, SecretStr

from ors_server._version import __version__
from ors_server.doors.access import Caller, Keyring, may_read_reasons, redact, withhold
from ors_server.doors.control import models as m
from ors_server.doors.control.operations import PREFIX, ControlRequest
from ors_server.doors.control.peers import HOST_ONLY_HEADER, Peers
from ors_server.doors.http.request_errors import ResponseModel
from ors_server.doors.labels import labels_for
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.model.errors import (
    AuthorError,
    Blame,
    EnvironmentFailedError,
    InvalidRequestError,
    NotSupportedError,
)
from ors_server.model.settings import Settings
from ors_server.model.visibility import Visibility
from ors_server.model.wire import JSONObject, ToolListing, ToolOutput, compact_json
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session_call import Call, Completed, Refusal, RefusalReason, Scored
from ors_server.sessions.session_request import ForkRequest, SessionStatus
from ors_server.sessions.snapshots import SessionSnapshot

Rank: TypeAlias = tuple[str, str]
"""A session's place among all: when it was created, and its id."""


class CompletedCall(ResponseModel):
    """The call has an output: the tool's, or the server's for a mistake that was charged."""

    call_id: str
    kind: Literal["completed"] = "completed"
    step: int
    is_error: bool
    """Whether the output reports a mistake of the agent."""
    output: ToolOutput
    """For agents, reward and metadata are empty unless the session's visibility is `visible`."""


class RefusedCall(ResponseModel):
    """The call did not run, or its result was discarded; nothing was paid."""

    call_id: str
    kind: Literal["refused"] = "refused"
    step: int | None
    """`None` for a call after the end, which is not a step."""
    reason: RefusalReason
    detail: str


class FailedCall(ResponseModel):
    """The call failed, not by the agent's fault; nothing was paid."""

    call_id: str
    kind: Literal["failed"] = "failed"
    step: int | None = None
    """`None` for a call that is not a step."""
    code: str
    blame: Blame
    detail: str


class CallAnswer(RootModel[Annotated[CompletedCall | RefusedCall | FailedCall, Field(discriminator="kind")]]):
    """The result of a call, by `kind`."""


@dataclass(eq=False, repr=False)
class ControlHandlers:
    """Answers requests about the server, its environments and its sessions."""

    _manager: SessionManager
    _keyring: Keyring
    _settings: Settings
    _describe: Callable[[], m.Description]
    _shutdown: Callable[[], None] | None
    _peers: Peers

    async def get_health(self, request: ControlRequest) -> m.Health:
        """Return that the process answers, with its queues and its event loop; of every host, if several."""
        services = self._manager.services
        tier = services.sandboxes.tier
        isolation = None if tier is None else m.Isolation.model_validate(tier)
        loop = services.watch.figures().summary()
        queues = services.queues()
        hosts: dict[str, m.HostHealth] | None = None
        if self._peers.are_asked(request.headers):
            own = {self._peers.slot.name: m.HostHealth(queues=queues, loop=loop)}
            hosts = dict(sorted({**own, **await self._peers.healths(request.headers)}.items()))
        return m.Health(sandbox=isolation, queues=queues, loop=loop, hosts=hosts)

    async def get_status(self) -> m.Status:
        """Return how much this process has to do: sessions, unwritten records, queues, its event loop."""
        services = self._manager.services
        waiting = services.store.backlog()
        return m.Status(
            live_sessions=len(self._manager.live_sessions),
            backlog=m.RecordBacklog(entries=waiting.entries, size=waiting.size),
            queues=services.queues(),
            loop=services.watch.figures().summary(),
        )

    async def get_readiness(self) -> m.Readiness:
        """Return that the server takes new sessions; 503 if it does not."""
        self._manager.check_ready()
        return m.Readiness()

    async def get_version(self) -> m.Version:
        """Return the server's name and version."""
        return m.Version(version=__version__)

    async def get_description(self) -> m.Description:
        """Return this OpenAPI document."""
        return await anyio.to_thread.run_sync(self._describe)  # it takes 45 ms the first time

    async def get_settings(self) -> m.SettingsView:
        """Return the settings in force; of secrets, only whether they are set."""
        secrets = {
            name: getattr(self._settings, name) is not None
            for name, field in Settings.model_fields.items()
            if SecretStr in getattr(field.annotation, "__args__", (field.annotation,))
        }
        values = json.loads(self._settings.model_dump_json(exclude=set(secrets)))
        sources = {name: self._settings.source_of(name) for name in Settings.model_fields}
        return m.SettingsView(values=values, secrets=secrets, sources=sources)

    async def renew_token_secret(self, request: ControlRequest) -> m.RenewedSecret:
        """Sign agent tokens with a new secret on every host; each token of before is refused from now on."""
        if self._settings.token_secret is not None:
            raise NotSupportedError("the secret is the setting token_secret: change it, and start the server")
        store = self._manager.services.store
        if HOST_ONLY_HEADER not in request.headers:
            await store.renew_secret()
        self._keyring.share_secret(await store.read_secret())
        if self._peers.are_asked(request.headers):
            await self._peers.post_to_all(f"{PREFIX}/token-secret", request.headers)
        return m.RenewedSecret()

    async def shut_down(self) -> m.Stopping:
        """Stop the server once the running requests have ended."""
        if self._shutdown is None:
            raise NotSupportedError(
                "this server cannot be stopped over its API; stop the program that runs it"
            )
        self._manager.drain()
        self._shutdown()
        return m.Stopping()

    # Environments

    async def list_environments(self) -> m.EnvironmentList:
        """List the environments."""
        definitions = self._manager.environments.values()
        return m.EnvironmentList(environments=[self._brief(definition) for definition in definitions])

    async def get_environment(self, name: m.EnvironmentName) -> m.EnvironmentView:
        """Return an environment's policy, splits and tools."""
        definition = self._manager.environment(name)
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

    async def list_tasks(self, name: m.EnvironmentName, split: m.SplitName, page: m.PageQuery) -> m.TaskPage:
        """Return a slice of a split's tasks."""
        definition = self._manager.environment(name)
        total = await definition.tasks.num_tasks(split)
        end = min(page.end, total)
        tasks = await definition.tasks.get_task_range(split, page.start, end) if page.start < end else []
        await self._manager.remember_tasks(definition, split, page.start, tasks)
        return m.TaskPage(
            environment=definition.name,
            split=split,
            total=total,
            tasks=[
                m.TaskView(index=page.start + i, task_spec=_check_task(task)) for i, task in enumerate(tasks)
            ],
        )

    async def get_task(self, name: m.EnvironmentName, split: m.SplitName, index: m.TaskIndex) -> m.TaskView:
        """Return one task."""
        definition = self._manager.environment(name)
        task = await definition.tasks.get_task(split, index)
        await self._manager.remember_tasks(definition, split, index, [task])
        return m.TaskView(index=index, task_spec=_check_task(task))

    # Sessions

    async def create_session(self, request: ControlRequest, body: m.SessionBody) -> m.CreatedSession:
        """Create a session; its setup continues in the background."""
        labels = labels_for(request.caller, request.headers, body.labels)
        requested = replace(body.as_request(), labels=labels, credential_id=request.caller.credential_id)
        status = await self._manager.create(requested)
        return self._created(request, status)

    async def list_sessions(self, request: ControlRequest, query: m.SessionsQuery) -> m.SessionPage:
        """List the live sessions and those that wait to be rebuilt, oldest first; of every host."""
        after = None if query.cursor is None else decode_cursor(query.cursor)
        environment = None if query.environment is None else self._manager.environment(query.environment).name
        statuses = sorted(
            (
                status
                for status in await self._manager.sessions()
                if environment in {None, status.origin.environment}
                and query.phase in {None, status.summary.phase}
            ),
            key=_rank,
        )
        rest = statuses if after is None else [status for status in statuses if _rank(status) > after]
        page = rest[: query.limit]
        own = m.SessionPage(
            sessions=[show_session(status) for status in page],
            next_cursor=encode_cursor(_rank(page[-1])) if len(rest) > len(page) else None,
        )
        if not self._peers.are_asked(request.headers):
            return own
        others = await self._peers.session_pages(request.query_string, request.headers)
        return _merge_pages([own, *others], query.limit)

    async def get_session(self, session_id: m.SessionId) -> m.SessionView:
        """Return a session's state and figures, also after its end."""
        return show_session(await self._manager.status(session_id))

    async def delete_session(self, session_id: m.SessionId) -> m.SessionView:
        """End a session and return its final figures."""
        await self._manager.delete(session_id)
        return show_session(await self._manager.status(session_id))

    async def list_steps(self, session_id: m.SessionId, page: m.PageQuery) -> m.StepPage:
        """Return a slice of a session's steps, also after its end."""
        steps = await self._manager.steps(session_id, page.start, page.end)
        status = await self._manager.status(session_id)
        return m.StepPage(
            session_id=session_id,
            total=status.summary.steps - status.pending_steps,
            steps=list(steps),
        )

    async def take_snapshot(self, session_id: m.SessionId) -> m.SnapshotView:
        """Take a snapshot of the session's files and memory, once no call runs."""
        return show_snapshot(await (await self._manager.obtain(session_id)).snapshots.keep())

    async def list_snapshots(self, session_id: m.SessionId) -> m.SnapshotList:
        """List a session's snapshots."""
        snapshots = (await self._manager.obtain(session_id)).snapshots.all()
        return m.SnapshotList(snapshots=[show_snapshot(snapshot) for snapshot in snapshots])

    async def discard_snapshot(self, session_id: m.SessionId, snapshot_id: m.SnapshotId) -> m.SnapshotList:
        """Discard a snapshot and return the others."""
        await (await self._manager.obtain(session_id)).snapshots.discard(snapshot_id)
        return await self.list_snapshots(session_id)

    async def restore_snapshot(self, session_id: m.SessionId, snapshot_id: m.SnapshotId) -> m.SnapshotView:
        """Restore files and memory from a snapshot; steps and sums stay."""
        return show_snapshot(await (await self._manager.obtain(session_id)).snapshots.restore(snapshot_id))

    async def fork_session(
        self, request: ControlRequest, session_id: m.SessionId, body: m.ForkBody
    ) -> m.ForkedSessions:
        """Make copies of a live session, all of them or none; each continues independently."""
        wanted = ForkRequest(body.count, body.snapshot_id, request.caller.credential_id)
        forks = await self._manager.fork(session_id, wanted)
        return m.ForkedSessions(sessions=[self._created(request, status) for status in forks])

    async def mint_token(self, request: ControlRequest, session_id: m.SessionId) -> m.AgentAccess:
        """Return the token and URLs with which an agent plays the session."""
        await self._manager.obtain(session_id)
        return self._access(request, session_id)

    # Play

    async def get_prompt(self, session_id: m.SessionId) -> m.PromptView:
        """Return the prompt, once setup has ended."""
        return m.PromptView(blocks=list(await (await self._manager.obtain(session_id)).prompt()))

    async def get_messages(self, session_id: m.SessionId) -> m.MessagesView:
        """Return the prompt as a conversation, once setup has ended."""
        return m.MessagesView(messages=await (await self._manager.obtain(session_id)).messages())

    async def get_tools(self, session_id: m.SessionId) -> ToolListing:
        """List every tool of the session."""
        return await (await self._manager.obtain(session_id)).tools()

    async def call_tool(
        self, request: ControlRequest, session_id: m.SessionId, body: m.CallBody
    ) -> CallAnswer:
        """Call a tool and wait for its result; the call keeps running if the caller disconnects."""
        session = await self._manager.obtain(session_id)
        call = await session.call(body.name, body.arguments, call_id=body.call_id, model_turn=body.model_turn)
        call.begin_sending()
        try:
            await call.wait()
        finally:
            call.senders -= 1
        return CallAnswer(show_call(call, request.caller, session.visibility))

    async def cancel_call(self, session_id: m.SessionId, call_id: m.CallId) -> m.CancelAnswer:
        """Stop a running call."""
        cancelled = await (await self._manager.obtain(session_id)).cancel(call_id)
        return m.CancelAnswer(call_id=call_id, cancelled=cancelled)

    def _brief(self, definition: EnvironmentDefinition) -> m.EnvironmentBrief:
        return m.EnvironmentBrief(
            name=definition.name,
            version=definition.version,
            description=definition.description,
            default=definition is self._manager.environment(None),
        )

    def _created(self, request: ControlRequest, status: SessionStatus) -> m.CreatedSession:
        access = self._access(request, status.origin.session_id)
        return m.CreatedSession(**access.model_dump(), status=show_session(status))

    def _access(self, request: ControlRequest, session_id: str) -> m.AgentAccess:
        token = self._keyring.mint(session_id, self._manager.episode_of(session_id) or "")
        return m.AgentAccess(
            session_id=session_id,
            agent_token=token,
            agent_url=f"{request.base_url}/agent/{token}/mcp",
            mcp_url=f"{request.base_url}/sessions/{quote(session_id, safe='')}/mcp",
        )


def show_session(status: SessionStatus) -> m.SessionView:
    """Show a session's state and totals."""
    return m.SessionView.model_validate(status.as_json())


def show_snapshot(snapshot: SessionSnapshot) -> m.SnapshotView:
    """Show what was kept."""
    return m.SnapshotView.model_validate(snapshot.as_json())


def show_call(call: Call, caller: Caller, visibility: Visibility) -> CompletedCall | RefusedCall | FailedCall:
    """Return a call's result, redacted for the caller's role.

    Raises:
        StoreError: If the record could not be written, so that the result must not be sent.
        InvalidRequestError: If the id is that of a scored group, which is not a tool call.
    """
    result = call.result
    if isinstance(result, Completed):
        output = redact(result.output, caller, visibility)
        return CompletedCall(call_id=call.id, step=result.step, is_error=result.is_error, output=output)
    if isinstance(result, Refusal):
        return RefusedCall(call_id=call.id, step=result.step, reason=result.reason, detail=result.error)
    if result is None or isinstance(result, Scored):
        raise InvalidRequestError(
            f"the call {call.id!r} scored a group, so its result is not a tool call's; use another call id"
        )
    if call.is_unwritten:
        raise result.error
    error = result.error if may_read_reasons(caller, visibility) else withhold(result.error, call.id)
    return FailedCall(
        call_id=call.id,
        step=result.step,
        code=error.code,
        blame=error.blame,
        detail=str(error) or type(error).__name__,
    )


def encode_cursor(rank: Rank) -> str:
    """Return the cursor of the place at which a page ends."""
    return base64.urlsafe_b64encode("\n".join(rank).encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> Rank:
    """Read a place that `encode_cursor` wrote; `InvalidRequestError` if it is not one of ours."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        text = ""
    moment, separator, session_id = text.partition("\n")
    if not separator:
        raise InvalidRequestError("the cursor is not a next_cursor of this server")
    return moment, session_id


def _merge_pages(pages: Sequence[m.SessionPage], limit: int) -> m.SessionPage:
    """Merge pages that begin after the same place into one of at most `limit` sessions."""
    sessions = sorted((view for page in pages for view in page.sessions), key=_rank_of_view)
    is_last = len(sessions) <= limit and all(page.next_cursor is None for page in pages)
    shown = sessions[:limit]
    return m.SessionPage(
        sessions=shown, next_cursor=None if is_last else encode_cursor(_rank_of_view(shown[-1]))
    )


def _rank_of_view(view: m.SessionView) -> Rank:
    return view.episode.created_at.isoformat(timespec="microseconds"), view.session_id


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
        raise EnvironmentFailedError(f"a task of this environment cannot become JSON: {error}") from error
    return task
