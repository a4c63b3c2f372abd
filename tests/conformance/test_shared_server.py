"""What one session does to the server costs no other session anything, behind every door.

Threads and the event loop are shared; the time that a call waits for them is the server's and not the call's.
"""

import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar
from uuid import uuid4

import anyio
import anyio.lowlevel
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from ors_server import EpisodePolicy, ToolOutput, tool
from ors_server.client.client_options import ClientOptions, HttpPool
from ors_server.client.mcp_connection import connect
from ors_server.sessions.session_call import MAX_READERS
from tests.fixtures.single_task import SingleTask

LIMIT = 30.0
"""Seconds within which anything in these tests happens."""
RESULT_KEY = "org.openrewardstandard/result"
CALL_ID_KEY = "org.openrewardstandard/call_id"
HELD = 0.8
"""Seconds for which an author's mistake holds the event loop."""
SHORT = 0.25
"""Seconds of a call's time limit: shorter than what it has to wait."""


class Hall(SingleTask):
    """Has tools that hold what everybody shares, and tools that hold nothing."""

    name = "hall"
    policy = EpisodePolicy(timeout_penalty=0.2)
    gate: ClassVar[threading.Event]
    entered: ClassVar[threading.Semaphore]

    @tool
    def block(self) -> ToolOutput:
        """Blocks its thread until the test says otherwise."""
        self.entered.release()
        self.gate.wait(LIMIT)
        return ToolOutput(reward=0.5)

    @tool(time_limit=SHORT)
    def stuck(self) -> ToolOutput:
        """Blocks its thread for longer than it may."""
        self.entered.release()
        self.gate.wait(LIMIT)
        return ToolOutput(reward=0.5)

    @tool
    async def hold(self) -> ToolOutput:
        """Holds the event loop: an author's mistake."""
        self.entered.release()
        time.sleep(HELD)  # noqa: ASYNC251  (an author's mistake)
        return ToolOutput(reward=0.5)

    @tool(time_limit=SHORT)
    async def hold_and_wait(self) -> ToolOutput:
        """Holds the event loop for longer than it may, and goes on."""
        time.sleep(HELD)  # noqa: ASYNC251  (an author's mistake)
        await anyio.lowlevel.checkpoint()
        return ToolOutput(reward=0.5)

    @tool(time_limit=SHORT)
    def instant(self) -> ToolOutput:
        """Is done at once, in a thread."""
        return ToolOutput(reward=1.0)

    @tool(time_limit=SHORT)
    async def brief(self) -> ToolOutput:
        """Is done soon, on the event loop."""
        await anyio.sleep(SHORT / 5)
        return ToolOutput(reward=1.0)

    @tool(time_limit=SHORT)
    async def endless(self) -> ToolOutput:
        """Is never done."""
        await anyio.sleep_forever()
        return ToolOutput()


class Annex(Hall):
    """Another environment of the same server."""

    name = "annex"

    async def setup(self) -> None:
        """Needs a moment, so that a session is not ready at once."""


@pytest.fixture(autouse=True)
def fresh() -> Any:
    Hall.gate, Hall.entered = threading.Event(), threading.Semaphore(0)
    yield
    Hall.gate.set()


@pytest.fixture(scope="module")
def server(serve_live):
    return serve_live(Hall, Annex)


@pytest.fixture(scope="module")
def lone_server(serve_live):
    return serve_live(Hall, worker_threads=8)


