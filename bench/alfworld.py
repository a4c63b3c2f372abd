"""Steps of ALFWorld through a session, beside the bare package in a process of its own."""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import anyio

from bench.report import Goal, Row
from ors_server.testing.local_client import open_environment
from ors_server_tasks.alfworld import AlfworldTasks
from ors_server_tasks.alfworld.catalogue import open_catalogue

BARE = "alfworld 0.4.2"
RATE = Goal("ratio", least=0.8)
STEPS = 40
"""Steps of an episode: less than its limit."""
_PROGRAM = Path(__file__).with_name("programs") / "bare_alfworld.py"


class MeasuredAlfworld(AlfworldTasks):
    """The same, with the memory of its worker in sight."""

    memory = 0

    async def teardown(self) -> None:
        """Keep the memory of the worker, which plays on in another session."""
        type(self).memory = await self._worker.memory_used()


def measure(rounds: int = 3) -> list[Row]:
    """Play the same steps both ways, in turns; the median of the rounds counts."""
    ours, bare = [], []
    for _ in range(rounds):
        bare.append(_bare())
        ours.append(anyio.run(_ours))
    rate, peer = (STEPS / statistics.median(one[0] for one in runs) for runs in (ours, bare))
    held, held_bare = (statistics.median(one[1] for one in runs) / (1 << 20) for runs in (ours, bare))
    return [
        Row("ALFWorld, steps of one session", "steps/s", rate, peer, BARE, RATE),
        Row("ALFWorld, memory of a session's worker", "MiB", held, held_bare, BARE),
    ]


def _bare() -> tuple[float, int]:
    python = os.environ.get("ORS_ALFWORLD_PYTHON", sys.executable)
    game = json.dumps(dict(open_catalogue().games["train"][0].played))
    ran = subprocess.run(
        [python, _PROGRAM, str(STEPS)], input=game, capture_output=True, text=True, check=True
    )
    result = json.loads(ran.stdout.splitlines()[-1])
    return result["seconds"], result["bytes"]


async def _ours() -> tuple[float, int]:
    async with open_environment(MeasuredAlfworld) as client:
        session = await client.create(split="train", index=0)
        await session.call("alfworld_step", action="look")
        started = time.perf_counter()
        for _ in range(STEPS):
            output = await session.call("alfworld_step", action="look")
        seconds = time.perf_counter() - started
        assert output.metadata is not None
        assert output.metadata["admissible_commands"]
        await session.aclose()
    return seconds, MeasuredAlfworld.memory
