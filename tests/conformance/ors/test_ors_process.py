"""What no stranger can see over the wire: time, restarts, limits and logs (the manifest's `process`
requirements)."""

import base64
import json
import os
import socket
import sys
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from ors_server import ToolOutput, tool
from ors_server.conformance.ors_subject import OrsSubject, find
from ors_server.conformance.ors_wire import WireRequest, get, post
from ors_server.model.settings import Settings
from ors_server.testing.fake_clock import FakeClock
from tests.fixtures.single_task import SingleTask

REFENV = Path(__file__).parents[2] / "fixtures" / "refenv.py"
IDLE_LIMIT = 900.0
ANSWERED = {200}
GONE = {404, 410}


async def ping(server: OrsSubject, sid: str) -> int:
    return (await server.wire.send(post("/ping", X_Session_ID=sid))).status


async def let_see_the_close(server: OrsSubject) -> None:
    """Give the server three more requests; it reads each after it saw that an earlier connection closed."""
    for _ in range(3):
        await server.wire.send(get("/health"))


@pytest.mark.requirement("E19")
async def test_tasks_keep_their_order_when_the_server_restarts(serve):
    seen = []
    for _ in range(2):
        async with serve() as url:
            server = await find(url)
            seen.append([(await server.ask("/tasks", {"split": name})).json() for name in server.sizes])
    assert seen[0] == seen[1]


@pytest.mark.requirement("E31")
async def test_a_creation_whose_answer_was_lost_may_be_repeated(serve):
    begun, going_on = anyio.Event(), threading.Event()

    class Slow(SingleTask):
        def __init__(self, task_spec: dict[str, Any], secrets: dict[str, str] | None = None) -> None:
            super().__init__(task_spec, secrets)
            anyio.from_thread.run_sync(begun.set)
            assert going_on.wait(10)

        @tool
        async def nothing(self) -> str:
            return "nothing"

    async with serve(environment=Slow) as url:
        server = await find(url)
        sid = str(uuid.uuid4())
        creation = post("/create", {"task_spec": {}}, X_Session_ID=sid)
        with anyio.fail_after(20):
            async with server.wire.connection() as stream:
                await stream.send(server.wire.encode(creation))
                await begun.wait()
            await let_see_the_close(server)
            going_on.set()
            again = await server.wire.send(creation)
            assert again.status == 200
            assert (await server.wire.send(creation)).status == 400


async def leave_unread(url: str, server: OrsSubject, creation: WireRequest) -> None:
    """Send a creation, and close the connection once its answer has arrived, without reading it."""
    address = ("127.0.0.1", urlsplit(url).port)
    kept = {**creation.headers, "Connection": "keep-alive"}  # else the server closes the connection itself
    with socket.create_connection(address) as connection:
        connection.sendall(server.wire.encode(replace(creation, headers=kept)))
        await anyio.wait_readable(connection)
    await let_see_the_close(server)


@pytest.mark.requirement("E31")
async def test_a_creation_whose_answer_was_written_and_not_read_may_be_repeated_once(serve):
    async with serve() as url:
        server = await find(url)
        sid = str(uuid.uuid4())
        creation = post("/create", server.task(), X_Session_ID=sid)
        with anyio.fail_after(20):
            await leave_unread(url, server, creation)
            await leave_unread(url, server, creation)
            assert (await server.wire.send(creation)).status == 200
            assert (await server.wire.send(creation)).status == 400


@pytest.mark.requirement("E31")
async def test_another_creation_than_the_unread_one_is_refused(serve):
    async with serve() as url:
        server = await find(url)
        sid = str(uuid.uuid4())
        with anyio.fail_after(20):
            await leave_unread(url, server, post("/create", server.task(), X_Session_ID=sid))
            other = post("/create", server.task(), X_Session_ID=sid)
            assert (await server.wire.send(other)).status == 400


@pytest.mark.requirement("E31")
async def test_a_creation_is_not_repeated_once_its_session_has_a_call(serve):
    async with serve() as url:
        server = await find(url)
        sid = str(uuid.uuid4())
        creation = post("/create", server.task(), X_Session_ID=sid)
        with anyio.fail_after(20):
            await leave_unread(url, server, creation)
            call = {"name": "count", "input": {}}
            assert (await server.wire.send(post("/call", call, X_Session_ID=sid))).status == 200
            assert (await server.wire.send(creation)).status == 400


