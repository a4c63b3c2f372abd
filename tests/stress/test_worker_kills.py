"""Environments in worker processes: what a call costs, and a hundred kills under play."""

import contextlib
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from ors_server import Environment, EpisodePolicy, ToolOutput, tool
from ors_server.model.errors import OrsServerError
from ors_server.resources import WorkerEnvResource, WorkerEnvResourceSpec
from ors_server.testing.local_client import open_environment
from tests.fixtures.worker_processes import wait_until_gone
from tests.prepared_processes import PreparedPopen

FILE = Path(__file__).parents[1] / "fixtures/worker_environments.py"
SPEC = WorkerEnvResourceSpec(f"{FILE}:Workshop", category="kills", max_global_num=6)
KILLS = 100
PLAYERS = 6
STEPS = 4
CALLS = 2000
PAUSE = 0.2
"""Seconds between two kills."""
REPEATS = 2.0
"""Seconds after which a player gives an episode up whose worker is dead."""
GOAL = 0.3e-3
"""Seconds that a call may cost: design/environments.md."""

pytestmark = [pytest.mark.stress, pytest.mark.timeout(1200)]


@pytest.fixture(autouse=True)
def started_cold(monkeypatch):
    """Has workers started by this process, which finds and kills its own children."""
    if subprocess.Popen is PreparedPopen:
        monkeypatch.setattr(subprocess, "Popen", PreparedPopen.__base__)


class Counting(Environment):
    """Each step pays a quarter once the worker has answered."""

    name = "counting"
    policy = EpisodePolicy(reward_range=(0.0, 0.25))

    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        return [{"id": "only"}]

    def get_prompt(self):
        return "Step four times."

    async def setup(self):
        self.steps = 0
        self.worker = await self.context.acquire_resource(spec=SPEC, scope="rollout")

    @tool
    async def step(self) -> ToolOutput:
        """Take a step."""
        await self.worker.step(1)
        self.steps += 1
        if self.steps == STEPS:
            return ToolOutput.final("Done.", reward=0.25)
        return ToolOutput.ongoing("Go on.", reward=0.25)


class Play:
    """Players and the killer, and what they count."""

    def __init__(self, client):
        self.client = client
        self.own = children()
        self.killed = self.broken = self.whole = 0

    async def play(self):
        while self.killed < KILLS:
            try:
                session = await self.client.create(split="train", index=0)
            except OrsServerError:
                self.broken += 1
                continue
            rewards = []
            # the client repeats what the machine broke; a worker that dies while it starts fails the setup
            with anyio.move_on_after(REPEATS), contextlib.suppress(OrsServerError):
                for _ in range(STEPS):
                    output = await session.call("step")
                    rewards.append(output.reward)
            assert rewards == [0.25] * len(rewards)
            assert (await session.summary()).episode_return == sum(rewards)
            self.whole += len(rewards) == STEPS
            self.broken += len(rewards) < STEPS
            await session.aclose()

    async def kill(self):
        rng = random.Random(1)  # noqa: S311  (which worker is hit)
        while self.killed < KILLS:
            await anyio.sleep(PAUSE)
            workers = sorted(children() - self.own)
            if workers:
                os.kill(rng.choice(workers), signal.SIGKILL)
                self.killed += 1


def children():
    """Lists the processes that this one started and that are not yet reaped."""
    found: set[int] = set()
    for listed in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        found.update(map(int, listed.read_text(encoding="ascii").split()))
    return found


def say(capsys, text):
    with capsys.disabled():
        sys.stdout.write(f"\n{text}\n")


async def test_a_call_costs_little(capsys):
    worker = WorkerEnvResource(SPEC, "timed")
    await worker.start()
    try:
        times = []
        for _ in range(CALLS):
            begin = time.perf_counter()
            await worker.step(1)
            times.append(time.perf_counter() - begin)
        assert (await worker.step(0))["total"] == CALLS
    finally:
        await worker.end()
    say(capsys, f"a call of a worker: p50 {statistics.median(times) * 1e3:.3f} ms of {GOAL * 1e3:g}")


async def test_a_hundred_kills_under_play_pay_nothing_wrong_and_leave_no_orphan(capsys):
    async with open_environment(Counting) as client:
        play = Play(client)
        async with anyio.create_task_group() as group:
            for _ in range(PLAYERS):
                group.start_soon(play.play)
            group.start_soon(play.kill)
    for process in children() - play.own:
        await anyio.to_thread.run_sync(wait_until_gone, process)
    assert play.whole > 0
    say(capsys, f"{play.killed} kills: {play.whole} episodes whole, {play.broken} broken off, no orphan")
