"""The control API, below `/_ors`: finds the row of a request, enforces it, and writes the answer."""

from collections.abc import Callable, Mapping
from typing import cast

from anyio.lowlevel import checkpoint
from pydantic import BaseModel

from ors_server.errors import OrsServerError
from ors_server.logs import get_logger
from ors_server.sessions.manager import SessionManager
from ors_server.settings import Settings
from ors_server.transports import http
from ors_server.transports.access import Caller, Keyring, Role, credential_from
from ors_server.transports.control_episodes import EpisodeHandlers
from ors_server.transports.control_handlers import ControlHandlers
from ors_server.transports.control_models import Description, Problem
from ors_server.transports.control_openapi import describe
from ors_server.transports.control_routes import (
    EventStream,
    MethodNotAllowedError,
    Operation,
    Request,
    UnknownPathError,
    WrongRequestError,
    check_path,
    encode,
    encode_parts,
    segments_of,
)
from ors_server.transports.control_streams import send_events
from ors_server.transports.control_table import make_table
from ors_server.transports.faults import extra_headers, look_up, pending_fields
from ors_server.transports.redaction import withhold

log = get_logger("ors_server.control")


class ControlDoor:
    """Serves everything below `/_ors`."""

    def __init__(
        self,
        engine: SessionManager,
        keyring: Keyring,
        settings: Settings,
        *,
        episodes: EpisodeHandlers,
        shutdown: Callable[[], None] | None = None,
    ) -> None:
        """Open the door.

        Args:
            engine: Where sessions live.
            keyring: Identifies callers.
            settings: The server's settings.
            episodes: Answers what is asked of the record.
            shutdown: Stops the server soon after it returned; `None` where nobody can.
        """
        self._keyring = keyring
        self._public_url = settings.public_url
        self._max_body_bytes = settings.max_body_bytes
        self._engine = engine
        self._description: Description | None = None
        self.table = make_table(
            ControlHandlers(engine, keyring, settings, describe=self.describe, shutdown=shutdown), episodes
        )
        """Every route."""

    def describe(self) -> Description:
        """Return the OpenAPI description; it is made when somebody first asks for it."""
        if self._description is None:
            document = describe(self.table, needs_credential=not self._keyring.is_open)
            self._description = Description(document)
        return self._description

    async def __call__(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        """Serve one HTTP request."""
        try:
            status, answer = await self._answer(scope, receive)
            if not isinstance(answer, EventStream):
                await http.send_pieces(send, status, await _encode_sliced(answer), b"application/json")
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
        await send_events(answer, receive, send)

    async def _answer(self, scope: http.Scope, receive: http.Receive) -> tuple[int, BaseModel | EventStream]:
        operation, values = self._find(scope)
        headers = http.headers_of(scope)
        caller = OPEN_CALLER
        if operation.role is not None:
            caller = self._keyring.identify(credential_from(headers))
            caller.require(operation.role)
        if "session_id" in values:
            session_id = values["session_id"]
            caller.require_session(session_id, self._engine.episode_of(session_id))
        request = Request(
            caller=caller,
            path=check_path(values),
            base_url=self._public_url or base_url(scope, headers),
            query_string=scope["query_string"].decode("latin-1"),
            raw_body=await http.read_body(receive, self._max_body_bytes, headers.get("content-encoding")),
            headers=headers,
        )
        try:
            return operation.status, await operation.handler(request)
        except OrsServerError as error:
            if operation.role is None or caller.role >= Role.TRAINER:
                raise
            raise withhold(error) from error.__cause__

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
            raise UnknownPathError(f"nothing is at {scope['path']!r}; see /_ors/openapi.json")
        raise MethodNotAllowedError(f"this path knows {', '.join(allowed)}, not {method}", allowed=allowed)


def base_url(scope: http.Scope, headers: Mapping[str, str]) -> str:
    """Say where the caller reached the server: scheme, host and mount point, without a slash at the end.

    Args:
        scope: The ASGI scope.
        headers: The request's headers.
    """
    return f"{scope.get('scheme', 'http')}://{headers.get('host', 'localhost')}{scope.get('root_path', '')}"


OPEN_CALLER = Caller(Role.AGENT)
"""Who asks for what needs no credential."""


async def _encode_sliced(answer: BaseModel) -> list[bytes]:
    """Write an answer as JSON, in pieces between which others run; each step of a page apart."""
    steps: object = getattr(answer, "steps", None)
    if not isinstance(steps, list):
        return await _encode_patiently(answer)
    frame = encode(answer.model_copy(update={"steps": []})).encode()
    before, mark, after = frame.partition(b'"steps":[')
    pieces = [before, mark]
    for number, step in enumerate(cast("list[BaseModel]", steps)):
        pieces += [b"," if number else b"", *await _encode_patiently(step)]
        await checkpoint()
    return [*pieces, after]


async def _encode_patiently(answer: BaseModel) -> list[bytes]:
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
