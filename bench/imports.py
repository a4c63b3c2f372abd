"""CPU seconds of starting: importing the package, what an environment needs of it, the help page."""

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

from bench import servers
from bench.report import Goal, Row

IMPORT_TARGET = 0.5
"""CPU seconds that `import ors_server` may take."""
HELP_TARGET = 0.7
"""CPU seconds that `ors-server --help` may take."""


def measure(rounds: int = 5) -> list[Row]:
    """Start both packages' programs, in turns.

    Args:
        rounds: Starts of each; the median counts.
    """
    theirs = str(servers.openreward_python())
    package = _compare(
        [sys.executable, "-c", "import ors_server"], [theirs, "-c", "import openreward"], rounds
    )
    authoring = _compare(
        [sys.executable, "-c", "from ors_server import Environment, tool"],
        [theirs, "-c", "from openreward.environments import Environment, tool"],
        rounds,
    )
    command_line = _compare(
        [str(servers.COMMAND), "--help"], [theirs, "-m", "openreward.cli", "--help"], rounds
    )
    seconds = "CPU s"
    return [
        Row("import ors_server", seconds, *package, servers.OPENREWARD, Goal("ours", most=IMPORT_TARGET)),
        Row("… Environment, tool", seconds, *authoring, servers.OPENREWARD, Goal("ours", most=IMPORT_TARGET)),
        Row("ors-server --help", seconds, *command_line, servers.OPENREWARD, Goal("ours", most=HELP_TARGET)),
    ]


def _compare(ours: Sequence[str], theirs: Sequence[str], rounds: int) -> tuple[float, float]:
    for command in (ours, theirs):  # the first start fills the caches
        _cpu_seconds(command)
    samples = [(_cpu_seconds(ours), _cpu_seconds(theirs)) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in samples), statistics.median(pair[1] for pair in samples)


def _cpu_seconds(command: Sequence[str]) -> float:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=servers.ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with status {process.returncode}")
    return usage.ru_utime + usage.ru_stime
