"""PostgreSQL ends under load, in every way that it can, and comes back: the server goes on by itself."""

import sys
from collections.abc import Callable, Iterator

import pytest

from tests.fixtures.record_crashes import Killer
from tests.fixtures.record_load import Load
from tests.fixtures.record_outages import SESSIONS, Outages
from tests.fixtures.recording_server import RecordingServer
from tests.postgres import PostgresServer, running_postgres

pytestmark = [pytest.mark.stress, pytest.mark.timeout(1200)]
SEED = 5
ENDS: dict[str, Callable[[PostgresServer], None]] = {
    "fast": lambda database: database.stop("fast"),
    "immediate": lambda database: database.stop("immediate"),
    "kill": PostgresServer.kill,
    "kill of the first process": PostgresServer.kill_first_process,
}
ROUNDS = 15
"""Kills of the database in a row."""


@pytest.fixture
def durable_postgres() -> Iterator[PostgresServer]:
    """A server that puts what was committed on the disk."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def outages(durable_postgres) -> Iterator[Outages]:
    server = RecordingServer(durable_postgres.create_database(), "--store-write-seconds", "1")
    yield Outages(server, Load(SEED, SESSIONS))
    server.close()


def tell(request: pytest.FixtureRequest, *figures: object) -> None:
    sys.stdout.write(f"{request.node.name}: {'; '.join(map(str, figures))}\n")


@pytest.mark.parametrize("end", ENDS)
async def test_a_database_that_is_away_for_a_while_loses_nothing(outages, durable_postgres, request, end):
    async def scene(stage: Outages) -> None:
        ENDS[end](durable_postgres)
        waiting = await stage.until_failing()
        await stage.stays_failing()
        durable_postgres.start()
        await stage.until_recovered(waiting)

    tell(request, await outages.play(scene), outages)


async def test_a_database_that_is_killed_again_and_again_loses_nothing(outages, durable_postgres, request):
    async def scene(stage: Outages) -> None:
        for number in range(ROUNDS):
            list(ENDS.values())[number % len(ENDS)](durable_postgres)
            durable_postgres.start()
            await stage.warm_up()

    tell(request, await outages.play(scene), outages)


async def test_a_backend_that_is_killed_takes_every_connection_with_it_and_loses_nothing(
    outages, durable_postgres, request
):
    async def scene(stage: Outages) -> None:
        for _ in range(ROUNDS):
            durable_postgres.kill_backend("ors-server")
            await stage.warm_up()

    tell(request, await outages.play(scene), outages)


async def test_a_crash_of_server_and_database_together_loses_nothing(durable_postgres, request):
    killer = Killer(durable_postgres.create_database(), SEED)
    try:
        for _ in range(ROUNDS):
            await killer.kill_under_load(durable_postgres.kill)
            durable_postgres.start()
        tell(request, await killer.judge())
    finally:
        killer.close()
