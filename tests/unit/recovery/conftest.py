"""Servers over one record, one after another, each of which is left as a kill leaves it."""

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ors_server.app import App
from ors_server.environments.definition import EnvironmentDefinition
from ors_server.environments.loading import definitions_of
from ors_server.model.clock import Clock
from ors_server.model.settings import Settings
from tests.fixtures.recovered_journal import COUNTERS, Journal


@dataclass
class Player:
    """A raw client of one server."""

    app: App
    http: httpx2.AsyncClient

    async def send(self, method: str, path: str, session_id: str, body: Any = None, **headers: str) -> Any:
        sent = {"X-Session-ID": session_id, **headers}
        return await self.http.request(method, path, json=body, headers=sent)

    async def create(self, session_id: str, **fields: Any) -> Any:
        body = {"env_name": "journal", "split": "train", "index": 0, **fields}
        return await self.send("POST", "/create", session_id, body)

    async def prompt(self, session_id: str) -> Any:
        return await self.send("GET", "/journal/prompt", session_id)

    async def call(self, session_id: str, name: str, call_id: str | None = None, **given: Any) -> Any:
        body = {"name": name, "input": given} | ({} if call_id is None else {"task_id": call_id})
        return await self.send("POST", "/journal/call", session_id, body)

    async def status(self, session_id: str) -> dict[str, Any]:
        answer = await self.http.get(f"/_ors/sessions/{session_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def record(self, name: str) -> dict[str, Any]:
        answer = await self.http.get(f"/_ors/episodes/{name}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def steps(self, name: str) -> list[dict[str, Any]]:
        answer = await self.http.get(f"/_ors/episodes/{name}/steps")
        return answer.json()["steps"]


def said(answer: Any) -> dict[str, Any]:
    """Return the JSON at the end of a call's stream."""
    assert answer.status_code == 200, answer.text
    data = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return json.loads(data[-1])


def text_of(answer: Any) -> str:
    """Return the text that a call's tool gave."""
    return said(answer)["output"]["blocks"][0]["text"]


@dataclass
class Lives:
    """Starts servers and kills them."""

    folder: Path
    stack: AsyncExitStack
    count: int = 0

    @property
    def path(self) -> Path:
        return self.folder / f"record-{self.count}.db"

    async def start(
        self, *environments: type | EnvironmentDefinition, clock: Clock | None = None, **settings: Any
    ) -> Player:
        definitions = [found for item in environments or [Journal] for found in definitions_of(item)]
        app = App(definitions, Settings(store=str(self.path), **settings), clock=clock)
        await self.stack.enter_async_context(app.running())
        transport = httpx2.ASGITransport(app)
        http = await self.stack.enter_async_context(
            httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=30)
        )
        return Player(app, http)

    def kill(self) -> None:
        """Have the next server find the record as it is now; the one that runs goes on, unseen."""
        source = sqlite3.connect(self.path)
        self.count += 1
        copy = sqlite3.connect(self.path)
        try:
            source.backup(copy)
        finally:
            copy.close()
            source.close()

    def write(self, statement: str, *values: Any) -> None:
        """Change the record of the next server."""
        connection = sqlite3.connect(self.path)
        try:
            with connection:
                connection.execute(statement, values)
        finally:
            connection.close()


@pytest.fixture
async def lives(tmp_path: Path) -> AsyncIterator[Lives]:
    COUNTERS.clear()
    async with AsyncExitStack() as stack:
        yield Lives(tmp_path, stack)
