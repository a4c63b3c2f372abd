"""The checks of the MCP suite; each raises where the server behaves differently or cannot be judged."""

import json
import re
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeAlias

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Tool

from ors_server.client.bounded_http import ACCEPTED_CODINGS
from ors_server.client.patient_transport import BOUNDS
from ors_server.conformance.expectations import NotApplicableError, expect
from ors_server.conformance.ors_manifest import Level, Requirement
from ors_server.conformance.ors_wire import OrsWire, WireAnswer, WireRequest
from ors_server.json_schemas import BadSchemaError, check_schema

HANDSHAKE = "legacy"
MODERN = "2026-07-28"
_OLD, _NEW = "2025-11-25", MODERN
TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
METHOD_NOT_FOUND = -32601
ABSENT = "no_such_tool_of_any_server"
ACCEPT = "application/json, text/event-stream"
TIMEOUT = httpx2.Timeout(30.0, read=300.0)
"""Seconds, as the SDK's own client has them: a server may hold a response stream open."""


@dataclass(frozen=True, slots=True)
class Host:
    """An agent host, connected to one server."""

    url: str
    headers: Mapping[str, str]

    @asynccontextmanager
    async def client(self, mode: str = HANDSHAKE) -> AsyncGenerator[Client]:
        """Connect: `legacy` for the era of the handshake, or a later revision."""
        async with (
            httpx2.AsyncClient(
                headers={**ACCEPTED_CODINGS, **self.headers},
                timeout=TIMEOUT,
                event_hooks={"response": [BOUNDS.apply]},
            ) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=mode) as client,
        ):
            yield client

    async def tools(self, mode: str = HANDSHAKE) -> list[Tool]:
        """Connect and list all tools."""
        async with self.client(mode) as client:
            return list((await client.list_tools()).tools)

    async def post(self, body: bytes, **headers: str) -> WireAnswer:
        """Post bytes as they are."""
        own = {"Content-Type": "application/json", "Accept": ACCEPT}
        wire = OrsWire(self.url, {**own, **self.headers, **headers})
        async with wire.stream(WireRequest("POST", "", body)) as stream:
            return await stream.answer()


Check: TypeAlias = Callable[[Host], Awaitable[None]]

MCP_CHECKS: dict[Requirement, Check] = {}
"""Every requirement, in order, and its check; `section` is a revision and a section of the specification."""


def _judges(name: str, level: Level, section: str, text: str) -> Callable[[Check], Check]:
    def add(check: Check) -> Check:
        MCP_CHECKS[Requirement(name, level, section, "wire", text)] = check
        return check

    return add


@_judges("M1", Level.MUST, f"{_OLD} basic/lifecycle", "a handshake gives a version and a name")
async def handshake(host: Host) -> None:
    async with host.client() as client:
        expect(client.protocol_version, "expected a protocol version")
        expect(client.server_info and client.server_info.name, "expected the server's name")


@_judges("M2", Level.SHOULD, f"{_NEW} basic", "a client without a handshake is served")
async def no_handshake(host: Host) -> None:
    async with host.client(MODERN) as client:
        await client.list_tools()


@_judges("M3", Level.MUST, f"{_OLD} basic/utilities/ping", "a ping is answered")
async def ping(host: Host) -> None:
    async with host.client() as client:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the later era has no ping; here the earlier one is judged
            await client.send_ping()  # pyright: ignore[reportDeprecated]  # the earlier era is judged


@_judges("M4", Level.MUST, f"{_OLD} basic", "an unknown method is error -32601")
async def unknown_method(host: Host) -> None:
    prefix = "io.modelcontextprotocol"
    meta: dict[str, Any] = {f"{prefix}/protocolVersion": MODERN, f"{prefix}/clientCapabilities": {}}
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "no/such", "params": {"_meta": meta}}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "no/such"}
    # With the headers and metadata of the later era, so that servers of either era reach the method.
    answer = await host.post(json.dumps(body).encode(), **headers)
    error: Any = answer.json().get("error", {})
    expect(error.get("code") == METHOD_NOT_FOUND, f"expected error {METHOD_NOT_FOUND}, got {answer}")