class Player:
    """Plays sessions over ORS, and one call over the door that a test is about."""

    def __init__(self, http: httpx2.AsyncClient, door: str) -> None:
        self.http = http
        self.door = door
        self.calling = anyio.Semaphore(0)
        """Released for each call that is about to be sent over a connection that stands."""

    async def create(self, environment: str = "hall", session_id: str | None = None) -> str:
        session_id = session_id or uuid4().hex
        body = {"env_name": environment, "task_spec": {}}
        answer = await self.http.post("/create", json=body, headers={"X-Session-ID": session_id})
        assert answer.json() == {"sid": session_id}
        return session_id

    async def call(
        self,
        session_id: str,
        name: str,
        door: str | None = None,
        environment: str = "hall",
        call_id: str | None = None,
    ) -> Any:
        """Calls a tool; returns (reward, error code), or the text of a fault."""
        if (door or self.door) == "mcp":
            return await self._call_mcp(session_id, name, call_id)
        self.calling.release()
        answer = await self.http.post(
            f"/{environment}/call",
            json={"name": name, "input": {}, "task_id": call_id},
            headers={"X-Session-ID": session_id},
        )
        if answer.status_code != 200:
            return answer.json()["detail"]
        events = [event.split("\n") for event in answer.text.split("\n\n")]
        pieces = "".join(
            line.removeprefix("data: ")
            for event in events
            if event[0] in {"event: chunk", "event: end"}
            for line in event[1:]
        )
        if not pieces:
            return next(event[1] for event in events if event[0] == "event: error").removeprefix("data: ")
        told = json.loads(pieces)
        if not told["ok"]:
            return told["error"]
        output = told["output"]
        return output["reward"], (output["metadata"].get("error") or {}).get("code")

    async def _call_mcp(self, session_id: str, name: str, call_id: str | None) -> Any:
        url = f"{str(self.http.base_url).rstrip(chr(47))}/sessions/{session_id}/mcp"
        async with (
            httpx2.AsyncClient(timeout=LIMIT, headers={"X-ORS-Rewards": "meta"}) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            meta = None if call_id is None else {CALL_ID_KEY: call_id}
            self.calling.release()
            try:
                result = await client.call_tool(name, {}, meta=meta)
            except MCPError as error:
                return str(error)
        figures = (result.meta or {}).get(RESULT_KEY)
        if figures is not None and "failed" in figures:
            return figures["failed"]["detail"]
        if figures is None or figures["metadata"] is None:
            return result.content[0].text
        return figures["reward"], (figures["metadata"].get("error") or {}).get("code")

    async def delete(self, session_id: str) -> None:
        if self.door == "ors":
            answer = await self.http.post("/delete", headers={"X-Session-ID": session_id})
            assert answer.json() == {"sid": session_id}
            return
        root = str(self.http.base_url).rstrip("/")
        async with connect(f"{root}/mcp", HttpPool(root, None, ClientOptions()), "auto") as mcp:
            assert (await mcp.method("delete", {"session_id": session_id}))["deleted"] is True


@pytest.fixture(params=["ors", "mcp"])
def join(request) -> Callable[[Any], Any]:
    @contextlib.asynccontextmanager
    async def connect(server) -> AsyncIterator[Player]:
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(base_url=server.url, timeout=LIMIT, limits=limits) as http:
            with anyio.fail_after(LIMIT * 2):
                yield Player(http, request.param)

    return connect


async def until_entered(count: int) -> None:
    """Waits until so many calls run their author's code."""
    for _ in range(count):
        assert await anyio.to_thread.run_sync(Hall.entered.acquire, True, LIMIT)  # noqa: FBT003  (its own signature)


@pytest.mark.parametrize("crowd", [70, 200])
async def test_a_call_that_waits_for_a_thread_is_not_charged_for_it(join, lone_server, crowd):
    async with join(lone_server) as player, anyio.create_task_group() as group:
        for session in [await player.create() for _ in range(crowd)]:
            group.start_soon(player.call, session, "block", "ors")
        innocent = await player.create()
        await until_entered(7)  # the eighth thread is for setups and prompts
        told: list[Any] = []
        player.calling = anyio.Semaphore(0)

        async def ask() -> None:
            told.append(await player.call(innocent, "instant"))

        group.start_soon(ask)
        await player.calling.acquire()
        await anyio.sleep(4 * SHORT)  # real time has to pass for a clock that must not count it
        assert told == []
        Hall.gate.set()
    assert told == [(1.0, None)]


async def test_a_crowd_in_one_environment_leaves_threads_to_the_others(join, server):
    async with join(server) as player, anyio.create_task_group() as group:
        for session in [await player.create() for _ in range(200)]:
            group.start_soon(player.call, session, "block", "ors")
        await until_entered(42)  # three quarters of what is not reserved
        other = await player.create("annex")
        assert await player.call(other, "instant", environment="annex") == (1.0, None)
        prompt = await player.http.get("/hall/prompt", headers={"X-Session-ID": await player.create()})
        assert prompt.status_code == 200
        queue = (await player.http.get("/_ors/health")).json()["queues"]["threads"]
        assert (queue["capacity"], queue["running"], queue["waiting"]) == (64, 42, 158)
        assert queue["longest_wait_s"] > 0
        Hall.gate.set()


async def test_a_call_is_not_charged_while_another_sessions_tool_holds_the_event_loop(join, server):
    async with join(server) as player, anyio.create_task_group() as group:
        culprit, innocent = await player.create(), await player.create()
        told: list[Any] = []

        async def ask() -> None:
            told.append(await player.call(innocent, "brief"))

        for _ in range(3):
            group.start_soon(ask)
        for _ in range(3):
            await player.calling.acquire()
        group.start_soon(player.call, culprit, "hold", "ors")
    assert told == [(1.0, None)] * 3
    health = (await player_health(server))["loop"]
    assert health["longest_late_s"] > HELD / 2
    assert "tool 'hold' of 'hall'" in [each["name"] for each in health["held_by"]]


async def player_health(server) -> Any:
    async with httpx2.AsyncClient(base_url=server.url, timeout=LIMIT) as http:
        return (await http.get("/_ors/health")).json()


async def test_who_holds_the_event_loop_for_too_long_is_charged(join, server):
    async with join(server) as player:
        session = await player.create()
        assert await player.call(session, "hold_and_wait") == (-0.2, "timeout")
        assert await player.call(session, "endless") == (-0.2, "timeout")


async def test_after_a_tool_that_cannot_be_stopped_the_next_call_is_a_fault_and_the_episode_is_over(
    join, server
):
    async with join(server) as player:
        session = await player.create()
        assert await player.call(session, "stuck") == (-0.2, "timeout")
        began = anyio.current_time()
        assert "'stuck' was stopped and its thread still runs" in await player.call(session, "brief")
        assert anyio.current_time() - began < LIMIT / 2
        Hall.gate.set()
        assert "the episode is over (failed)" in await player.call(session, "brief")
        status = (await player.http.get(f"/_ors/sessions/{session}")).json()["episode"]
        assert (status["phase"], status["stop_reason"], status["return"]) == ("failed", "failed", -0.2)


async def test_a_tool_that_ends_soon_after_it_was_stopped_costs_nothing_more(join, server):
    async with join(server) as player:
        session = await player.create()
        assert await player.call(session, "stuck") == (-0.2, "timeout")
        Hall.gate.set()
        assert await player.call(session, "brief") == (1.0, None)


async def test_a_session_whose_tool_cannot_be_stopped_is_deleted_soon(join, server):
    async with join(server) as player, anyio.create_task_group() as group:
        session = await player.create()
        group.start_soon(player.call, session, "block")
        await until_entered(1)
        with anyio.fail_after(LIMIT / 2):
            await player.delete(session)
        assert not Hall.gate.is_set()
        Hall.gate.set()


async def test_one_call_is_read_by_so_many_requests_at_once(join, server):
    async with join(server) as player:
        session = await player.create()
        told: list[Any] = []
        refused = anyio.Event()

        async def ask() -> None:
            told.append(await player.call(session, "block", call_id="same"))
            refused.set()

        async with anyio.create_task_group() as group:
            for _ in range(MAX_READERS + 1):
                group.start_soon(ask)
            await refused.wait()
            assert told == [f"{MAX_READERS} requests read the call 'same' already"]
            assert await player.call(session, "block", call_id="same") == told[0]
            Hall.gate.set()
        assert told[1:] == [(0.5, None)] * MAX_READERS
        assert await player.call(session, "block", call_id="same") == (0.5, None)
