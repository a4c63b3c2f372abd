"""A declared environment over a million rows: its first start and later ones, memory, a task by its index."""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.report import Goal, Row

ROWS = 1_000_000
READS = 2_000
PROGRAM = """
import json, resource, sys, time
from ors_server.environments.loading import load_environments
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
empty = resident()
begin = time.perf_counter()
(definition,) = load_environments([sys.argv[1]])
started = time.perf_counter() - begin
cls = definition.source
import random
rng = random.Random(1)
indices = [rng.randrange(cls.num_tasks("train")) for _ in range(int(sys.argv[2]))]
cls.get_task("train", 0)
begin = time.perf_counter()
for index in indices:
    cls.get_task("train", index)
read = (time.perf_counter() - begin) / len(indices)
print(json.dumps({"start": started, "task": read, "resident": resident() - empty}))
"""
DECLARATION = """
data = "train.jsonl"
prompt = "{{ question }} Call submit with the number."
answer = "answer"
reward = "math_equal_reward"
"""


def write_rows(folder: Path, rows: int) -> None:
    """Write a declared environment with invented rows of about 150 bytes."""
    rng = random.Random(7)  # noqa: S311  (the same rows every time)
    with (folder / "train.jsonl").open("w") as file:
        for number in range(rows):
            first, second = rng.randrange(10**6), rng.randrange(10**6)
            question = f"A store has {first} nails and buys {second}. How many has it?"
            row = {"id": f"row-{number}", "question": question, "answer": first + second, "level": number % 5}
            file.write(json.dumps(row) + "\n")
    (folder / "environment.toml").write_text(DECLARATION)


def load_apart(folder: Path, cache: Path) -> dict[str, float]:
    """Load the environment in a process of its own, and read tasks.

    Returns:
        Seconds of the `start` and of a `task`, and bytes that are `resident` after the imports.
    """
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), str(READS)],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def measure() -> list[Row]:
    """Make the index of a million rows, then load them again."""
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name, "data"), Path(name, "cache")
        folder.mkdir()
        write_rows(folder, ROWS)
        first = load_apart(folder, cache)
        later = load_apart(folder, cache)
    peer = "the first start"
    return [
        Row("declared rows, a later start", "s", later["start"], first["start"], peer, Goal("ours", most=1)),
        Row("declared rows, memory", "MiB", later["resident"] / 2**20, 0.0, "nothing", Goal("ours", most=64)),
        Row("declared rows, a task", "ms", 1000 * later["task"], 0.0, "nothing", Goal("ours", most=1)),
    ]
