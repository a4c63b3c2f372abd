"""The control API, below `/_ors`: its table of operations, its description, and the app that serves it."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from http import HTTPStatus
from typing import Any, TypeAlias, cast

import anyio
from anyio.lowlevel import checkpoint
from pydantic import BaseModel, TypeAdapter

from ors_server._version import __version__
from ors_server.doors.access import OPEN_CALLER, Caller, Keyring, Role, withhold
from ors_server.doors.control.batches import BatchHandlers
from ors_server.doors.control.episode_jobs import EpisodeJobs
from ors_server.doors.control.episodes import EpisodeHandlers
from ors_server.doors.control.handlers import ControlHandlers
from ors_server.doors.control.hosts import HostControl, HostHandlers
from ors_server.doors.control.models import Description
from ors_server.doors.control.operations import (
    PREFIX,
    ControlRequest,
    EventResponse,
    Operation,
    WrittenAnswer,
    encode,
    encode_parts,
    segments_of,
)
from ors_server.doors.control.peers import Peers
from ors_server.doors.http import messages as http
from ors_server.doors.http.faults import extra_headers, look_up, pending_fields
from ors_server.doors.http.request_errors import (
    MethodNotAllowedError,
    Problem,
    UnknownPathError,
    WrongRequestError,
)
from ors_server.doors.http.sse import EVENT_HEADERS
from ors_server.files.attribute_docs import DocumentedJsonSchema, attribute_docs
from ors_server.model.errors import OrsServerError
from ors_server.model.logs import get_logger
from ors_server.model.settings import Settings
from ors_server.model.trajectory import Step
from ors_server.sessions.manager import SessionManager

log = get_logger("ors_server.control")

READ_PATIENCE = 60.0
"""Seconds after which the stream of a reader that reads nothing is closed."""


ENVIRONMENT = "/environments/{name}"
TASKS = ENVIRONMENT + "/splits/{split}/tasks"
DIFFICULTY = ENVIRONMENT + "/splits/{split}/difficulty"
SESSION = "/sessions/{session_id}"
SNAPSHOTS = SESSION + "/snapshots"
EPISODE = "/episodes/{episode}"


def make_table(
    server: ControlHandlers,
    episodes: EpisodeHandlers,
    jobs: EpisodeJobs,
    batches: BatchHandlers,
    hosts: HostHandlers,
) -> tuple[Operation, ...]:
    """Return every operation; of two that fit a path, the first one counts."""
    created, accepted, play = HTTPStatus.CREATED, HTTPStatus.ACCEPTED, Role.AGENT
    rebuilt = (404, 410, 429, 503)  # what can keep a request from a session that a killed server left open
    return (
        Operation("GET", "/health", server.get_health, role=None),
        Operation("GET", "/ready", server.get_readiness, role=None, failures=(503,)),
        Operation("GET", "/version", server.get_version, role=None),
        Operation("GET", "/openapi.json", server.get_description, role=None),
        Operation("GET", "/status", server.get_status),
        Operation("GET", "/settings", server.get_settings, Role.ADMIN),
        Operation("POST", "/token-secret", server.renew_token_secret, Role.ADMIN, failures=(404, 503)),
        Operation("POST", "/shutdown", server.shut_down, Role.ADMIN, accepted, failures=(404,)),
        Operation("GET", "/hosts", hosts.list_hosts, Role.ADMIN, failures=(503,)),
        Operation("GET", "/slots", hosts.get_own_slots, role=None, failures=(404,)),
        Operation("POST", "/hosts/{host}/drain", hosts.drain_host, Role.ADMIN, accepted, failures=(404, 503)),
        Operation("POST", "/restart", hosts.restart_hosts, Role.ADMIN, accepted, failures=(404,)),
        Operation("GET", "/environments", server.list_environments),
        Operation("GET", ENVIRONMENT, server.get_environment, failures=(404,)),
        Operation("GET", TASKS, server.list_tasks, failures=(404, 500)),
        Operation("GET", TASKS + "/{index}", server.get_task, failures=(404, 500)),
        Operation("GET", DIFFICULTY, episodes.get_difficulty, failures=(503,)),
        Operation(
            "POST", "/sessions", server.create_session, status=created, failures=(404, 409, 429, 500, 503)
        ),
        Operation("GET", "/sessions", server.list_sessions, failures=(404,)),
        Operation("GET", SESSION, server.get_session, failures=(404, 429, 503)),
        Operation("DELETE", SESSION, server.delete_session, failures=(404, 503)),
        Operation("GET", SESSION + "/steps", server.list_steps, failures=(404, 503)),
        Operation("POST", SNAPSHOTS, server.take_snapshot, status=created, failures=(*rebuilt, 409, 500)),
        Operation("GET", SNAPSHOTS, server.list_snapshots, failures=rebuilt),
        Operation("DELETE", SNAPSHOTS + "/{snapshot_id}", server.discard_snapshot, failures=rebuilt),
        Operation(
            "POST",
            SNAPSHOTS + "/{snapshot_id}/restore",
            server.restore_snapshot,
            failures=(*rebuilt, 409, 500),
        ),
        Operation(
            "POST",
            SESSION + "/fork",
            server.fork_session,
            status=created,
            failures=(*rebuilt, 409, 500),
        ),
        Operation("POST", SESSION + "/token", server.mint_token, failures=rebuilt),
        Operation("GET", SESSION + "/prompt", server.get_prompt, play, failures=(*rebuilt, 500)),
        Operation("GET", SESSION + "/messages", server.get_messages, play, failures=(*rebuilt, 500)),
        Operation("GET", SESSION + "/tools", server.get_tools, play, failures=(*rebuilt, 500)),
        Operation("POST", SESSION + "/calls", server.call_tool, play, failures=(*rebuilt, 500)),
        Operation("POST", SESSION + "/calls/{call_id}/cancel", server.cancel_call, play, failures=rebuilt),
        Operation("POST", "/batches/sessions", batches.create_sessions),
        Operation("POST", "/batches/calls", batches.call_tools),
        Operation("POST", "/batches/deletions", batches.delete_sessions),
        Operation("GET", "/episodes", episodes.list_episodes, failures=(404, 503)),
        Operation("GET", "/episodes/totals", episodes.sum_up_episodes, failures=(503,)),
        Operation("GET", "/episodes/by-task", episodes.list_tasks_played, failures=(503,)),
        Operation("GET", "/episodes/series", episodes.list_series, failures=(503,)),
        Operation("GET", "/episodes/histogram", episodes.count_returns, failures=(503,)),
        Operation("GET", "/events", episodes.activity.follow_everything, failures=(429, 503)),
        Operation("GET", "/calls/by-minute", episodes.count_calls, failures=(503,)),
        Operation("GET", "/runs/{run}/groups", episodes.list_groups, failures=(503,)),
        Operation("GET", "/runs/{run}/alarms", episodes.list_alarms, failures=(503,)),
        Operation("GET", "/runs", episodes.list_runs, failures=(503,)),
        Operation("GET", EPISODE, episodes.get_episode, failures=(404, 409, 503)),
        Operation("GET", EPISODE + "/steps", episodes.list_episode_steps, failures=(404, 409, 503)),
        Operation(
            "GET", EPISODE + "/steps/{number}/blocks/{index}", episodes.get_block, failures=(404, 409, 503)
        ),
        Operation("GET", EPISODE + "/notes", episodes.list_notes, failures=(404, 409, 503)),
        Operation("POST", EPISODE + "/notes", episodes.add_note, status=created, failures=(404, 409, 503)),
        Operation("GET", EPISODE + "/events", episodes.follow_episode, failures=(404, 409, 503)),
        Operation("GET", EPISODE + "/export", jobs.export_episode, failures=(404, 409, 503)),
        Operation("POST", EPISODE + "/regrade", jobs.regrade_episode, failures=(404, 409, 503)),
        Operation(
            "POST",
            EPISODE + "/replay",
            jobs.replay_episode,
            status=created,
            failures=(404, 409, 429, 500, 503),
        ),
    )


class ControlApp:
    """Serves everything below `/_ors`."""

    def __init__(
        self,
        manager: SessionManager,
        keyring: Keyring,
        settings: Settings,
        *,
        episodes: EpisodeHandlers,
        shutdown: Callable[[], None] | None = None,
        hosts: HostControl | None = None,
    ) -> None:
        """Make the table.

        Args:
            shutdown: Stops the server soon after it returned; `None` if no caller may.
            hosts: What the hosts can be asked for; `None` for a server that is a single process.
        """
        self._keyring = keyring
        self._public_url = settings.public_url
        self._max_body_bytes = settings.max_body_bytes
        self._manager = manager
        self._description: Description | None = None
        self.peers = Peers(settings.slot)
        """The caller closes them when the server ends."""
        episodes.activity.peers = self.peers
        self.handlers = ControlHandlers(manager, keyring, settings, self.describe, shutdown, self.peers)
        self.episodes = episodes
        self.jobs = EpisodeJobs(manager)
        self.batches = BatchHandlers(self.handlers, manager, self.peers)
        self.table = make_table(self.handlers, episodes, self.jobs, self.batches, HostHandlers(hosts))

    def describe(self) -> Description:
        """Return the OpenAPI description; it is made for the first request."""
        if self._description is None:
            document = describe(self.table, needs_credential=not self._keyring.is_open)
            self._description = Description(document)
        return self._description

    async def __call__(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        """Serve one HTTP request."""
        try:
            status, answer = await self._answer(scope, receive)
            if not isinstance(answer, EventResponse):
                pieces = answer.pieces if isinstance(answer, WrittenAnswer) else await _encode_sliced(answer)
                await http.send_pieces(send, status, pieces, b"application/json")
                return
        except http.ClientGoneError:
            return
        except OrsServerError as error:
            await _send_problem(send, error)
            return
        except Exception:  # the border between a defect of ours and the caller
            log.exception("control_defect", method=scope["method"])
            await _send_problem(send, OrsServerError("the server failed; its log has the details"))
            return
        headers = http.read_headers(scope)

        def may_read() -> bool:
            try:
                self._keyring.caller_of(headers, scope)
            except OrsServerError:
                return False
            return True

        await send_events(answer.pieces, receive, send, may_read)

    async def _answer(self, scope: http.Scope, receive: http.Receive) -> tuple[int, object]:
        operation, values = self._find(scope)
        headers = http.read_headers(scope)
        caller = OPEN_CALLER
        if operation.role is not None:
            caller = self._keyring.caller_of(headers, scope)
            self._authorise(caller, operation)
        if "session_id" in values:
            session_id = values["session_id"]
            caller.require_session(session_id, self._manager.episode_of(session_id))
        path = operation.check_path(values)
        request = ControlRequest(
            caller=caller,
            base_url=self._public_url or http.base_url(scope, headers),
            query_string=scope["query_string"].decode("latin-1"),
            raw_body=await http.read_body(receive, self._max_body_bytes, headers.get("content-encoding")),
            headers=headers,
        )
        try:
            return operation.status, await operation.run(request, path)
        except OrsServerError as error:
            if operation.role is None or caller.role >= Role.TRAINER:
                raise
            raise withhold(error) from error.__cause__

    def _authorise(self, caller: Caller, operation: Operation) -> None:
        """Refuse a caller of a lower role; what needs an admin is logged, done or refused."""
        role = Role.AGENT if operation.role is None else operation.role
        if role is Role.ADMIN:
            is_allowed = caller.role >= role
            note = log.info if is_allowed else log.warning
            note(
                "admin_act" if is_allowed else "admin_act_refused",
                method=operation.method,
                path=operation.path,
                credential_id=caller.credential_id,
                role=caller.role.name.lower(),
            )
        caller.require(role)

    def _find(self, scope: http.Scope) -> tuple[Operation, Mapping[str, str]]:
        segments = segments_of(scope.get("raw_path") or scope["path"].encode())
        method = scope["method"]
        allowed: list[str] = []
        for operation in self.table:
            values = None if segments is None else operation.match(segments)
            if values is not None and operation.method == method:
                return operation, values
            if values is not None and operation.method not in allowed:
                allowed.append(operation.method)
        if not allowed:
            raise UnknownPathError(
                f"no operation has the path {scope['path']!r}; /_ors/openapi.json lists them all"
            )
        raise MethodNotAllowedError(
            f"the method of this path must be {' or '.join(allowed)}, got {method}", allowed=allowed
        )


async def _encode_sliced(answer: object) -> list[bytes]:
    """Write an answer as JSON, in pieces between which others run; each step of a page apart."""
    steps: object = getattr(answer, "steps", None)
    if not isinstance(answer, BaseModel) or not isinstance(steps, list):
        return await _encode_patiently(answer)
    frame = encode(answer.model_copy(update={"steps": []})).encode()
    before, mark, after = frame.partition(b'"steps":[')
    pieces = [before, mark]
    for number, step in enumerate(cast("list[object]", steps)):
        pieces += [b"," if number else b"", *await _encode_patiently(step)]
        await checkpoint()
    return [*pieces, after]


async def _encode_patiently(answer: object) -> list[bytes]:
    pieces: list[bytes] = []
    for piece in encode_parts(answer):
        if pieces:
            await checkpoint()
        pieces.append(piece)
    return pieces


async def _send_problem(send: http.Send, error: OrsServerError) -> None:
    fault = look_up(error)
    mistakes = error.mistakes if isinstance(error, WrongRequestError) else None
    problem = Problem(
        detail=str(error), code=error.code, blame=error.blame, mistakes=mistakes, **pending_fields(error)
    )
    extra = extra_headers(error)
    if isinstance(error, MethodNotAllowedError):
        extra["allow"] = ", ".join(error.allowed)
    await http.send_json(send, problem.model_dump(mode="json"), fault.control_status, extra)


async def send_events(
    events: AsyncGenerator[bytes, None],
    receive: http.Receive,
    send: http.Send,
    may_read: Callable[[], bool],
    extra: Sequence[tuple[bytes, bytes]] = (),
) -> None:
    """Send events until there are no more, or until the reader has left or has not read for too long.

    Args:
        may_read: Returns whether the reader's credential is still accepted; asked before each event, pings
            included.
        extra: Further headers.
    """
    async with aclosing(events) as pieces, anyio.create_task_group() as tasks:
        await send({"type": "http.response.start", "status": 200, "headers": [*EVENT_HEADERS, *extra]})
        tasks.start_soon(_leave_with_the_reader, receive, tasks.cancel_scope)
        async for piece in pieces:
            if not may_read():
                break
            with anyio.move_on_after(READ_PATIENCE) as patience:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            if patience.cancelled_caught:
                tasks.cancel_scope.cancel()
                return
        await send({"type": "http.response.body", "body": b""})
        tasks.cancel_scope.cancel()


async def _leave_with_the_reader(receive: http.Receive, scope: anyio.CancelScope) -> None:
    await http.until_disconnected(receive)
    scope.cancel()


# The OpenAPI description

DESCRIPTION = """\
Sessions, tasks, records and settings for trainers and evaluations; JSON throughout.

