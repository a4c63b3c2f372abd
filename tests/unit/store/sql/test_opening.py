"""Opening a record: it is made, migrated or refused, however many open it at once."""

import importlib.util
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

import anyio
import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from ors_server.model.errors import SettingsError, StoreError
from ors_server.store.location import parse_location
from ors_server.store.memory import MemoryStore
from ors_server.store.open import open_reader, open_store
from ors_server.store.sql.components import make_components, prepare
from ors_server.store.sql.migrating import FOLDER, NEWEST, REVISIONS
from ors_server.store.sql.record_tables import metadata
from ors_server.store.sql.verification import verify
from ors_server.store.store_options import StoreOptions
from ors_server.testing.store_promises import after, make_origin, make_step
from tests.fixtures.older_records import FIGURES


def differences(where: str) -> list:
    prepared = prepare(parse_location(where))
    engine = prepared.database.writing_engine()
    try:
        with engine.connect() as connection:
            return compare_metadata(MigrationContext.configure(connection), metadata)
    finally:
        engine.dispose()


def make_first(where: str) -> None:
    """Makes the tables of the first version, as the first migration does."""
    engine = make_components(parse_location(where), StoreOptions()).database.writing_engine()
    try:
        with engine.begin() as connection:
            config = Config()
            config.set_main_option("script_location", str(FOLDER))
            config.attributes["connection"] = connection
            command.upgrade(config, REVISIONS[0])
    finally:
        engine.dispose()


def columns_and_indices(path) -> list:
    connection = sqlite3.connect(path)
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = [
        (name, question, sorted(row[1:] for row in connection.execute(f"PRAGMA {question}({name})")))
        for name in sorted(tables)
        for question in ("table_info", "index_list", "foreign_key_list")
    ]
    connection.close()
    return found


def test_an_empty_database_gets_the_tables_that_the_server_knows(tmp_path):
    assert differences(str(tmp_path / "record.db")) == []


def test_the_migrations_make_the_same_tables(tmp_path):
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    old.touch()
    make_first(str(old))
    assert differences(str(old)) == differences(str(new)) == []
    assert columns_and_indices(old) == columns_and_indices(new)


def test_empty_and_migrated_databases_have_the_same_tables_in_postgresql(postgres):
    old = postgres.create_database()
    make_first(old)
    assert differences(old) == differences(postgres.create_database()) == []


def test_the_server_knows_every_migration():
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    scripts = ScriptDirectory.from_config(config)
    assert [script.revision for script in scripts.walk_revisions()][::-1] == list(REVISIONS)
    assert scripts.get_heads() == [NEWEST]


async def test_a_store_in_memory_keeps_as_many_as_it_is_told():
    store = await open_store("memory", StoreOptions(retain_episodes=1))
    for number in (1, 2):
        origin = make_origin(number)
        await store.open(origin)
        await store.close(origin.episode_id, after(origin, 0))
    assert [record.origin.index for record in await store.page(_everything())] == [2]
    assert isinstance(await open_reader("memory"), MemoryStore)


def _everything():
    from ors_server.store.episode_filter import EpisodeFilter  # noqa: PLC0415  (beside its only use)

    return EpisodeFilter()


async def test_a_record_in_memory_loads_no_sql():
    code = (
        "import anyio, sys\n"
        "from ors_server.app import create_app\n"
        "from ors_server.store.open import open_store\n"
        "anyio.run(open_store, 'memory')\n"
        "print({'sqlalchemy', 'alembic', 'psycopg', 'pyarrow', 'openai'} & set(sys.modules))"
    )
    done = await anyio.run_process([sys.executable, "-c", code])
    assert done.stdout.decode().strip() == "set()"


async def test_a_record_is_its_owners_alone_in_a_folder_that_is_made_or_the_ways_out_are_named(tmp_path):
    path = tmp_path / "new" / "folder" / "record.db"
    store = await open_store(str(path))
    await store.aclose()
    assert path.stat().st_mode & 0o777 == 0o600
    reader = await open_reader(str(path))
    assert (await reader.totals()).episodes == 0
    await reader.aclose()
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"--store PATH.*--store memory"):
        await open_store(str(tmp_path / "file" / "record.db"))


