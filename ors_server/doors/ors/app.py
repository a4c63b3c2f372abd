"""The Open Reward Standard over HTTP and server-sent events.

A raw ASGI application: one table of endpoints, one path for every request. Where the written standard and its
implementations disagree, the stricter reading that satisfies every known client is served; the conformance
manifest names each point.
"""

import math
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from ors_server._version import __version__
from ors_server.doors.access import OPEN_CALLER, Caller, Keyring, Role, withhold
from ors_server.doors.http import messages as http
from ors_server.doors.http.sse import END_OF_LIFE, event
from ors_server.doors.labels import LABELS_HEADER, labels_for
from ors_server.doors.ors.calls import CallRetries, CallStreams, ResultReader
from ors_server.doors.ors.creates import (
    DEFERRING_USER_AGENT,
    CreateRetries,
    DeferredCreates,
    fingerprint_of,
    read_secrets,
)
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.model.errors import (
    CallIdReusedError,
    EnvironmentFailedError,
    InvalidRequestError,
    OrsServerError,
    UnknownCallError,
)
from ors_server.model.wire import (
    CallRequest,
    CreateRequest,
    ScoreGroupRequest,
    SplitRequest,
    TaskRangeRequest,
    TaskRequest,
    compact_json,
)
from ors_server.sessions.manager import SessionManager
from ors_server.sessions.session import Session
from ors_server.sessions.session_call import Call
from ors_server.sessions.session_request import SessionRequest

PLACEHOLDER = "env"
"""TRL's `X-Deployment` if its user named no environment."""

OWN_CALL_ID = re.compile(r"[0-9a-f]{32}")
"""The shape of the ids that this server makes; an unknown one of this shape runs only in rebuilt sessions."""

MAX_CACHED_PATHS = 256
"""Maximum number of paths whose endpoints are cached; a path is limited as all headers are."""

MAX_PROBLEMS = 20
"""Maximum number of problems of a body that are listed; more are only counted."""

MAX_SHOWN_INPUT = 256
"""Characters of the longest wrong value that is repeated."""

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(slots=True)
class OrsRequest:
    """A request that was routed and whose caller is known."""

    caller: Caller
    headers: Mapping[str, str]
    body: bytes
    environment: str | None
    """The environment's name in the path; `None` for a path without one."""
    receive: http.Receive
    exchange: http.Exchange | None
    """`None` where the HTTP server does not say whether the client left."""

    @property
    def deployment(self) -> str | None:
        """The environment that `X-Deployment` names as `name` or `owner/name`; `None` if it names none."""
        return self.headers.get("x-deployment", "").strip().rpartition("/")[2] or None

    @property
    def session_id(self) -> str:
        """The `X-Session-ID` header; `InvalidRequestError` if it is missing or empty."""
        session_id: str = self.headers.get("x-session-id", "").strip()
        if not session_id:
            raise InvalidRequestError("X-Session-ID header is required")
        return session_id

    def parse(self, model: type[_Model]) -> _Model:
        """Validate the body; raises `pydantic.ValidationError` if it is not what the model describes."""
        return model.model_validate_json(self.body or b"null")


