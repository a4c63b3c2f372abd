"""A console over a filled record, without a socket."""

from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from ors_server import tool
from ors_server.app import App
from ors_server.environments.loading import definitions_of
from ors_server.model.settings import Settings
from ors_server.store.memory import MemoryStore
from tests.fixtures.console_record import fill
from tests.fixtures.single_task import SingleTask

KEYS = "trainer:tim:trainer-key-0123456789,admin:ada:admin-key-0123456789,agent:al:agent-key-0123456789"


class Lamp(SingleTask):
    """Has a lamp."""

    name = "lamp"

    @tool
    async def press(self) -> str:
        """Presses the switch."""
        return "It is on."


class ConsoleClient(httpx2.AsyncClient):
    """Follows no redirect."""

    app: App


@asynccontextmanager
async def opened(store: Any = None, environment: type = Lamp, **settings: Any):
    """A client of a running application."""
    app = App(definitions_of(environment), Settings(**settings), store=store or MemoryStore())
    async with app.running():
        transport = httpx2.ASGITransport(app)
        async with ConsoleClient(transport=transport, base_url="http://localhost:8080") as client:
            client.app = app
            yield client


@pytest.fixture
async def filled():
    """A client of an application without keys, and the ids of its episodes by name."""
    store = MemoryStore()
    ids = await fill(store)
    async with opened(store) as client:
        yield client, ids
