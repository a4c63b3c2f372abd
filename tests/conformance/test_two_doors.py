"""One session, played through every door in turn: steps, sums and the end agree everywhere."""

import contextlib
import functools
import itertools
import json
import operator
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from ors_server import EpisodePolicy, ToolError, ToolOutput, tool
from ors_server.app import App, create_app
from ors_server.model.settings import Settings
from ors_server.sessions.session_call import Completed
from tests.fixtures.loopback import listening
from tests.fixtures.single_task import SingleTask

LIMIT = 20.0
"""Seconds within which anything in these tests happens."""

RESULT_KEY = "org.openrewardstandard/result"
CALL_ID_KEY = "org.openrewardstandard/call_id"
SESSION = "two-doors"


class Stairs(SingleTask):
    """Pays fractions that do not add up in decimal, and charges for mistakes."""

    name = "stairs"
    policy = EpisodePolicy(step_limit=20, invalid_call_penalty=0.1, tool_error_penalty=0.2)

    @tool
    async def climb(self, reward: float | None = None, top: bool = False) -> ToolOutput:  # noqa: FBT001, FBT002  (a tool's arguments)
        """Climbs a step."""
        return ToolOutput(reward=reward, finished=top)

    @tool
    async def stumble(self) -> ToolOutput:
        """Stumbles."""
        raise ToolError("ouch")

    @tool
    async def fall(self) -> ToolOutput:
        """Breaks down."""
        raise RuntimeError("crash")


class Door:
    """A way to play the session; a call gives reward, finished and the standing, or `None` for no output."""

    async def call(self, name: str, arguments: dict[str, Any], call_id: str) -> Any:
        raise NotImplementedError


class OrsWay(Door):
    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    async def call(self, name: str, arguments: dict[str, Any], call_id: str) -> Any:
        body = {"name": name, "input": arguments, "task_id": call_id}
        answer = await self.http.post("/stairs/call", json=body, headers={"X-Session-ID": SESSION})
        pieces = "".join(
            line.removeprefix("data: ")
            for event in answer.text.split("\n\n")
            if event.startswith(("event: chunk", "event: end"))
            for line in event.split("\n")[1:]
        )
        if not pieces:
            assert "event: error" in answer.text
            return None
        result = json.loads(pieces)
        if not result["ok"]:
            return None
        output = result["output"]
        return output["reward"], output["finished"], output["metadata"]["episode"]


class ControlWay(Door):
    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    async def call(self, name: str, arguments: dict[str, Any], call_id: str) -> Any:
        body = {"name": name, "arguments": arguments, "call_id": call_id}
        answer = (await self.http.post(f"/_ors/sessions/{SESSION}/calls", json=body)).json()
        output = answer.get("output")
        return (
            None if output is None else (output["reward"], output["finished"], output["metadata"]["episode"])
        )


class McpWay(Door):
    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, arguments: dict[str, Any], call_id: str) -> Any:
        result = await self.client.call_tool(name, arguments, meta={CALL_ID_KEY: call_id})
        figures = (result.meta or {}).get(RESULT_KEY)
        if figures is None or figures["metadata"] is None:
            return None
        return figures["reward"], figures["finished"], figures["metadata"]["episode"]


class EngineWay(Door):
    def __init__(self, app: App) -> None:
        self.app = app

    async def call(self, name: str, arguments: dict[str, Any], call_id: str) -> Any:
        call = await self.app.manager.find(SESSION).call(name, arguments, call_id=call_id)
        result = await call.wait()
        if not isinstance(result, Completed):
            return None
        assert result.output.metadata is not None
        return result.output.reward, result.output.finished, result.output.metadata["episode"]


@pytest.fixture
async def doors() -> AsyncIterator[dict[str, Door]]:
    app = create_app([Stairs], Settings())
    async with contextlib.AsyncExitStack() as stack:
        url = await stack.enter_async_context(listening(app))
        http = await stack.enter_async_context(httpx2.AsyncClient(base_url=url, timeout=LIMIT))
        created = await http.post("/create", json={"task_spec": {}}, headers={"X-Session-ID": SESSION})
        assert created.json() == {"sid": SESSION}
        ways: dict[str, Door] = {"ors": OrsWay(http), "control": ControlWay(http), "engine": EngineWay(app)}
        for era, mode in (("mcp modern", "auto"), ("mcp handshake", "legacy")):
            mcp_http = await stack.enter_async_context(
                httpx2.AsyncClient(timeout=LIMIT, headers={"X-ORS-Rewards": "meta"})
            )
            transport = streamable_http_client(f"{url}/sessions/{SESSION}/mcp", http_client=mcp_http)
            client = await stack.enter_async_context(Client(transport, mode=mode))
            ways[era] = McpWay(client)
        yield ways


