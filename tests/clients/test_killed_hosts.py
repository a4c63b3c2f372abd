"""TRL's rollouts and `ors-server eval` against two hosts that are killed meanwhile: every return is right."""

import json
import os
import subprocess

import anyio
import httpx2
import pytest

from ors_server.evaluation.folder import read_attempts
from tests.clients.conftest import SCRIPTS, client_python
from tests.contract.test_workers import COMMAND, ENVIRONMENT, KEY, serving

HOSTS = ("h0", "h1")
PATIENCE = 400
SOLVER = """
import json
from pathlib import Path

ANSWERS = json.loads((Path(__file__).parent / "answers.json").read_text())


async def solve(session):
    prompt = await session.prompt()
    answer = next(answer for question, answer in ANSWERS if question in prompt)
    for number in range(4):
        result = await session.call("calculator", {"expression": f"{number}+1"})
        assert result.text == str(number + 1), result.text
    await session.call("submit", {"answer": answer})
"""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("killed")) as running:
        yield running


def test_the_rewards_of_trls_rollouts_are_right_while_hosts_are_killed(workers):
    command = [str(client_python("trl")), str(SCRIPTS / "roll_out_trl.py"), workers.url, "3", "4"]
    variables = {**os.environ, "OPENREWARD_API_KEY": KEY}
    groups: list[object] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as trainer:
        for line in trainer.stdout:
            if line == "reset\n":
                workers.kill(HOSTS[len(groups) % 2])
            else:
                groups.append(json.loads(line))
    assert trainer.wait(PATIENCE) == 0
    assert groups == [{"texts": ["1", "2", "3", "4"], "rewards": [1.0, 1.0, 1.0, 0.0]}] * 3


def test_the_returns_of_an_evaluation_are_right_while_hosts_are_killed(workers, tmp_path):
    with httpx2.Client(base_url=workers.url, headers={"X-API-Key": KEY}, timeout=PATIENCE) as client:
        path = f"/_ors/environments/{ENVIRONMENT}/splits/test/tasks"
        tasks = client.get(path, params={"stop": 8}).json()["tasks"]
    answers = [(task["task_spec"]["question"], task["task_spec"]["answer"]) for task in tasks]
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    (tmp_path / "solver.py").write_text(SOLVER)
    words = ["eval", workers.url, "--agent", str(tmp_path / "solver.py:solve"), "--split", "test"]
    words += ["--tasks", "0:8", "-k", "2", "-c", "4", "--output", str(tmp_path / "run")]
    log = (tmp_path / "log").open("w")
    with subprocess.Popen(
        [COMMAND, *words], stdout=log, stderr=log, env={**os.environ, "ORS_API_KEY": KEY}
    ) as run:
        kills = 0
        while run.poll() is None:
            if len(list(read_run(tmp_path / "run"))) >= 4 * kills and kills < 3:
                workers.kill(HOSTS[kills % 2])
                kills += 1
            anyio.run(anyio.sleep, 0.2)
    log.close()
    assert run.returncode == 0, (tmp_path / "log").read_text()
    attempts = list(read_attempts(tmp_path / "run"))
    assert len(attempts) == 16
    assert kills == 3
    assert {(attempt.episode_return, attempt.stop_reason) for attempt in attempts} == {(1.0, "completed")}


def read_run(folder):
    return read_attempts(folder) if (folder / "attempts.jsonl").exists() else ()
