"""A declared environment over a million rows: memory, the processor's time of a start, and tasks by index.

`ORS_DECLARED_ROWS=50000` takes fewer rows.
"""

import json
import os
import subprocess
import sys

import pytest

ROWS = int(os.environ.get("ORS_DECLARED_ROWS", "1000000"))
pytestmark = [pytest.mark.stress, pytest.mark.timeout(3600)]

MAX_MEMORY = 64 << 20
MAX_SECONDS = 1.0
"""Of the processor, for a start once the rows are indexed."""
MAX_TASK_SECONDS = 0.001
PROGRAM = """
import json, resource, sys, time
from ors_server.environments.loading import load_environments
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
before = resident()
begin = time.process_time()
(definition,) = load_environments([sys.argv[1]])
start = time.process_time() - begin
cls, count = definition.source, definition.source.num_tasks("train")
cls.get_task("train", 0)
indices = [number * 7919 % count for number in range(2000)]
begin = time.process_time()
tasks = [cls.get_task("train", index)["answer"] for index in indices]
spent = (time.process_time() - begin) / len(indices)
assert tasks == indices
print(json.dumps({"start": start, "task": spent, "memory": resident() - before, "rows": count}))
"""


def test_a_million_rows_are_served_from_their_index(tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    with (folder / "train.jsonl").open("w") as file:
        for number in range(ROWS):
            row = {"question": f"Which number follows {number - 1}? " + "x" * 80, "answer": number}
            file.write(json.dumps(row) + "\n")
    keys = (
        'data = "train.jsonl"\nprompt = "{{ question }}"\nanswer = "answer"\nreward = "math_equal_reward"\n'
    )
    (folder / "environment.toml").write_text(keys)
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    figures = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(folder)],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        figures.append(json.loads(done.stdout))
    later = figures[1]
    assert later["rows"] == ROWS
    assert later["start"] <= MAX_SECONDS, figures
    assert later["task"] <= MAX_TASK_SECONDS, figures
    assert max(each["memory"] for each in figures) <= MAX_MEMORY, figures
