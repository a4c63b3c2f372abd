"""Steps of a game of ALFWorld with its bare package, for `bench.alfworld`: seconds and resident bytes.

Usage: bare_alfworld.py STEPS < GAME
"""

import json
import os
import resource
import sys
import time
from pathlib import Path

os.environ.setdefault("ALFWORLD_DATA", str(Path(__file__).parent))

import textworld
from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH
from textworld.envs import PddlEnv


def main() -> None:
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
    for _ in range(int(sys.argv[1])):
        env.step("look")
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sys.stdout.write(json.dumps({"seconds": seconds, "bytes": peak}) + "\n")


main()
