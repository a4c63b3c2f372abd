"""ALFWorld through a session, beside the bare package in a process of its own."""

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
from ors_server_tasks.alfworld import AlfworldTasks, environment
from ors_server_tasks.alfworld.catalogue import open_catalogue

BARE = "alfworld 0.4.2"
RATE = Goal("ratio", least=0.8)
LOAD = Goal("ours", most=20)
RESET = Goal("ours", most=80)
STEPS = 40
"""Steps of an episode: less than its limit."""
_PROGRAMS = Path(__file__).with_name("programs")


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
        bare.append(_run("bare_alfworld.py", str(STEPS)))
        ours.append(anyio.run(_ours))
    known = _run("known_alfworld.py", str(Path(environment.__file__).parent))
    rate, peer = (STEPS / _median(runs, "seconds") for runs in (ours, bare))
    memory_mib, bare_mib = (_median(runs, "bytes") / (1 << 20) for runs in (ours, bare))
    return [
        Row("ALFWorld, steps of one session", "steps/s", rate, peer, BARE, RATE),
        Row("ALFWorld, memory of a session's worker", "MiB", memory_mib, bare_mib, BARE),
        Row("ALFWorld, load of a known game", "ms CPU", known["load"], _median(bare, "load"), BARE, LOAD),
        Row("ALFWorld, reset of a known game", "ms CPU", known["reset"], _median(bare, "reset"), BARE, RESET),
    ]


def _median(runs: list[dict[str, float]], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def _run(program: str, argument: str) -> dict[str, float]:
    python = os.environ.get("ORS_ALFWORLD_PYTHON", sys.executable)
    game = json.dumps(dict(open_catalogue().games["train"][0].played))
    ran = subprocess.run(
        [python, _PROGRAMS / program, argument], input=game, capture_output=True, text=True, check=True
    )
    return json.loads(ran.stdout.splitlines()[-1])


async def _ours() -> dict[str, float]:
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
    return {"seconds": seconds, "bytes": MeasuredAlfworld.memory}
