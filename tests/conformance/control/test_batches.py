"""Many sessions and calls in one request: each item has the result of the single operation."""

import anyio
import pytest

from ors_server.doors.control import batches
from ors_server.model.host_slot import HostSlot


async def post(control, path, items, **more):
    answer = await control.post(f"/batches/{path}", {"items": items}, **more)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def test_sessions_are_created_played_and_deleted_in_three_requests(control):
    orders = [{"task_spec": {}, "session_id": f"many-{number}", "seed": number} for number in range(3)]
    created = await post(
        control, "sessions", [*orders, {"task_spec": {}, "environment": "nothing"}, orders[0]]
    )
    assert [item["ok"] for item in created] == [True, True, True, False, False]
    assert [item["created"]["session_id"] for item in created[:3]] == ["many-0", "many-1", "many-2"]
    assert [item["status"] for item in created[3:]] == [404, 409]
    assert created[3]["problem"]["code"] == "unknown_environment"
    calls = [
        {"session_id": f"many-{number}", "name": "pay", "arguments": {"reward": 0.25}} for number in range(3)
    ]
    called = await post(
        control, "calls", [*calls, {**calls[0], "call_id": "x"}, {**calls[0], "session_id": "none"}]
    )
    assert [item.get("result", {}).get("step") for item in called] == [1, 1, 1, 2, None]
    assert [item["result"]["output"]["reward"] for item in called[:4]] == [0.25] * 4
    assert (called[4]["status"], called[4]["problem"]["code"]) == (404, "session_not_found")
    alone = await control.post(
        "/sessions/many-0/calls", {"name": "pay", "arguments": {"reward": 0.25}, "call_id": "x"}
    )
    assert alone.json() == called[3]["result"]
    deleted = await post(control, "deletions", ["many-0", "many-1", "none", "many-2"])
    assert [item["ok"] for item in deleted] == [True, True, False, True]
    assert deleted[0]["session"]["episode"]["return"] == 0.5


async def test_a_wrong_call_is_a_result_and_the_others_are_played(control):
    (created,) = await post(control, "sessions", [{"task_spec": {}}])
    session = created["created"]["session_id"]
    called = await post(
        control,
        "calls",
        [
            {"session_id": session, "name": name, "arguments": {"reward": 0.5}}
            for name in ("pay", "nothing", "pay")
        ],
    )
    assert [item["result"]["step"] for item in called] == [1, 2, 3]
    assert [item["result"]["is_error"] for item in called] == [False, True, False]
    assert [item["result"]["output"]["reward"] for item in called] == [0.5, -0.5, 0.5]


async def test_a_call_whose_session_is_deleted_has_the_result_of_the_single_operation(control, gate):
    single, batched = await control.create(), await control.create()
    answers = {}

    async def play_single():
        answers["single"] = await control.call(single, "wait")

    async def play_batched():
        (answers["batched"],) = await post(control, "calls", [{"session_id": batched, "name": "wait"}])

    for play, session in ((play_single, single), (play_batched, batched)):
        gate.entered = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(play)
            await gate.entered.wait()
            await post(control, "deletions", [session])
    result = answers["batched"]["result"]
    assert result["kind"] == "failed"
    assert {**result, "call_id": ""} == {**answers["single"], "call_id": ""}


async def test_long_results_come_whole_and_as_the_single_operation_has_them(control):
    session = await control.create(secrets={"word": "x" * 300_000})
    called = await post(
        control,
        "calls",
        [{"session_id": session, "name": "tell", "call_id": f"c{number}"} for number in range(2)],
    )
    texts = [item["result"]["output"]["blocks"][0]["text"] for item in called]
    assert texts == [f"word={'x' * 300_000}"] * 2
    alone = await control.call(session, "tell", body={"call_id": "c1"})
    assert alone == called[1]["result"]


async def test_short_results_come_in_their_order_and_as_the_single_operation_has_them(control):
    sessions = [await control.create(secrets={"word": f"ä€😀{number}"}) for number in range(9)]
    calls = [
        {"session_id": session, "name": "tell", "call_id": f"c{number}"}
        for number in range(4)
        for session in sessions
    ]
    called = await post(control, "calls", calls)
    assert [item["result"]["step"] for item in called] == [number for number in range(1, 5) for _ in sessions]
    texts = [item["result"]["output"]["blocks"][0]["text"] for item in called]
    assert texts == [f"word=ä€😀{number}" for number in range(9)] * 4
    alone = await control.call(sessions[8], "tell", body={"call_id": "c3"})
    assert alone == called[35]["result"]


@pytest.mark.parametrize("items", [[], ["s"] * 257, [""], [7], "s"])
async def test_a_batch_has_at_most_256_items_of_the_right_form(control, items):
    answer = await control.post("/batches/deletions", {"items": items})
    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid_request"


async def test_an_answer_that_would_be_too_large_names_the_calls_to_ask_for_alone(control, monkeypatch):
    monkeypatch.setattr(batches, "MAX_ANSWER_BYTES", -1)
    (created,) = await post(control, "sessions", [{"task_spec": {}}])
    session = created["created"]["session_id"]
    call = {"session_id": session, "name": "pay", "arguments": {"reward": 0.5}, "call_id": "one"}
    (called,) = await post(control, "calls", [call])
    assert called["status"] == 413
    assert "'one'" in called["problem"]["detail"]
    alone = await control.post(
        f"/sessions/{session}/calls", {k: v for k, v in call.items() if k != "session_id"}
    )
    assert alone.json()["output"]["reward"] == 0.5


async def test_items_of_a_host_that_does_not_answer_fail_alone(open_control, tmp_path):
    store = str(tmp_path / "episodes.db")
    host = await open_control(host_slot="0/2", host_address="127.0.0.1:9", store=store)
    table = HostSlot.read("0/2", None, "127.0.0.1:9")
    ids = [f"id-{number}" for number in range(8)]
    own = [table.has(session_id) for session_id in ids]
    assert {True, False} == set(own)
    orders = [{"task_spec": {}, "session_id": session_id} for session_id in ids]
    created = await post(host, "sessions", orders)
    assert [item["ok"] for item in created] == own
    (refused,) = {(item["status"], item["problem"]["detail"]) for item in created if not item["ok"]}
    assert refused == (503, "host h1 has not started yet; repeat the request")
    calls = [{"session_id": session_id, "name": "pay", "arguments": {"reward": 0.25}} for session_id in ids]
    called = await post(host, "calls", calls)
    assert [item.get("status", item.get("result", {}).get("step")) for item in called] == [
        1 if is_own else 503 for is_own in own
    ]
    deleted = await post(host, "deletions", ids)
    assert [item["ok"] for item in deleted] == own
    assert {item["status"] for item in deleted if not item["ok"]} == {503}
