"""Files: whole or not at all, and parquet by groups of rows."""

import io
import os
import sys
import threading

import pyarrow.parquet  # type: ignore[import-untyped]  # pyarrow has no types
import pytest

from ors_server.export import tables
from ors_server.export.episodes import ExportCounts
from ors_server.export.formats import export_rows, make_format
from ors_server.export.tables import EPISODES, STEPS, VERL, ExtraMissingError, TableWriter, weigh
from ors_server.export.writing import write_lines, write_table
from ors_server.files.atomic_file import atomic_file
from ors_server.store.memory import MemoryStore
from tests.fixtures.recorded_episodes import of_every_kind, write

COLUMNS = {"verl": VERL, "episodes": EPISODES, "steps": STEPS}


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path):
    path = tmp_path / "out.jsonl"
    with atomic_file(path) as sink:
        sink.write(b"one\n")
        assert not path.exists()
        assert len(list(tmp_path.iterdir())) == 1
    assert path.read_bytes() == b"one\n"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_interrupted_leaves_what_was_there(tmp_path):
    path = tmp_path / "out.jsonl"
    path.write_text("before")

    def interrupted():
        with atomic_file(path) as sink:
            sink.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [(found, found.read_text()) for found in tmp_path.iterdir()] == [(path, "before")]


def test_a_link_is_followed(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("")
    link.symlink_to(target)
    with atomic_file(link) as sink:
        sink.write(b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_file_has_the_rights_of_any_other(tmp_path):
    before = os.umask(0o027)
    try:
        with atomic_file(tmp_path / "out"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640


def test_a_pipe_is_written_to_as_it_is(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()))
    reader.start()
    with atomic_file(pipe) as sink:
        sink.write(b"through")
    reader.join(10)
    assert heard == [b"through"]
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_file(tmp_path / "no" / "out"):
        pass


async def table_of(name):
    store = MemoryStore()
    await write(store, of_every_kind())
    sink = io.BytesIO()
    await write_table(export_rows(store.stream(), make_format(name), ExportCounts()), sink, COLUMNS[name])
    return pyarrow.parquet.ParquetFile(sink)


@pytest.mark.parametrize(("name", "count"), [("verl", 7), ("episodes", 11), ("steps", 16)])
async def test_every_column_and_every_row_is_in_the_table(name, count):
    table = (await table_of(name)).read()
    assert table.column_names == list(COLUMNS[name])
    assert table.num_rows == count


async def test_every_value_of_a_row_has_its_column():
    store = MemoryStore()
    await write(store, of_every_kind())
    for name, columns in COLUMNS.items():
        async for row in export_rows(store.stream(), make_format(name), ExportCounts()):
            assert set(row) == set(columns)


async def test_null_stays_null_in_a_table():
    rows = (await table_of("verl")).read(["extra_info", "reward", "rewards", "reward_model"]).to_pylist()
    (unjudged,) = [row for row in rows if row["extra_info"]["episode_id"].endswith("unjudged")]
    assert (unjudged["reward"], unjudged["rewards"]) == (None, [None])
    assert unjudged["reward_model"] == {"style": "rule", "ground_truth": None}


@pytest.mark.parametrize(("limit", "value"), [("ROWS", 2), ("WEIGHT", 10)], ids=["by-rows", "by-weight"])
def test_rows_are_written_by_groups(monkeypatch, limit, value):
    monkeypatch.setattr(tables, limit, value)
    sink = io.BytesIO()
    with TableWriter(sink, {"text": "text", "time": "time"}) as table:
        for _ in range(5):
            table.write({"text": "five5"})
    file = pyarrow.parquet.ParquetFile(sink)
    assert file.metadata.num_rows == 5
    assert file.num_row_groups == 3
    assert file.read().to_pylist()[0] == {"text": "five5", "time": None}


def test_an_empty_table_is_a_table():
    sink = io.BytesIO()
    with TableWriter(sink, STEPS):
        pass
    assert pyarrow.parquet.read_table(sink).num_rows == 0


def test_rows_are_not_written_after_an_error():
    sink = io.BytesIO()

    def broken():
        with TableWriter(sink, {"text": "text"}) as table:
            table.write({"text": "a"})
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        broken()
    assert pyarrow.parquet.read_table(sink).num_rows == 0


def test_what_is_missing_without_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ExtraMissingError, match=r"\[export\]"):
        TableWriter(io.BytesIO(), STEPS)


def test_a_row_weighs_what_its_texts_do():
    assert weigh({"a": "four", "b": ["xx", {"c": "y"}], "d": None}) == 4 + 2 + 1 + 8


async def test_lines_are_written_as_they_come():
    store = MemoryStore()
    await write(store, of_every_kind())
    sink = io.BytesIO()
    await write_lines(export_rows(store.stream(), make_format("plain"), ExportCounts()), sink)
    assert sink.getvalue().count(b"\n") == 11