@_judges("M5", Level.MUST, f"{_OLD} basic/transports", "a body that is not JSON is refused with 4xx")
async def malformed_json(host: Host) -> None:
    answer = await host.post(b'{"jsonrpc": "2.0", "id": 1, "method"')
    is_client_error = HTTPStatus.BAD_REQUEST <= answer.status < HTTPStatus.INTERNAL_SERVER_ERROR
    expect(is_client_error, f"expected 4xx, got {answer}")


@_judges("M6", Level.MUST, f"{_OLD} basic/transports", "a foreign Origin is refused with 403")
async def foreign_origin(host: Host) -> None:
    answer = await host.post(b"{}", Origin="https://attacker.example")
    expect(answer.status == HTTPStatus.FORBIDDEN, f"expected 403, got {answer}")


@_judges("M7", Level.MUST, f"{_OLD} server/tools", "tools have names, each once")
async def unique_tools(host: Host) -> None:
    names = [tool.name for tool in await host.tools()]
    expect(all(names), f"expected names, got {names}")
    expect(len(names) == len(set(names)), f"expected each name once, got {names}")


@_judges("M8", Level.SHOULD, f"{_OLD} server/tools", "tool names are ones that every host takes")
async def tool_names(host: Host) -> None:
    bad = [tool.name for tool in await host.tools() if not TOOL_NAME.fullmatch(tool.name)]
    expect(not bad, f"expected names that match {TOOL_NAME.pattern}, got {bad}")


@_judges("M9", Level.MUST, f"{_OLD} server/tools", "every schema is JSON Schema of an object")
async def tool_schemas(host: Host) -> None:
    for tool in await host.tools():
        for schema in filter(None, (tool.input_schema, tool.output_schema)):
            try:
                check_schema(schema)
            except BadSchemaError as error:
                expect(condition=False, message=f"a schema of {tool.name!r} is invalid: {error}")
        expect(tool.input_schema.get("type") == "object", f"the schema of {tool.name!r} is not an object's")


@_judges("M10", Level.SHOULD, f"{_OLD} server/tools", "every tool has a description")
async def described_tools(host: Host) -> None:
    bare = [tool.name for tool in await host.tools() if not tool.description]
    expect(not bare, f"expected descriptions, missing at {bare}")


@_judges("M11", Level.MUST, f"{_NEW} server/tools", "tools do not vary by connection")
async def stable_tools(host: Host) -> None:
    first, second = await host.tools(), await host.tools()
    expect(first == second, "the second connection lists other tools than the first")


@_judges("M12", Level.MUST, f"{_OLD} server/tools", "an unknown tool is an error")
async def unknown_tool(host: Host) -> None:
    async with host.client() as client:
        try:
            result = await client.call_tool(ABSENT, {})
        except MCPError:
            return
    expect(result.is_error, f"expected an error, got {result}")


@_judges("M13", Level.SHOULD, f"{_OLD} server/tools", "invalid arguments are an error that the agent sees")
async def invalid_arguments(host: Host) -> None:
    # Only a call without required arguments is certainly invalid, and changes nothing.
    tool = next((tool for tool in await host.tools() if tool.input_schema.get("required")), None)
    if tool is None:
        raise NotApplicableError("no tool has a required parameter")
    async with host.client() as client:
        try:
            result = await client.call_tool(tool.name, {})
        except MCPError as error:
            expect(condition=False, message=f"{tool.name!r} answers with the protocol error {error}")
        else:
            expect(result.is_error, f"{tool.name!r} accepts a call without its required arguments")


@_judges("M14", Level.MUST, f"{_OLD} server/prompts", "declared prompts can be listed")
async def prompts(host: Host) -> None:
    async with host.client() as client:
        if client.server_capabilities.prompts is None:
            raise NotApplicableError("the server declares no prompts")
        for prompt in (await client.list_prompts()).prompts:
            if not any(argument.required for argument in prompt.arguments or ()):
                await client.get_prompt(prompt.name)


@_judges("M15", Level.MUST, f"{_OLD} server/resources", "declared resources can be listed")
async def resources(host: Host) -> None:
    async with host.client() as client:
        if client.server_capabilities.resources is None:
            raise NotApplicableError("the server declares no resources")
        for resource in (await client.list_resources()).resources:
            await client.read_resource(str(resource.uri))
