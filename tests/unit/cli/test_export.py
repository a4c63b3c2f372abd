"""`export`, as a person or a script uses it."""

import json
import os
import subprocess
import sys

import anyio
import pyarrow.parquet  # type: ignore[import-untyped]  # pyarrow has no types
import pytest

from ors_server.model.errors import StoreError
from ors_server.store.episode_filter import ALL
from ors_server.store.memory import MemoryStore
from ors_server.store.open import open_store
from tests.fixtures.recorded_episodes import of_every_kind, write

LIMIT = 60


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """A record of episodes of every kind, in SQLite."""
    path = tmp_path_factory.mktemp("record") / "episodes.db"

    async def fill():
        store = await open_store(str(path))
        await write(store, of_every_kind())
        await store.aclose()

    anyio.run(fill)
    return str(path)


@pytest.fixture(autouse=True)
def chosen(record, monkeypatch):
    """The record is the one of the settings."""
    monkeypatch.setenv("ORS_STORE", record)


def rows_of(ran):
    assert ran.status == 0, ran.err
    return [json.loads(line) for line in ran.out.splitlines()]


def names_of(ran):
    return [row["episode"]["episode_id"].lstrip("0") for row in rows_of(ran)]


def test_lines_go_to_standard_output_and_the_count_to_standard_error(run, record, monkeypatch):
    monkeypatch.delenv("ORS_STORE")
    ran = run("export", "openai", "--store", record)
    assert len(rows_of(ran)) == 7
    assert ran.err == (
        "ors-server: 7 rows from 11 episodes, 13 steps; left out: 2 unfinished, "
        "1 without a prompt on record, 1 without a call\n"
    )


@pytest.mark.parametrize("name", ["openai", "sharegpt", "trl", "plain"])
def test_lines_go_to_a_file(run, tmp_path, name):
    ran = run("export", name, "-o", str(tmp_path / "out.jsonl"))
    assert (ran.status, ran.out) == (0, "")
    assert all(json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines())


@pytest.mark.parametrize(("name", "count"), [("verl", 7), ("episodes", 11), ("steps", 16)])
def test_a_table_goes_to_a_file(run, tmp_path, name, count):
    assert run("export", name, "--output", str(tmp_path / "out.parquet")).status == 0
    assert pyarrow.parquet.read_metadata(tmp_path / "out.parquet").num_rows == count


def test_a_table_does_not_go_to_standard_output(run):
    ran = run("export", "verl")
    assert ran.status == 2
    assert "name one with --output" in ran.err


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--environment", "others"), []),
        (("--label", "run=a"), ["shaky"]),
        (("--min-return", "1", "--max-return", "2"), ["good", "tied", "led"]),
        (("--since", "2026-11-01T12:05", "--until", "2026-11-01T13:06:00+01:00"), ["seen"]),
        (("--stop-reason", "step_limit"), ["shaky"]),
        (("--phase", "playing", "--include-unfinished"), ["going"]),
        (("--open", "--include-unfinished"), ["going"]),
        (("--session", "session-led"), ["led"]),
        (("--task-hash", "hash-[('x',1)]"), ["led"]),
        (("--credential", "k1"), []),
        (("--split", "train", "--index", "0", "--closed", "--max-return", "-0.1"), ["poor"]),
    ],
    ids=str,
)
def test_a_filter_says_which_episodes(run, words, found):
    assert names_of(run("export", "trl", *words)) == found


def test_only_calls_that_ran_can_be_marked(run):
    ran = run("export", "sharegpt", "--train", "ran", "--max-return", "-0.1", "--last-result")
    (row,) = rows_of(ran)
    assert [message["train"] for message in row["conversations"]] == [False, False, False, True, False]


def test_openai_can_say_the_episode_too(run):
    assert names_of(run("export", "openai", "--with-episode", "--label", "run=a")) == ["shaky"]


def test_preferences_are_pairs(run):
    (row,) = rows_of(run("export", "trl", "--preferences", "--pairs", "2", "--margin", "0.5"))
    assert (row["chosen_return"], row["rejected_return"]) == (1.0, -0.5)
    assert rows_of(run("export", "trl", "--preferences", "--margin", "1.5")) == []
    assert len(rows_of(run("export", "trl", "--preferences", "--group-label", "run"))) == 1


def test_verl_takes_names_and_the_answer(run, tmp_path):
    path = str(tmp_path / "out.parquet")
    words = ("--ground-truth", "answer", "--ability", "sums", "--data-source", "mine", "--label", "run=a")
    assert run("export", "verl", "-o", path, *words).status == 0
    (row,) = pyarrow.parquet.read_table(path).to_pylist()
    assert (row["data_source"], row["ability"]) == ("mine", "sums")
    assert row["reward_model"]["ground_truth"] == '["a", "b"]'


def test_tools_are_announced_from_environments_and_files(run, tmp_path, refenv):
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": [{"name": "add", "description": "Adds.", "input_schema": None}]}))
    ran = run("export", "openai", "--tools", str(path), "--tools", f"{refenv}:RefEnv")
    assert all(row["tools"][0]["function"]["name"] == "add" for row in rows_of(ran))
    assert "tools" not in rows_of(run("export", "openai", "--tools", f"{refenv}:RefEnv"))[0]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("csv",), "unknown format 'csv'"),
        (("openai", "--preferences"), "--preferences goes with trl"),
        (("trl", "--preferences", "--include-unfinished"), "--preferences goes with trl"),
        (("openai", "--train", "some"), "--train must be all or ran"),
        (("openai", "--label", "run"), "--label must be KEY=VALUE"),
        (("openai", "--since", "soon"), "a time must be ISO 8601"),
        (("openai", "--stop-reason", "bored"), "stop_reason: expected 'completed'"),
        (("openai", "--tools", "a.json", "--tools", "b.json"), "--tools takes one JSON file"),
        (("openai", "--tools", "missing.json"), "missing.json"),
    ],
)
def test_what_makes_no_sense_is_one_line(run, words, complaint):
    ran = run("export", *words)
    assert ran.status in {1, 2}
    first, *rest = ran.err.splitlines()
    assert complaint in first
    assert rest in ([], ["ors-server: Try ors-server export --help"])
    assert ran.out == ""


