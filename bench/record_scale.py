"""Reading a record of 10,000 episodes of 20 steps beside one of 1,000: queries, and every export.

Each way of reading is a process of its own. Its peak of memory should be that of the small record, and its
CPU time should grow no faster than the record.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench import servers
from bench.programs.record_scale import WAYS
from bench.report import Goal, Row

PROGRAM = servers.PROGRAMS / "record_scale.py"
EPISODES = 10_000
SMALL_RECORD_EPISODES = 1_000
"""Episodes of the small record, to which the large one of `EPISODES` is compared."""
STEPS = 20
LIMIT = 900.0
"""Seconds that one process may take."""
GROWTH = 40.0
"""MiB that a way of reading may need for the large record beyond what it needs for the small one."""


@dataclass(frozen=True, slots=True)
class Took:
    """What one process took."""

    count: int
    """Rows, or episodes that a query found."""
    bytes: int
    seconds: float
    cpu: float
    """Seconds of the CPU, the program's own start included."""
    mib: float
    """Peak of memory."""

    def __str__(self) -> str:
        return (
            f"{self.count:>8,} {self.bytes / 2**20:>8.1f} MiB {self.seconds:>7.2f} s "
            f"{self.cpu:>7.2f} s CPU {self.mib:>7.1f} MiB peak"
        )


def run(*words: str) -> Took:
    """Run the program in a process of its own."""
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), *words],
        env={**os.environ, "PYTHONPATH": str(servers.ROOT)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=LIMIT,
    )
    told = json.loads(ran.stdout)
    return Took(**{name: told[name] for name in ("count", "bytes", "seconds", "cpu", "mib")})


def write(where: str, episodes: int) -> Took:
    """Write a record."""
    return run("write", where, str(episodes), str(STEPS))


def read_both(few: str, many: str, folder: Path) -> Mapping[str, tuple[Took, Took]]:
    """Read a small and a large record in every way.

    Returns:
        What each way took on either.
    """
    found: dict[str, tuple[Took, Took]] = {}
    for way in WAYS:
        found[way] = run(way, few, str(folder)), run(way, many, str(folder))
        for left in folder.glob("*.out"):
            left.unlink()
    return found


def measure() -> list[Row]:
    """Write both records and read them in every way."""
    with tempfile.TemporaryDirectory() as place:
        few, many = f"{place}/few.db", f"{place}/many.db"
        wrote_few, wrote_many = write(few, SMALL_RECORD_EPISODES), write(many, EPISODES)
        rows = [_row("write", "steps/s", _rate(wrote_many), _rate(wrote_few))]
        for way, (small, large) in read_both(few, many, Path(place)).items():
            growth = Goal("ours", most=round(small.mib + GROWTH))
            rows += [
                _row(way, "MiB, peak", large.mib, small.mib, growth),
                _row(
                    way,
                    "CPU s",
                    large.cpu,
                    small.cpu,
                    Goal("ratio", most=EPISODES / SMALL_RECORD_EPISODES * 1.25),
                ),
            ]
    return rows


def _rate(took: Took) -> float:
    return took.count / took.seconds


def _row(way: str, unit: str, ours: float, peer: float, goal: Goal | None = None) -> Row:
    return Row(
        f"{way}, {EPISODES:,} episodes", unit, ours, peer, f"of {SMALL_RECORD_EPISODES:,} episodes", goal
    )
