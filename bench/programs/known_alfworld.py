"""Loads and resets a game that the worker of the bundled ALFWorld knows, for `bench.alfworld`: milliseconds.

Usage: known_alfworld.py FOLDER_OF_THE_ENVIRONMENT < GAME
"""

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module

REPEATS = 5

sys.path.insert(0, sys.argv[1])
module = import_module("game")


def main() -> None:
    played = json.load(sys.stdin)
    game = module.AlfworldGame()
    game.reset(played)
    game.step("look")
    result = {
        "load": least_milliseconds(lambda: game._load(played)),  # noqa: SLF001  (its first half)
        "reset": least_milliseconds(game.reset),
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
