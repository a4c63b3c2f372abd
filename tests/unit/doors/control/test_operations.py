"""What the control API's door does when everything behind it fails."""

from typing import Any, cast

import pytest

from ors_server.doors.access import Keyring
from ors_server.doors.control.app import ControlApp
from ors_server.doors.control.episodes import EpisodeHandlers
from ors_server.doors.control.operations import ControlRequest, Operation
from ors_server.doors.http.request_errors import ResponseModel
from ors_server.model.clock import SystemClock
from ors_server.model.settings import Settings
from ors_server.sessions.manager import SessionManager
from ors_server.store.memory import MemoryStore

NO_EPISODES = EpisodeHandlers(MemoryStore(), clock=SystemClock(), ping_seconds=10)


class Anything(ResponseModel):
    """An answer that may hold what is no JSON."""

    value: Any = None


class Connection:
    """One HTTP request, and what was sent back."""

    def __init__(self, path="/_ors/thing", events=({"type": "http.request", "body": b""},)):
        self.scope = {
            "type": "http",
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"host", b"localhost")],
        }
        self._events = iter(events)
        self.sent: list[Any] = []

    async def receive(self):
        return next(self._events)

    async def send(self, message):
        self.sent.append(message)

    @property
    def status(self):
        return self.sent[0]["status"]

    @property
    def body(self):
        return self.sent[1]["body"].decode()


def door_to(handler):
    door = ControlApp(cast("SessionManager", None), Keyring(), Settings(), episodes=NO_EPISODES)
    door.table = (Operation("GET", "/thing", handler),)
    return door


async def test_a_defect_is_a_500_that_says_nothing_of_itself():
    async def fail() -> Anything:
        raise RuntimeError("the password is sesame")

    connection = Connection()
    await door_to(fail)(connection.scope, connection.receive, connection.send)
    assert connection.status == 500
    assert '"blame":"us"' in connection.body
    assert "sesame" not in connection.body


@pytest.mark.parametrize("value", [float("nan"), object(), {"a": float("inf")}])
async def test_an_answer_that_is_no_json_blames_the_author(value):
    async def answer() -> Anything:
        return Anything(value=value)

    connection = Connection()
    await door_to(answer)(connection.scope, connection.receive, connection.send)
    assert connection.status == 500
    assert '"blame":"author"' in connection.body


@pytest.mark.parametrize(
    "events",
    [
        [{"type": "http.disconnect"}],
        [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}],
    ],
)
async def test_nothing_is_sent_to_a_client_that_left(events):
    async def answer() -> Anything:
        raise AssertionError("nobody is there to be served")

    connection = Connection(events=events)
    await door_to(answer)(connection.scope, connection.receive, connection.send)
    assert connection.sent == []


async def test_an_address_names_the_mount_point_and_a_path_of_another_door_is_unknown():
    async def answer(request: ControlRequest) -> Anything:
        return Anything(value=request.base_url)

    connection = Connection()
    connection.scope |= {"scheme": "https", "root_path": "/gym"}
    await door_to(answer)(connection.scope, connection.receive, connection.send)
    assert '"https://localhost/gym"' in connection.body

    async def nothing() -> Anything:
        return Anything()

    connection = Connection("/elsewhere/thing")
    await door_to(nothing)(connection.scope, connection.receive, connection.send)
    assert connection.status == 404


def test_the_names_in_a_path_are_the_arguments_of_its_handler():
    door = ControlApp(cast("SessionManager", None), Keyring(), Settings(), episodes=NO_EPISODES)
    for operation in door.table:
        assert set(operation.parameters) == set(operation.signature.path), operation.id
        assert operation.signature.summary[0].isupper(), operation.id
