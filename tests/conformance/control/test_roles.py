"""Every route against every role."""

from collections.abc import Sequence

import httpx2
import pytest

from ors_server.doors.control.app import ControlApp
from ors_server.doors.control.batches import CallBatch, DeletionBatch, SessionBatch
from ors_server.doors.control.episode_jobs import RegradeBody
from ors_server.doors.control.episodes import NoteBody
from ors_server.doors.control.models import CallBody, ForkBody, SessionBody

OPEN = ["get_health", "get_readiness", "get_version", "get_description", "get_own_slots"]
PLAY = ["get_prompt", "get_messages", "get_tools", "call_tool", "cancel_call"]
TRAIN = [
    "list_environments",
    "get_environment",
    "list_tasks",
    "get_task",
    "create_session",
    "list_sessions",
    "get_session",
    "delete_session",
    "list_steps",
    "take_snapshot",
    "list_snapshots",
    "restore_snapshot",
    "fork_session",
    "discard_snapshot",
    "mint_token",
    "list_episodes",
    "sum_up_episodes",
    "get_episode",
    "list_episode_steps",
    "follow_episode",
    "get_status",
    "list_alarms",
    "list_runs",
    "list_groups",
    "list_tasks_played",
    "get_difficulty",
    "list_series",
    "count_returns",
    "count_calls",
    "get_block",
    "list_notes",
    "add_note",
    "follow_everything",
    "export_episode",
    "regrade_episode",
    "replay_episode",
    "create_sessions",
    "call_tools",
    "delete_sessions",
]
ADMIN = ["get_settings", "renew_token_secret", "shut_down", "list_hosts", "drain_host", "restart_hosts"]
OF_SEVERAL = {"get_own_slots", "drain_host", "restart_hosts"}
"""Routes of servers with several hosts: a single process answers that it has none."""
ROUTES = [*OPEN, *PLAY, *TRAIN, *ADMIN]


MATRIX: dict[str, dict[str, Sequence[str]]] = {
    "nobody": {"may": OPEN, "unknown": [*PLAY, *TRAIN, *ADMIN]},
    "stranger": {"may": OPEN, "unknown": [*PLAY, *TRAIN, *ADMIN]},
    "forged token": {"may": OPEN, "unknown": [*PLAY, *TRAIN, *ADMIN]},
    "own agent": {"may": [*OPEN, *PLAY], "unknown": []},
    "other agent": {"may": OPEN, "unknown": []},
    "agent key": {"may": OPEN, "unknown": []},
    "trainer": {"may": [*OPEN, *PLAY, *TRAIN], "unknown": []},
    "admin": {"may": ROUTES, "unknown": []},
}
"""Who may use which routes; what is neither allowed nor unknown is forbidden."""

PAST = "past"
"""A session that is gone, so that whoever follows its episode comes to an end."""

BODIES = {
    SessionBody: {"task_spec": {}},
    ForkBody: {"count": 2},
    NoteBody: {"text": "looks right"},
    RegradeBody: {"reward": "exact_match_reward"},
    CallBody: {"name": "pay", "arguments": {"reward": 0.25}},
    SessionBatch: {"items": [{"task_spec": {}}]},
    CallBatch: {"items": [{"session_id": PAST, "name": "pay"}]},
    DeletionBatch: {"items": [PAST]},
}
VALUES = {"{episode}": PAST, "{name}": "gate", "{split}": "train", "{index}": "0", "{call_id}": "known"}
VALUES |= {"{run}": "a", "{number}": "1", "{host}": "h1"}
QUERIES = {"follow_everything": "?seconds=0"}


def table(control):
    _, door = control.app._doors["_ors"]
    assert isinstance(door, ControlApp)
    return {operation.id: operation for operation in door.table}


async def make_past(control, key=None):
    await control.create(key=key, session_id=PAST)
    await control.call(PAST, "pay", {"reward": 0.5}, key=key)
    assert (await control.ask("DELETE", f"/sessions/{PAST}", key=key)).status_code == 200


@pytest.fixture
async def stage(open_control, keys, api_keys):
    """A keyed server with a session, and the credentials of everybody who may come."""
    control = await open_control(api_keys=api_keys, shutdown=lambda: None)
    session_id = await control.create(key=keys["trainer"])
    other = await control.create(key=keys["trainer"])
    assert (await control.post(f"/sessions/{session_id}/snapshots", key=keys["trainer"])).status_code == 201
    await control.call(session_id, "pay", {"reward": 0.5}, body={"call_id": "known"}, key=keys["trainer"])
    await make_past(control, keys["trainer"])
    mint = control.app.agent_token
    token = mint(session_id)
    credentials = {
        "nobody": None,
        "stranger": "not-a-key-0123456789",
        "forged token": token[:-4] + "AAAA",
        "own agent": token,
        "other agent": mint(other),
        "agent key": keys["agent"],
        "trainer": keys["trainer"],
        "admin": keys["admin"],
    }
    return control, session_id, credentials


