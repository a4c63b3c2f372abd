"""The Tasks extension (SEP-2663): long calls are answered with a handle, and polled.

Source: the specification of `io.modelcontextprotocol/tasks` for 2026-07-28.
"""

from typing import Any

import anyio
import pytest

from ors_server import CallContext, tool
from ors_server.doors.mcp import deferred_calls, input_requests
from tests.conformance.mcp.conftest import LIMIT
from tests.fixtures.single_task import SingleTask

TASKS = "io.modelcontextprotocol/tasks"
DECLARED: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}}}
ASKED: dict[str, Any] = {
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}, "elicitation": {"form": {}}}
}
INVALID_PARAMS, METHOD_NOT_FOUND, MISSING_CAPABILITY = -32602, -32601, -32021


class Form(SingleTask):
    """Asks its caller, twice by the same name."""

    name = "form"

    @tool
    async def fill(self, context: CallContext) -> str:
        """Asks for two words."""
        words = []
        for _ in range(2):
            asked = await context.elicit("A word?", {"word": {"type": "string"}}, key="word")
            words.append(asked.content["word"])
        return " ".join(words)


@pytest.fixture(autouse=True)
def _impatience(monkeypatch):
    monkeypatch.setattr(input_requests, "PATIENCE", 0.0)


async def send(site, path, method, params, meta=DECLARED, **more):
    headers = {**(more.pop("headers", None) or {}), "X-ORS-Rewards": "meta"}
    if "taskId" in params:
        headers["Mcp-Name"] = params["taskId"]
    answer = await site.post(path, method, {**params, "_meta": meta}, headers=headers)
    return answer.json()


async def defer(site, path, tool_name="wait", **more):
    answer = await send(site, path, "tools/call", {"name": tool_name, "arguments": {}}, **more)
    assert answer["result"]["resultType"] == "task", answer
    return answer["result"]


async def poll(site, path, task_id, *, until, **more):
    with anyio.fail_after(LIMIT):
        while True:
            answer = await send(site, path, "tasks/get", {"taskId": task_id}, **more)
            if answer["result"]["status"] == until:
                return answer["result"]


async def test_a_long_call_is_deferred_polled_and_one_step(site, signals):
    session = await site.start()
    path = f"/sessions/{session}/mcp"
    task = await defer(site, path)
    assert (task["status"], task["ttlMs"], task["pollIntervalMs"]) == ("working", 3_600_000, 1000)
    answer = await send(site, path, "tasks/get", {"taskId": task["taskId"]})
    assert (answer["result"]["resultType"], answer["result"]["status"]) == ("complete", "working")
    signals.go.set()
    ended = await poll(site, path, task["taskId"], until="completed")
    assert ended["result"]["content"] == [{"type": "text", "text": "waited, step 1"}]
    assert ended["result"]["_meta"]["org.openrewardstandard/result"]["step"] == 1
    assert ended["createdAt"] == task["createdAt"] < ended["lastUpdatedAt"]
    assert (signals.runs, (await site.summary(session)).steps) == (1, 1)


async def test_a_call_of_a_client_that_declares_nothing_is_answered_when_it_ends(site, signals):
    path = f"/sessions/{await site.start()}/mcp"
    answers = []

    async def call():
        answers.append(await send(site, path, "tools/call", {"name": "wait", "arguments": {}}, meta={}))

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await signals.started.wait()
        signals.go.set()
    assert answers[0]["result"]["content"][0]["text"] == "waited, step 1"


async def test_a_quick_call_is_answered_at_once(site, monkeypatch):
    monkeypatch.setattr(input_requests, "PATIENCE", LIMIT)
    path = f"/sessions/{await site.start()}/mcp"
    quick = await send(site, path, "tools/call", {"name": "look", "arguments": {}})
    assert quick["result"]["resultType"] == "complete"


