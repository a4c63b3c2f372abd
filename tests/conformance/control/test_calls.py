"""Playing over the control API."""

import anyio
import pytest

from ors_server import GroupCandidate, Message, TextBlock
from ors_server.model.errors import CallIdReusedError


async def test_a_call_waits_for_its_output_and_without_an_id_is_given_one(control):
    session_id = await control.create()
    answer = await control.call(session_id, "pay", {"reward": 0.5})
    assert (answer["kind"], answer["step"], answer["is_error"]) == ("completed", 1, False)
    assert answer["output"]["reward"] == 0.5
    assert answer["output"]["metadata"]["answer"] == 42
    assert answer["output"]["metadata"]["episode"]["return"] == 0.5
    session_id = await control.create()
    answers = [await control.call(session_id, "pay", {"reward": 0.5}) for _ in range(2)]
    assert answers[0]["call_id"] != answers[1]["call_id"]


async def test_a_call_id_is_run_once(control):
    session_id = await control.create()
    first = await control.call(session_id, "pay", {"reward": 0.5}, body={"call_id": "mine"})
    again = await control.call(session_id, "pay", {"reward": 0.5}, body={"call_id": "mine"})
    assert first == again
    assert first["call_id"] == "mine"
    assert (await control.get(f"/sessions/{session_id}")).json()["episode"]["return"] == 0.5


async def test_a_charged_mistake_is_an_answer(control):
    session_id = await control.create()
    answer = await control.call(session_id, "nothing")
    assert (answer["kind"], answer["is_error"], answer["output"]["reward"]) == ("completed", True, -0.5)


async def test_an_uncharged_mistake_is_a_refusal(open_control, refenv):
    control = await open_control(refenv)
    session_id = await control.create()
    answer = await control.call(session_id, "nothing")
    assert (answer["kind"], answer["reason"], answer["step"]) == ("refused", "not_found", 1)
    wrong = await control.call(session_id, "add", {"a": "x"})
    assert (wrong["kind"], wrong["reason"]) == ("refused", "input_validation")


async def test_a_call_after_the_end_is_refused_and_is_no_step(open_control, refenv):
    control = await open_control(refenv)
    session_id = await control.create()
    await control.call(session_id, "finish", {"reward": 1.0})
    answer = await control.call(session_id, "finish", {"reward": 1.0})
    assert (answer["kind"], answer["reason"], answer["step"]) == ("refused", "episode_finished", None)


@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ("boom", "tool_failed"),
        ("boom_empty", "tool_failed"),
        ("nan", "tool_output"),
        ("badret", "tool_output"),
        ("sysexit", "tool_failed"),
        ("cancelled", "tool_failed"),
    ],
)
async def test_a_tool_that_breaks_blames_its_author_and_pays_nothing(open_control, refenv, tool, code):
    control = await open_control(refenv)
    session_id = await control.create()
    answer = await control.call(session_id, tool)
    assert (answer["kind"], answer["code"], answer["blame"]) == ("failed", code, "author")
    assert answer["detail"]
    assert "Traceback" not in answer["detail"]
    step = (await control.get(f"/sessions/{session_id}/steps")).json()["steps"][0]
    assert (step["status"], step["reward"]) == ("failed", None)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
async def test_arguments_that_json_cannot_hold_are_refused_before_anything_runs(control, number):
    session_id = await control.create()
    body = f'{{"name": "pay", "arguments": {{"reward": {number}}}}}'
    answer = await control.ask("POST", f"/sessions/{session_id}/calls", content=body)
    assert answer.status_code in {400, 422}
    assert answer.json()["blame"] == "client"
    assert (await control.get(f"/sessions/{session_id}/steps")).json()["total"] == 0


async def test_a_running_call_is_cancelled_once_and_pays_nothing(control, gate):
    session_id = await control.create()
    answers = []

    async def play():
        answers.append(await control.call(session_id, "wait", body={"call_id": "long"}))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(play)
        await gate.entered.wait()
        cancel = f"/sessions/{session_id}/calls/long/cancel"
        assert (await control.post(cancel)).json() == {"call_id": "long", "cancelled": True}
        assert (await control.post(cancel)).json() == {"call_id": "long", "cancelled": False}
    assert (answers[0]["kind"], answers[0]["code"]) == ("failed", "call_cancelled")
    step = (await control.get(f"/sessions/{session_id}/steps")).json()["steps"][0]
    assert (step["status"], step["reward"]) == ("cancelled", None)
    assert (await control.call(session_id, "pay", {"reward": 1.0}))["kind"] == "completed"


