"""The reference clients play on when their server is killed in the middle of their calls."""

import json
import subprocess

import anyio
import anyio.lowlevel
import httpx2
import pytest

from tests.clients.conftest import PLAY_LIMIT, SCRIPTS, client_python
from tests.fixtures.killed_servers import HoldingProxy, KilledServer

SESSIONS = 4
CALLS = 6


@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", ["openreward", pytest.param("ors_sdk", marks=pytest.mark.stress)])
async def test_a_client_plays_on_when_its_server_is_killed_in_its_calls(tmp_path, client):
    """Each session has a call in flight whose id the client knows, and which is on no record."""
    server = KilledServer(str(tmp_path / "episodes.db"))
    played: list[subprocess.CompletedProcess[bytes]] = []
    try:
        await server.start()
        async with HoldingProxy(server).running() as front:
            command = [str(client_python(client)), str(SCRIPTS / "outlive_kills.py")]
            command += [front.url, str(tmp_path), str(SESSIONS), str(CALLS)]

            async def play() -> None:
                with anyio.fail_after(PLAY_LIMIT):
                    played.append(await anyio.run_process(command))

            async with anyio.create_task_group() as group:
                group.start_soon(play)
                await front.until_begun(SESSIONS)
                server.kill()
                await server.start()
            async with httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
                episodes = (await http.get("/_ors/episodes")).json()["episodes"]
    finally:
        server.close()
    expected = [", ".join(f"n{number}" for number in range(count + 1)) for count in range(CALLS)]
    assert json.loads(played[0].stdout) == [{"texts": expected, "error": None}] * SESSIONS
    assert [episode["episode"]["steps"] for episode in episodes] == [CALLS] * SESSIONS
    assert {episode["episode"]["stop_reason"] for episode in episodes} == {"deleted"}
