"""A game of ALFWorld with its bare package, for `bench.alfworld`: milliseconds, and resident bytes.

Usage: bare_alfworld.py STEPS < GAME
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("ALFWORLD_DATA", str(Path(__file__).parent))

import textworld
from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH
from textworld.envs import PddlEnv

REPEATS = 3


def main() -> None:
    steps = int(sys.argv[1])  # the translator changes the arguments
    game = json.load(sys.stdin)
    texts = {
        "pddl_domain": Path(ALFRED_PDDL_PATH).read_text(),
        "grammar": Path(ALFRED_TWL2_PATH).read_text().replace("UNKNOWN GOAL", game["sentence"]),
        "pddl_problem": game["problem"],
    }
    env = AlfredDemangler(PddlEnv(textworld.EnvInfos(admissible_commands=True, won=True)), shuffle=False)
    env.load(texts)
    env.reset()
    env.step("look")
    started = time.perf_counter()
    for _ in range(steps):
        env.step("look")
    seconds = time.perf_counter() - started
    result = {
        "seconds": seconds,
        "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "load": least_milliseconds(lambda: env.load(texts)),
        "reset": least_milliseconds(env.reset),
    }
    sys.stdout.write(json.dumps(result) + "\n")


def least_milliseconds(call: Callable[[], object]) -> float:
    """Return the least processor time of a few calls."""
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return 1000 * min(times)


main()
