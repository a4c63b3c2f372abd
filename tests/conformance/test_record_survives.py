"""A server that is killed, or whose database is, keeps every promise; tests/stress has many more kills."""

from collections.abc import Iterator

import pytest

from tests.fixtures.record_crashes import Killer
from tests.fixtures.record_load import Load
from tests.fixtures.record_outages import SESSIONS, WARM, Outages
from tests.fixtures.recording_server import RecordingServer
from tests.postgres import PostgresServer, running_postgres

KILLS = 2
SEED = 3


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresServer]:
    """A server that may be ended."""
    with running_postgres(durable=False) as server:
        yield server


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_acknowledged_steps_survive_the_kill_of_the_server(kind, request, tmp_path):
    is_file = kind == "sqlite"
    where = (
        str(tmp_path / "episodes.db") if is_file else request.getfixturevalue("database").create_database()
    )
    killer = Killer(where, SEED)
    try:
        for _ in range(KILLS):
            await killer.kill_under_load()
        toll = await killer.judge()
    finally:
        killer.close()
    assert toll.kills == KILLS
    assert toll.final.acknowledged > 0


async def test_sessions_go_on_when_the_database_comes_back(database):
    async def scene(stage: Outages) -> None:
        for end in (database.kill, database.stop):
            end()
            database.start()
            await stage.warm_up()

    server = RecordingServer(database.create_database())
    stage = Outages(server, Load(SEED, SESSIONS))
    try:
        found = await stage.play(scene)
    finally:
        server.close()
    assert found.steps == found.acknowledged >= 3 * WARM * SESSIONS
