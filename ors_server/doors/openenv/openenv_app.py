"""Serves environments as OpenEnv does, at `/openenv/{environment}`: a WebSocket, HTTP, JSON-RPC.

Source: `openenv/core/env_server/http_server.py`, `mcp_types.py` and `types.py` of openenv 0.10. A client of
it is a trainer: it chooses tasks and reads rewards.
"""

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import parse_qs

from ors_server._version import __version__
from ors_server.doors.access import Caller, Keyring, Role, withhold
from ors_server.doors.http import messages as http
from ors_server.doors.http.websocket import GOING_AWAY, OFFER, ClosedSocketError, WebSocket, WebSocketOffer
from ors_server.doors.labels import labels_for
from ors_server.doors.openenv.openenv_clients import (
    ACTION,
    OBSERVATION,
    STATE,
    OpenEnvClient,
    OpenEnvClients,
)
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.model.errors import CapacityError, InvalidRequestError, OrsServerError, SessionNotFoundError
from ors_server.model.json_bounds import MAX_VALUES, parse_json
from ors_server.model.logs import get_logger
from ors_server.model.wire import JSONObject, compact_json
from ors_server.sessions.manager import SessionManager

log = get_logger("ors_server.openenv")

ROOT = "openenv"
"""First part of every path."""
_PARSE_ERROR, _INVALID_REQUEST, _NO_METHOD, _INVALID_PARAMS, _INTERNAL, _SERVER = (
    -32700,
    -32600,
    -32601,
    -32602,
    -32603,
    -32000,
)
"""JSON-RPC's error codes."""

_RPC_CODES: Mapping[type[OrsServerError], int] = {
    SessionNotFoundError: _INVALID_PARAMS,
    InvalidRequestError: _INVALID_PARAMS,
    CapacityError: _SERVER,
}
"""Codes of errors; any other error is an internal one."""

METHODS: Mapping[str, str] = {
    "health": "GET",
    "metadata": "GET",
    "schema": "GET",
    "state": "GET",
    "openapi.json": "GET",
    "reset": "POST",
    "step": "POST",
    "mcp": "POST",
}
"""Method of each path over HTTP."""


def is_openenv_path(path: str) -> bool:
    """Return whether OpenEnv's clients use a path, at the root of a server of one environment."""
    return path.removeprefix("/") in _ROOT_PATHS


_ROOT_PATHS = frozenset({*METHODS, "ws"})


