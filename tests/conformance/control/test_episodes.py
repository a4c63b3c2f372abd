"""The record over the control API, as it is written by sessions that are played."""

import json
from datetime import UTC, datetime

import anyio
import pytest

from ors_server.model.recording import STEP
from ors_server.model.trajectory import EpisodeOrigin


async def played(control, *rewards, delete=True, **order):
    session_id = await control.create(**order)
    for reward in rewards:
        await control.call(session_id, "pay", {"reward": reward})
    if delete:
        await control.ask("DELETE", f"/sessions/{session_id}")
    return (await control.get(f"/sessions/{session_id}")).json()["episode_id"]


async def listed(control, query="", key=None):
    answer = await control.get(f"/episodes{query}", key=key)
    assert answer.status_code == 200, answer.text
    return [episode["episode_id"] for episode in answer.json()["episodes"]]


def read_events(text):
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            events.append((fields["event"], json.loads(fields["data"]), fields.get("id")))
    return events


def asgi_get(path, query):
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "scheme": "http",
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost:8080")],
        "http_version": "1.1",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "asgi": {"version": "3.0"},
    }


async def test_a_list_has_the_fields_that_are_asked_for(control):
    name = await played(control, 0.25, labels={"run": "a"})
    for query in ("?fields=episode_id,labels", "?fields=episode_id&fields=labels"):
        page = (await control.get(f"/episodes{query}")).json()
        assert page["episodes"] == [{"episode_id": name, "labels": {"run": "a"}}]
    (entry,) = (await control.get("/episodes?fields=episode")).json()["episodes"]
    assert entry["episode"]["return"] == 0.25
    assert (await control.get("/episodes?fields=secrets")).status_code == 422


def test_events_are_read_with_their_ids():
    assert read_events(': ping\n\nevent: step\nid: 1\ndata: {"a": 1}\n\n') == [("step", {"a": 1}, "1")]


async def test_episodes_are_listed_newest_first_with_their_figures(control):
    first = await played(control, 0.25, 0.5, labels={"run": "a"})
    second = await played(control, delete=False, split="train", index=3, task_spec=None)
    assert await listed(control) == [second, first]
    assert await listed(control, "?order=oldest") == [first, second]
    entry = (await control.get("/episodes")).json()["episodes"][1]
    assert entry["environment"] == "gate"
    assert entry["environment_version"] == "7"
    assert entry["labels"] == {"run": "a"}
    assert entry["closed"]
    assert (entry["episode"]["return"], entry["episode"]["steps"]) == (0.75, 2)
    assert "task_spec" not in entry


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("environment=gate", "abc"),
        ("environment=other", ""),
        ("split=train", "b"),
        ("split=train&index=3", "b"),
        ("index=4", ""),
        ("phase=deleted", "ac"),
        ("phase=ready", "b"),
        ("stop_reason=deleted", "ac"),
        ("label=run=a", "ab"),
        ("label=run=a&label=attempt=2", "b"),
        ("label=run=a&label=run=a", "ab"),
        ("label=run=", ""),
        ("min_return=0.5", "a"),
        ("max_return=0.5", "abc"),
        ("max_return=0.25", "bc"),
        ("closed=true", "ac"),
        ("closed=false", "b"),
        ("since=2000-01-01T00:00:00Z", "abc"),
        ("since=2000-01-01T00:00:00.5%2B02:00", "abc"),
        ("until=2000-01-01T00:00:00Z", ""),
        ("session_id=known", "c"),
        ("credential=trainer-1", "abc"),
        ("credential=nobody", ""),
        ("task_hash=nothing", ""),
    ],
)
async def test_filters_choose_episodes_and_totals_alike(keyed, keys, query, found):
    key = keys["trainer"]
    ids = {
        "a": await _played_by(keyed, key, 0.5, labels={"run": "a", "attempt": "1"}),
        "b": await _played_by(
            keyed,
            key,
            delete=False,
            split="train",
            index=3,
            task_spec=None,
            labels={"run": "a", "attempt": "2"},
        ),
        "c": await _played_by(keyed, key, session_id="known"),
    }
    expected = [ids[name] for name in reversed(found)]
    assert await listed(keyed, f"?{query}", key) == expected
    totals = (await keyed.get(f"/episodes/totals?{query}", key=key)).json()
    assert totals["episodes"] == len(expected)


async def _played_by(control, key, *rewards, delete=True, **order):
    session_id = await control.create(key=key, **order)
    for reward in rewards:
        await control.call(session_id, "pay", {"reward": reward}, key=key)
    status = (await control.get(f"/sessions/{session_id}", key=key)).json()
    if delete:
        await control.ask("DELETE", f"/sessions/{session_id}", key=key)
    return status["episode_id"]


