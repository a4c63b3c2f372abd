"""`ors-server store`, and how `serve` opens and names the record."""

import json
import shutil
import signal
import sqlite3
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import anyio
import pytest

from ors_server.cli.main import main
from ors_server.model.trajectory import Transition
from ors_server.model.wire import TextBlock
from ors_server.store.open import open_store
from ors_server.store.store_options import StoreOptions
from ors_server.testing.local_client import open_environment
from ors_server.testing.store_promises import after, make_origin, make_step
from tests.fixtures.older_records import FIGURES

LONG = TextBlock(text="long " * 500)


async def write(path: Path) -> None:
    store = await open_store(str(path), StoreOptions(blob_bytes=1024))
    for number in range(4):
        origin = make_origin(number, episode_id=f"{number:032x}")
        await store.open(origin)
        times = {"started_at": origin.created_at}
        ready = Transition("setup_done", "ready", None, origin.created_at)
        store.record_transition(origin.episode_id, ready, after(origin, 0, phase="ready", **times))
        store.record_prompt(origin.episode_id, (LONG, TextBlock(text=str(number))))
        for step in (1, 2, 3):
            began = origin.created_at + timedelta(seconds=step)
            figures = after(origin, step, **times, last_call_at=began + timedelta(seconds=0.25))
            await store.append(
                origin.episode_id,
                make_step(step, blocks=(LONG,), started_at=began),
                partial(replace, figures),
            )
            if step == 1:
                store.record_transition(
                    origin.episode_id, Transition("step", "playing", None, began), figures
                )
        if number:
            last = replace(figures, phase="deleted", stop_reason="deleted", finished_at=began)
            store.record_transition(
                origin.episode_id, Transition("delete", "deleted", "deleted", began), last
            )
            await store.close(origin.episode_id, last)
    await store.aclose()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("record") / "episodes.db"
    anyio.run(write, path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path


@pytest.fixture
def record(written: Path, tmp_path: Path) -> Path:
    path = tmp_path / "episodes.db"
    shutil.copy(written, path)
    shutil.copytree(f"{written}.blobs", f"{path}.blobs")
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    def act(*words: str, status: int = 0) -> str:
        assert main(["store", *words]) == status
        said = capsys.readouterr()
        return said.out if status == 0 or said.out else said.err

    return act


OVER = ('"finished":false', '"finished":true')


def swapped(old: str, new: str, number: int | None = None) -> str:
    """The statement that replaces a text in the steps of the second episode, or in one of them."""
    which = "" if number is None else f" AND number = {number}"
    return f"UPDATE steps SET body = replace(body, '{old}', '{new}') WHERE episode = 2{which}"  # noqa: S608


def harm(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_stats_count_everything(record, run):
    said = json.loads(run("stats", "--store", str(record), "--json"))
    counted = {name: said[name] for name in ("episodes", "open_episodes", "steps", "blobs", "blob_bytes")}
    assert counted == {"episodes": 4, "open_episodes": 1, "steps": 12, "blobs": 1, "blob_bytes": 2500}
    assert said["oldest"] == "2026-03-01T08:00:00+00:00"
    assert said["newest"] == "2026-03-01T08:03:00.000003+00:00"
    assert said["database_bytes"] >= record.stat().st_size
    lines = run("stats", "--store", str(record)).splitlines()
    assert "episodes        4" in lines
    assert f"place           {record}" in lines


def test_stats_of_an_empty_record(tmp_path, run):
    async def make() -> None:
        await (await open_store(str(tmp_path / "empty.db"))).aclose()

    anyio.run(make)
    assert "oldest          -" in run("stats", "--store", str(tmp_path / "empty.db")).splitlines()


def test_a_sound_record_is_called_sound(record, run):
    assert run("verify", "--store", str(record)) == "4 episodes, 12 steps, 1 blobs: sound\n"
    assert json.loads(run("verify", "--store", str(record), "--json"))["sound"] is True


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("DELETE FROM steps WHERE episode = 2 AND number = 2", "step 3 is at the position of step 2"),
        ("DELETE FROM steps WHERE episode = 2 AND number = 3", "states 3 steps, the store has 2"),
        (swapped('"reward":0.1', '"reward":5.0', 1), "rewards add up to 5.1999"),
        ("UPDATE steps SET reward = 5 WHERE episode = 2 AND number = 1", "columns differ from its body"),
        ("UPDATE steps SET body = '{}' WHERE episode = 2 AND number = 1", "step 1: invalid step"),
        ("UPDATE standings SET steps = 9 WHERE episode = 2", "the columns steps of its summary differ"),
        ("UPDATE standings SET body = 'x' WHERE episode = 2", "invalid summary of an episode"),
        ("UPDATE episodes SET body = '[]' WHERE key = 2", "invalid origin of an episode"),
        ("DELETE FROM standings WHERE episode = 2", "its summary is missing"),
        ("DELETE FROM blob_uses WHERE episode = 2", "is not listed for the episode"),
        ("UPDATE prompts SET body = '7' WHERE episode = 2", "the prompt: invalid list of blocks"),
        ("DELETE FROM episodes WHERE key = 2", "refers to a missing row of episodes"),
        (
            "UPDATE standings SET phase = 'finished' WHERE episode = 2",
            "the columns phase of its summary differ",
        ),
        (
            "UPDATE standings SET stop_reason = 'completed' WHERE episode = 2",
            "the columns stop_reason of its summary differ",
        ),
        ("UPDATE episodes SET task_hash = 'x' WHERE key = 2", "the columns task_hash differ"),
        ("UPDATE episodes SET task_index = 9 WHERE key = 2", "the columns task_index differ"),
        (
            "UPDATE episodes SET body = replace(body, '\"size\":1', '\"size\":7') WHERE key = 2",
            "the task does not match its hash",
        ),
        (swapped('"tool":0.3', '"tool":0.4'), "its components add up to"),
        (swapped(*OVER, 2), "step 3 follows one that ended the episode"),
        (swapped(*OVER, 3), "the last step ended the episode, and the summary has another stop reason"),
        (
            (
                "UPDATE standings SET stop_reason = 'completed', "
                'body = replace(body, \'"stop_reason":"deleted"\', \'"stop_reason":"completed"\') '
                "WHERE episode = 2"
            ),
            "its last step does not",
        ),
    ],
    ids=[
        *("gap", "last-step-gone", "sum", "columns", "body", "figures", "summary", "origin", "no-figures"),
        *("blob-not-held", "prompt", "orphans", "phase", "stop-reason", "hash-column", "index-column"),
        *("task", "components", "steps-after-end", "end-not-summarised", "finished-removed"),
    ],
)
def test_what_does_not_agree_is_found(record, run, statement, finding):
    harm(record, statement)
    assert finding in run("verify", "--store", str(record), status=1)
    said = json.loads(run("verify", "--store", str(record), "--json", status=1))
    assert any(finding in found["text"] for found in said["findings"])
    assert said["sound"] is False


