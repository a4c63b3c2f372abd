"""Crashes of the server and of the database: what was acknowledged is on record, once, and adds up."""

import sys
from collections.abc import Iterator

import anyio
import pytest

from tests.fixtures.record_audit import AuditError
from tests.fixtures.record_crashes import Killer
from tests.fixtures.recording_server import ROOT
from tests.postgres import PostgresServer, running_postgres

pytestmark = [pytest.mark.stress, pytest.mark.timeout(1800)]
KILLS = 100
KILLS_AT_THE_EDGES = 25
SEED = 20261121


@pytest.fixture(scope="module")
def durable_postgres() -> Iterator[PostgresServer]:
    """A server that puts what was committed on the disk."""
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, tmp_path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "episodes.db")
    return request.getfixturevalue("durable_postgres").create_database()


@pytest.fixture
def killer(where) -> Iterator[Killer]:
    """Kills servers over the record."""
    found = Killer(where, SEED)
    yield found
    found.close()


def tell(request: pytest.FixtureRequest, figures: object) -> None:
    sys.stdout.write(f"{request.node.name}: {figures}\n")


async def test_every_acknowledged_step_survives_kills_under_load(killer, where, request):
    for _ in range(KILLS):
        await killer.kill_under_load()
    toll = await killer.judge()
    command = [sys.executable, "-m", "ors_server", "store", "verify", "--store", where]
    done = await anyio.run_process(command, cwd=ROOT, check=False)
    tell(request, f"{toll}; verify: {done.stdout.decode().strip()}")
    assert done.returncode == 0
    assert toll.kills == KILLS
    assert toll.final.acknowledged > KILLS


async def test_a_record_that_promises_less_is_found_to_keep_less(where, request):
    """The same kills, so that it is known that the audit would see what durability prevents."""
    killer = Killer(where, SEED, "--durability", "batch")

    async def kill_often() -> None:
        for _ in range(KILLS):
            await killer.kill_under_load()

    try:
        with pytest.raises(AuditError) as found:
            await kill_often()
    finally:
        killer.close()
    tell(request, f"{killer.toll.kills} kills until a step was missing: {str(found.value)[:100]}")


async def test_kills_while_the_server_starts_or_stops_leave_a_record_that_the_next_one_takes_up(
    killer, request
):
    for _ in range(KILLS_AT_THE_EDGES):
        await killer.kill_while_starting()
        await killer.kill_while_stopping()
    toll = await killer.judge()
    tell(request, toll)
    assert toll.kills == 2 * KILLS_AT_THE_EDGES


async def test_a_first_start_that_is_killed_leaves_nothing_that_hinders_the_next(killer, request):
    for _ in range(KILLS_AT_THE_EDGES):
        await killer.kill_while_starting()
    await killer.kill_under_load()
    tell(request, await killer.judge())
