"""The files of indices in the user's cache: how long they are kept, and what the log says meanwhile."""

import csv
import gzip
import io
import json
import logging
import os

import pytest

from ors_server.environments.declared.row_faults import first_repeated
from ors_server.environments.declared.rows import row_index
from ors_server.environments.declared.rows.row_index import MAX_UNUSED_DAYS
from ors_server.environments.loading import load_environments
from ors_server.model.clock import SystemClock
from ors_server.model.errors import EnvironmentDefinitionError, EnvironmentFailedError
from tests.fixtures.ordinary_cases import cover_both

KEYS = {"data": "train.jsonl", "prompt": "question", "answer": "answer", "reward": "math_equal_reward"}
READERS = """
import os
from pathlib import Path

def pay(final_response, answer):
    with Path(__file__).with_name("readers").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    return 1.0
"""
LONG_AGO = SystemClock().now().timestamp() - (MAX_UNUSED_DAYS + 1) * 86_400


def load(write, tmp_path, rows):
    write("environment.toml", "".join(f"{key} = {json.dumps(value)}\n" for key, value in KEYS.items()))
    write("train.jsonl", [{"question": f"What is {n}?", "answer": n} for n in range(rows)])
    (definition,) = load_environments([str(tmp_path)])
    return definition


def files_of(cache):
    return {path.name for path in (cache / "ors-server" / "rows").iterdir()}


def age(cache):
    for path in (cache / "ors-server" / "rows").iterdir():
        os.utime(path, (LONG_AGO, LONG_AGO))


async def test_an_index_that_nobody_used_for_long_is_deleted_when_another_is_made(write, tmp_path, own_cache):
    load(write, tmp_path, 3)
    old = files_of(own_cache)
    (own_cache / "ors-server" / "rows" / ".killed.1.rows").touch()
    age(own_cache)
    definition = load(write, tmp_path, 4)
    left = files_of(own_cache)
    assert ".killed.1.rows" not in left
    assert {name for name in old if not name.endswith(".json")} & left == set()
    assert len(left) == len(old)
    assert await definition.tasks.num_tasks("train") == 4


async def test_an_index_in_use_is_kept(write, tmp_path, own_cache):
    load(write, tmp_path, 3)
    old = files_of(own_cache)
    age(own_cache)
    load(write, tmp_path, 3)
    definition = load(write, tmp_path, 4)
    assert old <= files_of(own_cache)
    assert await definition.tasks.num_tasks("train") == 4