@pytest.mark.requirement("E40")
def test_a_session_may_be_idle_for_900_seconds_by_default():
    assert Settings().idle_seconds >= IDLE_LIMIT


@pytest.mark.requirement("E40")
async def test_a_session_ends_after_900_seconds_without_a_request_and_not_before(serve):
    clock = FakeClock()
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
async def test_a_session_does_not_end_under_a_running_call(serve):
    clock = FakeClock()
    async with serve(clock) as url:
        server = await find(url)
        async with server.session() as seat, seat.open("slow_count", {"seconds": 1.0}) as stream:
            await server.wait_for(seat.task_id, "slow_count started")
            await clock.advance(IDLE_LIMIT * 2)
            events = await stream.rest()
            assert json.loads(events[-1].data)["output"]["blocks"][0]["text"] == "1"
            assert await ping(server, seat.sid) in ANSWERED


@pytest.mark.requirement("E41b")
async def test_teardown_runs_once_when_a_session_expires(serve):
    clock = FakeClock()
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

    class Witness(SingleTask):
        name = "witness"

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
async def test_a_result_can_be_fetched_60_seconds_after_its_call(serve):
    clock = FakeClock()
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


@asynccontextmanager
async def command(log: Path, key: str) -> AsyncIterator[str]:
    """Runs the command line's server with a key and everything logged to a file; gives its URL."""
    program = "from ors_server.cli.main import main; main()"
    options = ("--port", "0", "--json", "--log-level", "debug", "--log-format", "json")
    with log.open("wb") as file:
        process = await anyio.open_process(
            [sys.executable, "-c", program, "serve", f"{REFENV}:RefEnv", *options],
            stderr=file,
            env={**os.environ, "ORS_API_KEYS": f"trainer:t:{key}"},
        )
        try:
            assert process.stdout is not None
            with anyio.fail_after(60):
                line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 65536)
            yield json.loads(line)["url"]
        finally:
            process.terminate()
            with anyio.fail_after(30):
                await process.wait()
            await process.aclose()


@pytest.mark.requirement("E76")
async def test_keys_and_secrets_are_never_logged(tmp_path):
    key, header, body = (f"confidential-{uuid.uuid4().hex}" for _ in range(3))
    encoded = base64.b64encode(json.dumps({"K": {"value": header}}).encode()).decode()
    async with command(tmp_path / "log", key) as url:
        server = await find(url, api_key=key)
        async with server.session({**server.task(), "secrets": {"L": body}}, X_Secrets=encoded) as seat:
            assert header in (await seat.call("whoami")).text
            await seat.call("boom")
            await seat.call("echo", text="hello")
        await server.create({**server.task(), "secrets": {"L": [body]}}, X_Secrets=encoded)
        await server.create(server.task(), X_Secrets=encoded[:-3])
        await server.create(server.task(init_fail=True), X_Secrets=encoded)
    logged = (tmp_path / "log").read_text()
    assert "episode" in logged
    for secret in (key, header, body, encoded):
        assert secret not in logged


@pytest.mark.requirement("E80")
async def test_a_sessions_totals_stand_under_a_path_of_the_servers_own(serve):
    async with serve() as url:
        server = await find(url)
        async with server.session() as seat:
            await seat.call("echo", text="nonsense")
            await seat.call("image")
            await seat.call("echo", text="hello")
            answer = await server.wire.send(get(f"/_ors/sessions/{seat.sid}"))
            episode = answer.json()["episode"]
    assert (episode["steps"], episode["return"], episode["last_reward"]) == (3, 1.25, 1.0)
    assert (episode["phase"], episode["stop_reason"]) == ("finished", "completed")


async def test_an_output_of_fifty_megabytes_hurts_only_its_own_call(serve):
    async with serve() as url:
        server = await find(url)
        async with server.session() as seat:
            huge = await seat.call("huge", megabytes=50)
            assert huge.error is not None or len(huge.text) < 50_000_000
            assert (await seat.call("add", a=1)).text == "3"
