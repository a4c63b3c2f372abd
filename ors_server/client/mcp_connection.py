"""The SDK's MCP client on one endpoint, with retries and the errors of this package."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args

import anyio
import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from pydantic import ConfigDict, ValidationError

from ors_server.client.bounded_http import MAX_PROBLEM_BYTES
from ors_server.client.client_errors import (
    MAX_SHOWN_CHARACTERS,
    BrokenAnswerError,
    UnreachableError,
    named_error,
)
from ors_server.client.client_options import HttpPool
from ors_server.client.connection import Attempts, Connection
from ors_server.client.patient_transport import PatientTransport
from ors_server.client.typed_answers import first_problem
from ors_server.model.errors import (
    Blame,
    ClientError,
    InvalidRequestError,
    NotSupportedError,
    OrsServerError,
    first_of,
)
from ors_server.model.wire import JSONObject

EXTENSION = "org.openrewardstandard/environments"
"""Prefix of the methods that create and read sessions."""

FIGURES_HEADER = {"X-ORS-Rewards": "meta"}
"""Requests the figures of each call in the result's `_meta`."""

Era: TypeAlias = Literal["auto", "legacy", "2026-07-28"]
"""`auto` for the newest protocol that both sides know, `legacy` for the handshake of 2025-11-25 and older."""
ERAS: tuple[str, ...] = get_args(Era)

_Result = TypeVar("_Result")
_UNREAD = ("Unexpected content type", "Redirect to ")
"""What the SDK says in the server's place of an answer that it does not read, as of a wrong request."""
_LOST = frozenset({types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT, types.INTERNAL_ERROR})


class _ExtensionParams(types.RequestParams):
    """Parameters of the extension's methods; the names are not converted."""

    model_config = ConfigDict(extra="allow", alias_generator=None)


class _ExtensionResult(types.Result):
    """A result of the extension's methods."""

    model_config = ConfigDict(extra="allow", alias_generator=None)


class McpConnection:
    """The SDK's client on one endpoint, with retries."""

    def __init__(self, client: Client, carrier: PatientTransport, connection: Connection) -> None:
        self.client = client
        self._carrier = carrier
        self.connection = connection

    async def ask(self, request: Callable[[], Awaitable[_Result]]) -> _Result:
        """Make a repeatable request, again if its answer was lost.

        Raises:
            BrokenAnswerError: If the answer does not have the protocol's form.
            OrsServerError: If the server answered with an error, or too often with none.
        """
        attempts = Attempts(self.connection.patience, self.connection.clock)
        while True:
            try:
                return await request()
            except MCPError as failure:
                error = translate(failure, self._carrier)
                is_lost = error.blame is Blame.MACHINERY and not isinstance(error, BrokenAnswerError)
                if not is_lost or self._carrier.last_error is not None:
                    raise error from failure
                await attempts.pause(error)
            except (ValidationError, RuntimeError) as failure:
                raise broken(failure) from failure

    async def method(self, name: str, fields: JSONObject) -> JSONObject:
        """Call a method of the extension, by its name without the prefix."""
        request = types.Request[Any, str](method=f"{EXTENSION}/{name}", params=_ExtensionParams(**fields))
        answer = await self.ask(lambda: self.client.session.send_request(request, _ExtensionResult))
        return answer.model_dump(by_alias=True, exclude={"meta", "result_type"})


@asynccontextmanager
async def connect(url: str, pool: HttpPool, era: str) -> AsyncGenerator[McpConnection]:
    """Connect to an MCP endpoint."""
    pool.connection.check_open()
    if era not in ERAS:
        raise InvalidRequestError(f"expected an era of {', '.join(ERAS)}, got {era!r}")
    options, patience = pool.options, pool.options.patience
    carrier = PatientTransport(options.transport, patience, options.clock)
    timeout = httpx2.Timeout(patience.silence, connect=min(30.0, patience.silence))
    failure: Exception | None = None
    is_open = False
    try:
        headers = {**pool.headers, **FIGURES_HEADER}
        async with httpx2.AsyncClient(headers=headers, timeout=timeout, transport=carrier) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode=era, cache=None) as client:
                client.session.validate_tool_result = _accept_result  # type: ignore[method-assign]  # see there
                is_open = True
                try:
                    yield McpConnection(client, carrier, pool.connection)
                except Exception as error:  # noqa: BLE001  (raised below, outside the group)
                    failure = error
    # The SDK's task groups wrap errors of the connection; one of the body was kept and is raised unwrapped.
    except* (MCPError, OrsServerError, ValidationError) as group:
        if failure is None:
            failure = _why(group, carrier)
    # An answer that arrives while the SDK closes finds its stream closed; no caller waits for it any more.
    except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
        if not is_open:
            failure = UnreachableError("the connection over MCP was closed while it was opened")
    if failure is not None:
        raise failure


async def _accept_result(name: str, result: types.CallToolResult) -> None:
    """Leave structured content unchecked, which the SDK checks by jsonschema and a schema of the server.

    Nothing reads it here, and such a check has no bound: a hostile schema would hold this program.
    """
    del name, result


def broken(failure: Exception) -> BrokenAnswerError:
    """Return the error for an answer that the SDK cannot read."""
    problem = (
        first_problem(failure)
        if isinstance(failure, ValidationError)
        else str(failure)[:MAX_SHOWN_CHARACTERS]
    )
    return BrokenAnswerError(f"the answer over MCP does not have the protocol's form: {problem}")


def _why(group: BaseExceptionGroup[Any], carrier: PatientTransport) -> Exception:
    leaf = first_of(group)
    if isinstance(leaf, MCPError):
        return translate(leaf, carrier)
    if isinstance(leaf, ValidationError):
        return carrier.last_error or broken(leaf)
    return leaf if isinstance(leaf, Exception) else UnreachableError(str(leaf))


def translate(failure: MCPError, carrier: PatientTransport) -> OrsServerError:
    """Return the error of this package for an error of the protocol."""
    if carrier.last_error is not None:
        return carrier.last_error
    problem = failure.error
    details: Any = problem.data
    data = cast("JSONObject", details) if isinstance(details, dict) else {}
    message = problem.message[:MAX_PROBLEM_BYTES]
    text = str(data.get("detail") or message)[:MAX_PROBLEM_BYTES]
    named = named_error(data.get("code"), data.get("blame"), text)
    if named is not None:
        return named
    if problem.code == types.METHOD_NOT_FOUND:
        return NotSupportedError(f"the server has no such method: {message}")
    if problem.code in _LOST:
        return UnreachableError(f"the answer over MCP was lost: {message}")
    if problem.code == types.PARSE_ERROR or message.startswith(_UNREAD):
        return broken(failure)
    return ClientError(message)