def test_a_blob_that_is_gone_or_damaged_is_found(record, run):
    (blob,) = [path for path in Path(f"{record}.blobs").rglob("*") if path.is_file()]
    blob.write_text("other")
    assert f"the blob {blob.name} is damaged" in run("verify", "--store", str(record), status=1)
    blob.unlink()
    assert f"the blob {blob.name} is missing" in run("verify", "--store", str(record), status=1)


def test_a_damaged_file_is_found_or_refused(record, run):
    data = bytearray(record.read_bytes())
    for page in range(4, len(data) // 4096):
        data[page * 4096 : page * 4096 + 100] = b"\xff" * 100
    record.write_bytes(bytes(data))
    assert "malformed" in run("verify", "--store", str(record), status=1)


def test_pruning_keeps_what_it_is_told_to_keep(record, run):
    pruned = run("prune", "--store", str(record), "--retain-episodes", "1")
    assert pruned == "2 episodes and 0 blobs removed\n"
    said = json.loads(run("prune", "--store", str(record), "--retain-episodes", "0", "--json"))
    assert said == {"episodes": 1, "blobs": 0}
    assert json.loads(run("stats", "--store", str(record), "--json"))["episodes"] == 1
    run("verify", "--store", str(record))
    assert "nothing to prune by" in run("prune", "--store", str(record), status=2)


def test_pruning_takes_the_settings_word(record, run, monkeypatch):
    monkeypatch.setenv("ORS_STORE", str(record))
    monkeypatch.setenv("ORS_RETAIN_EPISODES", "2")
    assert run("prune") == "1 episodes and 0 blobs removed\n"


def test_packing_gives_room_back(record, run):
    run("prune", "--store", str(record), "--retain-episodes", "0")
    stray = Path(f"{record}.blobs") / "00" / ("0" * 64)
    stray.parent.mkdir()
    stray.write_text("x" * 500)
    assert json.loads(run("vacuum", "--store", str(record), "--json"))["bytes"] >= 500
    assert run("vacuum", "--store", str(record)) == "0 bytes freed\n"
    run("verify", "--store", str(record))


def test_migrating_says_what_it_did(record, run):
    assert run("migrate", "--store", str(record)) == "nothing to do: the store has schema 0011\n"
    harm(
        record,
        *FIGURES,
        "DROP TABLE blob_uses",
        "DROP TABLE blobs",
        "DROP TABLE incidents",
        "DROP TABLE shared_values",
        "ALTER TABLE steps DROP COLUMN blobs",
        "ALTER TABLE prompts DROP COLUMN blobs",
        "ALTER TABLE standings DROP COLUMN unjudged_steps",
        *(
            f"ALTER TABLE {table} DROP COLUMN digest"
            for table in ("episodes", "standings", "steps", "moves", "prompts")
        ),
        "UPDATE alembic_version SET version_num = '0001'",
    )
    assert "store migrate" in run("verify", "--store", str(record), status=2)
    assert run("migrate", "--store", str(record)) == "migrated from schema 0001 to 0011\n"
    assert json.loads(run("migrate", "--store", str(record), "--json")) == {"before": "0011", "after": "0011"}


def test_every_command_works_on_postgresql(postgres, run):
    where = postgres.create_database()
    assert "there is no episode store" in run("stats", "--store", where, status=2)
    assert run("migrate", "--store", where) == "migrated from schema none to 0011\n"
    anyio.run(write, where)
    password = where.partition("ors:")[2].partition("@")[0]
    said = run("stats", "--store", where)
    assert "steps           12" in said.splitlines()
    assert password not in said
    assert run("verify", "--store", where) == "4 episodes, 12 steps, 1 blobs: sound\n"
    assert run("prune", "--store", where, "--retain-days", "0") == "4 episodes and 1 blobs removed\n"
    assert "bytes freed" in run("vacuum", "--store", where)


@pytest.mark.parametrize("command", ["stats", "vacuum", "migrate", "verify"])
def test_a_record_that_is_not_there_is_said_and_not_made(tmp_path, run, command):
    assert "there is no episode store in" in run(command, "--store", str(tmp_path / "x.db"), status=2)
    assert list(tmp_path.iterdir()) == []
    assert "ends with its server" in run(command, status=2)


def test_a_server_says_where_its_record_is_and_keeps_it(serve, tmp_path, refenv, run):
    path = tmp_path / "data" / "episodes.db"
    server = serve(f"{refenv}:RefEnv", "--store", str(path))
    assert server.ready["record"] == str(path)
    server.stop(with_signal=signal.SIGTERM)
    assert json.loads(run("stats", "--store", str(path), "--json"))["episodes"] == 0


def test_a_server_whose_record_cannot_be_kept_says_what_to_do(tmp_path, refenv, capsys):
    (tmp_path / "file").write_text("")
    words = ["serve", f"{refenv}:RefEnv", "--port", "0", "--store", str(tmp_path / "file" / "x.db")]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "--store PATH" in said
    assert "--store memory" in said
    assert "Traceback" not in said


async def play_whole(path: Path) -> None:
    store = await open_store(str(path))
    async with open_environment("math_word_problems", store=store) as client:
        for finishes in (True, False):
            session = await client.create(split="train", index=0)
            await session.prompt()
            if finishes:
                await session.call("submit", answer="7")
            await session.aclose()


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        (None, "sound"),
        ("DELETE FROM moves WHERE position = 1", "transition 1 is missing"),
        ("DELETE FROM moves WHERE position = 0", "transition 0 is missing"),
        (
            (
                "DELETE FROM moves WHERE (episode, position) IN "
                "(SELECT episode, max(position) FROM moves GROUP BY 1)"
            ),
            "its transitions lead to",
        ),
        ("UPDATE moves SET body = '{}' WHERE position = 1", "transition 1: invalid transition"),
    ],
    ids=["sound", "one", "first", "last", "body"],
)
def test_transitions_that_are_missing_are_found(tmp_path, run, statement, finding):
    path = tmp_path / "episodes.db"
    anyio.run(play_whole, path)
    if statement is not None:
        harm(path, statement)
    assert finding in run("verify", "--store", str(path), status=0 if statement is None else 1)
