"""Several stores, several readers and several degrees of durability on one record."""

import sqlite3
import threading
from contextlib import suppress
from functools import partial

import anyio
import anyio.lowlevel
import psycopg
import pytest
from sqlalchemy.exc import DBAPIError, PendingRollbackError

from ors_server.model.errors import StoreError
from ors_server.model.trajectory import Transition
from ors_server.store.location import parse_location
from ors_server.store.open import open_store
from ors_server.store.sql.components import prepare
from ors_server.store.sql.database import WriteFailure
from ors_server.store.store_options import Durability, StoreOptions
from ors_server.testing.store_promises import MORNING, after, make_origin, make_step
from ors_server.testing.store_promises import play as play_whole

LIMIT = 30.0


async def crowd(store, numbers) -> None:
    async def one(number):
        await play_whole(store, make_origin(number), 10)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            for number in numbers:
                group.start_soon(one, number)


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
async def test_two_stores_write_one_record_at_once(backend, records, request):
    where = str(records.path)
    if backend == "postgres":
        where = request.getfixturevalue("postgres").create_database()
    one, other = await open_store(where), await open_store(where)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(crowd, one, range(10))
            group.start_soon(crowd, other, range(10, 20))
        for store in (one, other):
            totals = await store.totals()
            assert (totals.episodes, totals.steps, totals.by_phase) == (20, 200, {"finished": 20})
    finally:
        await one.aclose()
        await other.aclose()


async def test_an_episode_whose_server_died_is_readable_and_never_closed(records, play):
    dead = await records.open()
    origin = await play(dead, steps=2)
    dead.record_transition(origin.episode_id, Transition("event", "ready", None, MORNING), after(origin, 2))
    await dead.find(origin.episode_id)
    alive = await open_store(str(records.path))
    try:
        record = await alive.find(origin.episode_id)
        assert (record.is_closed, record.summary.steps, len(record.transitions)) == (False, 2, 1)
        await alive.append(origin.episode_id, make_step(3), partial(after, origin, 3))
        for event in ("one", "two"):
            alive.record_transition(
                origin.episode_id, Transition(event, "ready", None, MORNING), after(origin, 3)
            )
        await alive.close(origin.episode_id, after(origin, 3))
        for event in ("three", "four"):
            alive.record_transition(
                origin.episode_id, Transition(event, "ready", None, MORNING), after(origin, 3)
            )
        record = await alive.find(origin.episode_id)
        assert [move.event for move in record.transitions] == ["event", "one", "two", "three", "four"]
        with pytest.raises(StoreError, match="step 5 cannot follow step 3"):
            await alive.append(origin.episode_id, make_step(5), partial(after, origin, 5))
    finally:
        await alive.aclose()


async def test_readers_do_not_wait_for_a_writer_nor_a_writer_for_readers(records, play):
    store = await records.open(write_seconds=1.0)
    origin = await play(store)
    reading = sqlite3.connect(records.path, isolation_level=None)
    reading.execute("BEGIN")
    assert reading.execute("SELECT count(*) FROM steps").fetchone() == (1,)
    await store.append(origin.episode_id, make_step(2), partial(after, origin, 2))
    assert reading.execute("SELECT count(*) FROM steps").fetchone() == (1,)
    reading.close()
    writing = sqlite3.connect(records.path, isolation_level=None)
    writing.execute("BEGIN IMMEDIATE")
    with anyio.fail_after(LIMIT):
        assert len(await store.steps(origin.episode_id)) == 2
    writing.close()


async def test_what_is_queued_while_another_server_writes_goes_into_one_transaction(records, play):
    store = await records.open()
    origins = [await play(store, number, 0) for number in range(5)]
    begins, commits = records.database.begins, records.database.commits
    writing = sqlite3.connect(records.path, isolation_level=None)
    writing.execute("BEGIN IMMEDIATE")
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as group:
            first, *others = origins
            group.start_soon(store.append, first.episode_id, make_step(1), partial(after, first, 1))
            while records.database.begins == begins:
                await anyio.lowlevel.checkpoint()
            for origin in others:
                group.start_soon(store.append, origin.episode_id, make_step(1), partial(after, origin, 1))
            while store.backlog().entries < len(origins):
                await anyio.lowlevel.checkpoint()
            writing.close()
    assert records.database.commits == commits + 1
    assert records.rows("SELECT count(*) FROM steps") == [(5,)]


async def test_a_step_is_on_the_disk_when_its_append_returns(records, play):
    store = await records.open()
    assert records.database.commits == 0
    await play(store, steps=3)
    assert records.database.commits == 4
    assert records.rows("SELECT max(number) FROM steps") == [(3,)]


