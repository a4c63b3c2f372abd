"""A client's requests other than calls: environments, tasks, sessions and their figures.

They use the standard's endpoints where it has them. Sessions of an ors-server ("ours") are created and read
through its control API. Every request may raise `OrsServerError`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote
from uuid import uuid4

from ors_server.client.bounded_http import EVENT_STREAM
from ors_server.client.call_arguments import check_name
from ors_server.client.client_errors import BrokenAnswerError, error_from
from ors_server.client.connection import Connection, HttpAnswer, HttpRequest, value_of
from ors_server.client.episode_request import (
    EpisodeRequest,
    check_request,
    control_body,
    secrets_header,
    standard_body,
)
from ors_server.client.event_reader import EventReader
from ors_server.client.typed_answers import (
    NAMES,
    AccessFields,
    CreatedFields,
    ForkFields,
    GivenObject,
    StepsFields,
    read_answer,
)
from ors_server.model.errors import UnknownEnvironmentError
from ors_server.model.wire import JSONObject

LONG_ANSWER_SECONDS = 600.0
"""Seconds that a response may take which waits for an environment's setup or teardown."""
MAX_STEP_PAGES = 1_000
"""Pages of a session's steps that are read; an ors-server's page has 500 steps."""
MODEL_TURNS = "model_turns"
"""Feature of an ors-server: a call may have what the model wrote before it."""


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """A session and how to reach it."""

    session_id: str
    environment: str
    access: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """`agent_token`, `agent_url` and `mcp_url`, from an ors-server."""
    episode_id: str | None = None
    """Id of the record, from an ors-server."""
    task_hash: str = ""
    """SHA-256 of the task's canonical JSON, from an ors-server."""