async def standing_everywhere(doors: dict[str, Door]) -> dict[str, Any]:
    """Reads the episode's totals wherever they can be read."""
    engine, control = doors["engine"], doors["control"]
    assert isinstance(engine, EngineWay)
    assert isinstance(control, ControlWay)
    status = await engine.app.manager.status(SESSION)
    seen = (await control.http.get(f"/_ors/sessions/{SESSION}")).json()["episode"]
    steps = (await control.http.get(f"/_ors/sessions/{SESSION}/steps")).json()
    rows = steps["steps"] if isinstance(steps, dict) else steps
    summary = asdict(status.summary)
    assert (seen["steps"], seen["return"], seen["phase"], seen["stop_reason"], seen["penalties"]) == (
        summary["steps"],
        summary["episode_return"],
        summary["phase"],
        summary["stop_reason"],
        summary["penalties"],
    )
    assert [row["reward"] for row in rows] == [
        step.reward for step in await engine.app.manager.steps(SESSION)
    ]
    assert functools.reduce(operator.add, [row["reward"] or 0.0 for row in rows], 0.0) == seen["return"]
    return summary


MOVES: list[tuple[str, dict[str, Any]]] = [
    ("climb", {"reward": 0.1}),
    ("climb", {"reward": 0.2}),
    ("climb", {}),
    ("stumble", {}),
    ("nonesuch", {}),
    ("climb", {"reward": "much"}),
    ("fall", {}),
    ("climb", {"reward": 0.3}),
    ("climb", {"reward": -0.7}),
    ("climb", {"reward": 0.0}),
]


@pytest.mark.parametrize("first", range(5))
async def test_a_session_played_through_all_doors_in_turn_is_one_episode(doors, first):
    names = sorted(doors)
    turn = itertools.islice(itertools.cycle(names), first, None)
    received: list[float | None] = []
    with anyio.fail_after(LIMIT):
        for number, (name, arguments) in enumerate(MOVES, start=1):
            told = await doors[next(turn)].call(name, arguments, f"call-{number}")
            received.append(None if told is None else told[0])
            total = functools.reduce(operator.add, [reward for reward in received if reward is not None], 0.0)
            if told is not None:
                assert (told[2]["step"], told[2]["return"], told[1]) == (number, total, False)
            summary = await standing_everywhere(doors)
            assert (summary["steps"], summary["episode_return"]) == (number, total)
        for door in names:  # the same call asked for at every door is the same call
            told = await doors[door].call("climb", {"reward": 0.1}, "call-1")
            assert told[:2] == (0.1, False)
        last = await doors[next(turn)].call("climb", {"reward": 1.0, "top": True}, "last")
        assert last[:2] == (1.0, True)
        for door in names:
            assert await doors[door].call("climb", {"reward": 9.0}, f"late-{door.replace(' ', '-')}") is None
            told = await doors[door].call("climb", {"reward": 1.0, "top": True}, "last")
            assert told[:2] == (1.0, True)
        summary = await standing_everywhere(doors)
    assert (summary["phase"], summary["stop_reason"], summary["steps"]) == ("finished", "completed", 11)
    assert summary["episode_return"] == total + 1.0


async def test_a_call_id_of_another_call_is_refused_at_every_door_and_costs_nothing(doors):
    with anyio.fail_after(LIMIT):
        assert (await doors["ors"].call("climb", {"reward": 0.5}, "mine"))[0] == 0.5
        http = doors["ors"].http
        for body in ({"name": "climb", "input": {"reward": 0.7}}, {"name": "stumble", "input": {}}):
            headers = {"X-Session-ID": SESSION}
            answer = await http.post("/stairs/call", json={**body, "task_id": "mine"}, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (409, "call_id_reused")
            assert answer.json()["blame"] == "client"
            call = {"name": body["name"], "arguments": body["input"], "call_id": "mine"}
            answer = await http.post(f"/_ors/sessions/{SESSION}/calls", json=call)
            assert (answer.status_code, answer.json()["code"]) == (409, "call_id_reused")
            for era in ("mcp modern", "mcp handshake"):
                with pytest.raises(MCPError, match="'mine' is taken by a call of 'climb'") as refused:
                    await doors[era].call(body["name"], body["input"], "mine")
                assert refused.value.code == types.INVALID_PARAMS
        summary = await standing_everywhere(doors)
    assert (summary["steps"], summary["episode_return"], summary["penalty_sum"]) == (1, 0.5, 0.0)


async def test_an_id_that_the_server_made_is_no_other_calls_either(doors):
    http, headers = doors["ors"].http, {"X-Session-ID": SESSION}
    with anyio.fail_after(LIMIT):
        body = {"name": "climb", "input": {"reward": 0.5}}
        first = await http.post("/stairs/call", json=body, headers=headers)
        call_id = first.text.split("\n")[1].removeprefix("data: ")
        again = await http.post("/stairs/call", json={**body, "task_id": call_id}, headers=headers)
        assert again.text == first.text
        other = {"name": "climb", "input": {"reward": 0.7}, "task_id": call_id}
        refused = await http.post("/stairs/call", json=other, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (409, "call_id_reused")
