"""Sessions survive the kill of their server, on SQLite and on PostgreSQL, under raw clients and MCP."""

import sys
from collections.abc import AsyncIterator, Iterator

import anyio
import httpx2
import pytest
from mcp import Client

from ors_server.store.open import open_reader
from tests.fixtures.killed_servers import KilledServer
from tests.fixtures.record_client import Line, NoAnswerError, Said
from tests.fixtures.record_crashes import verify
from tests.fixtures.recording_server import ROOT
from tests.postgres import PostgresServer, running_postgres

pytestmark = pytest.mark.timeout(600)  # each start of a server takes long on a busy machine
SESSIONS = 10
CALLS = 12
KILLS = (15, 50, 90)
"""Numbers of answers after which the server is killed."""


@pytest.fixture(scope="module")
def durable_database() -> Iterator[PostgresServer]:
    """A server whose databases no other test uses."""
    with running_postgres(durable=False) as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.external)])
def where(request, tmp_path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "episodes.db")
    return request.getfixturevalue("durable_database").create_database()


@pytest.fixture
async def server(where) -> AsyncIterator[KilledServer]:
    server = KilledServer(where)
    try:
        await server.start()
        yield server
    finally:
        server.close()


class RawClient:
    """Plays one session with call ids of its own, and asks again whatever was not answered."""

    def __init__(self, server: KilledServer, session_id: str) -> None:
        self._server = server
        self._line = Line(server.port)
        self.session_id = session_id
        self.answers: dict[str, Said] = {}

    async def play(self) -> None:
        body = {"env_name": "journal", "split": "train", "index": 0}
        while (reply := await self._insist(self._line.post, "/create", self.session_id, body)).status != 200:
            assert reply.status == 503, reply
            await self._server.until_up()
        for number in range(CALLS):
            call = {"name": "note", "input": {"text": f"n{number}"}, "task_id": f"call-{number}"}
            said = await self._insist(self._line.call, "journal", self.session_id, call)
            assert said.output is not None, said
            self.answers[call["task_id"]] = said
            self._server.count_call()

    async def repeat(self) -> None:
        """Ask for every call again; the answers are the same."""
        for number in range(CALLS):
            call = {"name": "note", "input": {"text": f"n{number}"}, "task_id": f"call-{number}"}
            said = await self._insist(self._line.call, "journal", self.session_id, call)
            assert said == self.answers[call["task_id"]]

    async def _insist(self, send, *arguments):
        while True:
            try:
                return await send(*arguments)
            except NoAnswerError:
                await self._server.until_up()

    def close(self) -> None:
        self._line.hang_up()


async def play_through_kills(server: KilledServer, clients: list[RawClient]) -> None:
    async with anyio.create_task_group() as group:
        for client in clients:
            group.start_soon(client.play)
        for calls in KILLS:
            await server.until_calls(calls)
            server.kill()
            await server.start()


async def test_every_session_goes_on_through_three_kills_under_load(server, where):
    clients = [RawClient(server, f"session-{number}") for number in range(SESSIONS)]
    try:
        await play_through_kills(server, clients)
        for client in clients:
            await client.repeat()
    finally:
        for client in clients:
            client.close()
    server.kill()
    reader = await open_reader(where)
    try:
        records = [record async for record, _ in reader.stream()]
        assert sorted(record.origin.session_id for record in records) == sorted(
            client.session_id for client in clients
        )
        for record in records:
            steps = await reader.steps(record.origin.episode_id)
            assert [step.call_id for step in steps] == [f"call-{number}" for number in range(CALLS)]
            assert record.summary.episode_return == sum(range(1, CALLS + 1))
    finally:
        await reader.aclose()
    await verify(where)


async def test_a_restart_after_a_suspension_loses_no_session(where):
    server = KilledServer(where, "--on-stop", "suspend")
    clients = [RawClient(server, f"session-{number}") for number in range(3)]
    try:
        await server.start()
        async with anyio.create_task_group() as group:
            for client in clients:
                group.start_soon(client.play)
            await server.until_calls(10)
            await anyio.to_thread.run_sync(server.suspend)
            await server.start()
        for client in clients:
            await client.repeat()
    finally:
        for client in clients:
            client.close()
        server.close()
    await verify(where)


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_an_mcp_client_plays_on_through_a_kill(server, era):
    mode = {"handshake": "legacy", "modern": "auto"}[era]
    async with httpx2.AsyncClient(base_url=server.url, timeout=120) as http:
        body = {"environment": "journal", "split": "train", "index": 0, "session_id": "s"}
        made = (await http.post("/_ors/sessions", json=body)).json()
    texts = []
    async with Client(made["agent_url"], mode=mode) as agent:
        texts.append((await agent.call_tool("note", {"text": "one"})).content[0].text)
        server.kill()
        await server.start()
        if era == "modern":
            texts.append((await agent.call_tool("note", {"text": "two"})).content[0].text)
    if era == "handshake":  # its connection was the old server's: the client has to connect again
        async with Client(made["agent_url"], mode=mode) as agent:
            texts.append((await agent.call_tool("note", {"text": "two"})).content[0].text)
    assert texts == ["one", "one, two"]


async def test_the_commands_that_read_a_record_show_what_happened(server, where):
    client = RawClient(server, "session-0")
    try:
        await client.play()
        server.kill()
        await server.start()
        await client.repeat()
    finally:
        client.close()
    command = [sys.executable, "-m", "ors_server", "episodes", "show", "session-0", "--store", where]
    shown = (await anyio.run_process(command, cwd=ROOT)).stdout.decode()
    assert "incidents" in shown
    assert "a later server rebuilt the session from its record" in shown
