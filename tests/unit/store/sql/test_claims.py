"""Which store takes up what a killed server left open: one that has the record for itself when it opens."""

import sqlite3
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier, Thread

import psycopg
import pytest
from sqlalchemy import create_engine

from ors_server.model.trajectory import Incident, IncidentKind
from ors_server.store.open import open_reader, open_store
from ors_server.store.sql.claims import AdvisoryClaim
from ors_server.testing.store_promises import MORNING, make_origin, play
from tests.fixtures.older_records import FIGURES
from tests.unit.store.sql.test_opening import differences

ROOT = Path(__file__).parents[4]
PROGRAM = """
import os, sys
import anyio
from ors_server.store.open import open_store
from ors_server.testing.store_promises import make_origin

async def main():
    store = await open_store(sys.argv[1])
    await store.open(make_origin(1))
    print("open", flush=True)
    sys.stdin.read()

anyio.run(main)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def where(request, tmp_path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "episodes.db")
    return request.getfixturevalue("postgres").create_database()


async def test_a_store_that_opens_alone_finds_what_was_left_open(where):
    store = await open_store(where)
    for number in (1, 2):
        await store.open(make_origin(number))
    await play(store, make_origin(3))
    await store.aclose()
    store = await open_store(where)
    try:
        found = [(episode.session_id, episode.episode_id) for episode in store.left_open]
    finally:
        await store.aclose()
    reader = await open_reader(where)
    records = {name: await reader.find(name) for name in ("session-1", "session-2")}
    await reader.aclose()
    assert found == [(name, record.origin.episode_id) for name, record in records.items()]


async def test_a_store_that_opens_beside_another_one_finds_nothing(where):
    first = await open_store(where)
    await first.open(make_origin(1))
    second = await open_store(where)
    assert second.left_open == ()
    await first.aclose()
    third = await open_store(where)
    assert third.left_open == ()
    await second.aclose()
    await third.aclose()
    last = await open_store(where)
    assert [episode.session_id for episode in last.left_open] == ["session-1"]
    await last.aclose()


def start_writer(where: str) -> "subprocess.Popen[bytes]":
    """Start a process that opens an episode and waits to be killed."""
    command = [sys.executable, "-c", PROGRAM, where]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout.readline() == b"open\n"
    return process


async def test_a_process_that_was_killed_has_no_claim_any_more(where):
    with start_writer(where) as process:
        beside = await open_store(where)
        await beside.aclose()
        process.kill()
    store = await open_store(where)
    assert beside.left_open == ()
    assert [episode.session_id for episode in store.left_open] == ["session-1"]
    await store.aclose()


async def test_the_secret_of_a_record_stays(where):
    store = await open_store(where)
    beside = await open_store(where)
    secret = store.shared_secret
    await beside.aclose()
    await store.aclose()
    store = await open_store(where)
    await store.aclose()
    assert {beside.shared_secret, store.shared_secret} == {secret}
    assert len(secret) == 32


async def test_a_renewed_secret_is_that_of_every_store_of_the_record(where):
    store = await open_store(where)
    beside = await open_store(where)
    await store.renew_secret()
    secret = await store.read_secret()
    assert await beside.read_secret() == secret != store.shared_secret
    assert len(secret) == 32
    await beside.aclose()
    await store.aclose()
    store = await open_store(where)
    assert store.shared_secret == secret
    await store.aclose()


async def test_a_record_of_the_previous_schema_gets_incidents_and_a_secret(where):
    store = await open_store(where)
    origin = make_origin(1)
    await store.open(origin)
    await store.aclose()
    statements = (
        *FIGURES,
        "DROP TABLE incidents",
        "DROP TABLE shared_values",
        "UPDATE alembic_version SET version_num = '0004'",
    )
    if where.startswith("postgresql"):
        with psycopg.connect(where, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)
    else:
        database = sqlite3.connect(where)
        with database:
            for statement in statements:
                database.execute(statement)
        database.close()
    store = await open_store(where)
    try:
        incident = Incident(IncidentKind.REBUILT, MORNING, "rebuilt")
        await store.record_incident(origin.episode_id, incident)
        found = await store.find(origin.episode_id)
    finally:
        await store.aclose()
    assert found is not None
    assert found.incidents == (incident,)
    assert differences(where) == []


async def test_a_folder_in_which_nobody_can_make_a_claim_takes_up_nothing(tmp_path):
    path = tmp_path / "episodes.db"
    store = await open_store(str(path))
    await store.open(make_origin(1))
    await store.aclose()
    claim = tmp_path / "episodes.db.claim"
    claim.unlink()
    claim.mkdir()
    store = await open_store(str(path))
    assert store.left_open == ()
    await store.aclose()


def test_of_two_that_open_a_database_at_once_one_is_alone_first(postgres):
    where = postgres.create_database().replace("postgresql://", "postgresql+psycopg://")
    ready, found = Barrier(2), []
    with ExitStack() as stack:
        engines = [create_engine(where) for _ in range(2)]
        claims = [AdvisoryClaim(engine) for engine in engines]
        connections = [stack.enter_context(engine.connect()) for engine in engines]

        def claim(number):
            ready.wait()
            with claims[number].alone(connections[number]) as is_alone:
                found.append(is_alone)

        threads = [Thread(target=claim, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for engine in engines:
        engine.dispose()
    assert found[0] is True
