"""A new session of a recorded episode's task, played over a server's control API."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NotRequired
from urllib.parse import quote
from uuid import uuid4

from typing_extensions import TypedDict

from ors_server.client.client_errors import error_from
from ors_server.client.connection import Connection, HttpRequest
from ors_server.client.server import session_path
from ors_server.client.typed_answers import CallKind, StepsFields, read_answer
from ors_server.environments.definition import Blocks
from ors_server.model.errors import OrsServerError
from ors_server.model.recording import BLOCKS, ORIGIN, STEP, task_digest
from ors_server.model.trajectory import EpisodeOrigin, Step
from ors_server.model.wire import JSONObject

CALL_LIMIT = 660.0
"""Seconds without an answer after which a call is lost: more than its default time limit."""


class _PromptFields(TypedDict):
    blocks: list[Any]


class _SetupFields(TypedDict):
    setup_error: str | None


class _NewSessionFields(TypedDict):
    status: JSONObject


class EnvironmentRulesFields(TypedDict):
    """What is read of a server's description of an environment."""

    policy: JSONObject
    volatile: NotRequired[list[str]]


class _TaskSpecFields(TypedDict):
    task_spec: JSONObject


@dataclass(slots=True)
class ReplaySession:
    """A new session in which recorded calls are repeated; made by `create_session`."""

    connection: Connection
    origin: EpisodeOrigin
    """Its differences from the recorded one are reported."""
    volatile: tuple[str, ...]
    """Regular expressions of what its environment declares volatile."""
    notes: tuple[str, ...]
    """Notes on the place of the replay, one sentence each."""
    _count: int = 0
    _ids: set[str] = field(default_factory=set[str])

    @property
    def _path(self) -> str:
        return session_path(self.origin.session_id)

    async def prompt(self) -> Blocks:
        """Return the prompt, after setup; raises `AuthorError` if setup or the method failed."""
        request = HttpRequest("GET", f"{self._path}/prompt", time_limit=CALL_LIMIT)
        prompt = read_answer(_PromptFields, await self.connection.ask(request), f"the prompt of {self._path}")
        return list(BLOCKS.of_json(prompt["blocks"]))

    async def setup_error(self) -> str | None:
        """Return why setup failed; `None` while it runs or if it did not."""
        answer = await self.connection.ask(HttpRequest("GET", self._path))
        return read_answer(_SetupFields, answer, f"the answer of GET {self._path}")["setup_error"]

    async def delete(self) -> None:
        """End the session and wait for its teardown."""
        await self.connection.ask(HttpRequest("DELETE", self._path, time_limit=CALL_LIMIT))

    async def call(self, recorded: Step) -> Step | None:
        """Repeat a call, under its recorded id if that is new, and return its step; `None` after the end.

        Raises:
            AuthorError: If setup failed.
            OrsServerError: If the server failed; then there is no step.
        """
        call_id = uuid4().hex if recorded.call_id in self._ids or not recorded.call_id else recorded.call_id
        self._ids.add(call_id)
        body = {"name": recorded.tool, "arguments": recorded.arguments, "call_id": call_id}
        request = HttpRequest("POST", f"{self._path}/calls", body, time_limit=CALL_LIMIT)
        answer = await self.connection.ask(request)
        kind = read_answer(CallKind, answer, f"the answer of POST {request.path}")["kind"]
        place = f"{self._path}/steps?start={self._count}&stop={self._count + 1}"
        page = read_answer(
            StepsFields, await self.connection.ask(HttpRequest("GET", place)), f"the answer of GET {place}"
        )
        steps = page["steps"]
        if steps:
            self._count += 1
            return STEP.of_json(steps[0])
        if kind == "failed":
            raise error_from(answer, HTTPStatus.INTERNAL_SERVER_ERROR)
        return None


async def create_session(
    connection: Connection,
    recorded: EpisodeOrigin,
    changes: Mapping[str, Any],
    *,
    volatile: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> ReplaySession:
    """Create a session of a recorded task, with its toolset, visibility and seed; `changes` are other fields.

    Raises:
        AuthorError: If the environment's constructor failed.
        OrsServerError: If the server makes no such session.
    """
    request = {
        "task_spec": recorded.task_spec,
        "toolset": recorded.toolset,
        "visibility": recorded.visibility,
        "seed": recorded.seed,
        **changes,
    }
    answer = await connection.ask(HttpRequest("POST", "/_ors/sessions", request, is_repeatable=False))
    created = read_answer(_NewSessionFields, answer, "the answer of POST /_ors/sessions")
    status: Mapping[str, Any] = created["status"]
    fields = {name: value for name, value in status.items() if name in EpisodeOrigin.__dataclass_fields__}
    episode = read_answer(JSONObject, status.get("episode"), "the new session's episode")
    # A status does not have the task, which is the recorded one.
    origin = ORIGIN.of_json(
        {**fields, "task_spec": recorded.task_spec, "created_at": episode.get("created_at")}
    )
    return ReplaySession(connection, origin, volatile=volatile, notes=notes)


async def read_environment(connection: Connection, name: str) -> EnvironmentRulesFields:
    """Return a server's description of an environment."""
    path = _environment_path(name)
    answer = await connection.ask(HttpRequest("GET", path))
    return read_answer(EnvironmentRulesFields, answer, f"the answer of GET {path}")


async def has_same_task(connection: Connection, name: str, origin: EpisodeOrigin) -> bool | None:
    """Return whether the environment has the recorded task at its split and index; `None` without a task."""
    if origin.split is None or origin.index is None:
        return True
    path = f"{_environment_path(name)}/splits/{quote(origin.split, safe='')}/tasks/{origin.index}"
    try:
        answer = await connection.ask(HttpRequest("GET", path))
        task = read_answer(_TaskSpecFields, answer, f"the answer of GET {path}")["task_spec"]
    except OrsServerError:
        return None
    return task_digest(task) == origin.task_hash


def _environment_path(name: str) -> str:
    return f"/_ors/environments/{quote(name, safe='')}"
