"""The SDK's own MCP client on one endpoint, made patient, and its failures turned into ours."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args

import httpx2
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from pydantic import ConfigDict

from ors_server.client.client_errors import UnreachableError, named_error
from ors_server.client.client_options import Reach
from ors_server.client.connection import Attempts, Connection
from ors_server.client.patient_transport import PatientTransport
from ors_server.errors import Blame, ClientError, InvalidRequestError, NotSupportedError, OrsServerError
from ors_server.wire import JSONObject

EXTENSION = "org.openrewardstandard/environments"
"""Prefix of the methods with which a trainer makes and reads sessions."""

FIGURES_HEADER = {"X-ORS-Rewards": "meta"}
"""Asks the server for the figures of each call in the result's `_meta`."""

Era: TypeAlias = Literal["auto", "legacy", "2026-07-28"]
"""`auto` for the newest protocol that both sides know, `legacy` for the handshake of 2025-11-25 and older."""
ERAS: tuple[str, ...] = get_args(Era)

_Result = TypeVar("_Result")
_LOST = frozenset({types.CONNECTION_CLOSED, types.REQUEST_TIMEOUT, types.INTERNAL_ERROR})


class _Params(types.RequestParams):
    """Parameters of an extension's method, spelled as they are."""

    model_config = ConfigDict(extra="allow", alias_generator=None)


class _Answer(types.Result):
    """Whatever a method of the extension answers."""

    model_config = ConfigDict(extra="allow", alias_generator=None)


class McpConnection:
    """The SDK's client on one endpoint, made patient."""

    def __init__(self, client: Client, carrier: PatientTransport, connection: Connection) -> None:
        """Keep both.

        Args:
            client: The SDK's client, connected.
            carrier: What carries its requests.
            connection: How long to insist.
        """
        self.client = client
        self._carrier = carrier
        self.connection = connection

    async def ask(self, request: Callable[[], Awaitable[_Result]]) -> _Result:
        """Make a request that may be repeated, again where its answer was lost.

        Args:
            request: Makes it.

        Raises:
            OrsServerError: What the server answered, or that it cannot be reached.
        """
        attempts = Attempts(self.connection.patience, self.connection.clock)
        while True:
            try:
                return await request()
            except MCPError as failure:
                error = translate(failure, self._carrier)
                if error.blame is not Blame.MACHINERY or self._carrier.last_error is not None:
                    raise error from failure
                await attempts.pause(error)

    async def method(self, name: str, fields: JSONObject) -> JSONObject:
        """Use a method of the extension.

        Args:
            name: Its name, without the prefix.
            fields: Its parameters.

        Raises:
            NotSupportedError: If the server has no such method.
            OrsServerError: What the server answered.
        """
        request = types.Request[Any, str](method=f"{EXTENSION}/{name}", params=_Params(**fields))
        answer = await self.ask(lambda: self.client.session.send_request(request, _Answer))
        return answer.model_dump(by_alias=True, exclude={"meta", "result_type"})


@asynccontextmanager
async def connect(url: str, reach: Reach, era: str) -> AsyncGenerator[McpConnection]:
    """Connect to an MCP endpoint.

    Args:
        url: The endpoint.
        reach: The settings and the credential.
        era: Which protocol.
    """
    reach.connection.check_open()
    if era not in ERAS:
        raise InvalidRequestError(f"an era is one of {', '.join(ERAS)}, not {era!r}")
    options, patience = reach.options, reach.options.patience
    carrier = PatientTransport(options.transport, patience, options.clock)
    timeout = httpx2.Timeout(patience.silence, connect=min(30.0, patience.silence))
    failure: Exception | None = None
    try:
        headers = {**reach.headers, **FIGURES_HEADER}
        async with httpx2.AsyncClient(headers=headers, timeout=timeout, transport=carrier) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode=era, cache=None) as client:
                try:
                    yield McpConnection(client, carrier, reach.connection)
                except Exception as error:  # noqa: BLE001  (raised below, as it is and not in a group)
                    failure = error
    except* (MCPError, OrsServerError) as group:
        if failure is None:
            failure = _why(group, carrier)
    if failure is not None:
        raise failure


def _why(group: BaseExceptionGroup[Any], carrier: PatientTransport) -> Exception:
    leaf: BaseException = group
    while isinstance(leaf, BaseExceptionGroup):
        leaf = cast("BaseExceptionGroup[BaseException]", leaf).exceptions[0]
    if isinstance(leaf, MCPError):
        return translate(leaf, carrier)
    return leaf if isinstance(leaf, Exception) else UnreachableError(str(leaf))


def translate(failure: MCPError, carrier: PatientTransport) -> OrsServerError:
    """Turn an error of the protocol into ours.

    Args:
        failure: The error.
        carrier: What carried the request; knows why it gave up, if it did.
    """
    if carrier.last_error is not None:
        return carrier.last_error
    told = failure.error
    given: Any = told.data
    data = cast("JSONObject", given) if isinstance(given, dict) else {}
    text = str(data.get("detail") or told.message)
    named = named_error(data.get("code"), data.get("blame"), text)
    if named is not None:
        return named
    if told.code == types.METHOD_NOT_FOUND:
        return NotSupportedError(f"the server has no such method: {told.message}")
    if told.code in _LOST:
        return UnreachableError(f"the answer over MCP was lost: {told.message}")
    return ClientError(told.message)