async def test_a_call_that_waits_for_its_turn_can_be_cancelled(control, gate):
    session_id = await control.create()
    answers = {}

    async def play(call_id, name, arguments):
        answers[call_id] = await control.call(session_id, name, arguments, body={"call_id": call_id})

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(play, "first", "wait", {})
        await gate.entered.wait()
        tasks.start_soon(play, "second", "pay", {"reward": 1.0})
        while (await control.get(f"/sessions/{session_id}")).json()["running_calls"] < 2:
            await anyio.lowlevel.checkpoint()
        cancelled = await control.post(f"/sessions/{session_id}/calls/second/cancel")
        assert cancelled.json()["cancelled"]
        gate.opened.set()
    assert (answers["first"]["kind"], answers["second"]["kind"]) == ("completed", "failed")
    assert (await control.get(f"/sessions/{session_id}/steps")).json()["total"] == 1


async def test_a_finished_or_an_unknown_call_is_not_cancelled(control):
    session_id = await control.create()
    await control.call(session_id, "pay", {"reward": 1.0}, body={"call_id": "done"})
    answer = await control.post(f"/sessions/{session_id}/calls/done/cancel")
    assert answer.json() == {"call_id": "done", "cancelled": False}
    session_id = await control.create()
    answer = await control.post(f"/sessions/{session_id}/calls/never/cancel")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_call")


async def test_a_call_runs_on_when_its_caller_leaves(control, gate):
    session_id = await control.create()
    async with anyio.create_task_group() as tasks:

        async def play():
            await control.call(session_id, "wait", body={"call_id": "left"})

        tasks.start_soon(play)
        await gate.entered.wait()
        tasks.cancel_scope.cancel()
    gate.opened.set()
    answer = await control.call(session_id, "wait", body={"call_id": "left"})
    assert (answer["kind"], answer["output"]["reward"], answer["step"]) == ("completed", 0.25, 1)


@pytest.mark.parametrize("visibility", ["meta", "hidden"])
async def test_an_agent_plays_without_seeing_numbers(control, visibility):
    made = (await control.post("/sessions", {"task_spec": {}, "visibility": visibility})).json()
    answer = await control.call(made["session_id"], "pay", {"reward": 0.5}, key=made["agent_token"])
    assert (answer["output"]["reward"], answer["output"]["metadata"]) == (None, None)
    assert answer["output"]["blocks"][0]["text"] == "paid"


async def test_an_agent_sees_numbers_where_the_session_says_so(control):
    made = (await control.post("/sessions", {"task_spec": {}, "visibility": "visible"})).json()
    answer = await control.call(made["session_id"], "pay", {"reward": 0.5}, key=made["agent_token"])
    assert answer["output"]["reward"] == 0.5


async def test_prompt_messages_and_tools_are_read_by_the_agent(control):
    made = (await control.post("/sessions", {"split": "train", "index": 2})).json()
    session_id, token = made["session_id"], made["agent_token"]
    prompt = (await control.get(f"/sessions/{session_id}/prompt", key=token)).json()
    messages = (await control.get(f"/sessions/{session_id}/messages", key=token)).json()
    tools = (await control.get(f"/sessions/{session_id}/tools", key=token)).json()
    assert prompt["blocks"][0]["text"] == "Task 2."
    assert messages["messages"][0]["role"] == "user"
    assert [tool["name"] for tool in tools["tools"]] == ["wait", "pay", "tell"]


async def test_a_scored_group_is_no_tool_call(open_control, refenv):
    control = await open_control(refenv)
    session_id = await control.create(environment="termenv", split="train", index=0, task_spec=None)
    candidate = GroupCandidate(messages=[Message(role="assistant", blocks=[TextBlock(text="4")])])
    await control.app.manager.find(session_id).score_group([candidate], call_id="group")
    answer = await control.post(f"/sessions/{session_id}/calls", {"name": "x", "call_id": "group"})
    assert (answer.status_code, answer.json()["code"]) == (409, "call_id_reused")
    assert "taken by a call of 'score_group'" in answer.json()["detail"]


async def test_a_scored_group_is_not_read_as_a_call_under_another_groups_id(open_control, refenv):
    control = await open_control(refenv)
    session_id = await control.create(environment="termenv", split="train", index=0, task_spec=None)
    groups = [
        [GroupCandidate(messages=[Message(role="assistant", blocks=[TextBlock(text=text)])])]
        for text in ("4", "5")
    ]
    first = await control.app.manager.find(session_id).score_group(groups[0], call_id="group")
    assert await control.app.manager.find(session_id).score_group(list(groups[0]), call_id="group") is first
    with pytest.raises(CallIdReusedError):
        await control.app.manager.find(session_id).score_group(groups[1], call_id="group")