async def test_a_client_that_declares_nothing_cannot_poll(site):
    path = f"/sessions/{await site.start()}/mcp"
    task = await defer(site, path)
    for method in ("tasks/get", "tasks/cancel", "tasks/update"):
        answer = await send(site, path, method, {"taskId": task["taskId"], "inputResponses": {}}, meta={})
        assert answer["error"]["code"] == MISSING_CAPABILITY
        assert answer["error"]["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


@pytest.mark.parametrize("method", ["tasks/list", "tasks/result"])
async def test_methods_that_the_extension_dropped_do_not_exist(site, method):
    path = f"/sessions/{await site.start()}/mcp"
    answer = await send(site, path, method, {"taskId": "x"})
    assert answer["error"]["code"] == METHOD_NOT_FOUND


async def test_the_extension_is_announced_to_the_later_era_alone(site):
    path = f"/sessions/{await site.start()}/mcp"
    discovered = await send(site, path, "server/discover", {})
    assert discovered["result"]["capabilities"]["extensions"][TASKS] == {}
    async with site.client(path, "2025-11-25") as client:
        assert TASKS not in (client.server_capabilities.experimental or {})


async def test_a_task_of_another_session_or_credential_is_unknown(make_site):
    keys = "agent:ann:agent-key-0123456789,agent:bob:agent-key-9876543210"
    site = await make_site(api_keys=keys)
    ann, bob = ({"X-API-Key": f"agent-key-{number}"} for number in ("0123456789", "9876543210"))
    start = {"name": "start_episode", "arguments": {"environment": "desk", "split": "train", "index": 0}}
    started = await send(site, "/mcp", "tools/call", start, headers=ann)
    session = started["result"]["_meta"]["org.openrewardstandard/session"]
    answer = await send(
        site, "/mcp", "tools/call", {"name": "wait", "arguments": {"session_id": session}}, headers=ann
    )
    task_id = answer["result"]["taskId"]
    own = await send(site, "/mcp", "tasks/get", {"taskId": task_id}, headers=ann)
    assert own["result"]["status"] == "working"
    for method in ("tasks/get", "tasks/cancel", "tasks/update"):
        foreign = await send(site, "/mcp", method, {"taskId": task_id, "inputResponses": {}}, headers=bob)
        unknown = await send(site, "/mcp", method, {"taskId": "none", "inputResponses": {}}, headers=bob)
        assert foreign["error"]["code"] == unknown["error"]["code"] == INVALID_PARAMS
        assert foreign["error"]["message"].replace(task_id, "none") == unknown["error"]["message"]


async def test_a_task_is_polled_at_its_own_session_only(site):
    first, second = await site.start(), await site.start()
    task = await defer(site, f"/sessions/{first}/mcp")
    answer = await send(site, f"/sessions/{second}/mcp", "tasks/get", {"taskId": task["taskId"]})
    assert answer["error"]["code"] == INVALID_PARAMS


@pytest.mark.parametrize("call_id", [None, "mine"])
async def test_a_cancelled_task_stops_its_call_and_pays_nothing(site, signals, call_id):
    session = await site.start()
    path = f"/sessions/{session}/mcp"
    meta = DECLARED if call_id is None else {**DECLARED, "org.openrewardstandard/call_id": call_id}
    task = await defer(site, path, meta=meta)
    answer = await send(site, path, "tasks/cancel", {"taskId": task["taskId"]})
    assert answer["result"]["resultType"] == "complete"
    with anyio.fail_after(LIMIT):
        await signals.cancelled.wait()
    ended = await poll(site, path, task["taskId"], until="cancelled")
    assert "result" not in ended


async def test_a_repeated_call_id_gets_the_same_task(site, signals):
    path = f"/sessions/{await site.start()}/mcp"
    meta = {**DECLARED, "org.openrewardstandard/call_id": "mine"}
    first, second = await defer(site, path, meta=meta), await defer(site, path, meta=meta)
    assert first["taskId"] == second["taskId"]
    assert signals.runs == 1


async def test_a_tool_that_breaks_completes_its_task_with_an_error_result(site):
    path = f"/sessions/{await site.start()}/mcp"
    task = await defer(site, path, "collapse")
    ended = await poll(site, path, task["taskId"], until="completed")
    assert ended["result"]["isError"] is True


async def test_a_tool_asks_through_its_task_and_no_key_is_used_twice(make_site):
    site = await make_site(Form)
    path = f"/sessions/{await site.start('form', split=Form.SPLIT)}/mcp"
    task = await defer(site, path, "fill", meta=ASKED)
    keys = []
    for word in ("two", "words"):
        asking = await poll(site, path, task["taskId"], until="input_required", meta=ASKED)
        (key,) = asking["inputRequests"]
        keys.append(key)
        responses = {key: {"action": "accept", "content": {"word": word}}, "stale": {"action": "decline"}}
        update = {"taskId": task["taskId"], "inputResponses": responses}
        assert "error" not in await send(site, path, "tasks/update", update, meta=ASKED)
    ended = await poll(site, path, task["taskId"], until="completed", meta=ASKED)
    assert ended["result"]["content"][0]["text"] == "two words"
    assert len(set(keys)) == 2


async def test_results_are_bounded_by_number_and_by_bytes(site, monkeypatch):
    path = f"/sessions/{await site.start()}/mcp"
    monkeypatch.setattr(deferred_calls, "MAX_RESULT_BYTES", 0)
    first = await defer(site, path, "look")
    await poll(site, path, first["taskId"], until="completed")
    second = await defer(site, path, "look")
    await poll(site, path, second["taskId"], until="completed")
    answer = await send(site, path, "tasks/get", {"taskId": first["taskId"]})
    assert answer["error"]["code"] == INVALID_PARAMS
    monkeypatch.setattr(deferred_calls, "MAX_CALLS", 1)
    third = await defer(site, path, "wait")
    other = f"/sessions/{await site.start()}/mcp"
    waiting = await send(site, other, "tools/call", {"name": "look", "arguments": {}})
    assert third["status"] == "working"
    assert waiting["result"]["resultType"] == "complete"
