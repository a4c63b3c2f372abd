"""Sessions over the control API: made, listed, read, ended."""

import anyio
import pytest


async def test_a_session_is_made_from_a_place_and_says_how_to_reach_it(control):
    answer = await control.post("/sessions", {"split": "train", "index": 3, "environment": "Gate"})
    made = answer.json()
    session_id, token = made["session_id"], made["agent_token"]
    assert answer.status_code == 201
    assert token == control.app.agent_token(session_id)
    assert made["agent_url"] == f"http://localhost:8080/agent/{token}/mcp"
    assert made["mcp_url"] == f"http://localhost:8080/sessions/{session_id}/mcp"
    assert (made["status"]["split"], made["status"]["index"]) == ("train", 3)
    prompt = (await control.get(f"/sessions/{session_id}/prompt")).json()
    assert prompt["blocks"][0]["text"] == "Task 3."


@pytest.mark.parametrize(
    "labels",
    [{"": "x"}, {"n" * 257: "x"}, {"run": "v" * 2_001}, {f"n{number}": "" for number in range(65)}],
)
async def test_labels_are_bounded(control, labels):
    answer = await control.post("/sessions", {"task_spec": {}, "labels": labels})
    assert (answer.status_code, answer.json()["mistakes"][0]["place"][:2]) == (422, ["body", "labels"])
    longest = {"n" * 256: "v" * 2_000, **{f"n{number}": "" for number in range(63)}}
    assert (await control.post("/sessions", {"task_spec": {}, "labels": longest})).status_code == 201


async def test_urls_begin_with_the_host_that_was_used_or_the_public_url(open_control):
    control = await open_control(allowed_hosts=["gym.example"])
    headers = {"Host": "gym.example:9000"}
    made = (await control.post("/sessions", {"task_spec": {}}, headers=headers)).json()
    assert made["agent_url"].startswith("http://gym.example:9000/agent/agt_")
    control = await open_control(public_url="https://gym.example/base")
    made = (await control.post("/sessions", {"task_spec": {}})).json()
    assert made["agent_url"].startswith("https://gym.example/base/agent/agt_")
    assert made["mcp_url"].startswith("https://gym.example/base/sessions/")


async def test_a_session_takes_an_id_secrets_visibility_and_a_stricter_policy(control):
    order = {
        "task_spec": {"number": 1},
        "session_id": "my-own.id",
        "secrets": {"NAME": "value"},
        "visibility": "visible",
        "policy": {"step_limit": 2},
    }
    made = (await control.post("/sessions", order)).json()
    assert made["session_id"] == made["status"]["session_id"] == "my-own.id"
    assert made["status"]["visibility"] == "visible"
    assert made["status"]["policy"]["step_limit"] == 2
    told = await control.call("my-own.id", "tell")
    assert told["output"]["blocks"][0]["text"] == "NAME=value"
    assert "value" not in (await control.get("/sessions/my-own.id")).text


@pytest.mark.parametrize(
    ("order", "status", "code"),
    [
        ({}, 422, "invalid_request"),
        ({"task_spec": {}, "split": "train", "index": 0}, 422, "invalid_request"),
        ({"split": "train"}, 422, "invalid_request"),
        ({"task_spec": {}, "index": 0}, 422, "invalid_request"),
        ({"task_spec": [], "index": 0}, 422, "invalid_request"),
        ({"split": "train", "index": "0"}, 422, "invalid_request"),
        ({"split": "train", "index": -1}, 422, "invalid_request"),
        ({"task_spec": {}, "session_id": "a/b"}, 422, "invalid_request"),
        ({"task_spec": {}, "session_id": ".."}, 422, "invalid_request"),
        ({"task_spec": {}, "visibility": "loud"}, 422, "invalid_request"),
        ({"task_spec": {}, "policy": {"step_limit": 9}}, 422, "invalid_request"),
        ({"task_spec": {}, "policy": {"reward_range": None}}, 422, "invalid_request"),
        ({"task_spec": {}, "policy": {"step_limit": "x"}}, 422, "invalid_request"),
        ({"task_spec": {}, "toolset": "nothing"}, 422, "invalid_request"),
        ({"task_spec": {}, "environment": "nothing"}, 404, "unknown_environment"),
        ({"split": "nothing", "index": 0}, 404, "unknown_split"),
        ({"split": "train", "index": 1200}, 404, "unknown_task"),
    ],
)
async def test_a_wrong_order_makes_no_session(control, order, status, code):
    answer = await control.post("/sessions", order)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (await control.get("/sessions")).json()["sessions"] == []


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
async def test_a_task_with_a_number_that_json_cannot_hold_is_refused(control, number):
    answer = await control.ask("POST", "/sessions", content=f'{{"task_spec": {{"n": {number}}}}}')
    assert answer.status_code in {400, 422}
    assert answer.json()["blame"] == "client"