class Server:
    """One server, an ors-server or another one that speaks the standard."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.features: frozenset[str] = frozenset()
        """What an ors-server announces beyond its first version; empty until `is_ours` was awaited."""
        self._is_ours: bool | None = None
        self._default: str | None = None

    async def is_ours(self) -> bool:
        """Return whether this is an ors-server; only the first call sends a request."""
        if self._is_ours is None:
            request = HttpRequest("GET", "/_ors/version")
            answer = await self.connection.answer(request)
            # Another server has no such path; what cannot be read does not say that.
            has_no_path = answer.status >= HTTPStatus.BAD_REQUEST or _is_within_default(answer, request)
            version = {} if has_no_path else _object(value_of(request, answer))
            self._is_ours = bool(version.get("name") == "ors-server")
            features: object = version.get("features") if self._is_ours else None
            if isinstance(features, list):
                self.features = frozenset(map(str, cast("list[object]", features)))
        return self._is_ours

    async def environments(self) -> list[str]:
        """Return the names of the environments, the default one first."""
        names = await self.connection.ask(HttpRequest("GET", "/list_environments"))
        return read_answer(NAMES, names, "the answer of GET /list_environments")

    async def name_of(self, environment: str | None) -> str:
        """Return an environment's name; for `None`, that of the default environment."""
        if environment is not None:
            return environment
        if self._default is None:
            names = await self.environments()
            if not names:
                raise UnknownEnvironmentError("the server has no environment")
            self._default = names[0]
        return self._default

    async def about(
        self, environment: str | None, endpoint: str, body: Any = None, session_id: str | None = None
    ) -> Any:
        """Request `/{environment}/{endpoint}` of the standard: by POST with a body, else by GET."""
        name = await self.name_of(environment)
        request = HttpRequest(
            "GET" if body is None else "POST",
            f"/{quote(check_name('an environment', name), safe='')}/{endpoint}",
            body,
            {} if session_id is None else {"X-Session-ID": session_id},
            time_limit=LONG_ANSWER_SECONDS,
        )
        answer = await self.connection.answer(request)
        if _is_within_default(answer, request):
            raise UnknownEnvironmentError(f"unknown environment {name!r}: the server does not serve it")
        return value_of(request, answer)

    async def create(self, environment: str | None, requested: EpisodeRequest) -> SessionPlace:
        """Create a session in an environment, by default the default one; setup runs in the background."""
        check_request(requested)
        if await self.is_ours():
            return await self._create_on_ors_server(environment, requested)
        return await self._create_by_standard(await self.name_of(environment), requested)

    async def _create_on_ors_server(self, environment: str | None, requested: EpisodeRequest) -> SessionPlace:
        session_id = requested.get("session_id") or str(uuid4())
        body = control_body(environment, requested, session_id)
        request = HttpRequest("POST", "/_ors/sessions", body, time_limit=LONG_ANSWER_SECONDS)
        answer = await self.connection.answer(request)
        # The first attempt created it, and its answer was lost.
        if answer.status == HTTPStatus.CONFLICT and answer.was_repeated:
            return await self.find(session_id)
        created = read_answer(CreatedFields, value_of(request, answer), "the answer of POST /_ors/sessions")
        return _place(created, session_id)

    async def find(self, session_id: str) -> SessionPlace:
        """Return a live session of an ors-server."""
        path = session_path(session_id)
        status = await self.status(session_id)
        answer = await self.connection.ask(HttpRequest("POST", f"{path}/token"))
        access = read_answer(AccessFields, answer, f"the answer of POST {path}/token")
        environment = read_answer(str, status.get("environment"), f"the environment of {path}")
        return SessionPlace(session_id, environment, _access(access))

    async def _create_by_standard(self, environment: str, requested: EpisodeRequest) -> SessionPlace:
        version = await self.connection.answer(HttpRequest("GET", "/version"))
        # Only one of the two reference servers has this path, and that one reads secrets from a header.
        by_header = version.status == HTTPStatus.OK
        body = standard_body(environment, requested, with_secrets=not by_header)
        session_id = requested.get("session_id") or await self._new_id()
        headers = {"X-Session-ID": session_id} | (
            secrets_header(requested.get("secrets")) if by_header else {}
        )
        request = HttpRequest("POST", "/create", body, headers, time_limit=LONG_ANSWER_SECONDS)
        answer = await self.connection.answer(request)
        # The reference servers refuse an id in use with this status and these words.
        is_taken = answer.status == HTTPStatus.BAD_REQUEST and "already exists" in str(answer.content)
        if not (answer.was_repeated and is_taken):
            value_of(request, answer)
        return SessionPlace(session_id, environment)

    async def _new_id(self) -> str:
        request = HttpRequest("POST", "/create_session", {}, {"Accept": EVENT_STREAM})
        answer = await self.connection.answer(request)
        if answer.status != HTTPStatus.OK:
            raise error_from(answer.content, answer.status)
        content: Any = answer.content
        if isinstance(content, str):
            for event in EventReader().feed(content.encode()):
                if event.name == "task_id":
                    return event.data.strip()
        if isinstance(session_id := _object(content).get("sid"), str):
            return session_id
        raise BrokenAnswerError(f"expected a session id from /create_session, got {str(content)[:200]!r}")

    async def _read(self, path: str) -> JSONObject:
        answer = await self.connection.ask(HttpRequest("GET", path))
        return read_answer(GivenObject, answer, f"the answer of GET {path}")

    async def ping(self, session_id: str) -> None:
        """Keep a session alive."""
        await self.connection.ask(HttpRequest("POST", "/ping", None, {"X-Session-ID": session_id}))

    async def status(self, session_id: str) -> JSONObject:
        """Return an ors-server's status of a session, live or ended."""
        return await self._read(session_path(session_id))

    async def steps(self, session_id: str, start: int) -> JSONObject:
        """Return a page of a session's recorded steps on an ors-server, from position `start`, from 0."""
        return await self._read(f"{session_path(session_id)}/steps?start={start}")

    async def all_steps(self, session_id: str) -> list[JSONObject]:
        """Return every recorded step of a session on an ors-server, in order.

        Raises:
            BrokenAnswerError: If the server states more steps than its pages hold.
        """
        source = f"the steps of {session_path(session_id)}"
        steps: list[JSONObject] = []
        for _ in range(MAX_STEP_PAGES):
            page = read_answer(StepsFields, await self.steps(session_id, len(steps)), source)
            steps += page["steps"]
            if not page["steps"] or len(steps) >= page["total"]:
                return steps
        raise BrokenAnswerError(
            f"{source}: expected all of them within {MAX_STEP_PAGES:,} pages, got {len(steps):,} steps so far"
        )

    async def fork(self, session_id: str, count: int = 1) -> list[SessionPlace]:
        """Copy a session of an ors-server."""
        request = HttpRequest(
            "POST", f"{session_path(session_id)}/fork", {"count": count}, is_repeatable=False
        )
        answer = await self.connection.ask(request)
        forks = read_answer(ForkFields, answer, f"the answer of POST {request.path}")["sessions"]
        return [_place(fork, fork["session_id"]) for fork in forks]

    async def delete(self, session_id: str) -> JSONObject | None:
        """End a session after its teardown; an ors-server returns its final status."""
        if await self.is_ours():
            request = HttpRequest("DELETE", session_path(session_id), time_limit=LONG_ANSWER_SECONDS)
            answer = await self.connection.ask(request)
            return read_answer(GivenObject, answer, f"the answer of DELETE {request.path}")
        headers = {"X-Session-ID": session_id}
        for path in ("/delete", "/delete_session"):
            await self.connection.ask(
                HttpRequest("POST", path, None, headers, time_limit=LONG_ANSWER_SECONDS)
            )
        return None


def session_path(session_id: str) -> str:
    """Return the path of a session in the control API."""
    return f"/_ors/sessions/{quote(check_name('a session', session_id), safe='')}"


def _place(created: CreatedFields, session_id: str) -> SessionPlace:
    status = created["status"]
    return SessionPlace(
        session_id, status["environment"], _access(created), status["episode_id"], status["task_hash"]
    )


def _access(answer: Mapping[str, object]) -> dict[str, str]:
    return {name: str(answer[name]) for name in ("agent_token", "agent_url", "mcp_url") if name in answer}


def _is_within_default(answer: HttpAnswer, request: HttpRequest) -> bool:
    """Return whether the server took an unknown name for a path within its default environment.

    The reference server does, and redirects there.
    """
    return re.fullmatch(rf"/[^/]+{re.escape(request.path)}", answer.location) is not None


def _object(content: Any) -> JSONObject:
    return cast("JSONObject", content) if isinstance(content, dict) else {}
