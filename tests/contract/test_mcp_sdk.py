"""What `doors/mcp/sdk.py` takes for granted of the package `mcp`; a failure names what changed."""

import ast
import inspect
from dataclasses import fields
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.server import Server, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ors_server.doors.mcp import sdk

SERVER = {
    "name", "version", "title", "instructions", "get_tool_input_schema", "on_list_tools", "on_call_tool",
    "on_list_prompts", "on_get_prompt", "on_list_resources", "on_list_resource_templates",
    "on_read_resource", "on_subscribe_resource", "on_unsubscribe_resource", "on_completion",
    "on_subscriptions_listen", "description", "website_url", "icons",
}  # fmt: skip
PARAMETERS = {
    ("mcp.server", "Server"): SERVER,
    ("mcp.server.extension", "MethodBinding"): {"method", "params_type", "handler"},
    ("mcp.server.streamable_http_manager", "StreamableHTTPSessionManager"): {
        "app",
        "security_settings",
        "max_request_body_size",
    },
    ("mcp.server.subscriptions", "InMemorySubscriptionBus"): None,
    ("mcp.server.subscriptions", "ListenHandler"): {"bus"},
    ("mcp.server.subscriptions", "ToolsListChanged"): None,
    ("mcp.server.transport_security", "TransportSecuritySettings"): {"enable_dns_rebinding_protection"},
    ("mcp.shared.message", "ServerMessageMetadata"): {"related_request_id"},
    ("mcp.server", "ServerRequestContext"): {
        "session",
        "protocol_version",
        "method",
        "params",
        "request_id",
        "meta",
        "request",
    },
    ("mcp", "MCPError"): {"code", "message", "data"},
    ("mcp.server.stdio", "stdio_server"): {"stdin", "stdout"},
    ("mcp.server.context", "ServerMiddleware"): None,
    ("mcp.server.context", "CallNext"): None,
    ("mcp.server.context", "HandlerResult"): None,
    ("mcp.server.extension", "Extension"): None,
    ("mcp_types.version", "HANDSHAKE_PROTOCOL_VERSIONS"): None,
    ("mcp_types.version", "MODERN_PROTOCOL_VERSIONS"): None,
}
"""What is imported, and the parameters that are given or read; `None` where there are none."""

METHODS = {
    (Server, "add_request_handler"): ["method", "params_type", "handler"],
    (Server, "get_capabilities"): ["protocol_version"],
    (Server, "create_initialization_options"): [],
    (Server, "run"): ["read_stream", "write_stream", "initialization_options"],
    (ServerSession, "report_progress"): ["progress", "total", "message"],
    (ServerSession, "send_notification"): ["notification", "related_request_id"],
    (ServerSession, "send_request"): ["request", "result_type", "metadata"],
    (sdk.StreamableHTTPSessionManager, "run"): [],
    (sdk.StreamableHTTPSessionManager, "handle_request"): ["scope", "receive", "send"],
    (sdk.InMemorySubscriptionBus, "publish"): ["event"],
    (sdk.ListenHandler, "close"): [],
    (sdk.Extension, "settings"): [],
    (sdk.Extension, "methods"): [],
}


def imports_of_sdk() -> set[tuple[str, str]]:
    tree = ast.parse(Path(sdk.__file__).read_text())
    return {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module
        and node.module.partition(".")[0].startswith("mcp")
        for alias in node.names
    }


def test_the_table_names_what_the_module_imports():
    assert imports_of_sdk() == PARAMETERS.keys()


@pytest.mark.parametrize("package", ["mcp", "mcp-types"])
def test_the_version_is_one_that_was_checked(package):
    message = f"{package} moved: check doors/mcp/sdk.py against it, then its docstring, pin and this test"
    assert version(package).split(".")[:2] == ["2", "3"], message


@pytest.mark.parametrize(("module", "name"), PARAMETERS)
def test_a_name_exists_with_the_parameters_that_are_used(module, name):
    found = getattr(import_module(module), name)
    wanted = PARAMETERS[module, name]
    if wanted is not None:
        missing = wanted - inspect.signature(found).parameters.keys()
        assert not missing, f"{module}.{name} lost {sorted(missing)}"


@pytest.mark.parametrize(("owner", "name"), METHODS)
def test_a_method_exists_with_the_parameters_that_are_used(owner, name):
    parameters = list(inspect.signature(getattr(owner, name)).parameters)
    assert [one for one in parameters if one in METHODS[owner, name]] == METHODS[owner, name]


@pytest.mark.parametrize("name", ["client_capabilities", "client_params", "can_send_request"])
def test_a_session_has_what_is_read_of_it(name):
    assert isinstance(inspect.getattr_static(ServerSession, name), property)


def test_the_context_is_a_dataclass_that_names_its_method_and_raw_parameters():
    assert {"method", "params"} <= {field.name for field in fields(ServerRequestContext)}


async def _list(_context: sdk.Context, _params: Any) -> dict[str, Any]:
    return {
        "tools": [{"name": "echo", "inputSchema": {"type": "object"}}],
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    }


def _make(middleware: Any, **options: Any) -> Server[Any]:
    return sdk.make_server(middleware, version="1", on_list_tools=_list, **options)


async def _pass_on(context: sdk.Context, call_next: sdk.CallNext) -> sdk.HandlerResult:
    return await call_next(context)


