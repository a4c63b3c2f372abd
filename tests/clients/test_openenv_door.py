"""The real clients of OpenEnv play at the door `/openenv`; rewards and the end are those of the record."""

import json
import os
import subprocess
import urllib.error
import urllib.request

import pytest

from ors_server.client import Client
from tests.clients.conftest import PLAY_LIMIT, ROOT, SCRIPTS, client_python

pytestmark = pytest.mark.timeout(600)
KEY = "sesame-sesame-sesame"
GUESSING = f"{ROOT}/tests/fixtures/evaluated_environments.py:Guessing"


@pytest.fixture(scope="module")
def url(serve_with):
    return serve_with(None, GUESSING, ORS_STORE="memory")


def play(url, client, script):
    python = client_python(client)
    ran = subprocess.run(
        [str(python), str(SCRIPTS / script), f"{url}/openenv/guessing"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PLAY_LIMIT,
        # Programs of the client's environment, such as uv, are found first.
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PATH": os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)]),
        },
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def played(url):
    return play(url, "openenv", "play_openenv.py")


def recorded(url, session_id):
    with Client(url) as client:
        steps = client.steps(session_id)
        return [step["reward"] for step in steps], [step["finished"] for step in steps]


def test_the_generic_client_earns_what_is_on_record(url, played):
    seen = played["generic"]
    assert seen["start"]["observation"]["prompt"] == "Guess the number, which is 2."
    assert seen["first_state"]["episode_id"] == "ep-7"
    rewards = [step["reward"] for step in seen["steps"]]
    assert rewards == [0.25, None, None, 1.0]
    assert recorded(url, seen["start"]["observation"]["session_id"]) == (
        rewards,
        [step["done"] for step in seen["steps"]],
    )
    errors = [step["observation"]["error"] for step in seen["steps"]]
    assert [error and error["error_type"] for error in errors] == [
        None,
        "tool_not_found",
        "invalid_args",
        None,
    ]
    assert (seen["state"]["step_count"], seen["state"]["done"], seen["state"]["last_reward"]) == (
        4,
        True,
        1.0,
    )


def test_a_step_before_the_reset_is_refused_and_one_after_the_end_pays_nothing(played):
    seen = played["generic"]
    assert "send reset first" in seen["early"]
    assert "hint" in seen["tools"]
    late = seen["late"]
    assert (late["reward"], late["done"]) == (None, True)
    assert late["observation"]["error"]["error_type"] == "execution_error"
    assert (seen["second"]["done"], seen["second"]["observation"]["prompt"]) == (
        False,
        "Guess the number, which is 1.",
    )


def test_blocking_typed_and_json_rpc_clients_play(url, played):
    assert (played["blocking"]["last"]["reward"], played["blocking"]["last"]["done"]) == (1.0, True)
    assert recorded(url, played["blocking"]["session"]) == ([1.0], [True])
    assert played["typed"]["text"] == "It is small."
    assert (played["typed"]["last"]["reward"], played["typed"]["last"]["done"]) == (1.0, True)
    assert played["typed"]["listed"] == len(played["typed"]["tools"])
    assert played["production"]["tools"] == played["typed"]["tools"]
    assert played["production"]["text"] == "Here you are."
    assert played["production"]["state"]["last_reward"] == 0.25


def test_many_sessions_play_at_the_same_time(played):
    assert played["concurrent"] == [1.0] * 24


def test_a_client_that_lost_its_connection_continues_its_episode(played):
    again = played["reconnected"]
    assert (again["state"]["step_count"], again["state"]["last_reward"]) == (1, 0.25)
    assert (again["last"]["reward"], again["last"]["done"]) == (1.0, True)


def test_openenvs_harness_by_which_trl_trains_gets_the_reward_of_each_rollout(played):
    assert played["harness"]["rewards"] == [1.0, 0.0]
    assert played["harness"]["tools"][:2] == ["hint", "guess"]


def test_wrong_messages_have_openenvs_codes_and_the_connection_stays(played):
    assert played["wrong"]["codes"] == ["INVALID_JSON", "UNKNOWN_TYPE", "VALIDATION_ERROR", "UNKNOWN_TYPE"]
    assert played["wrong"]["close"] == 1000


def test_the_taskset_for_openenv_that_verifiers_has_scores_what_is_on_record(url):
    seen = play(url, "verifiers_openenv", "play_openenv_taskset.py")
    assert seen["right"]["prompt"] == "Guess the number, which is 4."
    assert seen["right"]["tools"][:2] == ["hint", "guess"]
    assert (seen["right"]["ok"], seen["right"]["rewards"]) == (True, {"openenv_reward": 1.25})
    assert recorded(url, seen["right"]["session_id"]) == ([0.25, 1.0], [False, True])
    assert (seen["wrong"]["ok"], seen["wrong"]["reward"]) == (True, 0.0)
    assert recorded(url, seen["wrong"]["session_id"]) == ([0.0], [True])


def test_openenvs_own_validation_finds_nothing_wrong(played):
    report = played["validated"]
    assert report["passed"]
    assert report["summary"]["passed_count"] == report["summary"]["total_count"] == 6


def ask(url, path, body=None, **headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/openenv/{path}", data, headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_http_alone_plays_an_episode(url):
    status, start = ask(url, "guessing/reset", {"task_id": "test/5"})
    assert (status, start["done"]) == (200, False)
    session = start["observation"]["session_id"]
    act = {"type": "call_tool", "tool_name": "guess", "arguments": {"number": 5}}
    status, last = ask(url, "guessing/step", {"action": act, "session_id": session})
    assert (status, last["reward"], last["done"]) == (200, 1.0, True)
    assert ask(url, f"guessing/state?session_id={session}")[1]["step_count"] == 1


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("guessing/step", {"action": {"type": "call_tool", "tool_name": "hint"}}, 400),
        ("guessing/step", {"action": [], "session_id": "x"}, 400),
        ("guessing/reset", {"seed": -1}, 400),
        ("guessing/reset", {"task_id": "5"}, 400),
        ("guessing/state?session_id=nobody", None, 404),
        ("guessing/ws", None, 426),
        ("nothing/health", None, 404),
        ("guessing/dance", None, 404),
        ("guessing/reset", None, 405),
    ],
)
def test_http_refuses_what_it_cannot_serve(url, path, body, status):
    assert ask(url, path, body)[0] == status


def test_the_door_is_for_trainers(serve_with):
    guarded = serve_with(None, GUESSING, ORS_STORE="memory", ORS_API_KEYS=f"trainer:t1:{KEY}")
    assert ask(guarded, "guessing/health")[0] == 401
    assert ask(guarded, "guessing/health", None, **{"X-API-Key": KEY}) == (
        200,
        {"status": "healthy"},
    )
    with Client(guarded, KEY) as client, client.episode(split="test", index=0) as episode:
        token = episode.access["agent_token"]
    assert ask(guarded, "guessing/reset", {}, **{"X-API-Key": token})[0] in {401, 403}
