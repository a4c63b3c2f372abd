"""Data of `hf:NAME`, read by the real `datasets` from a local folder, without the network."""

import json
import os
import subprocess
import sys

import pytest

from tests.clients.conftest import PLAY_LIMIT, ROOT, client_python

PROGRAM = """
import json, sys
sys.path.append(sys.argv[1])
from ors_server.environments.declared.references import declare_data
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.testing import play

keys = {"prompt": "question", "answer": "answer", "reward": "math_equal_reward"}
folder = sys.argv[2]
cls = declare_data(f"hf:{folder}", keys)
splits = {split.name: [split.type, cls.num_tasks(split.name)] for split in cls.list_splits()}
only = declare_data(f"hf:{folder}:test", keys)
refused = []
for address in (f"hf:{folder}:nosuch", f"hf:{folder}/none"):
    try:
        declare_data(address, keys)
    except EnvironmentDefinitionError as error:
        refused.append(str(error))
with play(cls, split="test", index=1) as episode:
    played = [episode.prompt, episode.call("submit", answer="2").reward]
tasks = cls.get_task_range("train")
again = declare_data(f"hf:{folder}:test", keys).version
found = {"splits": splits, "tasks": tasks, "refused": refused, "played": played}
print(json.dumps({**found, "versions": [only.version, again]}))
"""


@pytest.fixture
def packages():
    """Finds the folder of the environment that has `datasets`."""
    (folder,) = client_python("trl").parents[1].glob("lib/python*/site-packages")
    assert (folder / "datasets").is_dir()
    return folder


def test_a_dataset_of_a_local_folder_is_played(packages, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name, count in (("train", 3), ("test", 2)):
        rows = [
            {"question": f"{name}: {n} + 1?", "answer": str(n + 1), "about": {"level": n}}
            for n in range(count)
        ]
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    environ = {
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(tmp_path / "hub"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(packages), str(folder)],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=PLAY_LIMIT,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["splits"] == {"train": ["train", 3], "test": ["test", 2]}
    assert found["tasks"][2] == {
        "id": "train/2",
        "question": "train: 2 + 1?",
        "answer": "3",
        "about": {"level": 2},
    }
    assert found["played"] == ["test: 1 + 1?", 1.0]
    assert found["versions"][0] == found["versions"][1]
    assert "Unknown split" in found["refused"][0]
    assert "find any data file" in found["refused"][1]
    assert all("expected a dataset that `datasets` can load" in line for line in found["refused"])