async def test_a_task_is_found_by_its_hash(control):
    episode = await played(control, task_spec={"number": 5})
    await played(control, task_spec={"number": 6})
    task_hash = (await control.get(f"/episodes/{episode}")).json()["task_hash"]
    assert await listed(control, f"?task_hash={task_hash}") == [episode]


@pytest.mark.parametrize(
    "query",
    [
        "phase=happy",
        "stop_reason=bored",
        "label=run",
        "label==a",
        "label=run=a&label=run=b",
        "since=yesterday",
        "since=0",
        "since=2026-02-30T00:00:00Z",
        "until=0001-01-01T00:00:00%2B10:00",
        "min_return=NaN",
        "min_return=inf",
        "closed=yes",
        "index=-1",
        "limit=0",
        "limit=501",
        "order=random",
        "environment=",
        "index=1&index=2",
        "has=slow",
        "sort=age",
        "cursor=a&before=b",
        "total=yes",
        "text=",
        "colour=red",
        "&".join(f"has_label=l{number}" for number in range(101)),
        "&".join(f"label=l{number}=a" for number in range(101)),
        "&".join(["has=failed"] * 101),
    ],
)
async def test_a_filter_that_makes_no_sense_is_refused(control, query):
    answer = await control.get(f"/episodes?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["mistakes"]


async def test_pages_follow_one_another_to_the_end_and_an_unknown_cursor_is_told(control):
    ids = [await played(control) for _ in range(5)]
    for order, expected in (("newest", ids[::-1]), ("oldest", ids)):
        seen, cursor = [], ""
        while cursor is not None:
            page = (await control.get(f"/episodes?limit=2&order={order}{cursor}")).json()
            seen += [episode["episode_id"] for episode in page["episodes"]]
            cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
        assert seen == expected
    answer = await control.get("/episodes?cursor=never")
    assert (answer.status_code, answer.json()["code"]) == (404, "episode_not_found")


async def test_the_mean_is_over_graded_episodes_and_the_others_are_counted(control):
    await played(control, 0.25, 0.75, 0.0, 0.0, 0.0)  # the step limit ends it
    await played(control, 0.25, 0.5)
    await played(control, 0.25, delete=False)
    totals = (await control.get("/episodes/totals")).json()
    assert totals == {
        "episodes": 3,
        "steps": 8,
        "mean_return": 1.0,
        "least_return": 1.0,
        "greatest_return": 1.0,
        "by_environment": {"gate": 3},
        "by_phase": {"deleted": 2, "playing": 1},
        "by_stop_reason": {"deleted": 1, "step_limit": 1},
        "graded": 1,
        "unjudged": 0,
        "ungraded": 0,
        "live": 1,
        "abandoned": 1,
        "failed": 0,
        "refused_steps": 0,
        "penalised_steps": 0,
        "failed_steps": 0,
        "successes": 1,
    }


async def test_episodes_are_filtered_sorted_and_counted_in_pages_of_both_directions(control):
    for rewards in ((0.25, 0.5), (1.0,), (0.0, 0.0, 0.0)):
        await played(control, *rewards)
    refused = await control.create(labels={"run": "b"})
    await control.call(refused, "no such tool")
    first = (await control.get("/episodes?sort=-return&limit=2&total=true")).json()
    assert [entry["episode"]["return"] for entry in first["episodes"]] == [1.0, 0.75]
    assert (first["total"], first["previous_cursor"]) == (4, None)
    second = (await control.get(f"/episodes?sort=-return&limit=2&cursor={first['next_cursor']}")).json()
    assert [entry["episode"]["return"] for entry in second["episodes"]] == [0.0, -0.5]
    assert (second["total"], second["next_cursor"]) == (None, None)
    back = (await control.get(f"/episodes?sort=-return&limit=2&before={second['previous_cursor']}")).json()
    assert back["episodes"] == first["episodes"]
    assert (back["previous_cursor"], back["next_cursor"]) == (None, first["next_cursor"])
    for query, numbers in {
        "has=refused": [refused],
        "live=true": [refused],
        "has_label=run&phase=playing&phase=ready": [refused],
        "tool=no such tool&tool=other": [refused],
        "text=NO SUCH TOOL": [refused],
        "has=refused&has=failed": [],
        "environment_version=0": [],
    }.items():
        found = (await control.get(f"/episodes?{query}")).json()["episodes"]
        assert [entry["session_id"] for entry in found] == numbers, query
        assert [entry["episode"]["refused_steps"] for entry in found] == [1] * len(numbers)


async def test_runs_and_tasks_have_figures(control):
    for run, reward in (("a", 1.0), ("a", 0.0), ("b", 0.5)):
        order = {"task_spec": {"number": 8}, "labels": {"run": run, "agent": f"of {run}"}}
        await played(control, reward, 0.0, 0.0, 0.0, 0.0, **order)  # the step limit ends it
    runs = (await control.get("/runs")).json()["runs"]
    assert [(run["run"], run["agents"], run["environments"], run["episodes"]) for run in runs] == [
        ("b", ["of b"], ["gate"], 1),
        ("a", ["of a"], ["gate"], 2),
    ]
    assert [run["returns"]["mean"] for run in runs] == [0.5, 0.5]
    assert (runs[0]["returns"]["low"], runs[1]["success"]) == (None, 0.5)
    assert runs[1]["returns"]["low"] < 0.5 < runs[1]["returns"]["high"]
    (task,) = (await control.get("/episodes/by-task?label=run=a")).json()["tasks"]
    assert (task["environment"], task["episodes"], task["graded"], task["success"]) == ("gate", 2, 2, 0.5)
    assert (await control.get("/episodes/by-task?limit=0")).status_code == 422


async def test_the_difficulty_of_a_split_follows_from_its_graded_episodes(control):
    for index, rewards in enumerate(((0.0, 0.0), (0.0, 1.0), (1.0, 1.0))):
        for reward in rewards:
            spec = (await control.get(f"/environments/gate/splits/train/tasks/{index}")).json()["task_spec"]
            order = {"task_spec": spec, "labels": {"run": f"of {reward}"}}
            await played(control, reward, 0.0, 0.0, 0.0, 0.0, **order)
    path = "/environments/gate/splits/train/difficulty"
    page = (await control.get(path)).json()
    assert page["bands"] == {"never": 1, "learnable": 1, "always": 1}
    shown = [(task["index"], task["attempts"], task["solve_rate"], task["band"]) for task in page["tasks"]]
    assert shown == [(0, 2, 0.0, "never"), (1, 2, 0.5, "learnable"), (2, 2, 1.0, "always")]
    assert page["tasks"][1]["std"] == pytest.approx(0.5**0.5)
    only = (await control.get(f"{path}?run=of 1.0&limit=1")).json()
    assert [(task["index"], task["band"]) for task in only["tasks"]] == [(1, "always")]
    assert (await control.get(path.replace("train", "test"))).json() == {"bands": {}, "tasks": []}
    assert (await control.get(f"{path}?limit=0")).status_code == 422


async def test_totals_of_nothing_have_no_returns(control):
    totals = (await control.get("/episodes/totals")).json()
    assert (totals["episodes"], totals["mean_return"]) == (0, None)


async def test_an_episode_is_shown_in_full(control):
    session_id = await control.create(task_spec={"number": 8}, seed=5, labels={"group": "g"})
    await control.get(f"/sessions/{session_id}/prompt")
    await control.call(session_id, "pay", {"reward": 1.0})
    await control.ask("DELETE", f"/sessions/{session_id}")
    shown = (await control.get(f"/episodes/{session_id}")).json()
    assert shown["task_spec"] == {"number": 8}
    assert shown["seed"] == 5
    assert shown["labels"] == {"group": "g"}
    assert shown["policy"]["step_limit"] == 5
    assert [block["text"] for block in shown["prompt"]] == ["Task 8."]
    moves = [(move["event"], move["phase"]) for move in shown["transitions"]]
    assert moves == [("setup_done", "ready"), ("step", "playing"), ("delete", "deleted")]
    assert shown["episode"]["return"] == 1.0
    assert shown["closed"]


async def test_an_episode_has_three_names_and_a_session_id_stands_for_its_newest_episode(control):
    episode = await played(control, session_id="mine")
    for name in (episode, episode[:6], episode[:20], "mine"):
        assert (await control.get(f"/episodes/{name}")).json()["episode_id"] == episode
    older = await played(control, session_id="mine")
    newer = await played(control, session_id="mine")
    assert (await control.get("/episodes/mine")).json()["episode_id"] == newer
    assert (await control.get(f"/episodes/{older}")).json()["episode_id"] == older


def origin(episode_id):
    return EpisodeOrigin(
        session_id=f"of-{episode_id}",
        environment="gate",
        environment_version="1",
        server_version="1",
        task_spec={},
        task_hash="0" * 64,
        split=None,
        index=None,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        policy={},
        episode_id=episode_id,
    )


@pytest.mark.parametrize("below", ["", "/steps", "/events"])
async def test_a_prefix_that_fits_several_episodes_is_refused(control, below):
    for end in ("0", "1", "2"):
        await control.app.manager.services.store.open(origin("abcdef" + end * 26))
    answer = await control.get(f"/episodes/abcdef{below}")
    assert (answer.status_code, answer.json()["code"]) == (409, "ambiguous_episode")
    assert "abcdef" + "0" * 26 in answer.json()["detail"]
    found = (await control.get("/episodes/abcdef0")).json()
    assert found["episode_id"] == "abcdef" + "0" * 26


@pytest.mark.parametrize("below", ["", "/steps", "/events"])
@pytest.mark.parametrize("name", ["never", "abcde", "abcdef", "%25%25%25%25%25%25", "a%2Fb"])
async def test_what_is_not_on_record_is_not_found(control, name, below):
    await control.app.manager.services.store.open(origin("abcde" + "0" * 27))
    answer = await control.get(f"/episodes/{name}{below}")
    assert (answer.status_code, answer.json()["code"]) == (404, "episode_not_found")


async def test_steps_come_in_slices(control):
    episode = await played(control, 0.25, 0.5, 0.75)
    page = (await control.get(f"/episodes/{episode}/steps?start=1&stop=2")).json()
    assert page["episode_id"] == episode
    assert page["total"] == 3
    assert [(step["number"], step["reward"]) for step in page["steps"]] == [(2, 0.5)]
    whole = (await control.get(f"/episodes/{episode}/steps")).json()["steps"]
    recorded = await control.app.manager.services.store.steps(episode)
    assert [STEP.of_json(step) for step in whole] == list(recorded)


async def test_the_events_of_an_ended_episode_are_its_steps_and_its_figures(control):
    episode = await played(control, 0.25, 0.5)
    answer = await control.get(f"/episodes/{episode}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = read_events(answer.text)
    assert [(name, mark) for name, _, mark in events] == [
        ("step", "1"),
        ("step", "2"),
        ("summary", None),
        ("end", None),
    ]
    steps = (await control.get(f"/episodes/{episode}/steps")).json()["steps"]
    assert [data for name, data, _ in events if name == "step"] == steps
    assert events[-1][1] == (await control.get(f"/episodes/{episode}")).json()["episode"]


@pytest.mark.parametrize(
    ("query", "headers", "numbers"),
    [
        ("?start=1", {}, ["2", "3"]),
        ("?start=9", {}, []),
        ("", {"Last-Event-ID": "1"}, ["2", "3"]),
        ("?start=0", {"Last-Event-ID": "3"}, []),
    ],
)
async def test_a_reader_goes_on_where_it_stopped(control, query, headers, numbers):
    episode = await played(control, 0.25, 0.5, 0.75)
    answer = await control.get(f"/episodes/{episode}/events{query}", headers=headers)
    events = read_events(answer.text)
    assert [mark for name, _, mark in events if name == "step"] == numbers
    assert events[-1][0] == "end"


@pytest.mark.parametrize(
    ("query", "headers"), [("?start=-1", {}), ("?stop=3", {}), ("", {"Last-Event-ID": "soon"})]
)
async def test_a_place_that_makes_no_sense_is_refused(control, query, headers):
    episode = await played(control)
    answer = await control.get(f"/episodes/{episode}/events{query}", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


async def test_an_agent_reads_no_record_not_even_its_own(keyed, keys):
    session_id = await keyed.create(key=keys["trainer"])
    token = keyed.app.agent_token(session_id)
    for path in ("", "/totals", f"/{session_id}", f"/{session_id}/steps", f"/{session_id}/events"):
        answer = await keyed.get(f"/episodes{path}", key=token)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_method_that_is_not_known_is_told_once(control):
    answer = await control.post("/episodes/totals")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


async def test_one_stream_tells_of_every_episode_and_of_calls_that_begin(control):
    sent, has_begun, is_complete = [], anyio.Event(), anyio.Event()

    requests = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive():
        if requests:
            return requests.pop()
        await is_complete.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message.get("body", b""))
        if b"following" in sent[-1]:
            has_begun.set()
        if b"event: closed" in sent[-1]:
            is_complete.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(control.app, asgi_get("/_ors/events", "label=run=a"), receive, send)
            await has_begun.wait()
            await played(control, 0.5, labels={"run": "other"})
            episode_id = await played(control, 0.25, labels={"run": "a", "try": "1"})
    told = read_events(b"".join(sent).decode())
    kinds = [name for name, _, _ in told]
    assert kinds == ["opened", "call", "step", "closed"]
    assert {data["episode_id"] for _, data, _ in told} == {episode_id}
    _, call, step, closed = (data for _, data, _ in told)
    assert (call["tool"], json.loads(call["arguments"]), call["number"]) == ("pay", {"reward": 0.25}, None)
    assert (step["call_id"], step["number"], step["status"], step["reward"]) == (
        *(call["call_id"], 1, "graded", 0.25),
    )
    assert closed["summary"]["return"] == 0.25
    assert closed["labels"] == {"run": "a", "try": "1"}


async def test_a_preview_has_the_beginning_of_each_block_and_blocks_come_whole(control):
    session_id = await control.create()
    await control.call(session_id, "pay", {"reward": 0.5})
    path = f"/episodes/{session_id}/steps"
    (whole,) = (await control.get(path)).json()["steps"]
    text = whole["blocks"][0]["text"]
    page = (await control.get(f"{path}?preview=3")).json()
    assert page["steps"][0]["blocks"][0]["text"] == text[:3]
    assert page["cut"] == [{"number": 1, "index": 0, "size": len(text)}]
    assert (await control.get(f"{path}?preview=1000")).json()["cut"] == []
    assert (await control.get(f"{path}/1/blocks/0")).json() == {"block": whole["blocks"][0]}
    for missing in ("1/blocks/9", "2/blocks/0"):
        answer = await control.get(f"{path}/{missing}")
        assert (answer.status_code, answer.json()["code"]) == (404, "episode_not_found")


async def test_series_histogram_and_groups_are_served(control):
    for number, reward in enumerate((1.0, 0.0, 0.5, 0.5)):
        labels = {"run": "a", "group": "g", "kind": "xy"[number % 2]}
        await played(control, reward, 0.0, 0.0, 0.0, 0.0, labels=labels)
    points = (await control.get("/episodes/series?every=1d&by=environment&by=label:kind")).json()["points"]
    assert {(point["group"]["label:kind"], point["returns"]["mean"]) for point in points} == {
        ("x", 0.75),
        ("y", 0.25),
    }
    counted = (await control.get("/episodes/histogram?bins=2&label=run=a")).json()
    assert counted == {"episodes": 4, "edges": [0.0, 0.5, 1.0], "counts": [1, 3]}
    (group,) = (await control.get("/runs/a/groups")).json()["groups"]
    assert (group["group"], group["kind"], group["is_dead"], group["graded"]) == ("g", "mixed", False, 4)
    assert (await control.get("/runs/nothing/groups")).json() == {"groups": []}
    for query in ("every=0m", "every=soon", "by=colour", "by=label:"):
        assert (await control.get(f"/episodes/series?{query}")).status_code == 422, query


async def test_the_status_counts_sessions_and_what_waits(control):
    await control.create()
    status = (await control.get("/status")).json()
    assert (status["live_sessions"], status["backlog"]) == (1, {"entries": 0, "size": 0})
    assert {"gradings", "threads"} <= status["queues"].keys()


async def test_notes_about_an_episode_are_kept_apart_from_its_record(keyed, keys):
    key = keys["trainer"]
    session_id = await keyed.create(key=key)
    await keyed.call(session_id, "pay", {"reward": 0.5}, key=key)
    await keyed.ask("DELETE", f"/sessions/{session_id}", key=key)
    (episode_id,) = await listed(keyed, f"?session_id={session_id}", key=key)
    before = (await keyed.get(f"/episodes/{episode_id}", key=key)).json()
    body = {"text": "read the hidden tests", "verdict": "cheated", "step": 1}
    answer = await keyed.post(f"/episodes/{episode_id}/notes", body, key=key)
    assert answer.status_code == 201
    note = answer.json()
    assert (note["text"], note["verdict"], note["step"], note["author"]) == (
        *body.values(),
        before["credential_id"],
    )
    assert (await keyed.get(f"/episodes/{episode_id}/notes", key=key)).json() == {"notes": [note]}
    assert (await keyed.get(f"/episodes/{episode_id}", key=key)).json() == before
    for wrong, status in (
        ({"text": ""}, 422),
        ({"text": "a", "step": 2}, 422),
        ({"text": "a", "more": 1}, 422),
    ):
        assert (await keyed.post(f"/episodes/{episode_id}/notes", wrong, key=key)).status_code == status
    assert (await keyed.post("/episodes/nothing/notes", body, key=key)).status_code == 404
