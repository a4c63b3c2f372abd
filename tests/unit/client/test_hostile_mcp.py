"""The MCP client against a server whose answers have the wrong types: the server's fault, named as such."""

import json
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ors_server.client import AsyncMcpClient, BrokenAnswerError, ClientOptions, Patience
from ors_server.client.bounded_http import MAX_PROBLEM_BYTES
from ors_server.client.mcp_content import RESULT_KEY
from ors_server.model.errors import OrsServerError
from tests.fixtures.evaluated_environments import Guessing
from tests.fixtures.hostile_plays import HURRIED, forwarding
from tests.fixtures.hostile_servers import Asked, HostileServer, Proper
from tests.fixtures.loop_slices import measured_slices, yardstick

pytestmark = pytest.mark.timeout(120)
PATIENT = ClientOptions(patience=Patience(attempts=1, answer_seconds=60.0))
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def open_client(serve_live):
    """Opens a client of a server whose results of one method are edited on their way."""
    live = serve_live(Guessing)

    @asynccontextmanager
    async def open_client(method: str, edit: Edit):
        forward, edited = forwarding(live.port), []

        def answer(asked: Asked) -> Proper:
            proper = forward(asked)
            if not asked.body or json.loads(asked.body).get("method", "").rpartition("/")[2] != method:
                return proper
            edited.append(method)
            return Proper(proper.status, proper.headers, edit_result(proper.body, edit))

        server = HostileServer(answer, "types", 0, first=10**9)
        options = ClientOptions(patience=HURRIED)
        with server.serving():
            async with AsyncMcpClient(server.url, era="2026-07-28", options=options) as client:
                yield client
        assert edited

    return open_client


def edit_result(body: bytes, edit: Edit) -> bytes:
    """Edits the result of a JSON-RPC answer, or of the events of a stream."""
    if not body.startswith(b"{"):
        lines = body.split(b"\n")
        return b"\n".join(
            b"data: " + edit_result(line[6:].strip(), edit) if line.startswith(b"data: {") else line
            for line in lines
        )
    message = json.loads(body)
    edit(message["result"])
    return json.dumps(message).encode()


def figure(name: str, value: object) -> Edit:
    return lambda result: result["_meta"][RESULT_KEY].update({name: value})


def field(name: str, value: object) -> Edit:
    return lambda result: result.update({name: value})


CALLS = {
    "a step that is a text": figure("step", "a"),
    "a step below 0": figure("step", -1),
    "a step of 400 digits": figure("step", 10**400),
    "a reason that is a number": figure("refused", 5),
    "a reward that is a text": figure("reward", "1"),
    "a reward that is true": figure("reward", value=True),
    "an end that is a text": figure("finished", "no"),
    "metadata that is a list": figure("metadata", []),
    "figures that are a list": lambda result: result["_meta"].update({RESULT_KEY: [1]}),
    "a meta that is a number": field("_meta", 0),
    "content that is a number": field("content", 5),
    "content of another type": field("content", [{"type": "text", "text": 5}]),
}


@pytest.mark.parametrize("case", CALLS)
async def test_a_result_of_another_form_is_the_servers_fault(open_client, case):
    async with (
        open_client("call", CALLS[case]) as client,
        client.episode("guessing", split="test", index=2) as episode,
    ):
        with pytest.raises(BrokenAnswerError):
            await episode.call("guess", {"number": 2})


SESSIONS = {
    "an environment that is missing": ("episode", lambda result: result.pop("environment")),
    "an environment that is a number": ("episode", field("environment", 5)),
    "a token that is a number": ("create", lambda result: result.update(agent_token=5)),
    "a path that is missing": ("create", lambda result: result.pop("path")),
}


@pytest.mark.parametrize("case", SESSIONS)
async def test_a_session_of_another_form_is_the_servers_fault(open_client, case):
    method, edit = SESSIONS[case]
    async with open_client(method, edit) as client:
        with pytest.raises(BrokenAnswerError, match=f"the answer of the method {method}"):
            async with client.episode("guessing", split="test", index=2):
                pass


async def test_parameters_that_are_no_object_are_no_defect(open_client):
    def edit(result: dict[str, Any]) -> None:
        for tool in result["tools"]:
            tool["inputSchema"]["properties"] = 5

    async with (
        open_client("list", edit) as client,
        client.lobby_episode("guessing", "test", 2) as episode,
    ):
        assert (await episode.call("hint", {})).reward == 0.0


async def test_a_schema_of_results_by_the_server_is_never_applied(open_client):
    def edit(result: dict[str, Any]) -> None:
        for tool in result["tools"]:
            tool["outputSchema"] = {"type": "object", "required": ["missing"]}

    async with (
        open_client("list", edit) as client,
        client.episode("guessing", split="test", index=2) as episode,
    ):
        await episode.tools()
        assert (await episode.call("guess", {"number": 2})).reward is not None


