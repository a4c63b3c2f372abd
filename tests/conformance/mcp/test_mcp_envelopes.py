"""JSON-RPC envelopes over HTTP: ids, invalid requests, and the batches of MCP 2025-03-26."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import mcp_types as types
import pytest

from tests.conformance.mcp.conftest import LIMIT, MODERN

ACCEPT = {"Accept": "application/json, text/event-stream"}
NO_ID = object()


class Connection:
    """Posts raw bodies: in a session of the handshake era, or as single requests of the later one."""

    def __init__(self, http: httpx2.AsyncClient, url: str, headers: dict[str, str]) -> None:
        self.http = http
        self.url = url
        self.headers = headers

    async def post(self, body: Any, **headers: str) -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **self.headers, **headers}
        return await self.http.post(self.url, content=content, headers=sent)


def message(method: str, request_id: object = NO_ID, **params: Any) -> dict[str, Any]:
    named = {} if request_id is NO_ID else {"id": request_id}
    return {"jsonrpc": "2.0", **named, "method": method, "params": params}


def modern(body: dict[str, Any]) -> dict[str, Any]:
    prefix = "io.modelcontextprotocol"
    meta = {f"{prefix}/protocolVersion": MODERN, f"{prefix}/clientCapabilities": {}}
    return {**body, "params": {**body["params"], "_meta": meta}}


def answers_of(response: httpx2.Response) -> list[Any]:
    """Return the messages of a response, of a stream or not."""
    if response.headers["content-type"].startswith("text/event-stream"):
        lines = response.text.splitlines()
        return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    body = response.json()
    return body if isinstance(body, list) else [body]


async def handshake(site, http: httpx2.AsyncClient, version: str) -> Connection:
    session_id = await site.start("desk")
    url = f"{site.url}/sessions/{session_id}/mcp"
    client = {"name": "raw", "version": "1"}
    opening = message("initialize", 0, protocolVersion=version, capabilities={}, clientInfo=client)
    response = await http.post(url, json=opening, headers=ACCEPT)
    (answer,) = answers_of(response)
    assert answer["result"]["protocolVersion"] == version
    headers = {**ACCEPT, "Mcp-Session-Id": response.headers["mcp-session-id"]}
    if version > "2025-03-26":
        headers["MCP-Protocol-Version"] = version
    connection = Connection(http, url, headers)
    assert (await connection.post(message("notifications/initialized"))).status_code == 202
    return connection


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=LIMIT) as client:
        yield client


@pytest.fixture
async def connection(site, http, era) -> Connection:
    if era != MODERN:
        return await handshake(site, http, era)
    url = f"{site.url}/sessions/{await site.start('desk')}/mcp"
    return Connection(http, url, {**ACCEPT, "MCP-Protocol-Version": MODERN})


def dressed(era: str, body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a request with what its era wants beside it."""
    if era != MODERN:
        return body, {}
    name = body["params"].get("name")
    return modern(body), {"Mcp-Method": body["method"], **({"Mcp-Name": name} if name else {})}


async def steps_of(site, connection: Connection) -> int:
    session_id = connection.url.split("/")[-2]
    return (await site.app.manager.status(session_id)).summary.steps


@pytest.mark.parametrize("request_id", [None, 1.5, True, [1], {}, 2**70 * 1.0])
async def test_a_call_with_a_wrong_id_is_an_invalid_request_and_runs_nothing(
    site, connection, era, request_id
):
    body, headers = dressed(era, message("tools/call", request_id, name="say", arguments={"text": "x"}))
    response = await connection.post(body, **headers)
    assert response.status_code == 400
    answer = response.json()
    assert (answer["id"], answer["error"]["code"]) == (None, types.INVALID_REQUEST)
    assert "a string or an integer as id, got" in answer["error"]["message"]
    assert await steps_of(site, connection) == 0


async def test_a_call_that_is_a_notification_runs_nothing(site, connection, era):
    body, headers = dressed(era, message("tools/call", name="say", arguments={"text": "x"}))
    assert (await connection.post(body, **headers)).status_code == 202
    body, headers = dressed(era, message("tools/list", 5))
    await connection.post(body, **headers)  # after the notification, whatever it did
    assert await steps_of(site, connection) == 0