def test_the_only_middleware_of_a_new_server_is_opentelemetry():
    assert [type(one).__name__ for one in Server("x").middleware] == ["OpenTelemetryMiddleware"]


def test_a_server_made_here_has_one_middleware():
    assert _make(_pass_on).middleware == [_pass_on]


@pytest.mark.parametrize("era", ["legacy", MODERN_PROTOCOL_VERSIONS[-1]])
async def test_the_middleware_sees_every_request_and_answers_in_its_own_words(era):
    seen: list[str] = []
    handled: list[str] = []

    async def handle(_context: sdk.Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        handled.append(params.name)
        return types.CallToolResult(content=[])

    async def answer(context: sdk.Context, call_next: sdk.CallNext) -> sdk.HandlerResult:
        seen.append(context.method)
        if context.method == "tools/call":
            assert context.params is not None
            assert context.params["name"] == "echo"
            return {"content": [], "isError": False, "resultType": "complete", "_meta": {"left": "as it is"}}
        return await call_next(context)

    async with Client(_make(answer, on_call_tool=handle), mode=era) as client:
        result = await client.call_tool("echo", {"text": "a"})
    assert result.meta == {"left": "as it is"}
    assert not handled
    assert ("initialize" in seen) == (era == "legacy")


async def test_an_initialize_result_is_a_dictionary_that_a_middleware_may_extend():
    async def extend(context: sdk.Context, call_next: sdk.CallNext) -> sdk.HandlerResult:
        result = await call_next(context)
        if context.method == "initialize":
            assert isinstance(result, dict)
            return {**result, "instructions": "Read this."}
        return result

    async with Client(_make(extend), mode="legacy") as client:
        assert client.instructions == "Read this."


@pytest.mark.parametrize("era", ["legacy", MODERN_PROTOCOL_VERSIONS[-1]])
async def test_an_announced_extension_is_a_capability_and_its_methods_answer(era):
    class Greeter(sdk.Extension):
        identifier = "org.example/greeter"

        def settings(self) -> dict[str, Any]:
            return {"methods": ["hello"]}

        def methods(self) -> list[sdk.MethodBinding]:
            async def hello(_context: sdk.Context, _params: Any) -> dict[str, Any]:
                return {"text": "hello"}

            return [sdk.MethodBinding("org.example/greeter/hello", types.RequestParams, hello)]

    server = _make(_pass_on)
    sdk.announce_extension(server, Greeter(), lambda handler: handler)
    assert server.get_capabilities(protocol_version=era).extensions == {
        "org.example/greeter": {"methods": ["hello"]}
    }
    request = types.Request[Any, str](method="org.example/greeter/hello", params=types.RequestParams())

    class Said(types.Result):
        text: str

    async with Client(server, mode=era) as client:
        assert (await client.session.send_request(request, Said)).text == "hello"


async def test_the_identity_is_what_the_sdk_writes_into_the_results_of_the_later_era():
    server = _make(_pass_on)
    async with Client(server, mode=MODERN_PROTOCOL_VERSIONS[-1]) as client:
        listed = await client.list_tools()
    assert listed.meta == {types.SERVER_INFO_META_KEY: sdk.server_identity(server)}


def context_of(era: str, params: Any, client_params: Any = None) -> Any:
    session = SimpleNamespace(client_params=client_params)
    return SimpleNamespace(protocol_version=era, params=params, session=session)


@pytest.mark.parametrize(
    ("params", "is_plain"),
    [
        ({"name": "echo"}, True),
        ({"name": "echo", "arguments": None, "_meta": {}}, True),
        ({"name": "echo", "arguments": {"a": 1}}, True),
        (None, False),
        ({"name": 1}, False),
        ({"arguments": {}}, False),
        ({"name": "echo", "arguments": []}, False),
        ({"name": "echo", "_meta": None}, False),
        ({"name": "echo", "inputResponses": {}}, False),
    ],
)
def test_a_plain_call_has_a_name_arguments_and_meta_of_the_right_types(params, is_plain):
    assert sdk.is_plain_call(context_of(MODERN_PROTOCOL_VERSIONS[-1], params)) is is_plain


def test_a_call_before_the_handshake_is_not_plain():
    assert not sdk.is_plain_call(context_of("2025-11-25", {"name": "echo"}))
    assert sdk.is_plain_call(context_of("2025-11-25", {"name": "echo"}, client_params=object()))


async def test_a_request_before_the_handshake_has_no_client_parameters_and_is_refused():
    seen: list[Any] = []

    async def look(context: sdk.Context, call_next: sdk.CallNext) -> sdk.HandlerResult:
        seen.append(context.session.client_params)
        return await call_next(context)

    server = _make(look)
    to_server, incoming = anyio.create_memory_object_stream[Any](1)
    outgoing, from_server = anyio.create_memory_object_stream[Any](1)
    request = types.JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/list")
    session_message = import_module("mcp.shared.message").SessionMessage
    async with to_server, from_server, anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, incoming, outgoing, server.create_initialization_options())
        await to_server.send(session_message(request))
        with anyio.fail_after(30):
            answer = (await from_server.receive()).message
        tasks.cancel_scope.cancel()
    assert seen == [None]
    assert isinstance(answer, types.JSONRPCError)


def test_metadata_names_the_request_that_a_message_belongs_to():
    assert ServerMessageMetadata(related_request_id=7).related_request_id == 7