def test_the_log_says_how_far_the_making_is(write, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(row_index, "ROWS_A_MESSAGE", 2)
    with caplog.at_level(logging.INFO, logger="ors_server"):
        load(write, tmp_path, 5)
    said = [record.getMessage() for record in caplog.records if "rows_indexed" in record.getMessage()]
    assert len(said) == 2
    assert "4" in said[-1]


def rows_folder(cache):
    return cache / "ors-server" / "rows"


def load_gzipped(write, tmp_path, content):
    keys = {**KEYS, "data": "train.jsonl.gz"}
    write("environment.toml", "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))
    (tmp_path / "train.jsonl.gz").write_bytes(gzip.compress(content))
    (definition,) = load_environments([str(tmp_path)])
    return definition


def questions(count):
    return b"".join(b'{"question": "What is %d?", "answer": %d}\n' % (n, n) for n in range(count))


def damage_middle(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:40])


def enlarge(path):
    path.write_bytes(b"\xff" * path.stat().st_size)


@pytest.mark.parametrize(
    ("kind", "damage"),
    cover_both(2, ["spans", "rows"], [damage_middle, cut, enlarge, os.unlink]),
    ids=lambda it: getattr(it, "__name__", it),
)
async def test_a_damaged_index_is_made_again(write, tmp_path, own_cache, damage, kind, caplog):
    definition = load_gzipped(write, tmp_path, questions(50))
    (path,) = rows_folder(own_cache).glob(f"*.{kind}")
    damage(path)
    tasks = [await definition.tasks.get_task("train", number) for number in range(50)]
    assert [task["question"] for task in tasks] == [f"What is {number}?" for number in range(50)]
    assert "rows_index_damaged" in caplog.text


async def test_a_server_makes_a_damaged_index_again_in_another_process(write, tmp_path, own_cache):
    write("rewards.py", READERS)
    keys = {**KEYS, "reward": "rewards.py:pay"}
    write("environment.toml", "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))
    write("train.jsonl", questions(3))
    (definition,) = load_environments([str(tmp_path)])
    (path,) = rows_folder(own_cache).glob("*.spans")
    path.unlink()
    assert (await definition.tasks.get_task("train", 1))["question"] == "What is 1?"
    first, *others = dict.fromkeys((tmp_path / "readers").read_text().split())  # one line for each answer
    assert first == str(os.getpid())
    assert len(others) == 1
    assert first not in others


@pytest.mark.parametrize("damage", [damage_middle, enlarge, os.unlink], ids=lambda it: it.__name__)
async def test_a_damaged_index_of_rows_that_are_read_in_place_is_made_again(
    write, tmp_path, own_cache, damage
):
    definition = load(write, tmp_path, 50)
    (path,) = rows_folder(own_cache).glob("*.spans")
    damage(path)
    tasks = [await definition.tasks.get_task("train", number) for number in range(50)]
    assert [task["question"] for task in tasks] == [f"What is {number}?" for number in range(50)]


async def test_a_damaged_index_of_data_that_changed_is_not_made_again(write, tmp_path, own_cache):
    definition = load_gzipped(write, tmp_path, questions(50))
    (path,) = rows_folder(own_cache).glob("*.rows")
    damage_middle(path)
    (tmp_path / "train.jsonl.gz").write_bytes(gzip.compress(questions(51)))

    async def read_all():
        for number in range(50):
            await definition.tasks.get_task("train", number)

    with pytest.raises(EnvironmentFailedError, match="changed since"):
        await read_all()


def test_only_the_owner_reads_the_files_of_an_index(write, tmp_path, own_cache):
    load_gzipped(write, tmp_path, questions(3))
    load(write, tmp_path, 3)
    folder = rows_folder(own_cache)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert len(list(folder.iterdir())) == 6


@pytest.mark.parametrize(
    "line", [b" " * 1_000 + b"\n", b'{"question": "' + b"q" * 1_000 + b'", "answer": 1}\n']
)
def test_packed_data_that_grows_beyond_all_measure_is_refused(write, tmp_path, own_cache, monkeypatch, line):
    monkeypatch.setattr("ors_server.environments.declared.rows.row_source.ALWAYS_UNPACKED", 100_000)
    with pytest.raises(EnvironmentDefinitionError, match="100 times the size of the file"):
        load_gzipped(write, tmp_path, line * 20_000)
    assert sum(path.stat().st_size for path in own_cache.rglob("*") if path.is_file()) < 5_000_000


class CountedName(str):
    """A name that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        CountedName.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_repeated_name_is_found_in_linear_time():
    names = [CountedName(f"column {number}") for number in range(3_000)]
    assert first_repeated(names) is None
    assert first_repeated([*names, CountedName("column 7"), CountedName("column 3")]) == "column 3"
    assert CountedName.compared < 30_000


def test_a_wide_header_is_shown_in_short(write, tmp_path, own_cache):
    keys = {**KEYS, "data": "train.csv"}
    write("environment.toml", "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))
    with (tmp_path / "train.csv").open("w") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "answer", *(f"column {number}" for number in range(20_000))])
        writer.writerows([["What is 1?", "1"]] * 30)
    with pytest.raises(EnvironmentDefinitionError) as refused:
        load_environments([str(tmp_path)])
    assert "20002 values (question, answer, column 0" in str(refused.value)
    assert len(str(refused.value)) < 2_000


def test_a_line_of_names_has_a_bound(write, tmp_path, own_cache):
    keys = {**KEYS, "data": "train.csv"}
    write("environment.toml", "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))
    names = ["question", "answer", *(f"column {number}" for number in range(100_000))]
    (tmp_path / "train.csv").write_text(",".join(names) + "\n")
    with pytest.raises(EnvironmentDefinitionError, match=r"line 1.*a line of at most 1,048,576 bytes"):
        load_environments([str(tmp_path)])


def lines_of(rows):
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def separated(separator):
    def write_rows(rows):
        text = io.StringIO()
        writer = csv.DictWriter(text, rows[0], delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()

    return write_rows


def parquet_of(rows):
    pyarrow = pytest.importorskip("pyarrow")
    stream = io.BytesIO()
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), stream)
    return stream.getvalue()


WRITERS = {
    "jsonl": lines_of,
    "ndjson": lines_of,
    "jsonl.gz": lambda rows: gzip.compress(lines_of(rows)),
    "json": lambda rows: json.dumps(rows).encode(),
    "csv": separated(","),
    "tsv": separated("\t"),
    "parquet": parquet_of,
}


def load_written(write, tmp_path, ending, content):
    keys = {**KEYS, "data": f"train.{ending}", "reward": "exact_match_reward"}
    write("environment.toml", "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))
    (tmp_path / f"train.{ending}").write_bytes(content)
    return load_environments([str(tmp_path)])


@pytest.mark.parametrize("ending", WRITERS)
def test_a_row_of_too_many_values_is_refused(write, tmp_path, own_cache, ending):
    rows = [
        {"question": "What is 1?", "answer": "1", **{f"c{number}": "1" for number in range(count)}}
        for count in (3, 3)
    ]
    assert load_written(write, tmp_path, ending, WRITERS[ending](rows))
    rows = [{**row, **{f"c{number}": "1" for number in range(26_000)}} for row in rows]
    with pytest.raises(
        EnvironmentDefinitionError, match="a row of 50,000 values, keys and containers at most"
    ):
        load_written(write, tmp_path, ending, WRITERS[ending](rows))


@pytest.mark.parametrize("ending", WRITERS)
def test_a_row_of_too_many_bytes_is_refused(write, tmp_path, own_cache, ending):
    line = "words of a line " * 16 + "\n"
    text = line * (9 * 2**20 // len(line))
    rows = [{"question": text, "answer": "1", "more": text}]
    with pytest.raises(EnvironmentDefinitionError, match="a row of 16,777,216 bytes at most"):
        load_written(write, tmp_path, ending, WRITERS[ending](rows))
