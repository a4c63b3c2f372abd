"""The extension `org.openrewardstandard/environments`: methods for programs that speak only MCP.

No model can call a method. They need the trainer's role all the same, because they show tasks, rewards and
every session.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import mcp_types as types
from pydantic import ConfigDict, Field
from typing_extensions import override

from ors_server.doors.mcp.lobby_tools import specs_of
from ors_server.doors.mcp.mcp_results import EXTENSION
from ors_server.doors.mcp.sdk import Context, Extension, MethodBinding, Result
from ors_server.doors.mcp.session_access import SessionAccess
from ors_server.doors.session_fields import SessionFields
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.sessions.session_request import MAX_FORKS, ForkRequest

Method: TypeAlias = Callable[[Context, Any], Awaitable[Any]]


class NoParams(types.RequestParams):
    """No own parameters; names are spelled as in ORS bodies, not in camel case."""

    model_config = ConfigDict(alias_generator=None)


class SplitsParams(NoParams):
    """An environment."""

    environment: str | None = None
    """Name; the default environment without one."""


class TasksParams(SplitsParams):
    """A slice of a split's tasks, by Python's rules."""

    split: str
    start: int | None = None
    stop: int | None = None


class CreateParams(NoParams, SessionFields):
    """The session to create: of a task by value, or by split and index."""

    session_id: str | None = Field(default=None, min_length=1, max_length=128)


class SessionParams(NoParams):
    """A session."""

    session_id: str


class SnapshotParams(SessionParams):
    """A snapshot of a session."""

    snapshot_id: str


class ForkParams(SessionParams):
    """The session to copy, how often, and from which snapshot."""

    count: int = Field(default=1, ge=1, le=MAX_FORKS)
    snapshot_id: str | None = None


class EnvironmentsExtension(Extension):
    """The extension's methods and its entry among the server's capabilities."""

    identifier = EXTENSION

    def __init__(self, access: SessionAccess) -> None:
        self._access = access
        self._sessions = access.sessions

    @override
    def settings(self) -> dict[str, Any]:
        """Return the names of the methods."""
        return {"methods": [binding.method for binding in self.methods()]}

    @override
    def methods(self) -> Sequence[MethodBinding]:
        """Return the methods, each of which requires the trainer's role."""
        table: tuple[tuple[str, type[NoParams], Method], ...] = (
            ("list", NoParams, self._list),
            ("splits", SplitsParams, self._splits),
            ("tasks", TasksParams, self._tasks),
            ("create", CreateParams, self._create),
            ("prompt", SessionParams, self._prompt),
            ("episode", SessionParams, self._episode),
            ("snapshot", SessionParams, self._snapshot),
            ("snapshots", SessionParams, self._snapshots),
            ("discard", SnapshotParams, self._discard),
            ("restore", SnapshotParams, self._restore),
            ("fork", ForkParams, self._fork),
            ("delete", SessionParams, self._delete),
        )
        return [
            MethodBinding(f"{EXTENSION}/{name}", kind, self._for_trainers(run)) for name, kind, run in table
        ]

    def _for_trainers(self, run: Method) -> Method:
        async def checked(context: Context, params: Any) -> Any:
            self._access.require_trainer(context)
            return await run(context, params)

        return checked

    async def _list(self, _context: Context, _params: NoParams) -> Result:
        return {
            "environments": [_describe(environment) for environment in self._sessions.environments.values()]
        }

    async def _splits(self, _context: Context, params: SplitsParams) -> Result:
        definition = self._sessions.environment(params.environment)
        splits = [
            {**split.model_dump(), "num_tasks": await definition.tasks.num_tasks(split.name)}
            for split in definition.splits
        ]
        return {"splits": splits}

    async def _tasks(self, _context: Context, params: TasksParams) -> Result:
        definition = self._sessions.environment(params.environment)
        tasks = await definition.tasks.get_task_range(params.split, params.start, params.stop)
        await self._sessions.remember_tasks(definition, params.split, params.start or 0, tasks)
        return {"tasks": tasks}

    async def _create(self, context: Context, params: CreateParams) -> Result:
        session_id = await self._access.create(context, params.as_request())
        return {"session_id": session_id, **self._access.endpoints(session_id)}

    async def _prompt(self, _context: Context, params: SessionParams) -> Result:
        blocks = await (await self._sessions.obtain(params.session_id)).prompt()
        return {"blocks": [block.model_dump() for block in blocks]}

    async def _episode(self, _context: Context, params: SessionParams) -> Result:
        return (await self._sessions.status(params.session_id)).as_json()

    async def _snapshot(self, _context: Context, params: SessionParams) -> Result:
        return (await (await self._sessions.obtain(params.session_id)).snapshots.keep()).as_json()

    async def _snapshots(self, _context: Context, params: SessionParams) -> Result:
        snapshots = (await self._sessions.obtain(params.session_id)).snapshots.all()
        return {"snapshots": [snapshot.as_json() for snapshot in snapshots]}

    async def _discard(self, context: Context, params: SnapshotParams) -> Result:
        await (await self._sessions.obtain(params.session_id)).snapshots.discard(params.snapshot_id)
        return await self._snapshots(context, params)

    async def _restore(self, _context: Context, params: SnapshotParams) -> Result:
        snapshots = (await self._sessions.obtain(params.session_id)).snapshots
        return (await snapshots.restore(params.snapshot_id)).as_json()

    async def _fork(self, context: Context, params: ForkParams) -> Result:
        request = ForkRequest(params.count, params.snapshot_id)
        forks = await self._access.fork(context, params.session_id, request)
        return {"sessions": [{"session_id": fork_id, **self._access.endpoints(fork_id)} for fork_id in forks]}

    async def _delete(self, _context: Context, params: SessionParams) -> Result:
        return {"deleted": await self._sessions.delete(params.session_id)}


def _describe(definition: EnvironmentDefinition) -> Result:
    return {
        "name": definition.name,
        "version": definition.version,
        "description": definition.description,
        "tools": [spec.model_dump() for spec in specs_of(definition)],
    }
