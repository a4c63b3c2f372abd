"""What no stranger can see over the wire: time, restarts, limits and logs (the manifest's `process`
requirements)."""

import base64
import json
import uuid
from typing import Any

import pytest

from ors_server import Environment, ToolOutput, tool
from ors_server.settings import Settings
from ors_server.testing.ors_subject import Subject, find
from ors_server.testing.ors_wire import post

pytestmark = pytest.mark.anyio

IDLE_LIMIT = 900.0
ANSWERED = {200}
GONE = {404, 410}


async def ping(server: Subject, sid: str) -> int:
    return (await server.wire.send(post("/ping", X_Session_ID=sid))).status


@pytest.mark.requirement("E19")
async def test_tasks_keep_their_order_when_the_server_restarts(serve):
    seen = []
    for _ in range(2):
        async with serve() as url:
            server = await find(url)
            seen.append([(await server.ask("/tasks", {"split": name})).json() for name in server.sizes])
    assert seen[0] == seen[1]


@pytest.mark.requirement("E40")
def test_a_session_may_be_idle_for_900_seconds_by_default():
    assert Settings().idle_seconds >= IDLE_LIMIT


@pytest.mark.requirement("E40")
async def test_a_session_ends_after_900_seconds_without_a_request_and_not_before(serve, hand_clock):
    clock = hand_clock()
    async with serve(clock) as url:
        server = await find(url)
        sid, _ = await server.create(server.task())
        await clock.advance(IDLE_LIMIT - 10)
        assert await ping(server, sid) in ANSWERED
        await clock.advance(IDLE_LIMIT - 10)
        assert await ping(server, sid) in ANSWERED
        await clock.advance(IDLE_LIMIT + 10)
        assert await ping(server, sid) in GONE


@pytest.mark.requirement("E40")
async def test_a_session_does_not_end_under_a_running_call(serve, hand_clock):
    clock = hand_clock()
    async with serve(clock) as url:
        server = await find(url)
        async with server.session() as seat, seat.open("slow_count", {"seconds": 1.0}) as stream:
            await server.wait_for(seat.task_id, "slow_count started")
            await clock.advance(IDLE_LIMIT * 2)
            events = await stream.rest()
            assert json.loads(events[-1].data)["output"]["blocks"][0]["text"] == "1"
            assert await ping(server, seat.sid) in ANSWERED


@pytest.mark.requirement("E41b")
async def test_teardown_runs_once_when_a_session_expires(serve, hand_clock):
    clock = hand_clock()
    async with serve(clock) as url:
        server = await find(url)
        body = server.task()
        sid, _ = await server.create(body)
        await clock.advance(IDLE_LIMIT + 10)
        assert await server.wait_for(body["task_spec"]["id"], "teardown") == ["setup", "teardown"]
        await server.wire.send(post("/delete", X_Session_ID=sid))
        assert await server.ledger(body["task_spec"]["id"]) == ["setup", "teardown"]


@pytest.mark.requirement("E41b")
async def test_teardown_runs_once_when_the_server_stops(serve):
    events: list[str] = []

    class Witness(Environment):
        name = "witness"

        @classmethod
        def list_splits(cls) -> list[str]:
            return ["train"]

        @classmethod
        def list_tasks(cls, split: str) -> list[dict[str, Any]]:
            return [{}]

        def get_prompt(self) -> str:
            return "Watch."

        async def setup(self) -> None:
            events.append("setup")

        async def teardown(self) -> None:
            events.append("teardown")

        @tool
        async def nothing(self) -> ToolOutput:
            return ToolOutput.ongoing("nothing")

    async with serve(environment=Witness) as url:
        server = await find(url)
        for _ in range(2):
            _, created = await server.create(server.task())
            assert created.status == 200
    assert sorted(events) == ["setup", "setup", "teardown", "teardown"]


@pytest.mark.requirement("E62b")
async def test_a_result_can_be_fetched_60_seconds_after_its_call(serve, hand_clock):
    clock = hand_clock()
    async with serve(clock) as url:
        server = await find(url)
        async with server.session() as seat:
            first = await seat.call("count")
            await clock.advance(61.0)
            again = await seat.call("count", resume=first.task_id)
            assert again.result == first.result


@pytest.mark.requirement("E75")
async def test_at_capacity_a_session_is_refused_with_a_time_to_retry(serve):
    async with serve(max_sessions=2) as url:
        server = await find(url)
        async with server.session(), server.session():
            _, refused = await server.create(server.task())
            assert refused.status == 429
            assert int(refused.headers["retry-after"]) > 0
            assert "maximum capacity" in refused.json()["detail"]
        _, admitted = await server.create(server.task())
        assert admitted.status == 200


@pytest.mark.requirement("E76")
async def test_keys_and_secrets_are_never_logged(serve, capfd):
    key, header, body = (f"confidential-{uuid.uuid4().hex}" for _ in range(3))
    encoded = base64.b64encode(json.dumps({"K": {"value": header}}).encode()).decode()
    async with serve(api_keys=f"trainer:t:{key}", log_level="debug") as url:
        server = await find(url, api_key=key)
        async with server.session({**server.task(), "secrets": {"L": body}}, X_Secrets=encoded) as seat:
            assert header in (await seat.call("whoami")).text
            await seat.call("boom")
            await seat.call("echo", text="hello")
        await server.create({**server.task(), "secrets": {"L": [body]}}, X_Secrets=encoded)
        await server.create(server.task(), X_Secrets=encoded[:-3])
        await server.create(server.task(init_fail=True), X_Secrets=encoded)
    logged = "".join(capfd.readouterr())
    assert "episode" in logged
    for secret in (key, header, body, encoded):
        assert secret not in logged