async def test_a_live_id_is_taken(control):
    await control.create(session_id="mine")
    answer = await control.post("/sessions", {"task_spec": {}, "session_id": "mine"})
    assert (answer.status_code, answer.json()["code"]) == (409, "session_exists")


async def test_a_full_server_says_when_to_come_back(open_control):
    control = await open_control(max_sessions=1)
    await control.create()
    answer = await control.post("/sessions", {"task_spec": {}})
    assert (answer.status_code, answer.json()["code"]) == (429, "capacity")
    assert "maximum capacity" in answer.json()["detail"]
    assert int(answer.headers["retry-after"]) >= 1


async def test_each_credential_has_a_limit_of_its_own(open_control, keys, api_keys):
    control = await open_control(api_keys=api_keys, max_sessions_per_credential=1)
    await control.create(key=keys["trainer"])
    assert (await control.post("/sessions", {"task_spec": {}}, key=keys["trainer"])).status_code == 429
    assert (await control.post("/sessions", {"task_spec": {}}, key=keys["admin"])).status_code == 201


async def test_live_sessions_are_listed_in_pages_that_survive_deletions(control):
    ids = [await control.create() for _ in range(5)]
    first = (await control.get("/sessions?limit=2")).json()
    assert [each["session_id"] for each in first["sessions"]] == ids[:2]
    await control.ask("DELETE", f"/sessions/{ids[1]}")
    second = (await control.get(f"/sessions?limit=2&cursor={first['next_cursor']}")).json()
    assert [each["session_id"] for each in second["sessions"]] == ids[2:4]
    last = (await control.get(f"/sessions?limit=2&cursor={second['next_cursor']}")).json()
    assert [each["session_id"] for each in last["sessions"]] == ids[4:]
    assert last["next_cursor"] is None


async def test_sessions_are_listed_by_environment_and_phase(open_control, gate, refenv):
    control = await open_control(gate, refenv)
    played = await control.create(environment="gate")
    await control.call(played, "pay", {"reward": 1.0})
    other = await control.create(environment="refenv")
    await control.get(f"/sessions/{other}/prompt")

    async def listed(query):
        page = (await control.get(f"/sessions?{query}")).json()
        return [each["session_id"] for each in page["sessions"]]

    assert await listed("") == [played, other]
    assert await listed("environment=REFENV") == [other]
    assert await listed("phase=playing") == [played]
    assert await listed("environment=refenv&phase=playing") == []
    assert (await control.get("/sessions?environment=nothing")).status_code == 404


@pytest.mark.parametrize(
    "query", ["cursor=AAAA", "cursor=_____", "cursor=!", "limit=0", "limit=501", "phase=expired"]
)
async def test_a_wrong_listing_is_refused(control, query):
    assert (await control.get(f"/sessions?{query}")).status_code == 422


async def test_state_and_totals_follow_the_play(control):
    session_id = await control.create()
    await control.call(session_id, "pay", {"reward": 1.5})
    await control.call(session_id, "pay", {})
    shown = (await control.get(f"/sessions/{session_id}")).json()
    episode = shown["episode"]
    assert (episode["phase"], episode["steps"], episode["return"]) == ("playing", 2, 1.0)
    assert episode["penalties"] == {"invalid_call": -0.5}
    assert shown["running_calls"] == 0


async def test_reading_a_session_does_not_keep_it_alive_nor_change_it(control):
    session_id = await control.create()
    before = (await control.get(f"/sessions/{session_id}/steps")).json()
    assert before == {"session_id": session_id, "total": 0, "steps": []}
    shown = [(await control.get(f"/sessions/{session_id}")).json() for _ in range(2)]
    assert shown[1]["idle_seconds"] >= shown[0]["idle_seconds"]


async def test_a_failed_setup_is_told_to_the_trainer(control):
    session_id = await control.create(task_spec={"setup_fail": True})
    answer = await control.get(f"/sessions/{session_id}/prompt")
    assert (answer.status_code, answer.json()["blame"]) == (500, "author")
    shown = (await control.get(f"/sessions/{session_id}")).json()
    assert "setup failed on purpose" in shown["setup_error"]
    assert (shown["episode"]["phase"], shown["episode"]["stop_reason"]) == ("failed", "failed")


async def test_steps_hold_everything_that_happened(control):
    session_id = await control.create()
    paid = await control.call(session_id, "pay", {"reward": 1.0}, body={"call_id": "first"})
    await control.call(session_id, "nothing", {"x": [1, None]})
    page = (await control.get(f"/sessions/{session_id}/steps")).json()
    assert page["total"] == 2
    first, second = page["steps"]
    assert (first["number"], first["call_id"], first["tool"]) == (1, "first", "pay")
    assert (first["reward"], first["components"], first["status"]) == (1.0, {"tool": 1.0}, "graded")
    assert first["metadata"] == paid["output"]["metadata"]
    assert (second["status"], second["error_code"]) == ("refused", "not_found")
    assert (second["arguments"], second["reward"]) == ({"x": [1, None]}, -0.5)
    assert sum(step["reward"] for step in page["steps"]) == 0.5


