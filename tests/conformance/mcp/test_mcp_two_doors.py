"""One episode behind every door: played alternately, read anywhere, the figures agree."""

import json
from typing import Any

import httpx2

from ors_server.client.server import SessionPlace
from ors_server.doors.mcp.mcp_results import CALL_ID_KEY, EXTENSION, RESULT_KEY
from ors_server.testing.local_client import LocalSession


async def ors_call(site, session_id: str, tool: str, arguments: dict[str, Any], call_id: str | None = None):
    """Calls a tool through the ORS door and returns what its stream of events said."""
    body = {"name": tool, "input": arguments, **({} if call_id is None else {"task_id": call_id})}
    async with httpx2.AsyncClient(timeout=20) as http:
        answer = await http.post(f"{site.url}/desk/call", json=body, headers={"X-Session-ID": session_id})
    pieces = []
    for event in answer.text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in event.split("\n") if ": " in line)
        if fields.get("event") in {"chunk", "end"}:
            pieces.append(fields.get("data", ""))
    return json.loads("".join(pieces))


async def figures_everywhere(site, session_id: str) -> list[tuple[int, float, bool]]:
    """Reads steps, return and whether the episode is over from every place that tells them."""
    async with httpx2.AsyncClient(timeout=20) as http:
        control = (await http.get(f"{site.url}/_ors/sessions/{session_id}")).json()
    vendor = (await site.post("/mcp", f"{EXTENSION}/episode", {"session_id": session_id})).json()["result"]
    engine = await site.summary(session_id)
    steps = await site.app.manager.steps(session_id)
    recorded = sum(step.reward or 0.0 for step in steps)
    return [
        *(
            (place["episode"]["steps"], place["episode"]["return"], place["episode"]["phase"] == "finished")
            for place in (control, vendor)
        ),
        (engine.steps, engine.episode_return, engine.phase == "finished"),
        (len(steps), recorded, steps[-1].finished),
    ]


async def test_an_episode_played_alternately_through_both_doors_has_one_set_of_figures(site, era):
    session_id = await site.start()
    inside = LocalSession(site.app.client(), SessionPlace(session_id, "desk"))
    rewards: list[float | None] = []
    numbers: list[int] = []
    async with site.client(f"/sessions/{session_id}/mcp", era) as client:
        for word in ("one", "two"):
            output = (await ors_call(site, session_id, "say", {"text": word}))["output"]
            rewards.append(output["reward"])
            numbers.append(output["metadata"]["episode"]["step"])
            figures = ((await client.call_tool("say", {"text": word})).meta or {})[RESULT_KEY]
            rewards.append(figures["reward"])
            numbers.append(figures["step"])
        rewards.append((await inside.call("look")).reward)
        last = ((await client.call_tool("say", {"text": "test0"})).meta or {})[RESULT_KEY]
        rewards.append(last["reward"])
        late = await ors_call(site, session_id, "say", {"text": "test0"})
    assert numbers == [1, 2, 3, 4]
    assert last["finished"] is True
    assert late["ok"] is False
    received = sum(reward or 0.0 for reward in rewards)
    assert await figures_everywhere(site, session_id) == [(6, received, True)] * 4
    assert last["metadata"]["episode"]["return"] == received == 1.0


async def test_an_episode_that_ends_through_one_door_is_over_behind_the_other(site, era):
    session_id = await site.start()
    await ors_call(site, session_id, "say", {"text": "test0"})
    async with site.client(f"/sessions/{session_id}/mcp", era) as client:
        late = await client.call_tool("say", {"text": "test0"})
    assert late.is_error
    assert await figures_everywhere(site, session_id) == [(1, 1.0, True)] * 4


async def test_one_call_id_is_one_call_whichever_door_it_comes_through(site, era):
    async with site.play(era) as (session_id, client):
        first = await client.call_tool("say", {"text": "test0"}, meta={CALL_ID_KEY: "shared"})
    again = await ors_call(site, session_id, "say", {"text": "test0"}, call_id="shared")
    assert (first.meta or {})[RESULT_KEY]["reward"] == again["output"]["reward"] == 1.0
    assert await figures_everywhere(site, session_id) == [(1, 1.0, True)] * 4


async def test_an_agent_plays_over_mcp_unseeing_while_its_trainer_reads_over_ors(site, era):
    async with site.play(era, order={"visibility": "hidden"}) as (session_id, client):
        seen = await client.call_tool("say", {"text": "no"}, meta={CALL_ID_KEY: "a"})
    read = await ors_call(site, session_id, "say", {"text": "no"}, call_id="a")
    assert RESULT_KEY not in (seen.meta or {})
    assert read["output"]["reward"] == 0.0
