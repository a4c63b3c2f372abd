"""What a client asks of a server beside calls: environments, tasks, sessions, their figures.

Every question is put in the standard's words where it has them. Sessions of a server of ours are made and
read through its control API, which knows seeds, policies, labels and figures.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import quote
from uuid import uuid4

from ors_server.client.arguments import check_name
from ors_server.client.connection import EVENT_STREAM, Answer, Connection, Request
from ors_server.client.errors import BrokenAnswerError, error_from
from ors_server.client.events import EventReader
from ors_server.client.orders import Wishes, check_wishes, control_body, secrets_header, standard_body
from ors_server.errors import OrsServerError, UnknownEnvironmentError
from ors_server.wire import JSONObject

LONG_ANSWER = 600.0
"""Seconds of silence that an answer may take which waits for an environment's setup or teardown."""


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """A session, and the ways that lead to it."""

    session_id: str
    environment: str
    access: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """`agent_token`, `agent_url` and `mcp_url`, from a server of ours."""
    episode_id: str | None = None
    """Id of the record, from a server of ours."""
    task_hash: str = ""
    """SHA-256 of the task's canonical JSON, from a server of ours."""


class Server:
    """One server and what kind it is."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._is_ours: bool | None = None
        self._default: str | None = None

    async def is_ours(self) -> bool:
        """Say whether this is an ors-server, asking it once."""
        if self._is_ours is None:
            answer = await self.connection.answer(Request("GET", "/_ors/version"))
            told = _object(answer.content) if answer.status == HTTPStatus.OK else {}
            self._is_ours = bool(told.get("name") == "ors-server")
        return self._is_ours

    async def environments(self) -> list[str]:
        """Return the names of what is served, the default one first."""
        names = await self.connection.ask(Request("GET", "/list_environments"))
        return [str(name) for name in names]

    async def name_of(self, environment: str | None) -> str:
        """Return an environment's name, that of the default one for `None`.

        Args:
            environment: A name, or `None`.

        Raises:
            UnknownEnvironmentError: If there is no default one.
        """
        if environment is not None:
            return environment
        if self._default is None:
            names = await self.environments()
            if not names:
                raise UnknownEnvironmentError("the server serves no environment")
            self._default = names[0]
        return self._default

    async def about(
        self, environment: str | None, what: str, body: Any = None, session_id: str | None = None
    ) -> Any:
        """Ask something about an environment or one of its sessions in the standard's words.

        Args:
            environment: Its name; `None` for the default one.
            body: What to send with it; without one it is only looked at.

        Raises:
            OrsServerError: As the server answers.
        """
        name = await self.name_of(environment)
        request = Request(
            "GET" if body is None else "POST",
            f"/{quote(check_name('an environment', name), safe='')}/{what}",
            body,
            {} if session_id is None else {"X-Session-ID": session_id},
            time_limit=LONG_ANSWER,
        )
        answer = await self.connection.answer(request)
        if answer.status in {HTTPStatus.PERMANENT_REDIRECT, HTTPStatus.TEMPORARY_REDIRECT}:
            raise UnknownEnvironmentError(f"the server knows no environment {name!r}")
        return _content(answer)

    async def create(self, environment: str | None, wishes: Wishes) -> SessionPlace:
        """Make a session; its setup goes on in the background.

        Args:
            environment: Its name; `None` for the default one.

        Raises:
            OrsServerError: As the server answers, or if a task is not named.
        """
        check_wishes(wishes)
        if await self.is_ours():
            return await self._create_with_us(environment, wishes)
        return await self._create_by_standard(await self.name_of(environment), wishes)

    async def _create_with_us(self, environment: str | None, wishes: Wishes) -> SessionPlace:
        session_id = wishes.get("session_id") or str(uuid4())
        body = control_body(environment, wishes, session_id)
        answer = await self.connection.answer(Request("POST", "/_ors/sessions", body, time_limit=LONG_ANSWER))
        if answer.status == HTTPStatus.CONFLICT and answer.was_repeated:
            return await self.find(session_id)
        told = _content(answer)
        status = told["status"]
        return SessionPlace(
            session_id, status["environment"], _access(told), status["episode_id"], status["task_hash"]
        )

    async def find(self, session_id: str) -> SessionPlace:
        """Return a live session of a server of ours.

        Raises:
            OrsServerError: If there is none, or the credential may not know.
        """
        path = session_path(session_id)
        status = await self.status(session_id)
        told = await self.connection.ask(Request("POST", f"{path}/token"))
        return SessionPlace(session_id, status["environment"], _access(told))

    async def _create_by_standard(self, environment: str, wishes: Wishes) -> SessionPlace:
        version = await self.connection.answer(Request("GET", "/version"))
        by_header = version.status == HTTPStatus.OK
        body = standard_body(environment, wishes, with_secrets=not by_header)
        session_id = wishes.get("session_id") or await self._new_id()
        headers = {"X-Session-ID": session_id} | (secrets_header(wishes.get("secrets")) if by_header else {})
        answer = await self.connection.answer(
            Request("POST", "/create", body, headers, time_limit=LONG_ANSWER)
        )
        is_made = answer.was_repeated and _says_that_it_exists(answer)
        if not is_made:
            _content(answer)
        return SessionPlace(session_id, environment)

    async def _new_id(self) -> str:
        request = Request("POST", "/create_session", {}, {"Accept": EVENT_STREAM})
        answer = await self.connection.answer(request)
        if answer.status != HTTPStatus.OK:
            raise error_from(answer.content, answer.status)
        told: Any = answer.content
        if isinstance(told, str):
            for event in EventReader().feed(told.encode()):
                if event.name == "task_id":
                    return event.data.strip()
        if "sid" in _object(told):
            return str(_object(told)["sid"])
        raise BrokenAnswerError(f"/create_session told no session id: {str(told)[:200]!r}")

    async def ping(self, session_id: str) -> None:
        """Keep a session alive.

        Raises:
            OrsServerError: If it is gone.
        """
        await self.connection.ask(Request("POST", "/ping", None, {"X-Session-ID": session_id}))

    async def status(self, session_id: str) -> JSONObject:
        """Return what a server of ours says of a session, ended ones included.

        Raises:
            OrsServerError: As the server answers.
        """
        told: JSONObject = await self.connection.ask(Request("GET", session_path(session_id)))
        return told

    async def steps(self, session_id: str, start: int) -> JSONObject:
        """Return a page of a session's recorded steps, from a server of ours.

        Args:
            start: The first one's position, from 0.

        Raises:
            OrsServerError: As the server answers.
        """
        path = f"{session_path(session_id)}/steps?start={start}"
        told: JSONObject = await self.connection.ask(Request("GET", path))
        return told

    async def all_steps(self, session_id: str) -> list[JSONObject]:
        """Return every recorded step of a session of a server of ours, in order.

        Raises:
            OrsServerError: As the server answers.
        """
        steps: list[JSONObject] = []
        while True:
            page: Any = await self.steps(session_id, len(steps))
            steps += page["steps"]
            if not page["steps"] or len(steps) >= page["total"]:
                return steps

    async def fork(self, session_id: str, count: int = 1) -> list[SessionPlace]:
        """Make copies of a session of a server of ours, each of which goes on by itself.

        Raises:
            OrsServerError: If the environment's sessions cannot be copied, or a limit is reached.
        """
        request = Request("POST", f"{session_path(session_id)}/fork", {"count": count}, is_repeatable=False)
        made = (await self.connection.ask(request))["sessions"]
        return [SessionPlace(one["session_id"], one["status"]["environment"], _access(one)) for one in made]

    async def delete(self, session_id: str) -> JSONObject | None:
        """End a session and wait for its teardown.

        Returns:
            The final state of a session of ours; `None` from other servers.

        Raises:
            OrsServerError: As the server answers.
        """
        if await self.is_ours():
            request = Request("DELETE", session_path(session_id), time_limit=LONG_ANSWER)
            told: JSONObject = await self.connection.ask(request)
            return told
        headers = {"X-Session-ID": session_id}
        for path in ("/delete", "/delete_session"):
            await self.connection.ask(Request("POST", path, None, headers, time_limit=LONG_ANSWER))
        return None


def session_path(session_id: str) -> str:
    """Return where a server of ours keeps a session."""
    return f"/_ors/sessions/{quote(check_name('a session', session_id), safe='')}"


def _access(told: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(told[name]) for name in ("agent_token", "agent_url", "mcp_url") if name in told}


def _content(answer: Answer) -> Any:
    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
        raise error_from(answer.content, answer.status)
    if isinstance(answer.content, str):
        raise BrokenAnswerError(
            f"expected JSON, got {answer.content[:200]!r}; is the URL that of an ORS server?"
        )
    return answer.content


def _object(content: Any) -> JSONObject:
    return cast("JSONObject", content) if isinstance(content, dict) else {}


def _says_that_it_exists(answer: Answer) -> bool:
    error: OrsServerError = error_from(answer.content, answer.status)
    return answer.status == HTTPStatus.BAD_REQUEST and "already exists" in str(error)