class OpenEnvRequest:
    """A request whose environment and caller are known."""

    def __init__(
        self, definition: EnvironmentDefinition, caller: Caller, scope: http.Scope, body: bytes
    ) -> None:
        self.definition = definition
        self.caller = caller
        self.headers = http.read_headers(scope)
        self.query = {name: values[-1] for name, values in parse_qs(scope["query_string"].decode()).items()}
        self.body = body

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels that the client gives its episodes, in its headers."""
        return labels_for(self.caller, self.headers)

    async def parse(self) -> JSONObject:
        """Return the body as an object, which is empty if there is no body."""
        try:
            value = await parse_json(self.body or b"{}", MAX_VALUES)
        except ValueError as error:
            raise InvalidRequestError(f"the body is not JSON: {error}") from error
        if not isinstance(value, dict):
            raise InvalidRequestError(f"expected a JSON object as the body, got {type(value).__name__}")
        return cast("JSONObject", value)


class OpenEnvApp:
    """The door as an ASGI application."""

    def __init__(
        self,
        sessions: SessionManager,
        keyring: Keyring,
        *,
        max_body_bytes: int,
        idle_seconds: float,
        lets_visitors_in: bool = False,
    ) -> None:
        """Serve every environment of a session manager.

        Args:
            lets_visitors_in: Whether a public server serves its visitors here too, with rewards.
        """
        self._lets_visitors_in = lets_visitors_in
        self._sessions = sessions
        self._keyring = keyring
        self._max_body_bytes = max_body_bytes
        self._clients = OpenEnvClients(sessions, idle_seconds)
        self._sockets: set[WebSocket] = set()

    def stop(self) -> None:
        """Close every WebSocket, so that the server need not wait for them."""
        for socket in list(self._sockets):
            self._sessions.services.spawn(socket.close, GOING_AWAY)

    async def __call__(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        """Serve one HTTP request, which may become a WebSocket."""
        caller: Caller | None = None
        try:
            match [part for part in scope["path"].split("/") if part]:
                case [_, environment, name]:
                    definition = self._sessions.environment(environment)
                case _:
                    await http.send_json(send, {"detail": "Not Found"}, HTTPStatus.NOT_FOUND)
                    return
            caller = self._keyring.caller_of(http.read_headers(scope), scope)
            if not (caller.is_visitor and self._lets_visitors_in):
                caller.require(Role.TRAINER)
            if name == "ws":
                await self._open_socket(OpenEnvRequest(definition, caller, scope, b""), scope, send)
                return
            method = METHODS.get(name)
            if method != scope["method"]:
                status = HTTPStatus.NOT_FOUND if method is None else HTTPStatus.METHOD_NOT_ALLOWED
                await http.send_json(send, {"detail": status.phrase}, status)
                return
            coding = http.read_headers(scope).get("content-encoding")
            body = await http.read_body(receive, self._max_body_bytes, coding)
            await http.send_json(
                send, await self._answer(name, OpenEnvRequest(definition, caller, scope, body))
            )
        except http.ClientGoneError:
            return
        except OrsServerError as error:
            await http.send_fault(send, _as_read_by(caller, error))

    # HTTP

    async def _answer(self, name: str, request: OpenEnvRequest) -> JSONObject:
        definition = request.definition
        answer: JSONObject = {"status": "healthy"}
        match name:
            case "health":
                pass
            case "metadata":
                description = definition.description or f"{definition.name}, served by ors-server"
                answer = {
                    "name": definition.name,
                    "description": description,
                    "version": definition.version,
                }
            case "schema":
                answer = {"action": ACTION, "observation": OBSERVATION, "state": STATE}
            case "state":
                client = await self._find_client(request, {})
                answer = {"episode_id": None, "step_count": 0} if client is None else client.state()
            case "mcp":
                try:
                    answer = await self._answer_rpc(request, await request.parse(), None)
                except InvalidRequestError as error:
                    answer = _rpc_error(None, _PARSE_ERROR, str(error))
            case "openapi.json":
                answers = {"responses": {"200": {"description": "OK"}}}
                paths = {f"/{path}": {method.lower(): answers} for path, method in METHODS.items()}
                info = {"title": definition.name, "version": __version__}
                answer = {"openapi": "3.1.0", "info": info, "paths": paths}
            case _:
                answer = await self._play(request, name, await request.parse())
        return answer

    async def _play(self, request: OpenEnvRequest, name: str, data: JSONObject) -> JSONObject:
        """Reset or step over HTTP."""
        action: object = data.get("action")
        if name == "step" and not isinstance(action, dict):
            raise InvalidRequestError(f"expected the field action to be an object, got {action!r:.80}")
        client = await self._find_client(request, data)
        if name == "reset":
            return await self._clients.reset(client or self._add_client(request), data)
        if client is None:
            raise InvalidRequestError("missing session_id: send the one in the observation of /reset")
        return await self._clients.step(client, cast("JSONObject", action))

    async def _find_client(self, request: OpenEnvRequest, data: Mapping[str, Any]) -> OpenEnvClient | None:
        """Return the client whose id a request has in its body, query or header; `None` without an id."""
        client_id = (
            data.get("session_id") or request.query.get("session_id") or request.headers.get("x-session-id")
        )
        if not isinstance(client_id, str) or not client_id:
            return None
        return await self._clients.find(client_id, request.definition, request.caller.credential_id)

    def _add_client(self, request: OpenEnvRequest) -> OpenEnvClient:
        return self._clients.open(request.definition, request.caller.credential_id, request.labels)

    # JSON-RPC

    async def _answer_rpc(
        self, request: OpenEnvRequest, message: JSONObject, client: OpenEnvClient | None
    ) -> JSONObject:
        """Answer a JSON-RPC message, for the client of its WebSocket or for the one whose id it has."""
        request_id, method = message.get("id"), message.get("method")
        params: object = message.get("params", {})
        if not isinstance(method, str):
            return _rpc_error(request_id, _INVALID_REQUEST, "expected method to be a string")
        if not isinstance(params, dict):
            return _rpc_error(request_id, _INVALID_PARAMS, "Params must be an object")
        try:
            result = await self._call_rpc(request, method, cast("JSONObject", params), client)
        except OrsServerError as error:
            codes = (code for kind, code in _RPC_CODES.items() if isinstance(error, kind))
            return _rpc_error(request_id, next(codes, _INTERNAL), str(_as_read_by(request.caller, error)))
        if result is None:
            return _rpc_error(request_id, _NO_METHOD, f"Method not found: {method}")
        return {"jsonrpc": "2.0", "id": request_id, "result": result}

    async def _call_rpc(
        self, request: OpenEnvRequest, method: str, params: JSONObject, client: OpenEnvClient | None
    ) -> JSONObject | None:
        if method == "openenv/session/create":
            return {"session_id": (client or self._add_client(request)).id}
        if method not in {"openenv/session/close", "tools/list", "tools/call"}:
            return None
        target = client or await self._find_client(request, params)
        if method == "openenv/session/close":
            if target is None:
                raise InvalidRequestError("Invalid params - 'session_id' is required")
            if target is client:
                raise InvalidRequestError("Cannot close active WebSocket-managed session via MCP method")
            await self._clients.close(target)
            return {"session_id": params["session_id"], "closed": True}
        if method == "tools/list":
            tools = await self._clients.tools(target or OpenEnvClient(request.definition, None, {}))
            return {"tools": [{**tool, "inputSchema": tool["input_schema"]} for tool in tools]}
        tool, arguments = params.get("name"), params.get("arguments", {})
        if target is None or not isinstance(tool, str) or not isinstance(arguments, dict):
            raise InvalidRequestError(
                "expected session_id and name to be strings, and arguments to be an object"
            )
        answer = await self._clients.call(target, tool, cast("JSONObject", arguments))
        observation = answer["observation"]
        if observation["error"] is not None:  # the call failed: the tool does not exist, for example
            raise InvalidRequestError(observation["error"]["message"])
        result: JSONObject = observation["result"]
        return result

    # WebSocket

    async def _open_socket(self, request: OpenEnvRequest, scope: http.Scope, send: http.Send) -> None:
        offer: WebSocketOffer | None = scope.get("extensions", {}).get(OFFER)
        if offer is None:
            upgrade = {"detail": "expected a WebSocket: Upgrade Required"}
            await http.send_json(send, upgrade, HTTPStatus.UPGRADE_REQUIRED, {"upgrade": "websocket"})
            return
        client = await self._find_client(request, {})
        is_new = client is None
        client = client or self._add_client(request)
        socket = offer.accept(self._max_body_bytes)
        self._sockets.add(socket)
        previous_socket, client.socket = client.socket, socket
        if previous_socket is not None:  # the client's network broke, and it connected a second time
            self._sessions.services.spawn(previous_socket.close, GOING_AWAY)
        try:
            await self._converse(request, client, socket, is_new=is_new)
        except ClosedSocketError:
            pass  # the client may connect again: the episode stays until its idle time is over
        finally:
            client.used_at = self._clients.now
            if client.socket is socket:
                client.socket = None
            self._sockets.discard(socket)
            await asyncio.shield(socket.close())
            offer.finish()

    async def _converse(
        self, request: OpenEnvRequest, client: OpenEnvClient, socket: WebSocket, *, is_new: bool
    ) -> None:
        while True:
            text = await socket.receive()
            try:
                value = await parse_json(text.encode(), MAX_VALUES)
            except ValueError as error:
                await socket.send(_socket_error("INVALID_JSON", f"Invalid JSON: {error}"))
                continue
            message = cast("JSONObject", value) if isinstance(value, dict) else {}
            kind, data = message.get("type", ""), message.get("data", {})
            if kind == "close":
                if is_new:  # otherwise the client closes its session over JSON-RPC
                    await self._clients.close(client)
                return
            if not isinstance(kind, str) or kind not in {"reset", "step", "state", "mcp"}:
                await socket.send(_socket_error("UNKNOWN_TYPE", f"Unknown message type: {kind!r:.80}"))
            elif not isinstance(data, dict):
                await socket.send(_socket_error("VALIDATION_ERROR", "expected data to be an object"))
            else:
                try:
                    answer = await self._answer_message(request, client, kind, cast("JSONObject", data))
                except CapacityError as error:
                    await socket.send(_socket_error("CAPACITY_REACHED", str(error)))
                    await self._clients.close(client)
                    return
                except InvalidRequestError as error:
                    await socket.send(_socket_error("VALIDATION_ERROR", str(error)))
                except OrsServerError as error:
                    text = str(_as_read_by(request.caller, error))
                    await socket.send(_socket_error("EXECUTION_ERROR", text))
                else:
                    await socket.send(compact_json(answer))

    async def _answer_message(
        self, request: OpenEnvRequest, client: OpenEnvClient, kind: str, data: JSONObject
    ) -> JSONObject:
        match kind:
            case "reset":
                return {"type": "observation", "data": await self._clients.reset(client, data)}
            case "step":
                return {"type": "observation", "data": await self._clients.step(client, data)}
            case "state":
                return {"type": "state", "data": client.state()}
            case _:
                return {"type": "mcp", "data": await self._answer_rpc(request, data, client)}


def _as_read_by(caller: Caller | None, error: OrsServerError) -> OrsServerError:
    """Return an error as its reader may read it: every caller may be a visitor of a public server."""
    return error if caller is None or not caller.is_public else withhold(error)


def _rpc_error(request_id: object, code: int, message: str) -> JSONObject:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def _socket_error(code: str, message: str) -> str:
    return json.dumps({"type": "error", "data": {"message": message, "code": code}})
