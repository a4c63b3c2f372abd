"""The programs of `examples/` that train, by the commands of its README, with the real trainers on a CPU."""

import json
import signal

import pytest

from tests.clients.conftest import client_python
from tests.fixtures.example_folder import LIMIT, ExampleFolder

pytestmark = [pytest.mark.stress, pytest.mark.external, pytest.mark.timeout(2 * LIMIT)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    assert client_python("training").exists()
    return ExampleFolder(tmp_path_factory.mktemp("examples"))


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