async def test_steps_that_are_written_together_need_the_summary_of_the_last_one(records, play):
    store = await records.open(durability=Durability.BATCH)
    origin = await play(store, steps=0)
    computed = []

    def summarise(number):
        computed.append(number)
        return after(origin, number)

    records.database.holding = threading.Event()
    with anyio.fail_after(LIMIT):
        for number in range(1, 101):
            await store.append(origin.episode_id, make_step(number), partial(summarise, number))
    records.database.holding.set()
    record = await store.find(origin.episode_id)
    assert record.summary == after(origin, 100)
    assert computed[-1] == 100
    assert len(computed) < 10


@pytest.mark.parametrize("durability", [Durability.BATCH, Durability.NONE])
async def test_a_batch_is_written_later_and_read_all_the_same(records, play, durability):
    store = await records.open(durability=durability)
    origin = await play(store, steps=0)
    records.database.holding = threading.Event()
    with anyio.fail_after(LIMIT):
        for number in range(1, 101):
            await store.append(origin.episode_id, make_step(number), partial(after, origin, number))
    assert records.rows("SELECT count(*) FROM steps") == [(0,)]
    records.database.holding.set()
    assert len(await store.steps(origin.episode_id)) == 100
    assert records.database.commits < 10
    await store.append(origin.episode_id, make_step(101), partial(after, origin, 101))
    await store.aclose()
    assert records.rows("SELECT count(*) FROM steps") == [(101,)]


async def test_a_batch_that_nobody_asks_for_is_written_by_itself(records, play):
    store = await records.open(durability=Durability.BATCH)
    origin = await play(store, steps=1)
    with anyio.fail_after(LIMIT):
        while records.rows("SELECT count(*) FROM steps") != [(1,)]:
            await anyio.lowlevel.checkpoint()
    assert (await store.find(origin.session_id)).summary.steps == 1


@pytest.mark.parametrize(
    ("durability", "synchronous"), [(Durability.STEP, 2), (Durability.BATCH, 2), (Durability.NONE, 1)]
)
async def test_sqlite_waits_for_the_disk_where_it_is_promised(records, durability, synchronous):
    await records.open(durability=durability)
    engine = records.database.writing_engine()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == synchronous
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    engine.dispose()


async def test_postgresql_ends_every_connection_and_the_store_goes_on(postgres):
    where = postgres.create_database()
    store = await open_store(where, StoreOptions(write_seconds=20.0, durability=Durability.NONE))
    origin = make_origin(1)
    try:
        with anyio.fail_after(LIMIT):
            await store.open(origin)
            for number in range(1, 4):
                with psycopg.connect(where, autocommit=True) as connection:
                    connection.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    )
                store.record_transition(
                    origin.episode_id, Transition("event", "ready", None, MORNING), after(origin, number)
                )
                await store.append(origin.episode_id, make_step(number), partial(after, origin, number))
                assert len(await store.steps(origin.episode_id)) == number
            assert len((await store.find(origin.episode_id)).transitions) == 3
    finally:
        await store.aclose()


async def test_a_statement_that_postgresql_does_not_answer_is_interrupted(postgres):
    prepared = prepare(parse_location(postgres.create_database()), StoreOptions(write_seconds=60.0))
    engine = prepared.database.writing_engine()
    try:
        with engine.connect() as connection:
            told: list[DBAPIError] = []
            asleep = threading.Thread(target=sleep, args=(connection, told))
            asleep.start()
            with anyio.fail_after(LIMIT):
                while not told:
                    with suppress(OSError, PendingRollbackError):  # it may have been aborted already
                        prepared.database.interrupt(connection)
                    await anyio.lowlevel.checkpoint()
            asleep.join(LIMIT)
            assert prepared.database.classify(told[0]) is WriteFailure.RETRY
    finally:
        engine.dispose()


def sleep(connection, told: list) -> None:
    try:
        connection.exec_driver_sql("SELECT pg_sleep(30)")
    except DBAPIError as error:
        told.append(error)


async def test_a_postgresql_that_hangs_is_given_up(postgres, monkeypatch):
    from ors_server.store.sql import write_queue  # noqa: PLC0415  (only this test changes its limits)

    monkeypatch.setattr(write_queue, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(write_queue, "GRACE_SECONDS", 0.1)
    where = postgres.create_database()
    store = await open_store(where, StoreOptions(write_seconds=1.0))
    origin = make_origin(1)
    await store.open(origin)
    try:
        with psycopg.connect(where) as connection:
            connection.execute("LOCK TABLE steps IN ACCESS EXCLUSIVE MODE")
            with anyio.fail_after(LIMIT), pytest.raises(StoreError):
                await store.append(origin.episode_id, make_step(1), partial(after, origin, 1))
        with anyio.fail_after(LIMIT):
            await store.append(origin.episode_id, make_step(1), partial(after, origin, 1))
        assert len(await store.steps(origin.episode_id)) == 1
    finally:
        await store.aclose()
