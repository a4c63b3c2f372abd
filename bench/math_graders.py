"""Graders of mathematical answers beside each other: how often right, how fast, whether safe.

Each grader runs in a process of its own, in an empty folder of its own, with its own environment. A pair
that takes more than 20 seconds is a hang: the process is killed and a new one goes on with the next pair.
Times are of the CPU, which other programs do not lengthen. After the adversarial pairs the folder is looked
at: a file in it means that the answer's text was run as code.
"""

import json
import os
import resource
import select
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import servers
from bench.report import Goal, Row

VECTORS = servers.ROOT / "tests" / "data" / "math_equiv.json"
PROGRAM = servers.PROGRAMS / "math_grader.py"
PEERS = {"math-verify": "math_verify", "inspect-ai": "inspect_math", "mathruler": "mathruler"}
"""Environment of each peer below the folder of the clients' environments."""
NAMES = {"math-verify": "math-verify 0.9.0", "inspect-ai": "inspect-ai math()"}
NAMES |= {"mathruler": "mathruler 0.1.0"}
HANG = 20.0
"""Seconds after which a grader counts as hung."""
MEMORY = 6 << 30
"""Bytes of address space that a grader may have."""
WORST = Goal("ours", most=250)
START_LIMIT = 120.0
"""Seconds that a grader may take to load and to judge its first pair."""


@dataclass
class Tally:
    """What one grader did with a list of pairs."""

    right: int = 0
    false_positives: int = 0
    false_negatives: int = 0
    hangs: int = 0
    files: int = 0
    mib: float = 0.0
    spent: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def accuracy(self) -> float:
        """Share of the pairs that were judged as labelled, in percent."""
        return 100 * self.right / max(len(self.spent), 1)

    def percentile(self, share: float) -> float:
        """Give the time that a share of the pairs stayed below, in milliseconds."""
        ordered = sorted(self.spent)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


class Grader:
    """A grader's process, started again when it hung."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": str(servers.ROOT)}
        if self.name != "ours":
            del environment["PYTHONPATH"]
        process = subprocess.Popen(
            [str(_python(self.name)), str(PROGRAM), self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self.folder,
            env=environment,
        )
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        return process

    def judge(self, item: dict[str, Any], limit: float) -> dict[str, Any] | None:
        """Judge one pair; nothing comes back if the grader hung or died."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        pair = {"gold": item["gold"], "answer": item["prediction"], "kind": item["kind"]}
        line = json.dumps(pair) + "\n"
        try:
            stdin.write(line.encode())
            stdin.flush()
        except BrokenPipeError:
            self._restart()
            return None
        ready, _, _ = select.select([stdout], [], [], limit)
        answer = stdout.readline() if ready else b""
        if answer:
            return json.loads(answer)
        self._restart()
        return None

    def _restart(self) -> None:
        self.close()
        self.process = self._start()

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


def _python(name: str) -> Path:
    if name == "ours":
        return Path(sys.executable)
    venvs = Path(os.environ.get("ORS_TEST_VENVS", servers.ROOT / ".venvs"))
    return venvs / PEERS[name] / "bin" / "python"


def run(name: str, items: Iterable[dict[str, Any]]) -> Tally:
    """Let one grader judge pairs."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as place:
        grader = Grader(name, Path(place))
        limit = START_LIMIT
        for item in items:
            _count(tally, item, grader.judge(item, limit))
            limit = HANG
        grader.close()
        tally.files = sum(1 for _ in Path(place).rglob("*"))
    return tally


def _count(tally: Tally, item: dict[str, Any], verdict: dict[str, Any] | None) -> None:
    tally.hangs += verdict is None
    tally.spent.append(HANG * 1000 if verdict is None else verdict["ms"])
    is_equal = verdict is not None and verdict["equal"]
    tally.mib = max(tally.mib, 0 if verdict is None else verdict["mib"])
    if is_equal == item["equal"]:
        tally.right += 1
        return
    tally.wrong.append(item["id"])
    tally.false_positives += is_equal
    tally.false_negatives += not is_equal


def load() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Give the uncontested pairs, and the adversarial ones."""
    items = json.loads(VECTORS.read_text())["items"]
    return (
        [item for item in items if not item["contested"]],
        [item for item in items if item["category"].startswith("adversarial")],
    )


def measure() -> list[Row]:
    """Let every grader judge every pair."""
    missing = [name for name in PEERS if not _python(name).exists()]
    if missing:
        raise FileNotFoundError(f"no environment of {', '.join(missing)}; `make bench` makes it")
    plain, adversarial = load()
    tallies = {name: (run(name, plain), run(name, adversarial)) for name in ("ours", *PEERS)}
    return [row for peer in PEERS for row in _rows(tallies["ours"], tallies[peer], peer)]


def _rows(ours: tuple[Tally, Tally], theirs: tuple[Tally, Tally], peer: str) -> list[Row]:
    (plain, hostile), (other, other_hostile) = ours, theirs
    name = NAMES[peer]
    of, few = f"of {len(plain.spent)}", Goal("ours", most=3 * len(plain.spent) / 1500)
    median, peer_median = statistics.median(plain.spent), statistics.median(other.spent)
    return [
        Row("math answers", "% right", plain.accuracy, other.accuracy, name, Goal("ours", least=98.0)),
        Row("math, paid though wrong", of, plain.false_positives, other.false_positives, name, few),
        Row("math, right and unpaid", "pairs", plain.false_negatives, other.false_negatives, name),
        Row("math, one answer", "CPU ms, median", median, peer_median, name, Goal("ours", most=0.3)),
        Row("math, one answer", "CPU ms at p99", plain.percentile(0.99), other.percentile(0.99), name),
        Row("math, one answer", "CPU ms, worst", max(plain.spent), max(other.spent), name, WORST),
        Row("math, peak memory", "MiB", max(plain.mib, hostile.mib), max(other.mib, other_hostile.mib), name),
        *_hostile_rows(hostile, other_hostile, name),
    ]


def _hostile_rows(ours: Tally, theirs: Tally, name: str) -> Sequence[Row]:
    never = Goal("ours", most=0)
    return [
        Row("hostile answers", "CPU ms, worst", max(ours.spent), max(theirs.spent), name, WORST),
        Row("hostile answers", "hangs", ours.hangs, theirs.hangs, name, never),
        Row("hostile answers", "files made", ours.files, theirs.files, name, never),
        Row("hostile answers", "paid", ours.false_positives, theirs.false_positives, name),
    ]
