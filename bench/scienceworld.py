"""Steps of ScienceWorld through a session, beside the bare package in a process of its own."""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import anyio

from bench.report import Goal, Row
from ors_server import ScienceWorldSpec
from ors_server.testing.local_client import open_environment
from ors_server_tasks.scienceworld import ScienceWorld
from ors_server_tasks.scienceworld.catalogue import gold_paths, list_variations
from ors_server_tasks.scienceworld.environment import TOOL

BARE = "scienceworld 1.2.3"
RATE = Goal("ratio", least=0.8)
PLAYED = ("boil", 0)
"""A task whose recorded path is played."""
_PROGRAM = Path(__file__).with_name("programs") / "bare_scienceworld.py"


class MeasuredScienceWorld(ScienceWorld):
    """The same, with the memory of its JVM in sight."""

    memory = 0

    async def teardown(self) -> None:
        """Keep the memory of the JVM, which plays on in another session."""
        game = await self.context.acquire_resource(spec=ScienceWorldSpec, scope="global")
        type(self).memory = await game.memory_used()


def measure(rounds: int = 3) -> list[Row]:
    """Play the same steps both ways, in turns; the median of the rounds counts."""
    ours, bare = [], []
    for _ in range(rounds):
        bare.append(_bare())
        ours.append(anyio.run(_ours))
    steps = 2 * len(_actions())
    rate, peer = (steps / statistics.median(run[0] for run in runs) for runs in (ours, bare))
    memory_mib, bare_mib = (statistics.median(run[1] for run in runs) / (1 << 20) for runs in (ours, bare))
    return [
        Row("ScienceWorld, steps of one session", "steps/s", rate, peer, BARE, RATE),
        Row("ScienceWorld, memory of a session's JVM", "MiB", memory_mib, bare_mib, BARE),
    ]


def _actions() -> list[str]:
    """Return the path but for its end: all the steps of an episode that goes on."""
    return list(gold_paths()[PLAYED][:-1])


def _bare() -> tuple[float, int]:
    request = json.dumps({"task": PLAYED, "actions": _actions()})
    ran = subprocess.run(
        [sys.executable, _PROGRAM], input=request, capture_output=True, text=True, check=True
    )
    result = json.loads(ran.stdout.splitlines()[-1])
    return result["seconds"], result["bytes"]


async def _ours() -> tuple[float, int]:
    """Play the path twice in one JVM, which is warm the second time, as the bare package does."""
    seconds = 0.0
    async with open_environment(MeasuredScienceWorld) as client:
        for _ in range(2):
            session = await client.create(split="train", index=list_variations("train").index(PLAYED))
            await session.prompt()
            started = time.perf_counter()
            for action in _actions():
                output = await session.submit(TOOL, {"action": action})
            seconds += time.perf_counter() - started
            assert not output.finished
            await session.aclose()
    return seconds, MeasuredScienceWorld.memory