@pytest.fixture
def connections(monkeypatch):
    made = []
    connect = sqlite3.connect

    def noted(*args, **kwargs):
        made.append(connect(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    return made


async def test_a_connection_that_cannot_be_used_is_closed(tmp_path, connections):
    path = tmp_path / "notes.txt"
    path.write_text("what I wanted to say " * 100)
    for opening, error in ((open_store, SettingsError), (open_reader, StoreError)):
        with pytest.raises(error, match="not a database"):
            await opening(str(path))
    assert connections
    for connection in connections:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("what I wanted to say " * 100)
    with pytest.raises(SettingsError, match=r"not a database.*--store PATH"):
        await open_store(str(path))
    with pytest.raises(StoreError, match="not a database"):
        await open_reader(str(path))
    assert path.read_text() == "what I wanted to say " * 100


async def test_reading_makes_nothing(tmp_path):
    with pytest.raises(SettingsError, match="there is no episode store"):
        await open_reader(str(tmp_path / "record.db"))
    assert list(tmp_path.iterdir()) == []
    sqlite3.connect(tmp_path / "empty.db").execute("CREATE TABLE other (x)").connection.close()
    with pytest.raises(SettingsError, match="there is no episode store"):
        await open_reader(str(tmp_path / "empty.db"))


def set_revision(path, revision) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    connection.close()


async def test_a_record_in_a_folder_that_only_others_may_write_is_read(records, play, monkeypatch):
    store = await records.open()
    origin = await play(store, steps=2)
    await store.aclose()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    before = sorted(records.folder.iterdir())
    reader = await open_reader(str(records.path))
    try:
        assert len(await reader.steps(origin.episode_id)) == 2
        assert sorted(records.folder.iterdir()) == before
    finally:
        await reader.aclose()


async def test_a_record_of_a_newer_server_is_refused(records):
    set_revision(records.path, "9999")
    for opening in (open_store, open_reader):
        with pytest.raises(SettingsError, match=r"a newer server wrote the episode store .*9999"):
            await opening(str(records.path))
    assert records.rows("SELECT version_num FROM alembic_version") == [("9999",)]


DIGESTED = ("episodes", "standings", "steps", "moves", "prompts")


def make_old(path) -> None:
    """Takes a record back to the first form, which knew nothing of blobs and digests."""
    connection = sqlite3.connect(path)
    with connection:
        for statement in (
            *FIGURES,
            "DROP TABLE blob_uses",
            "DROP TABLE blobs",
            "DROP TABLE incidents",
            "DROP TABLE shared_values",
            "ALTER TABLE steps DROP COLUMN blobs",
            "ALTER TABLE prompts DROP COLUMN blobs",
            "ALTER TABLE standings DROP COLUMN unjudged_steps",
            *(f"ALTER TABLE {table} DROP COLUMN digest" for table in DIGESTED),
        ):
            connection.execute(statement)
    connection.close()
    set_revision(path, "0001")


async def test_a_record_of_an_older_server_is_brought_forward_with_everything_in_it(records, play):
    store = await records.open()
    origin = await play(store, steps=3)
    store.record_prompt(origin.episode_id, make_step(1).blocks)
    before = (await store.find(origin.episode_id), await store.steps(origin.episode_id))
    await store.aclose()
    make_old(records.path)
    with pytest.raises(SettingsError, match=r"older schema 0001.*ors-server store migrate"):
        await open_reader(str(records.path))
    store = await open_store(str(records.path))
    try:
        assert (await store.find(origin.episode_id), await store.steps(origin.episode_id)) == before
        await store.append(origin.episode_id, make_step(4), partial(after, origin, 4))
        assert len(await store.steps(origin.episode_id)) == 4
    finally:
        await store.aclose()
    assert records.rows("SELECT version_num FROM alembic_version") == [(NEWEST,)]
    assert [length for (length,) in records.rows("SELECT length(digest) FROM steps ORDER BY number")] == [
        0,
        0,
        0,
        24,
    ]
    found = verify(parse_location(str(records.path))).findings
    assert not [finding for finding in found if "edited" in finding.text]


async def test_steps_that_an_older_server_left_unjudged_are_counted(records):
    store, origin = await records.open(), make_origin(1)
    await store.open(origin)
    statuses = ("error", "graded", "bad_gold", "unparsed_answer", ["error"], "limit")
    for number, status in enumerate(statuses, 1):
        step = make_step(number, metadata={"reward_status": status, "said": '"reward_status":"error"'})
        await store.append(origin.episode_id, step, partial(after, origin, number))
    await store.aclose()
    make_old(records.path)
    store = await open_store(str(records.path))
    try:
        record = await store.find(origin.episode_id)
        totals = await store.totals()
    finally:
        await store.aclose()
    assert (record.summary.unjudged_steps, totals.unjudged, totals.mean_return) == (3, 1, None)
    found = verify(parse_location(str(records.path))).findings
    assert not [finding for finding in found if "unjudged" in finding.text]


async def test_postgresql_counts_the_steps_that_a_server_of_the_previous_schema_left_unjudged(postgres):
    where, origin, judged = postgres.create_database(), make_origin(1), make_origin(2)
    store = await open_store(where)
    for episode, statuses in ((origin, ("error", "graded", "limit")), (judged, ("graded",))):
        await store.open(episode)
        for number, status in enumerate(statuses, 1):
            step = make_step(number, metadata={"reward_status": status, "said": "50 % of \U0001f600"})
            await store.append(episode.episode_id, step, partial(after, episode, number))
    await store.aclose()
    with psycopg.connect(where, autocommit=True) as connection:
        for statement in FIGURES:
            connection.execute(statement)
        connection.execute("ALTER TABLE standings DROP COLUMN unjudged_steps")
        connection.execute("DROP TABLE incidents, shared_values")
        connection.execute("UPDATE alembic_version SET version_num = '0003'")
    with pytest.raises(SettingsError, match=r"older schema 0003.*ors-server store migrate"):
        await open_reader(where)
    store = await open_store(where)
    try:
        records = [await store.find(episode.episode_id) for episode in (origin, judged)]
        totals = await store.totals()
        await store.append(judged.episode_id, make_step(2), partial(after, judged, 2))
    finally:
        await store.aclose()
    assert [record.summary.unjudged_steps for record in records] == [2, 0]
    assert totals.unjudged == 1
    assert differences(where) == []
    assert not [item for item in verify(parse_location(where)).findings if "unjudged" in item.text]


def open_all_at_once(where: str) -> None:
    with ThreadPoolExecutor(6) as pool:
        done = [pool.submit(prepare, parse_location(where)) for _ in range(6)]
    assert [future.exception() for future in done] == [None] * 6


def test_servers_that_start_at_once_migrate_a_file_one_after_another(tmp_path, template):
    shutil.copy(template, tmp_path / "old.db")
    make_old(tmp_path / "old.db")
    open_all_at_once(str(tmp_path / "old.db"))
    open_all_at_once(str(tmp_path / "fresh.db"))


def test_a_new_file_is_opened_once_another_server_has_written_to_it(tmp_path):
    path = tmp_path / "fresh.db"
    with sqlite3.connect(path, isolation_level=None) as other, ThreadPoolExecutor(1) as pool:
        other.execute("CREATE TABLE strange (x)")
        other.execute("BEGIN IMMEDIATE")
        opening = pool.submit(prepare, parse_location(str(path)))
        wait([opening], timeout=0.2)
        assert not opening.done()
        other.execute("COMMIT")
        assert opening.exception(timeout=60) is None
    other.close()


def test_servers_that_start_at_once_migrate_a_database_one_after_another(postgres):
    where = postgres.create_database()
    open_all_at_once(where)
    with psycopg.connect(where) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(NEWEST,)]


async def test_a_missing_driver_names_its_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"\[postgres\]"):
        await open_store("postgresql://host/db")


