"""Steps of a task of ScienceWorld with its bare package, for `bench.scienceworld`: seconds; the JVM's bytes.

Usage: bare_scienceworld.py < TASK_AND_ACTIONS
"""

import json
import os
import sys
import time
from pathlib import Path

from scienceworld import ScienceWorldEnv


def main() -> None:
    request = json.load(sys.stdin)
    task, variation = request["task"]
    env = ScienceWorldEnv("", envStepLimit=10_000)
    seconds = 0.0
    for _ in range(2):
        env.load(task, variation, "easy")
        env.reset()
        started = time.perf_counter()
        for action in request["actions"]:
            env.step(action)
        seconds += time.perf_counter() - started
    jvm = env._gateway.java_process  # noqa: SLF001  (it offers no other way)
    pages = int(Path(f"/proc/{jvm.pid}/statm").read_text(encoding="ascii").split()[1])
    sys.stdout.write(json.dumps({"seconds": seconds, "bytes": pages * os.sysconf("SC_PAGESIZE")}) + "\n")
    sys.stdout.flush()
    jvm.kill()
    jvm.wait()
    os._exit(0)  # the package would wait for the JVM


main()
