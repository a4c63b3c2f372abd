"""TRL's own trainer on two environments of `to_trl` in one run, on a CPU."""

import json
import os
import socket
import subprocess
import sys

import pytest

from tests.clients.conftest import ROOT, SCRIPTS, client_python, running
from tests.clients.consuming import LADDER, MISJUDGED, returns_of

LIMIT = 600

pytestmark = [pytest.mark.stress, pytest.mark.external, pytest.mark.timeout(2 * LIMIT)]


@pytest.fixture(scope="module")
def trained():
    """What the trainer asked, was paid and computed; and the server that has the record."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    url = f"http://127.0.0.1:{port}"
    serve = [sys.executable, "-m", "ors_server", "serve", LADDER, MISJUDGED, "--port", port]
    with running(serve, url, ORS_STORE="memory"):
        ran = subprocess.run(
            [str(client_python("training")), str(SCRIPTS / "train_trl.py"), url],
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "HF_HUB_OFFLINE": "1",
                "OMP_NUM_THREADS": "1",
                "TRL_EXPERIMENTAL_SILENCE": "1",
            },
        )
        assert ran.returncode == 0, ran.stderr
        yield url, json.loads(ran.stdout.splitlines()[-1])


def test_each_environment_owns_a_column_of_rewards_and_pays_what_is_recorded(trained):
    url, seen = trained
    assert seen["columns"] == ["OrsLadder", "OrsMisjudged"]
    assert [reward for _, _, reward in seen["seen"]] == [0.0, 0.125, 0.375, 0.25, None, 0.125, None, 0.375]
    for _, session_id, reward in seen["seen"]:
        summary = returns_of(url, session_id)
        assert reward == (None if summary.unjudged_steps else summary.episode_return)


def test_a_rollout_without_a_return_is_in_no_baseline_and_has_no_advantage(trained):
    _, seen = trained
    ((environments, advantages),) = seen["trained_on"]
    assert environments == ["ladder"] * 4 + ["misjudged"] * 4
    assert advantages[4] == advantages[6] == 0.0
    # The baseline of the group is the mean of the two others, 0.25.
    assert advantages[5] == -advantages[7] < 0
    assert sum(advantages[:4]) == pytest.approx(0.0, abs=1e-3)
    assert seen["logged"]["rewards/OrsLadder/mean"] == 0.1875
    assert seen["logged"]["rewards/OrsMisjudged/mean"] == 0.25