Every failure is a `Problem`: `detail` for people, `code` for programs, `blame` for who has to act.
A credential is an API key or an agent token, sent as `X-API-Key` or as a bearer token. A server without keys
binds to loopback only, and every caller is a trainer. Requests with a foreign Host or Origin are refused
first (421, 403).
"""

_CREDENTIALS = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}
_RETRY_AFTER = {
    "Retry-After": {
        "required": True,
        "description": "Seconds after which a repeat is sensible.",
        "schema": {"type": "integer", "minimum": 1},
    }
}
_HEADERS: Mapping[int, dict[str, Any]] = {
    HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": {"required": True, "schema": {"type": "string"}}},
    HTTPStatus.TOO_MANY_REQUESTS: _RETRY_AFTER,
    HTTPStatus.SERVICE_UNAVAILABLE: _RETRY_AFTER,
}
_Schemas: TypeAlias = Mapping[Any, dict[str, Any]]


def describe(operations: Sequence[Operation], *, needs_credential: bool) -> dict[str, Any]:
    """Return an OpenAPI 3.1 document of the table; `needs_credential` says that keys are configured."""
    wanted = dict.fromkeys((operation.signature.answer, "serialization") for operation in operations)
    wanted = {(Problem, "serialization"): None, **wanted}
    wanted |= dict.fromkeys(
        (operation.body, "validation") for operation in operations if operation.body is not None
    )
    schemas, definitions = TypeAdapter.json_schemas(
        [(kind, cast("Any", mode), TypeAdapter(kind)) for kind, mode in wanted],
        by_alias=True,
        ref_template="#/components/schemas/{model}",
        schema_generator=DocumentedJsonSchema,
    )
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        described = _describe_operation(operation, schemas)
        if operation.role is not None:
            described["security"] = [
                *([] if needs_credential else [{}]),
                *({name: []} for name in _CREDENTIALS),
            ]
        paths.setdefault(PREFIX + operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": "ors-server control API", "version": __version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {"schemas": definitions["$defs"], "securitySchemes": _CREDENTIALS},
    }


def _describe_operation(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    path = operation.signature.path
    path_parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": path[name].json_schema()}
        for name in operation.parameters
    ]
    described: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.signature.summary,
        "parameters": [*path_parameters, *_query_parameters(operation)],
        "responses": _responses(operation, schemas),
        "security": [],
        "x-role": None if operation.role is None else operation.role.name.lower(),
    }
    if operation.body is not None:
        content = {"application/json": {"schema": schemas[operation.body, "validation"]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    docs: Mapping[str, str] = {} if operation.query is None else attribute_docs(operation.query)
    parameters: list[dict[str, Any]] = []
    for name, field in ({} if operation.query is None else operation.query.model_fields).items():
        schema = TypeAdapter(field.rebuild_annotation()).json_schema()
        # Without null, which a query cannot send: it leaves a parameter out.
        options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
        parameters.append(
            {
                "name": name,
                "in": "query",
                "required": field.is_required(),
                "schema": options[0] if len(options) == 1 else schema,
                **({"description": text} if (text := field.description or docs.get(name)) else {}),
            }
        )
    return parameters


_EVENT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "event": {"enum": ["step", "summary", "end", "error", "opened", "call", "closed", "missed"]},
        "id": {"type": "string"},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}
"""One event of a stream: before OpenAPI 3.2 a schema of `text/event-stream` describes each event."""


def _responses(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    summary, answer = operation.signature.summary, operation.signature.answer
    content: dict[str, Any] = {"application/json": {"schema": schemas[answer, "serialization"]}}
    if operation.signature.is_stream:
        step = f"`step` (data: {answer.__name__}, id: its number)"
        text = f"Events {step}, `summary`, then one `end` or `error` (Problem)."
        if answer is not Step:
            words = f"`opened`, `call`, `step` and `closed` (data: {answer.__name__})"
            text = f"Events {words}, `missed` (data: how many), then one `end` or `error` (Problem)."
        content = {"text/event-stream": {"schema": {**_EVENT_SCHEMA, "description": text}}}
    problem = {"application/json": {"schema": schemas[Problem, "serialization"]}}
    responses: dict[str, Any] = {str(int(operation.status)): {"description": summary, "content": content}}
    for status in operation.all_failures:
        headers = {"headers": _HEADERS[status]} if status in _HEADERS else {}
        phrase = HTTPStatus(status).phrase
        responses[str(status)] = {"description": phrase, "content": problem, **headers}
    return responses