@pytest.mark.parametrize(
    ("query", "numbers"), [("start=1", [2, 3]), ("start=1&stop=2", [2]), ("stop=2", [1, 2])]
)
async def test_steps_come_in_slices(control, query, numbers):
    session_id = await control.create()
    for _ in range(3):
        await control.call(session_id, "pay", {"reward": 0.0})
    page = (await control.get(f"/sessions/{session_id}/steps?{query}")).json()
    assert [step["number"] for step in page["steps"]] == numbers
    assert page["total"] == 3


async def test_deleting_answers_with_the_final_figures_however_often(control):
    session_id = await control.create()
    await control.call(session_id, "pay", {"reward": 1.0})
    answers = [await control.ask("DELETE", f"/sessions/{session_id}") for _ in range(2)]
    for answer in answers:
        episode = answer.json()["episode"]
        assert (answer.status_code, episode["return"], episode["phase"]) == (200, 1.0, "deleted")
    assert (await control.get("/sessions")).json()["sessions"] == []
    assert (await control.get(f"/sessions/{session_id}/steps")).json()["total"] == 1
    assert (await control.get(f"/sessions/{session_id}")).json()["idle_seconds"] is None


async def test_a_deleted_session_is_played_no_more(control):
    session_id = await control.create()
    await control.ask("DELETE", f"/sessions/{session_id}")
    for method, path in [("GET", "prompt"), ("GET", "messages"), ("GET", "tools"), ("POST", "token")]:
        assert (await control.ask(method, f"/sessions/{session_id}/{path}")).status_code == 404
    answer = await control.post(f"/sessions/{session_id}/calls", {"name": "pay"})
    assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")


async def test_an_unknown_session_is_unknown_everywhere(control):
    for method, path in [("GET", ""), ("DELETE", ""), ("GET", "/steps"), ("POST", "/calls/1/cancel")]:
        answer = await control.ask(method, f"/sessions/never{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "session_not_found")


async def test_whoever_waits_for_a_deleted_session_is_told(control, gate):
    session_id = await control.create()
    answers = []

    async def play():
        answers.append(await control.call(session_id, "wait"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(play)
        await gate.entered.wait()
        await control.ask("DELETE", f"/sessions/{session_id}")
    assert (answers[0]["kind"], answers[0]["code"]) == ("failed", "session_deleted")


async def test_a_token_is_the_same_whenever_it_is_asked_for(control):
    made = (await control.post("/sessions", {"task_spec": {}})).json()
    again = await control.post(f"/sessions/{made['session_id']}/token")
    assert again.json() == {
        name: made[name] for name in ("session_id", "agent_token", "agent_url", "mcp_url")
    }


async def test_a_session_that_expired_says_so_at_every_door(open_control):
    control = await open_control(idle_seconds=0.01, reap_seconds=0.01)
    session_id = await control.create()
    with anyio.fail_after(20):
        while (await control.get(f"/sessions/{session_id}")).json()["episode"]["phase"] != "expired":
            await anyio.lowlevel.checkpoint()
        while control.app.manager.episode_of(session_id) is not None:
            await anyio.lowlevel.checkpoint()
    answers = [
        await control.get(f"/sessions/{session_id}/prompt"),
        await control.post(f"/sessions/{session_id}/calls", {"name": "pay"}),
        await control.client.get("/prompt", headers={"X-Session-ID": session_id}),
    ]
    for answer in answers:
        assert (answer.status_code, answer.json()["code"]) == (404, "session_expired")
        assert answer.json()["detail"].endswith("expired after 0.01 s idle")


async def test_an_ended_session_says_what_failed(control):
    def failure(view):
        return view["episode"]["failure"]

    created = (await control.post("/sessions", {"task_spec": {"number": 1}})).json()
    session = created["session_id"]
    assert failure(created["status"]) is None
    await control.ask("DELETE", f"/sessions/{session}")
    ended = (await control.get(f"/sessions/{session}")).json()
    assert failure(ended)["kind"] in {"abandoned", "not_started"}
    assert failure(ended)["valid"] is False

    session = (await control.post("/sessions", {"task_spec": {"setup_fail": True}})).json()["session_id"]
    await control.call(session, "tell")
    broken = (await control.get(f"/sessions/{session}")).json()
    assert failure(broken) == {
        "kind": "setup_failed",
        "stage": "setup",
        "terminal": True,
        "retry": True,
        "grade": False,
        "valid": False,
    }
    await control.ask("DELETE", f"/sessions/{session}")
    entry = (await control.get(f"/episodes/{session}")).json()
    assert failure(entry)["kind"] == "setup_failed"
