"""The programs of `examples/`, by the commands of its README, with the real trainers on a CPU."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.clients.conftest import client_python, wait_until_healthy

ROOT = Path(__file__).parents[2]
LIMIT = 1500.0
"""Seconds that a program may take on a machine that does other work, too."""
BLOCKS = re.compile(r"^( *)```sh\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)

pytestmark = [pytest.mark.stress, pytest.mark.external, pytest.mark.timeout(2 * LIMIT)]


def commands_with(word):
    """The one block of the README's commands that holds a word."""
    texts = [textwrap.dedent(text) for _, text in BLOCKS.findall((ROOT / "examples/README.md").read_text())]
    (found,) = [text for text in texts if word in text]
    return found


class Folder:
    """A folder with the examples and the environments, where the README's commands run."""

    def __init__(self, path):
        self.path = path
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = str(probe.getsockname()[1])
        (path / "examples").symlink_to(ROOT / "examples")
        training = client_python("training")
        (path / ".venvs").symlink_to(training.parents[2])
        self.env = {
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(path / "home"),
            "OMP_NUM_THREADS": "1",
            "ORS_PORT": self.port,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "WANDB_MODE": "disabled",
        }

    def run(self, word):
        """Run a block of commands; what it printed."""
        ran = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", self.fitted(word)],
            cwd=self.path,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def serve(self, word):
        """Start the server of a block of commands."""
        with (self.path / "server.log").open("wb") as log:
            process = subprocess.Popen(
                ["/bin/bash", "-c", f"exec {self.fitted(word)}"],
                cwd=self.path,
                env=self.env,
                stdout=log,
                stderr=log,
            )
        wait_until_healthy(f"http://127.0.0.1:{self.port}", process)
        return process

    def fitted(self, word):
        return commands_with(word).replace("127.0.0.1:8080", f"127.0.0.1:{self.port}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return Folder(tmp_path_factory.mktemp("examples"))


@pytest.fixture(scope="module")
def trained(folder):
    """What fine-tuning and GRPO printed, one after the other, on one server."""
    server = folder.serve("ors-server serve")
    try:
        folder.run("export trl --preferences")
        printed = folder.run("grpo_with_trl.py")
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    return [json.loads(line) for line in printed.splitlines() if line.startswith('{"')]


def test_a_model_learns_from_exported_episodes_and_pairs(trained):
    tuned, _ = trained
    assert tuned["imitated"] >= 10
    assert tuned["sft"][-1] < 0.5 * tuned["sft"][0]
    assert tuned["dpo"][-1] < 0.8 * tuned["dpo"][0]


def test_grpo_trains_on_the_rewards_that_the_server_recorded(trained):
    _, improved = trained
    assert improved["compared"] == 12 * 16
    assert len(improved["means"]) == 12
    first, last = improved["means"][:4], improved["means"][-4:]
    assert sum(last) > sum(first), improved["means"]


def test_verl_scores_recorded_answers_as_they_were_paid(folder, trained):
    assert trained
    (line,) = [line for line in folder.run("export verl").splitlines() if line.startswith('{"scores"')]
    printed = json.loads(line)
    assert printed["scores"] == printed["returns"]
    assert sorted(printed["scores"]) == [0.0] * 4 + [1.0] * 4
