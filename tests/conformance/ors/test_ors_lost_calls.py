"""A client without call ids repeats its call if its connection breaks: one step, unless it was answered."""

import json
import threading
from collections.abc import Callable
from typing import Any

import anyio
import httpx2
import pytest

from ors_server import Environment, ToolOutput, tool
from ors_server.app import App
from ors_server.environments.loading import define
from ors_server.model.settings import Settings
from tests.conftest import LiveServer

LIMIT = 30.0
"""Seconds within which anything in these tests happens."""


class Gate(Environment):
    """A tool that answers when it is told to."""

    opened: threading.Event
    ran: list[str]

    @classmethod
    def list_splits(cls):
        return ["test"]

    @classmethod
    def list_tasks(cls, split):
        del split
        return [{}]

    def get_prompt(self):
        return "Pass."

    @tool
    async def enter(self, name: str) -> ToolOutput:
        """Wait for the gate."""
        type(self).ran.append(name)
        while not type(self).opened.is_set():  # noqa: ASYNC110 - the event is in another thread
            await anyio.sleep(0.01)
        return ToolOutput.ongoing(f"{name} is in", reward=1.0)


@pytest.fixture
def server():
    Gate.ran = []
    app = App([define(Gate)], Settings(port=0, store="memory"))
    with LiveServer(app).serving() as live:
        yield live


@pytest.fixture
async def client(server):
    Gate.opened = threading.Event()
    async with httpx2.AsyncClient(base_url=server.url, timeout=LIMIT) as made:
        answer = await made.post("/create", headers={"x-session-id": "s"}, json={"split": "test", "index": 0})
        assert answer.status_code == 200
        yield made


async def cut(server: LiveServer, body: dict[str, Any]) -> None:
    """Sends a call, and closes the connection while the tool runs."""
    data = json.dumps(body).encode()
    head = f"POST /call HTTP/1.1\r\nhost: localhost\r\nx-session-id: s\r\ncontent-length: {len(data)}\r\n\r\n"
    began = len(Gate.ran)
    async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
        await stream.send(head.encode() + data)
        await until(lambda: len(Gate.ran) > began)


async def until(holds: Callable[[], bool]) -> None:
    """Waits for what happens in the server's thread."""
    with anyio.fail_after(LIMIT):
        while not holds():  # noqa: ASYNC110 - the event is in another thread
            await anyio.sleep(0.01)


async def call(client: httpx2.AsyncClient, body: dict[str, Any]) -> str:
    answer = await client.post("/call", headers={"x-session-id": "s"}, json=body)
    return answer.text


async def steps(client: httpx2.AsyncClient) -> int:
    shown = (await client.get("/_ors/sessions/s")).json()
    return int(shown["episode"]["steps"])


BODY = {"name": "enter", "input": {"name": "Ada"}}


async def test_a_repeat_of_a_call_that_still_runs_gets_its_answer(server, client):
    await cut(server, BODY)
    async with anyio.create_task_group() as tasks:
        answers: list[str] = []

        async def repeat() -> None:
            answers.append(await call(client, BODY))

        tasks.start_soon(repeat)
        await anyio.sleep(0.2)
        Gate.opened.set()
    assert "Ada is in" in answers[0]
    assert Gate.ran == ["Ada"]
    assert await steps(client) == 1


async def test_a_repeat_of_a_call_that_has_ended_gets_its_answer(server, client):
    await cut(server, BODY)
    Gate.opened.set()
    with anyio.fail_after(LIMIT):
        while await steps(client) == 0:  # noqa: ASYNC110 - the event is in another thread
            await anyio.sleep(0.01)
    assert "Ada is in" in await call(client, BODY)
    assert Gate.ran == ["Ada"]
    assert await steps(client) == 1
    assert "Ada is in" in await call(client, BODY)  # the answer was written: this is another step
    assert await steps(client) == 2


async def test_another_call_is_another_step(server, client):
    await cut(server, BODY)
    Gate.opened.set()
    assert "Bob is in" in await call(client, {"name": "enter", "input": {"name": "Bob"}})
    assert Gate.ran == ["Ada", "Bob"]
    assert "Ada is in" in await call(client, BODY)  # not the session's next call any more
    assert await steps(client) == 3


async def test_an_answered_call_that_is_repeated_runs_again(client):
    Gate.opened.set()
    for number in (1, 2):
        assert "Ada is in" in await call(client, BODY)
        assert await steps(client) == number


async def test_a_call_with_an_id_of_its_own_is_never_another_one(server, client):
    await cut(server, BODY)
    Gate.opened.set()
    assert "Ada is in" in await call(client, {**BODY, "task_id": "mine"})
    assert Gate.ran == ["Ada", "Ada"]
    assert await steps(client) == 2
