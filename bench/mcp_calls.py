"""CPU per `tools/call`: the server against a bare low-level `mcp` server with the same tool, in both eras.

Both servers run pinned to one core with the same uvicorn configuration; the load comes from another core over
persistent connections. What is compared is the CPU time of the server process, so the load's own speed and the
machine's do not matter.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
ERAS = (MODERN, HANDSHAKE)
CONNECTIONS = 16
TARGET = 1.3
"""The server may use this many times the CPU of the bare one."""

_BARE = """
import mcp_types as types, uvicorn
from mcp.server import Server

tool = types.Tool(name="echo", description="Echoes the text.", input_schema=SCHEMA)

async def list_tools(context, params):
    return types.ListToolsResult(tools=[tool])

async def call_tool(context, params):
    text = (params.arguments or {})["text"]
    return types.CallToolResult(content=[types.TextContent(text=text)])

server = Server("bare", on_list_tools=list_tools, on_call_tool=call_tool, get_tool_input_schema=lambda name: SCHEMA)
app = server.streamable_http_app(host="127.0.0.1")
uvicorn.run(app, host="127.0.0.1", port=PORT, loop="uvloop", http="httptools", log_level="warning",
            access_log=False, timeout_keep_alive=75)
"""

_ENVIRONMENT = '''
from ors_server import Environment, tool


class Echo(Environment):
    """Echoes."""

    name = "echo"

    @classmethod
    def list_splits(cls):
        return ["test"]

    @classmethod
    def list_tasks(cls, split):
        return [{}]

    def get_prompt(self):
        return "Echo."

    @tool
    async def echo(self, text: str) -> str:
        """Echoes the text."""
        return text
'''

_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@dataclass(frozen=True, slots=True)
class Measurement:
    """CPU per call of both servers in one era."""

    era: str
    bare: float
    """Seconds."""
    ours: float
    """Seconds."""

    @property
    def ratio(self) -> float:
        """Ours over bare."""
        return self.ours / self.bare


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def _running(command: list[str], port: int, core: int) -> Iterator[int]:
    process = subprocess.Popen(
        command,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
        stdout=subprocess.DEVNULL,  # noqa: PLW1509
    )
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


class _Connection:
    """One persistent HTTP connection; just enough of HTTP to read the two kinds of answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        self._reader = reader
        self._writer = writer
        self._port = port

    async def post(
        self, path: str, headers: dict[str, str], body: dict[str, Any]
    ) -> tuple[dict[str, str], bytes]:
        """Post JSON and return the answer's headers and body."""
        payload = json.dumps(body).encode()
        lines = [
            f"POST {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self._port}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"Content-Length: {len(payload)}",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self._writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + payload)
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *rest = head.decode().strip().split("\r\n")
        answer = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
        if answer.get("transfer-encoding") == "chunked":
            content = b""
            while (size := int(await self._reader.readline(), 16)) > 0:
                content += (await self._reader.readexactly(size + 2))[:-2]
            await self._reader.readexactly(2)
        else:
            content = await self._reader.readexactly(int(answer.get("content-length", 0)))
        assert first.split()[1] in {"200", "202"}, (first, content)
        return answer, content


@contextlib.asynccontextmanager
async def _connected(port: int) -> AsyncIterator[_Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield _Connection(reader, writer, port)
    finally:
        writer.close()


async def _open_handshake(connection: _Connection, path: str) -> dict[str, str]:
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


async def _play(port: int, path: str, era: str, calls: int) -> None:
    async with _connected(port) as connection:
        meta: dict[str, Any] = {}
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
        if era == MODERN:
            meta = {
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": MODERN,
                    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                    "io.modelcontextprotocol/clientCapabilities": {},
                }
            }
        else:
            headers = await _open_handshake(connection, path)
        for number in range(1, calls + 1):
            params = {"name": "echo", "arguments": {"text": f"hello {number}"}, **meta}
            body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            _, content = await connection.post(path, headers, body)
            assert b"hello" in content, content


async def _load(port: int, paths: list[str], era: str, calls: int) -> None:
    await asyncio.gather(*(_play(port, path, era, calls // len(paths)) for path in paths))


async def _create_sessions(port: int) -> list[str]:
    paths = []
    async with _connected(port) as connection:
        for _ in range(CONNECTIONS):
            session_id = f"bench-{uuid4().hex}"
            await connection.post(
                "/create", {"X-Session-ID": session_id}, {"env_name": "echo", "split": "test", "index": 0}
            )
            paths.append(f"/sessions/{session_id}/mcp")
    return paths


def _measure_one(command: list[str], port: int, era: str, calls: int, *, bare: bool) -> float:
    with _running(command, port, 0) as pid:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(os.getppid()))})
        paths = ["/mcp"] * CONNECTIONS if bare else asyncio.run(_create_sessions(port))
        asyncio.run(_load(port, paths, era, calls // 10))
        before = _cpu_seconds(pid)
        asyncio.run(_load(port, paths, era, calls))
        return (_cpu_seconds(pid) - before) / calls


def measure(calls: int = 8_000, rounds: int = 2) -> list[Measurement]:
    """Measure both servers in both eras, alternating them so that both see the same machine.

    Args:
        calls: Calls per measurement.
        rounds: Measurements per server and era; the least counts, since noise only adds.
    """
    results = []
    with tempfile.TemporaryDirectory() as folder:
        bare_file, environment_file = Path(folder, "bare.py"), Path(folder, "echo_environment.py")
        environment_file.write_text(_ENVIRONMENT)
        for era in ERAS:
            bare, ours = [], []
            for _ in range(rounds):
                port = _free_port()
                bare_file.write_text(f"PORT = {port}\nSCHEMA = {_SCHEMA!r}\n{_BARE}")
                bare.append(_measure_one([sys.executable, str(bare_file)], port, era, calls, bare=True))
                port = _free_port()
                serve = [
                    sys.executable,
                    "-m",
                    "ors_server",
                    "serve",
                    f"{environment_file}:Echo",
                    "--port",
                    str(port),
                ]
                ours.append(_measure_one(serve, port, era, calls, bare=False))
            results.append(Measurement(era, min(bare), min(ours)))
    return results


def main() -> None:
    """Print the table."""
    for result in measure():
        verdict = "ok" if result.ratio <= TARGET else "TOO SLOW"
        print(
            f"mcp tools/call {result.era}: bare {result.bare * 1e6:.0f} us, ours {result.ours * 1e6:.0f} us, "
            f"ratio {result.ratio:.2f} (at most {TARGET}) {verdict}"
        )


if __name__ == "__main__":
    main()