async def visit(control, operation, session_id, key) -> httpx2.Response:
    path = operation.path.replace("{session_id}", session_id)
    session = control.app.manager._sessions.get(session_id)
    kept = session.snapshots.all() if session is not None else []
    path = path.replace("{snapshot_id}", kept[0].id if kept else "absent")
    for name, value in VALUES.items():
        path = path.replace(name, value)
    path += QUERIES.get(operation.id, "")
    return await control.ask(operation.method, path, json=BODIES.get(operation.body), key=key)


def check_reached(answer: httpx2.Response, control, route: str) -> None:
    if route in OF_SEVERAL:
        assert answer.json()["code"] == "not_supported", answer.text
    else:
        assert answer.status_code == table(control)[route].status, answer.text


async def test_the_matrix_names_every_route(stage):
    control, _, _ = stage
    missing = sorted(table(control).keys() - {*ROUTES})
    assert not missing, f"add {missing} to the list of the least role that may use them, in this file"
    assert sorted(table(control)) == sorted(ROUTES)


async def test_everybody_reaches_the_open_routes(stage):
    control, session_id, credentials = stage
    for who, credential in credentials.items():
        for route in OPEN:
            check_reached(await visit(control, table(control)[route], session_id, credential), control, route)
        assert {*OPEN} <= {*MATRIX[who]["may"]}


@pytest.mark.parametrize(
    ("who", "route"),
    [(who, route) for who in MATRIX for route in [*PLAY, *TRAIN, *ADMIN] if route in MATRIX[who]["may"]],
)
async def test_a_role_reaches_its_routes(stage, who, route):
    control, session_id, credentials = stage
    answer = await visit(control, table(control)[route], session_id, credentials[who])
    check_reached(answer, control, route)


@pytest.mark.parametrize("who", MATRIX)
async def test_a_role_is_refused_at_all_other_routes(stage, who):
    control, session_id, credentials = stage
    unknown, forbidden = (401, "unauthenticated"), (403, "forbidden")
    answers, expected = {}, {}
    for route in ROUTES:
        if route not in MATRIX[who]["may"]:
            answer = await visit(control, table(control)[route], session_id, credentials[who])
            answers[route] = (answer.status_code, answer.json()["code"])
            expected[route] = unknown if route in MATRIX[who]["unknown"] else forbidden
            if expected[route] == unknown:
                assert answer.headers["www-authenticate"] == "Bearer", route
    assert answers == expected


@pytest.mark.parametrize("who", ["nobody", "other agent", "agent key"])
async def test_a_refusal_says_nothing_of_what_is_behind_it(stage, who):
    control, session_id, credentials = stage
    for route in [*PLAY, *TRAIN, *ADMIN]:
        operation = table(control)[route]
        answer = await visit(control, operation, session_id, credentials[who])
        absent = await visit(control, operation, "absent", credentials[who])
        assert answer.json() == absent.json(), route


async def test_a_refused_visit_changes_nothing(stage, keys):
    control, session_id, credentials = stage
    routes = table(control)
    for who in ("nobody", "other agent", "agent key"):
        for route in ("call_tool", "delete_session", "create_session", "shut_down"):
            await visit(control, routes[route], session_id, credentials[who])
    listed = (await control.get("/sessions", key=keys["trainer"])).json()["sessions"]
    assert [each["episode"]["steps"] for each in listed] == [1, 0]
    assert (await control.get("/ready")).status_code == 200


@pytest.mark.parametrize("route", ROUTES)
async def test_without_keys_everybody_is_a_trainer(open_control, route):
    control = await open_control()
    session_id = await control.create()
    await control.post(f"/sessions/{session_id}/snapshots")
    await control.call(session_id, "pay", {"reward": 0.5}, body={"call_id": "known"})
    await make_past(control)
    operation = table(control)[route]
    answer = await visit(control, operation, session_id, None)
    if route in ADMIN:
        assert answer.status_code == 403
    elif route in OF_SEVERAL:
        assert answer.json()["code"] == "not_supported"
    else:
        assert answer.status_code == operation.status


async def test_an_agent_token_makes_an_agent_even_without_keys(control):
    session_id = await control.create()
    token = control.app.agent_token(session_id)
    assert (await control.get("/sessions", key=token)).status_code == 403
    assert (await control.get(f"/sessions/{session_id}/tools", key=token)).status_code == 200


async def test_a_credential_travels_as_bearer_token_too(keyed, keys):
    headers = {"Authorization": f"Bearer {keys['trainer']}"}
    assert (await keyed.get("/sessions", headers=headers)).status_code == 200


async def test_no_answer_to_an_agent_holds_a_number_a_task_or_a_record(stage):
    control, session_id, credentials = stage
    for route in PLAY:
        answer = await visit(control, table(control)[route], session_id, credentials["own agent"])
        text = answer.text
        assert '"metadata":null' in text or '"metadata"' not in text
        assert '"reward":null' in text or '"reward":' not in text or route == "get_tools"
        for word in ("task_spec", "return", "penalty", "agt_"):
            assert word not in text
