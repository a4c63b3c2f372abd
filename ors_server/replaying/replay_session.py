"""A fresh session of a recorded episode's task, played over a server's control API."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from ors_server.authoring.definition import Blocks
from ors_server.client.client_errors import error_from
from ors_server.client.connection import Connection, Request
from ors_server.client.server import session_path
from ors_server.errors import OrsServerError
from ors_server.recording import BLOCKS, ORIGIN, STEP
from ors_server.replaying.recorded_episode import RecordedCall
from ors_server.sessions.manager import hash_task
from ors_server.trajectory import EpisodeOrigin, Step
from ors_server.wire import JSONObject

CALL_LIMIT = 660.0
"""Seconds without an answer after which a call is lost: a little more than it may take by default."""


class ReplaySession:
    """A session without steps, in which recorded calls are made again.

    Attributes:
        origin: Where the session comes from; differences from the record's are reported.
        volatile: Regular expressions of what its environment declares volatile.
        notes: What a reader of the replay should know of its place, one sentence each.
    """

    def __init__(
        self,
        connection: Connection,
        origin: EpisodeOrigin,
        *,
        volatile: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        """Make no call yet."""
        self.origin = origin
        self.volatile = volatile
        self.notes = notes
        self._connection = connection
        self._path = session_path(origin.session_id)
        self._count = 0
        self._ids: set[str] = set()

    async def prompt(self) -> Blocks:
        """Return the prompt, after setup.

        Raises:
            AuthorError: If setup or the environment's method failed.
            OrsServerError: If the server failed.
        """
        request = Request("GET", f"{self._path}/prompt", time_limit=CALL_LIMIT)
        return list(BLOCKS.of_json((await self._connection.ask(request))["blocks"]))

    async def setup_error(self) -> str | None:
        """Return why setup failed; `None` while it runs or if it did not."""
        found: str | None = (await self._connection.ask(Request("GET", self._path)))["setup_error"]
        return found

    async def delete(self) -> None:
        """End the session and wait for its teardown."""
        await self._connection.ask(Request("DELETE", self._path, time_limit=CALL_LIMIT))

    async def call(self, call: RecordedCall) -> Step | None:
        """Make a call, and return the step that the session's own record has of it.

        Args:
            call: The call. Its id is used again, unless the session knows it already.

        Returns:
            The step; `None` if the episode is over, so that no call is a step any more.

        Raises:
            AuthorError: If setup failed.
            OrsServerError: If the server failed; then there is no step.
        """
        call_id = uuid4().hex if call.call_id in self._ids or not call.call_id else call.call_id
        self._ids.add(call_id)
        body = {"name": call.tool, "arguments": call.arguments, "call_id": call_id}
        request = Request("POST", f"{self._path}/calls", body, time_limit=CALL_LIMIT)
        answer = await self._connection.ask(request)
        place = f"{self._path}/steps?start={self._count}&stop={self._count + 1}"
        steps: list[Any] = (await self._connection.ask(Request("GET", place)))["steps"]
        if steps:
            self._count += 1
            return STEP.of_json(steps[0])
        if answer["kind"] == "failed":
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
    """Create a session of a recorded episode's task, with its toolset, visibility and seed.

    Args:
        connection: The server.
        recorded: Where the recorded episode came from.
        changes: Further fields of the request: environment, id, secrets, policy, labels.
        volatile: For the session.
        notes: For the session.

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
    made = await connection.ask(Request("POST", "/_ors/sessions", request, is_repeatable=False))
    origin = _origin_of(made["status"], recorded)
    return ReplaySession(connection, origin, volatile=volatile, notes=notes)


async def read_environment(connection: Connection, name: str) -> JSONObject:
    """Return what a server tells of an environment."""
    found: JSONObject = await connection.ask(Request("GET", _environment_path(name)))
    return found


async def has_same_task(connection: Connection, name: str, origin: EpisodeOrigin) -> bool | None:
    """Say whether an environment has the recorded task where the record found it; `None` if it has none."""
    if origin.split is None or origin.index is None:
        return True
    path = f"{_environment_path(name)}/splits/{quote(origin.split, safe='')}/tasks/{origin.index}"
    try:
        task = (await connection.ask(Request("GET", path)))["task_spec"]
    except OrsServerError:
        return None
    return hash_task(task) == origin.task_hash


def _environment_path(name: str) -> str:
    return f"/_ors/environments/{quote(name, safe='')}"


def _origin_of(status: Mapping[str, Any], recorded: EpisodeOrigin) -> EpisodeOrigin:
    """Read where the new session comes from; it has the recorded task, which a status does not show."""
    known = {name: value for name, value in status.items() if name in EpisodeOrigin.__dataclass_fields__}
    created = status["episode"]["created_at"]
    return ORIGIN.of_json({**known, "task_spec": recorded.task_spec, "created_at": created})