async def test_a_database_that_cannot_be_reached_is_told_without_its_password(postgres):
    wrong = postgres.create_database().replace("//ors:", "//ors:wrong")
    with pytest.raises(StoreError, match=r"ors:\*\*\*@.*password authentication failed") as refused:
        await open_store(wrong)
    assert "wrong" not in str(refused.value)
    with pytest.raises(StoreError, match=r"postgresql://me:\*\*\*@127\.0\.0\.1:1/db could not be opened"):
        await open_store("postgresql://me:pw@127.0.0.1:1/db")


def test_memory_has_no_parts():
    with pytest.raises(SettingsError, match="not a SQL database"):
        make_components(parse_location("memory"), StoreOptions())


async def test_a_record_that_another_process_writes_is_read_meanwhile(records, play):
    store = await records.open()
    origin = await play(store, steps=2)
    code = (
        "import anyio, json, sys\n"
        "from ors_server.store.open import open_reader\n"
        "async def main():\n"
        "    reader = await open_reader(sys.argv[1])\n"
        "    found = [(r.origin.episode_id, r.is_closed, len(s)) async for r, s in reader.stream()]\n"
        "    await reader.aclose()\n"
        "    print(json.dumps(found))\n"
        "anyio.run(main)"
    )
    done = await anyio.run_process([sys.executable, "-c", code, str(records.path)], stderr=subprocess.PIPE)
    assert json.loads(done.stdout) == [[origin.episode_id, False, 2]]
