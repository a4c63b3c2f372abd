"""The control API's own affairs: health, version, settings, shutdown, paths, methods, bodies."""

import json
import subprocess
import sys
import urllib.request

import pytest

from ors_server import __version__


async def test_a_running_server_is_healthy_ready_and_says_its_version(control):
    health = (await control.get("/health")).json()
    assert (health["status"], health["sandbox"]) == ("ok", None)
    assert (health["queues"]["gradings"]["running"], health["queues"]["gradings"]["waiting"]) == (0, 0)
    assert (await control.get("/ready")).json() == {"status": "ready"}
    version = (await control.get("/version")).json()
    assert version == {"name": "ors-server", "version": __version__, "features": ["model_turns", "batches"]}


async def test_settings_are_shown_without_secrets(open_control, keys, api_keys):
    control = await open_control(api_keys=api_keys, token_secret="sesame-sesame", max_sessions=7)
    answer = await control.get("/settings", key=keys["admin"])
    assert answer.json()["values"]["max_sessions"] == 7
    assert answer.json()["secrets"] == {"api_keys": True, "token_secret": True, "store": True}
    assert "sesame" not in answer.text
    assert not any(key in answer.text for key in keys.values())


async def test_settings_that_are_infinite_are_still_json(open_control, keys, api_keys):
    control = await open_control(api_keys=api_keys, idle_seconds=float("inf"))
    answer = await control.get("/settings", key=keys["admin"])
    assert answer.status_code == 200
    assert answer.json()["values"]["idle_seconds"] is None


async def test_an_admin_stops_the_server_and_it_welcomes_nobody_from_then_on(open_control, keys, api_keys):
    stops = []
    control = await open_control(api_keys=api_keys, shutdown=lambda: stops.append("stop"))
    answer = await control.post("/shutdown", key=keys["admin"])
    assert (answer.status_code, answer.json(), stops) == (202, {"status": "stopping"}, ["stop"])
    ready = await control.get("/ready")
    assert (ready.status_code, ready.json()["code"]) == (503, "shutting_down")
    assert int(ready.headers["retry-after"]) >= 1
    refused = await control.post("/sessions", {"task_spec": {}}, key=keys["trainer"])
    assert refused.status_code == 503
    assert (await control.get("/health")).status_code == 200


async def test_a_server_that_nobody_offered_to_stop_says_so(keyed, keys):
    answer = await keyed.post("/shutdown", key=keys["admin"])
    assert (answer.status_code, answer.json()["code"]) == (404, "not_supported")


@pytest.mark.parametrize("path", ["", "/", "/nothing", "/sessions/", "/sessions/x/nothing", "/health/more"])
async def test_an_unknown_path_is_told_where_the_description_is(control, path):
    answer = await control.get(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_path")
    assert "openapi.json" in answer.json()["detail"]


async def test_an_unknown_method_is_told_the_known_ones_and_head_is_one_where_get_is(control):
    answer = await control.ask("PATCH", "/sessions/x")
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, DELETE"
    assert (await control.ask("HEAD", "/health")).status_code == 200


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null{", b"\xff\xfe", b'{"task_spec": {"a": NaN', b"[" * 40_000, b'"\\ud800"']
)
async def test_a_body_that_is_not_json_is_the_clients_mistake(control, body):
    answer = await control.ask("POST", "/sessions", content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed_body")
    assert answer.json()["blame"] == "client"


async def test_every_mistake_in_a_body_is_named_without_repeating_what_came(control):
    body = {"index": "sesame", "secrets": {"KEY": 5}, "extra": "sesame"}
    answer = await control.post("/sessions", body)
    assert answer.status_code == 422
    places = [mistake["place"] for mistake in answer.json()["mistakes"]]
    assert places == [["body", "index"], ["body", "secrets", "KEY"], ["body", "extra"]]
    assert "sesame" not in answer.text


async def test_a_mistake_says_what_was_expected_and_what_came(control):
    body = {"index": "0", "splitt": "train", "policy": {"step_limits": 3}, "labels": "a", "toolset": 7}
    answer = await control.post("/sessions", body)
    messages = {
        ".".join(map(str, mistake["place"])): mistake["message"] for mistake in answer.json()["mistakes"]
    }
    assert messages["body.index"] == "Input should be a valid integer, got a string"
    assert messages["body.toolset"] == "Input should be a valid string, got a number"
    assert messages["body.labels"] == "Input should be an object, got a string"
    assert messages["body.splitt"].startswith("unknown field; did you mean 'split'? Expected one of ")
    both = await control.post("/sessions", {"split": "train"})
    assert both.json()["detail"] == "body: give either task_spec, or both split and index"
    nothing = await control.ask("POST", "/sessions", content=b"")
    assert nothing.json()["detail"] == "the body is empty: expected a JSON object"


async def test_a_body_beyond_the_limit_is_refused(open_control):
    control = await open_control(max_body_bytes=1024)
    answer = await control.post("/sessions", {"task_spec": {"text": "x" * 2000}})
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")


@pytest.mark.parametrize(
    "query", ["start=-1", "start=x", "begin=1", "start=1&start=2", "start=1e400", "stop="]
)
async def test_a_wrong_query_is_refused(control, query):
    answer = await control.get(f"/environments/gate/splits/train/tasks?{query}")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["mistakes"][0]["place"][0] == "query"


async def test_foreign_hosts_and_origins_are_refused_in_the_same_form(control):
    by_host = await control.get("/health", headers={"Host": "evil.example"})
    by_origin = await control.get("/health", headers={"Origin": "https://evil.example"})
    assert (by_host.status_code, by_host.json()["code"]) == (421, "misdirected")
    assert (by_origin.status_code, by_origin.json()["code"]) == (403, "forbidden")


async def test_a_server_that_does_not_run_asks_to_come_back(control):
    app = control.app
    control.app._doors, control.app._ors = {}, None
    answer = await control.get("/sessions")
    assert app is control.app
    assert (answer.status_code, answer.json()["code"]) == (503, "shutting_down")


ADMIN = "admin-key-0123456789"
LIMIT = 30.0
"""Seconds that the process may take to start or to stop."""


def ask(url, method):
    request = urllib.request.Request(url, method=method, headers={"X-API-Key": ADMIN})
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        return answer.status, json.load(answer)


def test_an_admin_stops_the_process_and_it_ends_in_peace(refenv, monkeypatch):
    monkeypatch.setenv("ORS_API_KEYS", f"admin:root:{ADMIN}")
    program = "from ors_server.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", refenv, "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            announced = process.stdout.readline()
            assert announced, process.communicate(timeout=LIMIT)
            control = json.loads(announced)["doors"]["control"]
            assert ask(f"{control}/sessions", "GET")[0] == 200
            assert ask(f"{control}/shutdown", "POST") == (202, {"status": "stopping"})
            assert process.wait(LIMIT) == 0
        finally:
            process.kill()
