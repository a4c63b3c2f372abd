"""Evaluations of every bundled environment: gold earns the most, idleness the least, chance in between.

A few tasks each, on one server here; the environments' own tests play every task.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ors_server.environments.loading import installed_environments, load_environments
from ors_server.evaluation.agents.baselines import NoopAgent, OracleAgent, RandomAgent
from ors_server.evaluation.folder import read_attempts
from ors_server.evaluation.local_target import open_local_target
from ors_server.evaluation.runner import RunControls
from ors_server.evaluation.runs import AttemptStatus
from ors_server.store.memory import MemoryStore
from tests.conftest import WORLDS
from tests.fixtures.chat_server import ChatServer, said
from tests.fixtures.evaluation_plays import make_run, play_run
from tests.fixtures.ordinary_cases import leave_to_stress

LIMIT = 100
"""Seconds that one test may wait for anything, most of it for sandboxes."""
TASKS = 3
TASKS_OF_A_WORLD = 1
"""Of environments that start another program for each episode."""
SLOWEST = "scienceworld"
"""An ordinary run plays nothing in it, and in the other world the oracle."""

pytestmark = pytest.mark.timeout(LIMIT + 20)


def tasks_of(name):
    return TASKS_OF_A_WORLD if name in WORLDS else TASKS


def reward_range(name):
    (definition,) = load_environments([name])
    return definition.policy.reward_range or (0.0, 1.0)


async def evaluated(name, agent, folder, **changes):
    run = make_run(
        **{
            "environment": name,
            "target": name,
            "split": "train",
            "agent": agent.describe(),
            "indices": tuple(range(tasks_of(name))),
            "attempts": 1,
            **changes,
        }
    )
    store = MemoryStore()
    async with open_local_target(name, store=store) as target:
        _, attempts = await play_run(target, agent, folder, run, RunControls(concurrency=3))
    for attempt in attempts:
        record = await store.find(attempt.episode_id)
        assert record.summary.episode_return == attempt.episode_return
        assert record.summary.steps == attempt.steps
        assert record.is_closed
    return attempts


@pytest.mark.parametrize("name", leave_to_stress(installed_environments(), lambda name: name != SLOWEST))
async def test_the_oracle_s_mean_is_the_most_that_can_be_had(name, tmp_path):
    attempts = await evaluated(name, OracleAgent(), tmp_path)
    assert [attempt.status for attempt in attempts] == [AttemptStatus.DONE] * tasks_of(name)
    assert [attempt.episode_return for attempt in attempts] == [reward_range(name)[1]] * tasks_of(name)
    assert reward_range(name)[1] == 1.0
    assert all(attempt.success and attempt.finished for attempt in attempts)


@pytest.mark.parametrize("name", leave_to_stress(installed_environments(), lambda name: name not in WORLDS))
async def test_the_idle_agent_s_mean_is_the_least(name, tmp_path):
    attempts = await evaluated(name, NoopAgent(), tmp_path)
    assert [attempt.status for attempt in attempts] == [AttemptStatus.DONE] * tasks_of(name)
    assert [attempt.episode_return for attempt in attempts] == [0.0] * tasks_of(name)
    assert not any(attempt.success for attempt in attempts)


@pytest.mark.parametrize("name", leave_to_stress(installed_environments(), lambda name: name not in WORLDS))
async def test_chance_errs_nowhere_and_earns_nothing_it_should_not(name, tmp_path):
    attempts = await evaluated(name, RandomAgent(steps=4), tmp_path)
    assert [attempt.error for attempt in attempts] == [None] * tasks_of(name)
    assert all(attempt.episode_return <= 0.0 for attempt in attempts)
    assert all(1 <= attempt.steps <= 4 for attempt in attempts)


async def test_chance_plays_the_same_again(tmp_path):
    first = await evaluated("qa", RandomAgent(), tmp_path / "first")
    again = await evaluated("qa", RandomAgent(), tmp_path / "again")

    def facts(attempts):
        return sorted((one.key, one.seed, one.steps, one.episode_return) for one in attempts)

    assert facts(first) == facts(again)


def solves(body):
    """A model that works at a sum of `math_word_problems` with its calculator, and then hands in a number."""
    results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    if not results:
        return said("Let me see.", ("calculator", {"expression": "6 * 7"}))
    return said("", ("submit", {"answer": results[-1]}))


def command(tmp_path, *words):
    return [sys.executable, "-m", "ors_server", "eval", *words], {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "cwd": tmp_path,
        "env": {**os.environ, "ORS_STORE": "memory"},
    }


def test_a_language_model_plays_a_bundled_environment_through_the_command_line(tmp_path):
    with ChatServer().serving() as server:
        server.script = [(429, {"retry_after": "0"}, {"error": {"message": "wait"}})]
        first = server.script[0]
        server.decide = lambda body: first if len(server.asked) == 1 else solves(body)
        words, manner = command(
            tmp_path,
            *("math_word_problems", "--agent", "openai:scripted", "--limit", "2", "--json"),
            *("--agent-option", f"base_url={server.url}", "--output", "run"),
        )
        ran = subprocess.run(words, timeout=LIMIT, check=False, **manner)
    assert ran.returncode == 0, ran.stderr
    counts = json.loads(ran.stdout)["summary"]["overall"]["counts"]
    assert (counts["recorded"], counts["errored"]) == (2, 0)
    attempts = list(read_attempts(tmp_path / "run"))
    assert [attempt.steps for attempt in attempts] == [2, 2]
    assert len(server.asked) == 5
    assert all(attempt.tokens_in == 200 for attempt in attempts)


def test_an_interrupted_run_goes_on_without_repeating_a_finished_episode(tmp_path):
    held = [
        "qa",
        "--limit",
        "40",
        "--agent",
        f"{Path(__file__).parents[1]}/fixtures/evaluation_agents.py:dawdle",
    ]
    words, manner = command(tmp_path, *held, "--agent-option", f"gate={tmp_path / 'gate'}", "--output", "run")
    process = subprocess.Popen(words, **manner)
    for _ in range(LIMIT * 10):
        if process.poll() is not None or len(list(read_attempts(tmp_path / "run"))) >= 5:
            break
        with_patience(process)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, complaint
    ended = list(read_attempts(tmp_path / "run"))
    assert 5 <= len(ended) < 40
    (tmp_path / "gate").write_text("open")
    words, manner = command(tmp_path, "--resume", "run", "--json")
    ran = subprocess.run(words, timeout=LIMIT, check=False, **manner)
    assert ran.returncode == 0, ran.stderr
    attempts = list(read_attempts(tmp_path / "run"))
    assert attempts[: len(ended)] == ended
    assert sorted(attempt.index for attempt in attempts) == list(range(40))
    assert len({attempt.episode_id for attempt in attempts}) == 40


def with_patience(process):
    try:
        process.wait(0.1)
    except subprocess.TimeoutExpired:
        return
