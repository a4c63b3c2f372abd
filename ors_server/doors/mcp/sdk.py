"""The MCP SDK as this server uses it: the only module under `transports` that imports the package `mcp`.

Some of these names are undocumented, or provisional according to the SDK. They were checked against mcp
2.3.0, so `pyproject.toml` admits 2.3 only; `tests/contract/test_mcp_sdk.py` names what another version
changed.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware
from mcp.server.extension import Extension, MethodBinding
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from ors_server.timing import spans

__all__ = [
    "CallNext",
    "Context",
    "Extension",
    "Handler",
    "HandlerResult",
    "InMemorySubscriptionBus",
    "ListenHandler",
    "MCPError",
    "MethodBinding",
    "Result",
    "Server",
    "ServerMessageMetadata",
    "ServerMiddleware",
    "StreamableHTTPSessionManager",
    "ToolsListChanged",
    "TransportSecuritySettings",
    "announce_extension",
    "begins_connection",
    "is_modern",
    "is_plain_call",
    "make_server",
    "server_identity",
    "stdio_server",
]

Context: TypeAlias = ServerRequestContext[Any, Any]
Result: TypeAlias = dict[str, Any]
"""A JSON-RPC result in its wire form."""
Handler: TypeAlias = Callable[[Context, Any], Awaitable[HandlerResult]]

_PLAIN = frozenset({"name", "arguments", "_meta"})


def make_server(middleware: ServerMiddleware[Any], **options: Any) -> Server[Any]:
    """Make a low-level server whose every request goes through one middleware.

    The SDK's own middleware, which makes spans of OpenTelemetry, stays where an exporter receives them: it
    takes time for each request. The SDK is given no tool schemas, because the session validates arguments;
    without that function it would list all tools before each call to look for headers to validate.

    Args:
        middleware: May return a result without `call_next`; the SDK then sends that result unchanged.
    """
    server: Server[Any] = Server("ors-server", get_tool_input_schema=lambda _name: None, **options)
    server.middleware[:] = (
        [_enter_request_span, *server.middleware, middleware] if spans.tracing.tracer else [middleware]
    )
    return server


async def _enter_request_span(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Run a request below the span of its HTTP request: the SDK serves it in a task of its connection."""
    request = ctx.request
    parent = None if request is None else request.scope.get(spans.SCOPE_KEY)
    with spans.within(parent):
        return await call_next(ctx)


def announce_extension(
    server: Server[Any], extension: Extension, guard: Callable[[Handler], Handler]
) -> None:
    """Serve an extension's methods and list it among the server's capabilities."""
    server.extensions[extension.identifier] = extension.settings()
    for binding in extension.methods():
        server.add_request_handler(binding.method, binding.params_type, guard(binding.handler))


def server_identity(server: Server[Any]) -> Result:
    """Return what the `_meta` of every result of the later era says of the server: not its icon each time."""
    shown = {"name", "title", "version"}
    return server.server_info.model_dump(by_alias=True, mode="json", exclude_none=True, include=shown)


def is_modern(context: Context) -> bool:
    """Whether a request belongs to the era without handshake and without requests by the server."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def begins_connection(connection_id: str | None, version: str | None) -> bool:
    """Whether a request over HTTP with these headers begins a connection of the handshake era.

    The transport keeps such a request as long as the connection, even one whose handshake is refused.
    """
    return connection_id is None and (version is None or version in HANDSHAKE_PROTOCOL_VERSIONS)


def is_plain_call(context: Context) -> bool:
    """Whether a tool call needs none of the SDK's own checks.

    Its parameters are a tool's name, arguments and `_meta` of the right types, and nothing else, on a
    connection that may make calls: in the handshake era, one whose handshake is done.
    """
    params = context.params
    if params is None or not params.keys() <= _PLAIN:
        return False
    well_formed = (
        isinstance(params.get("name"), str)
        and isinstance(params.get("arguments", {}), dict | None)
        and isinstance(params.get("_meta", {}), dict)
    )
    return well_formed and (is_modern(context) or context.session.client_params is not None)