Handler: TypeAlias = Callable[[OrsRequest, http.Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint of the standard: one row of the table."""

    method: str
    handler: Handler
    role: Role | None
    """The lowest role that may use it; `None` needs no credential."""
    has_environment: bool = True
    """Whether the path may begin with an environment's name."""


class OrsApp:
    """Serves the standard's endpoints as an ASGI application."""

    def __init__(
        self, sessions: SessionManager, keyring: Keyring, *, max_body_bytes: int, streams: CallStreams
    ) -> None:
        self._sessions = sessions
        self._keyring = keyring
        self._max_body_bytes = max_body_bytes
        self._streams = streams
        self._create_retries = CreateRetries(sessions)
        self._call_retries = CallRetries()
        self._deferred = DeferredCreates(sessions.create)
        self._find_route = lru_cache(MAX_CACHED_PATHS)(self._route)
        self._endpoints = self._make_table()

    def _make_table(self) -> dict[str, Endpoint]:
        get, post, play, manage = "GET", "POST", Role.AGENT, Role.TRAINER
        return {
            "health": Endpoint(get, self._health, None, has_environment=False),
            "ready": Endpoint(get, self._ready, None, has_environment=False),
            "version": Endpoint(get, self._version, None, has_environment=False),
            "list_environments": Endpoint(get, self._list_environments, None, has_environment=False),
            "create_session": Endpoint(post, self._create_session, manage, has_environment=False),
            "create": Endpoint(post, self._create, manage, has_environment=False),
            "ping": Endpoint(post, self._ping, play, has_environment=False),
            "delete": Endpoint(post, self._delete, manage, has_environment=False),
            "delete_session": Endpoint(post, self._delete, manage, has_environment=False),
            "tools": Endpoint(get, self._tools, play),
            "splits": Endpoint(get, self._splits, manage),
            "tasks": Endpoint(post, self._tasks, manage),
            "num_tasks": Endpoint(post, self._num_tasks, manage),
            "task": Endpoint(post, self._task, manage),
            "get_task": Endpoint(post, self._task, manage),
            "task_range": Endpoint(post, self._task_range, manage),
            "get_task_range": Endpoint(post, self._task_range, manage),
            "prompt": Endpoint(get, self._prompt, play),
            "messages": Endpoint(get, self._messages, play),
            "task_tools": Endpoint(get, self._task_tools, play),
            "call": Endpoint(post, self._call, play),
            "score_group": Endpoint(post, self._score_group, manage),
        }

    async def __call__(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        """Serve one HTTP request."""
        caller: Caller | None = None
        try:
            environment, endpoint = self._find_route(scope["path"])
            if endpoint is None:
                self._check_environment(_segments(scope["path"]))
                await http.send_json(send, {"detail": "Not Found"}, HTTPStatus.NOT_FOUND)
                return
            if scope["method"] != endpoint.method:
                problem, allow = {"detail": "Method Not Allowed"}, {"allow": endpoint.method}
                await http.send_json(send, problem, HTTPStatus.METHOD_NOT_ALLOWED, allow)
                return
            headers = scope.get(http.HEADERS) or http.read_headers(scope)
            known = OPEN_CALLER if endpoint.role is None else self._keyring.caller_of(headers, scope)
            body = await http.read_body(receive, self._max_body_bytes, headers.get("content-encoding"))
            caller = known  # from here on, errors may hold what an agent is not to read
            if endpoint.role is not None and caller.role < endpoint.role:
                caller.require(endpoint.role)
            exchange = scope.get("extensions", {}).get(http.EXCHANGE)
            await endpoint.handler(OrsRequest(caller, headers, body, environment, receive, exchange), send)
        except http.ClientGoneError:
            return
        except ValidationError as error:
            await http.send_json(
                send, {"detail": describe_validation(error)}, HTTPStatus.UNPROCESSABLE_ENTITY
            )
        except OrsServerError as error:
            is_plain = caller is None or caller.role >= Role.TRAINER
            await http.send_fault(send, error if is_plain else withhold(error))

    def _route(self, path: str) -> tuple[str | None, Endpoint | None]:
        match _segments(path):
            case [name]:
                return None, self._endpoints.get(name)
            case [environment, name] if environment.lower() in self._sessions.environments:
                endpoint = self._endpoints.get(name)
                if endpoint is not None and endpoint.has_environment:
                    return environment, endpoint
            case _:
                pass
        return None, None

    def _check_environment(self, segments: list[str]) -> None:
        """Raise `UnknownEnvironmentError` if a path is wrong only in its environment's name."""
        match segments:
            case [environment, name] if name in self._endpoints and self._endpoints[name].has_environment:
                self._sessions.environment(environment)
            case _:
                pass

    def _definition(self, request: OrsRequest) -> EnvironmentDefinition:
        return self._sessions.environment(request.environment or self._environment_from_header(request))

    def _environment_from_header(self, request: OrsRequest) -> str | None:
        name = request.deployment
        is_placeholder = name == PLACEHOLDER and name not in self._sessions.environments
        return None if is_placeholder else name

    # Discovery

    async def _health(self, _request: OrsRequest, send: http.Send) -> None:
        services = self._sessions.services
        isolation = services.sandboxes.tier
        extra = {} if isolation is None else {"sandbox": isolation}
        load = {"queues": services.queues(), "loop": services.watch.figures().summary()}
        await http.send_json(send, {"status": "ok", **load, **extra})

    async def _ready(self, _request: OrsRequest, send: http.Send) -> None:
        self._sessions.check_ready()
        await http.send_json(send, {"status": "ready"})

    async def _version(self, _request: OrsRequest, send: http.Send) -> None:
        await http.send_json(send, {"version": __version__, "build_sha": None})

    async def _list_environments(self, _request: OrsRequest, send: http.Send) -> None:
        await http.send_json(send, list(self._sessions.environments))

    async def _tools(self, request: OrsRequest, send: http.Send) -> None:
        await http.send_json(send, self._definition(request).listing.model_dump())

    async def _splits(self, request: OrsRequest, send: http.Send) -> None:
        await http.send_json(send, [split.model_dump() for split in self._definition(request).splits])

    async def _tasks(self, request: OrsRequest, send: http.Send) -> None:
        definition = self._definition(request)
        body = request.parse(SplitRequest)
        tasks = await definition.tasks.list_tasks(body.split)
        await self._sessions.remember_tasks(definition, body.split, 0, tasks)
        await self._send_tasks(send, {"tasks": tasks, "env_name": request.environment or definition.name})

    async def _num_tasks(self, request: OrsRequest, send: http.Send) -> None:
        body = request.parse(SplitRequest)
        count = await self._definition(request).tasks.num_tasks(body.split)
        await http.send_json(send, {"num_tasks": count})

    async def _task(self, request: OrsRequest, send: http.Send) -> None:
        definition = self._definition(request)
        body = request.parse(TaskRequest)
        task = await definition.tasks.get_task(body.split, body.index)
        await self._sessions.remember_tasks(definition, body.split, body.index, [task])
        await self._send_tasks(send, {"task": task, "env_name": request.environment or definition.name})

    async def _task_range(self, request: OrsRequest, send: http.Send) -> None:
        definition = self._definition(request)
        body = request.parse(TaskRangeRequest)
        tasks = await definition.tasks.get_task_range(body.split, body.start, body.stop)
        await self._sessions.remember_tasks(definition, body.split, body.start or 0, tasks)
        await self._send_tasks(send, {"tasks": tasks, "env_name": request.environment or definition.name})

    async def _send_tasks(self, send: http.Send, answer: dict[str, Any]) -> None:
        try:
            body = compact_json(answer).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise EnvironmentFailedError(f"a task of this environment is not JSON: {error}") from error
        await http.send_pieces(send, HTTPStatus.OK, (body,), b"application/json")

    # Sessions

    async def _create_session(self, request: OrsRequest, send: http.Send) -> None:
        session_id = str(uuid4())
        accepts = request.headers.get("accept", "")
        if "application/json" in accepts and "text/event-stream" not in accepts:
            await http.send_json(send, {"sid": session_id})
            return
        await self._streams.send_whole(send, event("task_id", session_id) + END_OF_LIFE)

    async def _create(self, request: OrsRequest, send: http.Send) -> None:
        session_id = request.session_id
        body = request.parse(CreateRequest)
        environment = body.env_name or self._environment_from_header(request)
        new = SessionRequest(
            environment=environment,
            session_id=session_id,
            task_spec=body.task_spec,
            split=body.split,
            index=body.index,
            toolset=body.toolset_name,
            secrets={**(body.secrets or {}), **read_secrets(request.headers.get("x-secrets"))},
            credential_id=request.caller.credential_id,
            labels=labels_for(request.caller, request.headers),
        )
        if self._defers_environment(request, new):
            self._deferred.defer(session_id, new)
        else:
            fingerprint = fingerprint_of(
                request.caller.credential_id,
                request.headers.get("x-secrets"),
                request.headers.get(LABELS_HEADER),
                request.body,
            )
            await self._create_retries.create(session_id, new, fingerprint, request.receive, request.exchange)
        await http.send_json(send, {"sid": session_id})

    def _defers_environment(self, request: OrsRequest, new: SessionRequest) -> bool:
        """Whether only the paths of later requests name the environment."""
        is_open = new.environment is None and new.split is not None
        if not is_open or len(self._sessions.environments) == 1 or new.session_id is None:
            return False
        if not request.headers.get("user-agent", "").startswith(DEFERRING_USER_AGENT):
            return False
        return self._sessions.episode_of(new.session_id) is None  # else the creation says that the id is live

    def _authorize_session(self, request: OrsRequest) -> str:
        """Return the session id, refusing an agent at another session."""
        session_id = request.session_id
        if request.caller.role <= Role.AGENT:
            request.caller.require_session(session_id, self._sessions.episode_of(session_id))
        return session_id

    async def _resolve_session(self, request: OrsRequest) -> str:
        """Return the session of a request; one whose creation waited for this path is created now."""
        session_id: str = request.headers.get("x-session-id", "").strip()
        if not session_id or request.caller.role <= Role.AGENT:
            session_id = self._authorize_session(request)
        if session_id in self._deferred.waiting:
            await self._deferred.carry_out(session_id, request.environment)
        return session_id

    async def _obtain(self, request: OrsRequest) -> Session:
        return await self._sessions.obtain(await self._resolve_session(request))

    async def _ping(self, request: OrsRequest, send: http.Send) -> None:
        session_id = self._authorize_session(request)
        if session_id not in self._deferred.waiting:
            await self._sessions.obtain(session_id)
        await http.send_json(send, {"status": "ok"})

    async def _delete(self, request: OrsRequest, send: http.Send) -> None:
        session_id = request.session_id
        self._deferred.forget(session_id)
        await self._sessions.delete(session_id)
        await http.send_json(send, {"sid": session_id})

    # Play

    async def _prompt(self, request: OrsRequest, send: http.Send) -> None:
        blocks = await (await self._obtain(request)).prompt()
        await http.send_json(send, [block.model_dump() for block in blocks])

    async def _messages(self, request: OrsRequest, send: http.Send) -> None:
        messages = await (await self._obtain(request)).messages()
        await http.send_json(send, [message.model_dump() for message in messages])

    async def _task_tools(self, request: OrsRequest, send: http.Send) -> None:
        listing = await (await self._obtain(request)).tools()
        await http.send_json(send, listing.model_dump())

    async def _call(self, request: OrsRequest, send: http.Send) -> None:
        session_id = await self._resolve_session(request)
        body = CallRequest.model_validate_json(request.body or b"null")
        session = await self._sessions.obtain(session_id)
        reader = ResultReader(request.caller, session.visibility)
        call_id = body.task_id or None
        retries, exchange = self._call_retries, request.exchange
        lost = retries.take(session_id) if session_id in retries.unanswered else ()
        if call_id is not None and OWN_CALL_ID.fullmatch(call_id):
            try:
                await session.resume(call_id)
            except UnknownCallError as error:
                if not session.is_rebuilt:  # else its server was killed before the step was on record
                    await self._streams.send_whole(send, event("error", str(error)))
                    return
        call: Call | None = None
        for lost_id in lost if call_id is None else ():
            with suppress(CallIdReusedError):  # it was another call
                call = await session.call(body.name, body.input, call_id=lost_id, model_turn=body.model_turn)
                break
        if call is None:
            call = await session.call(body.name, body.input, call_id=call_id, model_turn=body.model_turn)
        on_sent = None
        if call_id is None and exchange is not None:
            retries.note(session_id, call.id, exchange)
            on_sent = partial(retries.forget_answered, session_id, call.id, exchange)

        async def again() -> Call:
            return await self._sessions.find(session_id).call(body.name, body.input, call_id=call.id)

        await self._streams.follow(call, reader, send, again, on_sent)

    async def _score_group(self, request: OrsRequest, send: http.Send) -> None:
        session_id = await self._resolve_session(request)
        body = request.parse(ScoreGroupRequest)
        session = await self._sessions.obtain(session_id)
        reader = ResultReader(request.caller, session.visibility)
        call = await session.score_group(body.candidates, call_id=body.task_id or None)
        await self._streams.follow(call, reader, send)


def _segments(path: str) -> list[str]:
    return [segment for segment in path.split("/") if segment]


def describe_validation(error: ValidationError) -> list[dict[str, Any]]:
    """Describe a body's validation errors as the reference implementation does."""
    count = error.error_count()
    if count > MAX_PROBLEMS:
        return [
            {
                "type": "too_many_problems",
                "loc": ["body"],
                "msg": f"{count} problems; send the documented form",
            }
        ]
    described: list[dict[str, Any]] = []
    for problem in error.errors(include_url=False, include_context=False):
        row: dict[str, Any] = {
            "type": problem["type"],
            "loc": ["body", *problem["loc"]],
            "msg": problem["msg"],
        }
        value = problem["input"]
        if isinstance(value, float):
            is_short = math.isfinite(value)
        else:
            is_text = isinstance(value, str) and len(value) <= MAX_SHOWN_INPUT
            is_short = value is None or isinstance(value, int) or is_text
        if problem["type"] != "json_invalid" and is_short:
            row["input"] = value
        described.append(row)
    return described
