"""The files of indices in the user's cache: how long they are kept, and what the log says meanwhile."""

import json
import logging
import os

from ors_server.authoring.declared.rows import row_index
from ors_server.authoring.declared.rows.row_index import KEPT_DAYS
from ors_server.authoring.loading import load_environments
from ors_server.clock import SystemClock

KEYS = {"data": "train.jsonl", "prompt": "question", "answer": "answer", "reward": "math_equal_reward"}
LONG_AGO = SystemClock().now().timestamp() - (KEPT_DAYS + 1) * 86_400


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
