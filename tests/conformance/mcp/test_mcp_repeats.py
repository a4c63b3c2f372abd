"""Requests that repeat a call id while the call runs."""

from typing import Any

import anyio
import pytest

from ors_server.doors.mcp import input_requests as input_requests_module
from ors_server.doors.mcp.mcp_results import CALL_ID_KEY

LIMIT = 20.0


@pytest.mark.parametrize("count", [2, 5])
async def test_every_request_that_repeats_a_call_id_gets_the_one_result(site, signals, monkeypatch, count):
    session_id = await site.start()
    capabilities: dict[str, Any] = {"elicitation": {}}  # so that the call may be answered with questions
    meta = {CALL_ID_KEY: "same", "io.modelcontextprotocol/clientCapabilities": capabilities}
    wanted = {"name": "wait", "arguments": {}, "_meta": meta}
    texts: list[str] = []
    joined: list[object] = []
    all_joined = anyio.Event()
    answer = input_requests_module.WaitingCall.add_responses

    def note(self: input_requests_module.WaitingCall, context: Any, answers: Any) -> None:
        answer(self, context, answers)
        joined.append(context)
        if len(joined) == count - 1:
            all_joined.set()

    monkeypatch.setattr(input_requests_module.WaitingCall, "add_responses", note)

    async def call() -> None:
        body = (await site.post(f"/sessions/{session_id}/mcp", "tools/call", wanted)).json()
        texts.append(body["result"]["content"][0]["text"])

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await signals.started.wait()
            for _ in range(count - 1):
                tasks.start_soon(call)
            await all_joined.wait()
            signals.go.set()
    assert texts == ["waited, step 1"] * count
    assert signals.runs == 1
