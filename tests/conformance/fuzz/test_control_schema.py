"""Generated requests, right and wrong, against the control API's own description."""

from http import HTTPStatus
from typing import cast

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig

from ors_server import Environment, Split, ToolOutput, tool
from ors_server.doors.access import ApiKey, Keyring, Role
from ors_server.doors.control.app import ControlApp
from ors_server.doors.control.episodes import EpisodeHandlers
from ors_server.model.clock import SystemClock
from ors_server.model.settings import Settings
from ors_server.sessions.manager import SessionManager
from ors_server.store.memory import MemoryStore

TRAINER, ADMIN = "trainer-key-0123456789", "admin-key-0123456789"
SESSION = "fuzzed-session"
PAST = "fuzzed-past"
"""A session that is gone, and whose record therefore ends."""
EXAMPLES = 20
"""Requests per route and test."""

CONFIG = """
[generation]
mode = "all"
database = "none"

[checks]
# An ended session's record stays readable: that is what a record is for.
use_after_free = { enabled = false }
ensure_resource_availability = { enabled = false }

# What no schema can say is told by 422: what a policy lets a session override, which cursors are ours, which
# days a month has, and that one label has one value.
[[operations]]
include-name = [
  "POST /_ors/sessions", "GET /_ors/sessions", "GET /_ors/episodes", "GET /_ors/episodes/totals",
  "GET /_ors/episodes/by-task", "GET /_ors/episodes/series", "GET /_ors/episodes/histogram", "GET /_ors/runs",
  "POST /_ors/episodes/{episode}/notes"
]
[operations.checks]
positive_data_acceptance = { expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429"] }

# It would end with the server.
[[operations]]
include-name = "GET /_ors/events"
parameters = { seconds = 0 }
"""

KNOWN = f"""
[parameters]
session_id = "{SESSION}"
episode = "{PAST}"
name = "fuzzed"
split = "train"
"""


class Fuzzed(Environment):
    """Has a quick tool and many tasks."""

    name = "fuzzed"

    @classmethod
    def list_splits(cls) -> list[Split]:
        return [Split(name="train", type="train")]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, int]]:
        return [{"number": index} for index in range(1000)]

    def get_prompt(self) -> str:
        return "Do."

    @tool
    async def echo(self, text: str = "") -> ToolOutput:
        """Echoes."""
        return ToolOutput.ongoing(text, reward=0.5)


@pytest.fixture(scope="module")
def server(serve_live):
    """A keyed server on a socket, too small to be filled without anybody noticing, with an ended session."""
    live = serve_live(Fuzzed, api_keys=f"trainer:t:{TRAINER},admin:a:{ADMIN}", max_sessions=50)
    headers = {"X-API-Key": TRAINER}
    order = {"session_id": PAST, "task_spec": {}}
    sessions = f"{live.url}/_ors/sessions"
    requests.post(sessions, json=order, headers=headers, timeout=10).raise_for_status()
    calls = f"{sessions}/{PAST}/calls"
    requests.post(calls, json={"name": "echo"}, headers=headers, timeout=10).raise_for_status()
    requests.delete(f"{sessions}/{PAST}", headers=headers, timeout=10).raise_for_status()
    return live


NO_EPISODES = EpisodeHandlers(MemoryStore(), clock=SystemClock(), ping_seconds=10)


def description(*config):
    """The description, made before there is a server, so that every route is a test of its own."""
    keyring = Keyring([ApiKey("t", Role.TRAINER, b"")])
    door = ControlApp(cast("SessionManager", None), keyring, Settings(), episodes=NO_EPISODES)
    loaded = SchemathesisConfig.from_str("\n".join([*config, CONFIG]))
    return schemathesis.openapi.from_dict(door.describe().model_dump(), config=loaded)


unknown_world = description()
known_world = description(KNOWN)
bounded = settings(max_examples=EXAMPLES, derandomize=True, suppress_health_check=list(HealthCheck))


def make_session(server):
    """Sees to it that the known session lives; a request may have deleted it, or filled the server."""
    headers = {"X-API-Key": TRAINER}
    order = {"session_id": SESSION, "task_spec": {}}
    made = requests.post(f"{server.url}/_ors/sessions", json=order, headers=headers, timeout=10)
    if made.status_code == HTTPStatus.TOO_MANY_REQUESTS:
        page = requests.get(f"{server.url}/_ors/sessions?limit=500", headers=headers, timeout=10).json()
        for session in page["sessions"]:
            url = f"{server.url}/_ors/sessions/{session['session_id']}"
            requests.delete(url, headers=headers, timeout=10).raise_for_status()
        made = requests.post(f"{server.url}/_ors/sessions", json=order, headers=headers, timeout=10)
    assert made.status_code in {HTTPStatus.CREATED, HTTPStatus.CONFLICT}


@bounded
@unknown_world.parametrize()
def test_whatever_is_sent_gets_an_answer_that_the_description_knows(server, case):
    answer = case.call_and_validate(server.url, headers={"X-API-Key": ADMIN}, timeout=20)
    assert "Traceback" not in answer.text


@bounded
@known_world.parametrize()
def test_whatever_is_sent_about_things_that_exist_gets_an_answer_that_the_description_knows(server, case):
    make_session(server)
    answer = case.call_and_validate(server.url, headers={"X-API-Key": ADMIN}, timeout=20)
    assert "Traceback" not in answer.text


def test_the_server_gives_the_description_that_was_tested(server):
    given = requests.get(f"{server.url}/_ors/openapi.json", timeout=10).json()
    assert given == unknown_world.raw_schema


def test_the_server_is_healthy_after_it_all(server):
    assert requests.get(f"{server.url}/_ors/health", timeout=10).json()["status"] == "ok"