SLOW = {
    "lists": "[" + ",".join(["[]"] * 300_000) + "]",
    "objects": "[" + ",".join(['{"a":1}'] * 100_000) + "]",
    "names": "{" + ",".join(f'"{number}":1' for number in range(90_000)) + "}",
}


@pytest.mark.parametrize("kind", SLOW)
@pytest.mark.parametrize("is_stream", [False, True])
async def test_an_answer_of_many_values_does_not_hold_the_event_loop(kind, is_stream):
    def answer(asked: Asked) -> Proper:
        number = json.loads(asked.body).get("id")
        body = f'{{"jsonrpc":"2.0","id":{number},"result":{{"a":{SLOW[kind]}}}}}'.encode()
        if is_stream:
            return Proper(
                200, {"content-type": "text/event-stream"}, b"event: message\ndata: " + body + b"\n\n"
            )
        return Proper(200, {"content-type": "application/json"}, body)

    server = HostileServer(answer, "types", 0, first=10**9)
    with server.serving():
        async with AsyncMcpClient(
            server.url, era="2026-07-28", options=ClientOptions(patience=HURRIED)
        ) as client:
            with measured_slices() as slices, pytest.raises(OrsServerError, match=r"values|form|lost|answer"):
                async with client.lobby_episode("guessing", "test", 2):
                    pass
    assert slices.worst < 2 * yardstick(), slices.where


@pytest.mark.parametrize(
    "value", ["text", {"choices": "text", "id": "text"}, {"jsonrpc": "2.0", "id": 1, "result": "text"}]
)
async def test_a_long_answer_that_is_no_message_does_not_hold_the_event_loop(value):
    body = json.dumps(value).replace("text", "a" * (6 << 20)).encode()

    def answer(asked: Asked) -> Proper:
        return Proper(200, {"content-type": "application/json"}, body)

    server = HostileServer(answer, "types", 0, first=10**9)
    with server.serving():
        async with AsyncMcpClient(server.url, era="2026-07-28", options=PATIENT) as client:
            with (
                measured_slices() as slices,
                pytest.raises(BrokenAnswerError, match="expected a message of JSON-RPC"),
            ):
                async with client.lobby_episode("guessing", "test", 2):
                    pass
    assert slices.worst < 2 * yardstick(), slices.where


NO_MESSAGES = {
    "a list": ("application/json", b"[]"),
    "no protocol": ("application/json", b'{"id": 1, "result": {}}'),
    "a version that is a number": ("application/json", b'{"jsonrpc": 2.0, "id": 1, "result": {}}'),
    "no JSON": ("application/json", b"Welcome!"),
    "nothing": ("application/json", b""),
    "a page": ("text/html", b"<h1>Welcome!</h1>"),
    "an image": ("image/png", b"\x89PNG"),
}


@pytest.mark.parametrize("case", NO_MESSAGES)
async def test_a_short_answer_that_is_no_message_is_the_servers_fault(case):
    kind, body = NO_MESSAGES[case]
    await refuse(Proper(200, {"content-type": kind}, body), r"does not have the protocol's form|expected")


async def refuse(answer: Proper, problem: str) -> None:
    server = HostileServer(lambda _: answer, "types", 0, first=10**9)
    with server.serving():
        async with AsyncMcpClient(server.url, era="2026-07-28", options=PATIENT) as client:
            with pytest.raises(BrokenAnswerError, match=problem):
                async with client.lobby_episode("guessing", "test", 2):
                    pass
    assert server.count == 1, "an answer that was read is not asked for again"


@pytest.mark.parametrize("location", ["http://127.0.0.1:9/mcp", "/elsewhere", ""])
async def test_no_redirect_is_followed(location):
    await refuse(Proper(307, {"location": location}, b""), "redirects to .*, which is not followed")


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_an_error_that_is_too_long_to_read_is_the_servers_fault(status):
    page = Proper(status, {"content-type": "application/json"}, b"[" * (1 << 20))
    await refuse(page, f"status {status} has more than the 65,536 bytes that are read of it")


async def test_an_error_of_many_characters_is_cut():
    def answer(asked: Asked) -> Proper:
        error = {"code": -1, "message": "a" * (1 << 20)}
        body = json.dumps({"jsonrpc": "2.0", "id": json.loads(asked.body).get("id"), "error": error}).encode()
        return Proper(200, {"content-type": "application/json"}, body)

    server = HostileServer(answer, "types", 0, first=10**9)
    with server.serving():
        async with AsyncMcpClient(server.url, era="2026-07-28", options=PATIENT) as client:
            with pytest.raises(OrsServerError, match=r"^a") as refused:
                async with client.lobby_episode("guessing", "test", 2):
                    pass
    assert len(str(refused.value)) == MAX_PROBLEM_BYTES