@pytest.mark.parametrize(("request_id", "answered"), [(7, 7), ("x", "x"), (1.0, 1), (0, 0), (-2, -2)])
async def test_a_string_or_an_integer_is_answered(connection, era, request_id, answered):
    body, headers = dressed(era, message("tools/list", request_id))
    (answer,) = answers_of(await connection.post(body, **headers))
    assert answer["id"] == answered
    assert type(answer["id"]) is type(answered)
    assert answer["result"]["tools"]


@pytest.mark.parametrize(
    ("body", "request_id", "code"),
    [
        (b"3", None, types.INVALID_REQUEST),
        (b'"x"', None, types.INVALID_REQUEST),
        (b"null", None, types.INVALID_REQUEST),
        (b"{}", None, types.INVALID_REQUEST),
        (b"[]", None, types.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 4}', 4, types.INVALID_REQUEST),
        (b'{"jsonrpc": "1.0", "id": 4, "method": "ping"}', 4, types.INVALID_REQUEST),
        (b'{"id": 4, "method": "ping"}', 4, types.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 4, "method": 1}', 4, types.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 4, "method": "ping", "params": [1]}', 4, types.INVALID_PARAMS),
        (b'{"jsonrpc": "2.0", "id": 1.5, "result": {}}', None, types.INVALID_REQUEST),
        (b'{"jsonrpc": "2.0", "id": 4', None, types.PARSE_ERROR),
        (b"[{", None, types.PARSE_ERROR),
    ],
)
async def test_what_is_no_message_is_an_error_of_its_kind(connection, body, request_id, code):
    response = await connection.post(body)
    assert response.status_code == 400
    answer = response.json()
    assert (answer["id"], answer["error"]["code"]) == (request_id, code)


async def test_a_batch_is_answered_in_order(site, http):
    connection = await handshake(site, http, "2025-03-26")
    batch = [
        message("tools/call", 1, name="say", arguments={"text": "a"}),
        message("notifications/cancelled", requestId=99),
        message("tools/call", None, name="say", arguments={"text": "b"}),
        5,
        message("initialize", 4),
        message("tools/call", 2.0, name="say", arguments={"text": "c"}),
        message("nothing/here", "last"),
    ]
    response = await connection.post(batch)
    assert response.status_code == 200
    answers = answers_of(response)
    assert [answer["id"] for answer in answers] == [1, None, None, 4, 2, "last"]
    codes = [answer.get("error", {}).get("code") for answer in answers]
    invalid = types.INVALID_REQUEST
    assert codes == [None, invalid, invalid, invalid, None, types.METHOD_NOT_FOUND]
    assert [answers[at]["result"]["content"][0]["text"] for at in (0, 4)] == ["You said a.", "You said c."]
    assert await steps_of(site, connection) == 2


async def test_a_batch_of_notifications_is_accepted_and_one_of_errors_refused(site, http):
    connection = await handshake(site, http, "2025-03-26")
    accepted = await connection.post([message("notifications/cancelled", requestId=9)] * 2)
    assert (accepted.status_code, accepted.content) == (202, b"")
    refused = await connection.post([1, 2])
    assert refused.status_code == 400
    assert [answer["error"]["code"] for answer in refused.json()] == [types.INVALID_REQUEST] * 2
    long = await connection.post([message("ping", number) for number in range(101)])
    assert "a batch of 1 to 100 messages, got 101" in long.json()["error"]["message"]


async def test_a_batch_for_a_session_that_is_gone_is_refused_as_a_whole(site, http):
    connection = await handshake(site, http, "2025-03-26")
    connection.headers["Mcp-Session-Id"] = "0" * 32
    response = await connection.post([message("ping", 1), message("ping", 2)])
    assert response.status_code == 404


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", MODERN])
async def test_later_versions_have_no_batches(site, http, version):
    if version == MODERN:
        connection = Connection(http, f"{site.url}/mcp", {**ACCEPT, "MCP-Protocol-Version": MODERN})
    else:
        connection = await handshake(site, http, version)
    response = await connection.post([message("ping", 1)])
    assert response.status_code == 400
    assert response.json()["error"]["code"] == types.INVALID_REQUEST
    assert f"MCP {version} has no batches" in response.json()["error"]["message"]
