"""Replays at a running server, over its control API, with a trainer's key."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import anyio
import httpx2
from typing_extensions import override

from ors_server.authoring.definition import Blocks
from ors_server.client.connection import Connection, Patience, Request
from ors_server.client.errors import error_from
from ors_server.errors import OrsServerError
from ors_server.policy import EpisodePolicy
from ors_server.recording import BLOCKS, ORIGIN, STEP
from ors_server.replaying.recorded import RecordedCall
from ors_server.replaying.rules import overrides_of, recorded_policy
from ors_server.replaying.stage import ReplaySession, Stage
from ors_server.sessions.manager import hash_task
from ors_server.trajectory import EpisodeOrigin, Step

CALL_LIMIT = 660.0
"""Seconds without an answer after which a call is lost: a little more than it may take by default."""
REPLAY_OF = "replay_of"
"""The label that the server's own record of a replay bears: the id of the episode that was replayed."""


class RemoteReplaySession(ReplaySession):
    """A session of a server far away."""

    def __init__(
        self,
        connection: Connection,
        origin: EpisodeOrigin,
        *,
        volatile: tuple[str, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        """Speak to a session that has no steps yet.

        Args:
            connection: Leads to the control API.
            origin: The session's.
            volatile: What its environment declares volatile.
            notes: What a reader should know of it.
        """
        self._connection = connection
        self._origin = origin
        self._volatile = volatile
        self._notes = notes
        self._path = _session_path(origin.session_id)
        self._count = 0
        self._ids: set[str] = set()

    @property
    @override
    def origin(self) -> EpisodeOrigin:
        return self._origin

    @property
    @override
    def notes(self) -> tuple[str, ...]:
        return self._notes

    @property
    @override
    def volatile(self) -> tuple[str, ...]:
        return self._volatile

    @override
    async def prompt(self) -> Blocks:
        request = Request("GET", f"{self._path}/prompt", time_limit=CALL_LIMIT)
        return list(BLOCKS.of_json((await self._connection.ask(request))["blocks"]))

    @override
    async def setup_error(self) -> str | None:
        found: str | None = (await self._connection.ask(Request("GET", self._path)))["setup_error"]
        return found

    @override
    async def call(self, call: RecordedCall) -> Step | None:
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


@dataclass(frozen=True, slots=True)
class RemoteStage(Stage):
    """Makes sessions at a server; use it as made by `open_remote_stage`."""

    connection: Connection
    environment: str | None
    """What is played for every environment of the records; that of the same name by default."""

    @asynccontextmanager
    @override
    async def open(
        self, origin: EpisodeOrigin, secrets: Mapping[str, str]
    ) -> AsyncGenerator[RemoteReplaySession]:
        name = self.environment or origin.environment
        own = await self.connection.ask(Request("GET", f"/environments/{quote(name, safe='')}"))
        policy = EpisodePolicy.model_validate(own["policy"])
        overrides, left = overrides_of(recorded_policy(origin.policy), policy)
        notes = [f"the server's own {rule} is another, and it cannot be overridden" for rule in left]
        notes += await self._look_up_task(name, origin)
        order = {
            "environment": name,
            "session_id": uuid4().hex,
            "task_spec": origin.task_spec,
            "toolset": origin.toolset,
            "secrets": dict(secrets),
            "policy": overrides,
            "visibility": origin.visibility,
            "seed": origin.seed,
            "labels": {REPLAY_OF: origin.episode_id},
        }
        made = await self.connection.ask(Request("POST", "/sessions", order, is_repeatable=False))
        try:
            yield RemoteReplaySession(
                self.connection,
                _origin_of(made["status"], origin),
                volatile=tuple(own.get("volatile", ())),
                notes=tuple(notes),
            )
        finally:
            with anyio.CancelScope(shield=True):
                await self.connection.ask(Request("DELETE", _session_path(made["session_id"])))

    async def _look_up_task(self, name: str, origin: EpisodeOrigin) -> list[str]:
        if origin.split is None or origin.index is None:
            return []
        place = f"task {origin.index} of split {origin.split!r}"
        path = (
            f"/environments/{quote(name, safe='')}/splits/{quote(origin.split, safe='')}/tasks/{origin.index}"
        )
        try:
            task = (await self.connection.ask(Request("GET", path)))["task_spec"]
        except OrsServerError:
            return [f"the server's environment has no {place}; the recorded one was played"]
        is_same = hash_task(task) == origin.task_hash
        return [] if is_same else [f"{place} is another one there; the recorded one was played"]


@asynccontextmanager
async def open_remote_stage(
    url: str, *, api_key: str | None = None, environment: str | None = None, patience: Patience | None = None
) -> AsyncGenerator[RemoteStage]:
    """Prepare to replay at a running server; the sessions that are made there are deleted again.

    Args:
        url: Where it is, for instance `http://127.0.0.1:8080`.
        api_key: A trainer's key, where it wants one.
        environment: What to play for every environment of the records; that of the same name by default.
        patience: How long to insist.
    """
    headers = {"Accept": "application/json"} | ({} if api_key is None else {"X-API-Key": api_key})
    async with httpx2.AsyncClient(base_url=f"{url.rstrip('/')}/_ors", headers=headers) as http:
        yield RemoteStage(Connection(http, patience or Patience(seconds=60.0)), environment)


def _session_path(session_id: str) -> str:
    return f"/sessions/{quote(session_id, safe='')}"


def _origin_of(status: Mapping[str, Any], recorded: EpisodeOrigin) -> EpisodeOrigin:
    """Read where the new session comes from; it has the recorded task, which a status does not show."""
    known = {name: value for name, value in status.items() if name in EpisodeOrigin.__dataclass_fields__}
    created = status["episode"]["created_at"]
    return ORIGIN.of_json({**known, "task_spec": recorded.task_spec, "created_at": created})