def test_a_record_in_memory_cannot_be_read(run, monkeypatch):
    monkeypatch.setenv("ORS_STORE", "memory")
    ran = run("export", "plain")
    assert ran.status == 2
    assert "give --store" in ran.err


def test_a_record_that_is_not_there_is_not_made(run, tmp_path):
    ran = run("export", "plain", "--store", str(tmp_path / "none.db"))
    assert ran.status == 2
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_leaves_early_is_no_error_of_ours(record):
    program = f"{sys.executable} -c 'from ors_server.cli.main import main; raise SystemExit(main())'"
    end, start = os.pipe()
    os.close(end)
    line = f"{program} export plain --store {record} >&{start}; echo $?"
    bash = ["/bin/bash", "-c", line]
    ran = subprocess.run(bash, pass_fds=[start], capture_output=True, text=True, check=True, timeout=LIMIT)
    os.close(start)
    assert (ran.stdout, ran.stderr) == ("141\n", "")


@pytest.mark.parametrize(
    ("error", "status"),
    [(StoreError("the database is gone"), 1), (KeyboardInterrupt(), 130)],
    ids=["store", "interrupt"],
)
@pytest.mark.parametrize("name", ["plain", "steps"])
def test_what_breaks_off_leaves_what_was_there(run, tmp_path, monkeypatch, name, error, status):
    class Breaking(MemoryStore):
        async def stream(self, wanted=ALL):
            for played in of_every_kind()[:3]:
                yield played.record, played.steps
            raise error

    async def open_reader(where):
        return Breaking()

    monkeypatch.setattr("ors_server.store.open.open_reader", open_reader)
    path = tmp_path / "out"
    path.write_text("before")
    ran = run("export", name, "-o", str(path))
    assert ran.status == status
    assert [(found, found.read_text()) for found in tmp_path.iterdir()] == [(path, "before")]
    assert ran.err == ("" if status == 130 else "ors-server: the database is gone\n")


def test_the_folder_of_the_output_is_made(run, tmp_path):
    output = tmp_path / "new" / "deeper" / "rows.jsonl"
    assert run("export", "trl", "-o", str(output)).status == 0
    assert output.read_text().count("\n") == 7


def test_a_folder_that_cannot_be_made_is_named(run, tmp_path):
    (tmp_path / "file").touch()
    ran = run("export", "trl", "-o", str(tmp_path / "file" / "rows.jsonl"))
    assert ran.status == 1
    assert f"cannot make the folder {tmp_path / 'file'}: " in ran.err


def test_viewers_get_folders_of_documents(run, tmp_path):
    ran = run("export", "atif", "-o", str(tmp_path / "trials"))
    assert (ran.status, ran.out) == (0, "")
    assert ran.err == "ors-server: 11 rows from 11 episodes, 16 steps\n"
    assert len(list(tmp_path.glob("trials/*/trajectory.json"))) == 11
    ran = run("export", "inspect", "-o", str(tmp_path / "logs"))
    assert ran.err == "ors-server: 11 rows from 11 episodes, 16 steps\n"
    logs = [json.loads(path.read_text()) for path in (tmp_path / "logs").iterdir()]
    assert sum(len(log["samples"]) for log in logs) == 11


@pytest.mark.parametrize("more", [(), ("-o", "logs", "--preferences")])
def test_a_folder_of_documents_needs_a_name_and_has_no_pairs(run, more, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = run("export", "inspect", *more)
    assert ran.status == 2
    assert "inspect is a folder of documents" in ran.err


def test_trajectories_are_read_into_a_store_once(run, tmp_path, record):
    run("export", "atif", "-o", str(tmp_path / "trials"))
    (tmp_path / "trials" / "new.json").write_text('{"schema_version": "ATIF-v2.0"}')
    into = str(tmp_path / "imported.db")
    ran = run("import", "atif", str(tmp_path / "trials"), "--store", into)
    assert ran.status == 1
    assert ran.out == "10 episodes stored; 1 skipped, which the store has or which had not ended\n"
    assert "ATIF-v2.0" in ran.err
    assert "new.json" in ran.err
    again = run("import", "atif", str(tmp_path / "trials"), "--store", into, "--json")
    assert (again.json["stored"], again.json["skipped"]) == (0, 11)
    names = [
        row["record"]["origin"]["episode_id"] for row in rows_of(run("export", "plain", "--store", into))
    ]
    originals = rows_of(run("export", "plain", "--store", record))
    same = [row for row in originals if row["record"]["origin"]["episode_id"] in names]
    assert rows_of(run("export", "plain", "--store", into)) == same
    assert run("store", "verify", "--store", into).status == run("store", "verify", "--store", record).status


def test_an_import_of_trajectories_names_files(run):
    ran = run("import", "atif")
    assert ran.status == 2
    assert "name the files or folders" in ran.err
