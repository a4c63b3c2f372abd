"""A call whose step could not be written says so behind every door, and is paid once when asked for again."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest

from ors_server import ToolOutput, tool
from ors_server.app import App, create_app
from ors_server.client import AsyncClient, ClientOptions
from ors_server.doors.ors import calls as ors_calls
from ors_server.model.errors import StoreError
from ors_server.model.settings import Settings
from ors_server.sessions.session_services import REMEMBERED_SECONDS, RecordHealth
from ors_server.testing.fake_clock import FakeClock
from tests.fixtures.single_task import SingleTask

ORIGIN = "http://localhost:8080"
TASK: Any = {"split": "train", "index": 0}
LIMIT = 20.0
"""Seconds within which anything in these tests happens."""


class Bank(SingleTask):
    """Pays, and counts how often."""

    name = "bank"
    runs = 0

    @tool
    async def pay(self, reward: float) -> ToolOutput:
        """Pays."""
        type(self).runs += 1
        return ToolOutput.ongoing("paid", reward=reward)


class Place:
    """An application whose store fails as long as a test says so, and a client of it."""

    def __init__(self, app: App, http: httpx2.AsyncClient) -> None:
        self.app = app
        self.http = http
        self.failures = 0.0
        self.failed = anyio.Event()
        self.delay = 0.0
        """Seconds that the store takes."""
        store: Any = app.manager.services.store
        self._append, store.append = store.append, self._append_or_fail

    async def _append_or_fail(self, *step: Any) -> None:
        await anyio.sleep(self.delay)
        if self.failures > 0:
            self.failures -= 1
            self.failed.set()
            raise StoreError("the disk is full")
        await self._append(*step)

    async def status(self) -> dict[str, Any]:
        return (await self.http.get("/_ors/sessions/s")).json()

    async def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        with anyio.fail_after(LIMIT):
            return await self.http.post(path, json=body, headers={"X-Session-ID": "s", **headers})


@pytest.fixture
async def place(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    monkeypatch.setattr(Bank, "runs", 0)
    app = create_app([Bank], Settings())
    transport = httpx2.ASGITransport(app)
    async with app.running(), httpx2.AsyncClient(transport=transport, base_url=ORIGIN) as http:
        made = Place(app, http)
        assert (await made.post("/create", {"task_spec": {}})).status_code == 200
        yield made


def check_pending(answer: httpx2.Response, call_id: str | None) -> str:
    """Checks that an answer says that the call is pending, and gives the id to ask again under."""
    told = answer.json()
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert (told["code"], told["blame"], told["pending"]) == ("store_unavailable", "machinery", True)
    assert call_id is None or told["call_id"] == call_id
    return told["call_id"]


@pytest.mark.parametrize("call_id", [None, "mine"])
async def test_the_control_api_answers_503_and_the_repeat_gives_the_result(place, call_id):
    place.failures = 1
    body = {"name": "pay", "arguments": {"reward": 0.5}}
    path = "/_ors/sessions/s/calls"
    given = check_pending(await place.post(path, body | {"call_id": call_id}), call_id)
    status = await place.status()
    assert (status["pending_steps"], status["episode"]["steps"], status["episode"]["return"]) == (1, 1, 0.5)
    page = (await place.http.get("/_ors/sessions/s/steps")).json()
    assert (page["total"], page["steps"]) == (0, [])
    answer = (await place.post(path, body | {"call_id": given})).json()
    assert (answer["kind"], answer["step"], answer["output"]["reward"]) == ("completed", 1, 0.5)
    status = await place.status()
    assert (status["pending_steps"], status["episode"]["return"], Bank.runs) == (0, 0.5, 1)


async def test_a_call_that_waits_behind_a_pending_one_has_not_run(place):
    place.failures = 2
    path = "/_ors/sessions/s/calls"
    first = {"name": "pay", "arguments": {"reward": 0.5}, "call_id": "first"}
    second = {"name": "pay", "arguments": {"reward": 0.25}, "call_id": "second"}
    check_pending(await place.post(path, first), "first")
    answer = await place.post(path, second)
    assert (answer.status_code, answer.json()["pending"], Bank.runs) == (503, False, 1)
    assert (await place.post(path, second)).json()["step"] == 2
    assert (await place.post(path, first)).json()["step"] == 1
    assert ((await place.status())["episode"]["return"], Bank.runs) == (0.75, 2)


@pytest.mark.parametrize("call_id", [None, "mine"])
async def test_the_standards_door_answers_503_and_the_same_request_again_gives_the_result(place, call_id):
    place.failures = 2
    body = {"name": "pay", "input": {"reward": 0.5}, "task_id": call_id}
    for _ in range(2):
        check_pending(await place.post("/bank/call", body), call_id)
    answer = await place.post("/bank/call", body)
    assert answer.status_code == 200
    assert '"reward":0.5' in answer.text
    assert ((await place.status())["episode"]["return"], Bank.runs) == (0.5, 1)


async def test_the_standards_door_gives_the_result_under_the_id_that_it_named(place):
    place.failures = 2
    body = {"name": "pay", "input": {"reward": 0.5}}
    given = check_pending(await place.post("/bank/call", body), None)
    check_pending(await place.post("/bank/call", body | {"task_id": given}), given)
    answer = await place.post("/bank/call", body | {"task_id": given})
    assert f"data: {given}" in answer.text
    assert '"reward":0.5' in answer.text
    assert Bank.runs == 1


async def test_a_stream_that_has_begun_waits_for_the_step_to_be_written(place, monkeypatch):
    monkeypatch.setattr(ors_calls, "FIRST_WRITE_DELAY", 0.01)
    monkeypatch.setattr(ors_calls, "WRITE_PAUSE", 0.01)
    place.delay, place.failures = 0.2, 2
    answer = await place.post("/bank/call", {"name": "pay", "input": {"reward": 0.5}})
    assert answer.status_code == 200
    assert answer.text.count("event: end") == 1
    assert '"reward":0.5' in answer.text
    assert Bank.runs == 1


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_stream_that_waited_long_enough_says_that_the_step_is_pending(place, monkeypatch, is_deleted):
    monkeypatch.setattr(ors_calls, "FIRST_WRITE_DELAY", 0.01)
    monkeypatch.setattr(ors_calls, "WRITE_PAUSE", 0.01)
    monkeypatch.setattr(ors_calls, "WRITE_ATTEMPTS", 1000 if is_deleted else 2)
    place.delay, place.failures = 0.2, 1e9
    answers: list[httpx2.Response] = []

    async def call() -> None:
        answers.append(await place.post("/bank/call", {"name": "pay", "input": {"reward": 0.5}}))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        if is_deleted:
            await place.failed.wait()
            await place.post("/delete", None)
    assert answers[0].text.count("event: error") == 1
    assert Bank.runs == 1


async def call_over_mcp(place: Place, meta: dict[str, str]) -> dict[str, Any]:
    """Calls the tool in one request of the later era."""
    known = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "pay", "arguments": {"reward": 0.5}, "_meta": {**known, **meta}}
    answer = await place.post(
        "/sessions/s/mcp",
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        **{
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "pay",
        },
    )
    lines = [line[5:] for line in answer.text.splitlines() if line.startswith("data:")]
    return json.loads(lines[-1] if lines else answer.text)


@pytest.mark.parametrize("meta", [{}, {"org.openrewardstandard/call_id": "mine"}])
async def test_mcp_answers_an_error_and_the_same_request_again_gives_the_result(place, meta):
    place.failures = 1
    error = (await call_over_mcp(place, meta))["error"]
    assert error["code"] == -32005
    data = error["data"]
    assert (data["code"], data["pending"], data["retry_after"]) == ("store_unavailable", True, 1)
    assert data["call_id"] == meta.get("org.openrewardstandard/call_id", data["call_id"])
    told = (await call_over_mcp(place, meta))["result"]
    assert (told["isError"], told["content"][0]["text"], Bank.runs) == (False, "paid", 1)
    assert (await place.status())["episode"]["return"] == 0.5


async def test_our_client_asks_until_the_step_is_written_and_its_sum_is_right(place):
    options = ClientOptions(transport=httpx2.ASGITransport(place.app))
    async with AsyncClient(ORIGIN, options=options) as client, client.episode(**TASK) as episode:
        place.failures = 2
        result = await episode.call("pay", {"reward": 0.5})
        assert (result.reward, (await episode.check()).pending_steps, Bank.runs) == (0.5, 0, 1)


async def test_a_server_that_cannot_write_its_record_is_not_ready_until_it_can(place):
    path = "/_ors/sessions/s/calls"
    body = {"name": "pay", "arguments": {"reward": 0.5}, "call_id": "mine"}
    assert (await place.http.get("/_ors/ready")).status_code == 200
    assert (await place.http.get("/ready")).json() == {"status": "ready"}
    place.failures = 1
    await place.post(path, body)
    assert (await place.http.get("/ready")).status_code == 503
    refused = await place.http.get("/_ors/ready")
    assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
    assert "the record cannot be written: the disk is full" in refused.json()["detail"]
    await place.post(path, body)
    assert (await place.http.get("/_ors/ready")).status_code == 200


async def test_a_write_that_failed_long_ago_keeps_no_sessions_away():
    clock = FakeClock()
    health = RecordHealth(clock)
    health.fail(StoreError("the disk is full"))
    with pytest.raises(StoreError, match="cannot be written"):
        health.check()
    await clock.advance(REMEMBERED_SECONDS)
    health.check()
