"""CPU per `tools/call`: the server against a bare low-level `mcp` server with the same tool, in both eras.

Both servers run pinned to one core with the same uvicorn configuration; the load comes from another core over
persistent connections. What is compared is the CPU time of the server process, so neither the speed of the
load nor other work on the machine matters much.
"""

import asyncio
import statistics
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import uvloop

from bench import client, servers
from bench.report import Goal, Row

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
ERAS = (MODERN, HANDSHAKE)
CONNECTIONS = 16
TARGET = 1.3
"""The server may use this many times the CPU of the bare one."""


def measure(calls: int = 1_200, rounds: int = 5) -> list[Row]:
    """Measure both servers in both eras, in turns.

    Args:
        calls: Calls per measurement.
        rounds: Measurements per server and era; the median counts.
    """
    servers.pin_load()
    with ExitStack() as stack:
        ports = servers.free_port(), servers.free_port()
        ours = stack.enter_context(servers.running(servers.ours(ports[0]), ports[0]))
        bare = stack.enter_context(servers.running(servers.bare_mcp(ports[1]), ports[1]))
        return [_measure_era(era, ours, bare, calls, rounds) for era in ERAS]


def _measure_era(era: str, ours: servers.Server, bare: servers.Server, calls: int, rounds: int) -> Row:
    names = [f"bench-{uuid4().hex}" for _ in range(CONNECTIONS)]
    uvloop.run(client.create_sessions(ours.port, names))
    paths = {ours: [f"/sessions/{name}/mcp" for name in names], bare: ["/mcp"] * CONNECTIONS}
    costs: dict[servers.Server, list[float]] = {ours: [], bare: []}
    for server in costs:
        _cost(server, paths[server], era, calls // 4)
    for _ in range(rounds):
        for server, found in costs.items():
            found.append(_cost(server, paths[server], era, calls))
    mine, peer = (statistics.median(costs[server]) * 1e6 for server in (ours, bare))
    return Row(
        f"MCP tools/call, era {era}", "µs CPU", mine, peer, "bare mcp server", Goal("ratio", most=TARGET)
    )


def _cost(server: servers.Server, paths: list[str], era: str, calls: int) -> float:
    before = server.cpu_seconds()
    uvloop.run(_load(server.port, paths, era, calls))
    return (server.cpu_seconds() - before) / calls


async def _load(port: int, paths: list[str], era: str, calls: int) -> None:
    await asyncio.gather(*(_play(port, path, era, calls // len(paths)) for path in paths))


async def _play(port: int, path: str, era: str, calls: int) -> None:
    async with client.connected(port) as connection:
        headers = {} if era == MODERN else await _open_handshake(connection, path)
        for number in range(1, calls + 1):
            await call_echo(connection, path, era, number, headers)


async def call_echo(
    connection: client.Connection, path: str, era: str, number: int, headers: Mapping[str, str] | None = None
) -> None:
    """Call the echo tool by MCP.

    Args:
        connection: To the server.
        path: Of the MCP endpoint.
        era: A version of the protocol, one of `ERAS`.
        number: Id of the request.
        headers: Those of the handshake, in the era that has one.

    Raises:
        RuntimeError: If the answer is not the tool's.
    """
    meta: dict[str, Any] = {}
    sent = dict(headers or {})
    if era == MODERN:
        prefix = "io.modelcontextprotocol"
        meta["_meta"] = {
            f"{prefix}/protocolVersion": MODERN,
            f"{prefix}/clientInfo": {"name": "bench", "version": "1"},
            f"{prefix}/clientCapabilities": {},
        }
        sent |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
    params = {"name": "echo", "arguments": {"text": f"hello {number}"}, **meta}
    body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    _, content = await connection.post(path, sent, body)
    if b"hello" not in content:
        raise RuntimeError(f"expected an answer of the echo tool, got {content!r}")


async def _open_handshake(connection: client.Connection, path: str) -> dict[str, str]:
    hello = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": HANDSHAKE,
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    }
    answer, _ = await connection.post(path, {}, hello)
    headers = {"Mcp-Session-Id": answer["mcp-session-id"], "MCP-Protocol-Version": HANDSHAKE}
    await connection.post(path, headers, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    return headers
