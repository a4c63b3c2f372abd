"""Evaluations that are killed at any moment go on, and every attempt stands there once."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ors_server.evaluation.folder import read_attempts
from ors_server.evaluation.runs import Attempt

ROOT = Path(__file__).parents[2]
GUESSING = f"{ROOT / 'tests/fixtures/evaluated_environments.py'}:Guessing"
KILLS = 12
ATTEMPTS = 200
LIMIT = 120
"""Seconds that a process may take for anything."""

pytestmark = [pytest.mark.stress, pytest.mark.timeout(1200)]


def start(store, *words):
    command = [sys.executable, "-m", "ors_server", "eval", *words, "--store", str(store), "-c", "8", "--json"]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )


def ended(folder):
    return list(read_attempts(folder))


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_run_that_ends_at_random_moments_is_whole_in_the_end(tmp_path, blow):
    chance = random.Random(5)  # noqa: S311  (moments)
    folder, store = tmp_path / "run", tmp_path / "record.db"
    words = [GUESSING, "--agent", "oracle", "-k", str(ATTEMPTS), "--output", str(folder)]
    known: list[Attempt] = []
    for _ in range(KILLS):
        process = start(store, *words)
        more = len(known) + chance.randint(1, 60)
        while process.poll() is None and len(ended(folder)) < more:
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
        process.send_signal(blow)
        process.communicate(timeout=LIMIT)
        now = ended(folder)
        assert now[: len(known)] == known
        known = now
        words = ["--resume", str(folder)]
    process = start(store, *words)
    _, complaint = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, complaint
    attempts = ended(folder)
    assert attempts[: len(known)] == known
    assert len({attempt.key for attempt in attempts}) == len(attempts) == 6 * ATTEMPTS
    assert len({attempt.episode_id for attempt in attempts}) == len(attempts)
    assert all(attempt.episode_return == 1.0 for attempt in attempts)
