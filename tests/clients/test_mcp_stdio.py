"""The real `mcp` client starts the server itself and speaks to it over its standard streams, in both eras."""

import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.extension import ClientExtension, advertise

FIXTURE = Path(__file__).parents[1] / "fixtures" / "mcp_fixture.py"
PROGRAM = "from ors_server.cli.main import main; main()"
LIST = types.Request[types.RequestParams, str](
    method="org.openrewardstandard/environments/list", params=types.RequestParams()
)
RESULT_KEY = "org.openrewardstandard/result"
LIMIT = 60.0
"""Seconds within which anything in these tests happens."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def started(
    mode: str, *options: str, extensions: Sequence[ClientExtension] = (), **environment: str
) -> AsyncIterator[Client]:
    """Starts a server process and connects to it, declaring extensions."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-c", PROGRAM, "serve", f"{FIXTURE}:Counter", "--stdio", *options],
        env={**os.environ, **environment},
    )
    with anyio.fail_after(LIMIT):
        async with Client(parameters, mode=mode, extensions=extensions) as client:
            yield client


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def test_one_episode_is_played_over_stdio(mode):
    asking = [advertise(RESULT_KEY)]
    async with started(mode, "--episode", "counter/test/0", extensions=asking) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        steps = [text_of(await client.call_tool("count", {})) for _ in range(3)]
        last = await client.call_tool("stop", {"said": 3})
        late = await client.call_tool("count", {})
        instructions = client.instructions
    assert tools == ["count", "stop"]
    assert steps == ["step 1", "step 2", "step 3"]
    assert last.meta[RESULT_KEY]["reward"] == 1.0
    assert late.is_error
    assert "Call count until it says 3" in str(instructions)


async def test_a_client_over_stdio_that_does_not_ask_gets_no_number(mode):
    async with started(mode, "--episode", "counter/test/0") as client:
        last = await client.call_tool("stop", {"said": 0})
    assert RESULT_KEY not in (last.meta or {})
    assert "The episode is over." in text_of(last)


async def test_the_environment_variable_chooses_the_episode(mode):
    async with started(mode, ORS_EPISODE="counter/test/1") as client:
        prompt = await client.get_prompt("task")
    assert "until it says 5" in prompt.messages[0].content.text


async def test_without_a_choice_stdio_is_the_lobby(mode):
    async with started(mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        started_episode = await client.call_tool(
            "start_episode", {"environment": "counter", "split": "test", "index": 0}
        )
        session_id = started_episode.meta["org.openrewardstandard/session"]
        counted = await client.call_tool("count", {"session_id": session_id})
    assert names == ["list_environments", "list_tasks", "start_episode", "count", "stop"]
    assert text_of(counted) == "step 1"


async def test_the_client_of_one_episode_is_its_agent_and_no_trainer():
    async with started("auto", "--episode", "counter/test/0") as client:
        with pytest.raises(MCPError) as caught:
            await client.session.send_request(LIST, types.EmptyResult)
    assert caught.value.data["code"] == "forbidden"


async def test_the_client_of_the_lobby_is_a_trainer():
    async with started("auto") as client:
        answer = await client.session.send_request(LIST, types.EmptyResult)
    assert isinstance(answer, types.EmptyResult)


async def test_an_episode_that_is_not_there_ends_the_process():
    with pytest.RaisesGroup(MCPError, flatten_subgroups=True):
        async with started("legacy", "--episode", "counter/test/9"):
            pass


def request(method: str, request_id: object, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def opening(version: str) -> list[object]:
    client = {"name": "raw", "version": "1"}
    return [
        request("initialize", 0, protocolVersion=version, capabilities={}, clientInfo=client),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]


async def exchange(*lines: object) -> list[Any]:
    """Writes lines to a server of one episode, each after the answers to the last; returns its lines."""
    program = [sys.executable, "-c", PROGRAM, "serve", f"{FIXTURE}:Counter", "--stdio"]
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    # The server answers `ping` after what came before it, so its answer ends each exchange.
    answers: list[Any] = []
    with anyio.fail_after(LIMIT):
        async with await anyio.open_process([*program, "--episode", "counter/test/0"], stderr=None) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            received = BufferedByteReceiveStream(server.stdout)
            for number, text in enumerate(texts):
                ping = json.dumps(request("ping", f"ping {number}"))
                await server.stdin.send(f"{text}\n{ping}\n".encode())
                while True:
                    answer = json.loads(await received.receive_until(b"\n", 1 << 20))
                    if isinstance(answer, dict) and answer.get("id") == f"ping {number}":
                        break
                    answers.append(answer)
            await server.stdin.aclose()
            rest = [chunk async for chunk in received]
    assert b"".join(rest) == b""
    return answers


async def test_a_line_with_a_wrong_id_is_answered_and_runs_nothing():
    wrong = [request("tools/call", wrong_id, name="count", arguments={}) for wrong_id in (None, 1.5, True)]
    unanswered = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "count", "arguments": {}}}
    right = request("tools/call", 7.0, name="count", arguments={})
    _, *answers = await exchange(*opening("2025-11-25"), *wrong, unanswered, "3", "{", "", [right], right)
    summary = [(answer["id"], answer.get("error", {}).get("code")) for answer in answers]
    invalid = types.INVALID_REQUEST
    assert summary == [(None, invalid)] * 4 + [(None, types.PARSE_ERROR), (None, invalid), (7, None)]
    assert "MCP 2025-11-25 has no batches" in answers[-2]["error"]["message"]
    assert answers[-1]["result"]["content"][0]["text"] == "step 1"


async def test_a_batch_is_answered_by_an_array():
    calls = [request("tools/call", number, name="count", arguments={}) for number in (1, "two")]
    notification = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}
    _, first, second = await exchange(
        *opening("2025-03-26"), [calls[0], notification, request("ping", None), calls[1]], [notification], [4]
    )
    assert {answer["id"] for answer in first} == {1, "two", None}
    texts = {answer["id"]: answer["result"]["content"][0]["text"] for answer in first if answer["id"]}
    assert texts == {1: "step 1", "two": "step 2"}
    assert [answer["error"]["code"] for answer in second] == [types.INVALID_REQUEST]
