"""Prints where the processor time of the tests goes, by folder and by test.

Usage: ORS_TEST_TIMES=FILE scripts/test.sh; .venv/bin/python scripts/test_times.py FILE [TESTS]
"""

import json
import sys
from collections import Counter
from pathlib import Path

SHOWN = 40
"""Tests that are listed, those with the most time first."""


def folder_of(test: str) -> str:
    """Return the folder by which a test is counted: that below tests/unit, or that below tests."""
    parts = test.partition("::")[0].split("/")[:-1]
    return "/".join(parts[: 3 if parts[1:2] == ["unit"] else 2])


def table(lines: list[str], shown: int = SHOWN) -> str:
    """Make the table of the lines that `tests/processor_times.py` wrote."""
    own: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    single: Counter[str] = Counter()
    for line in lines:
        test, own_seconds, ended_seconds = json.loads(line)
        for name in (folder_of(test), "all"):
            own[name] += own_seconds
            ended[name] += ended_seconds
            tests[name] += 1
        single[test] += own_seconds + ended_seconds
    names = sorted(tests, key=lambda name: own[name] + ended[name], reverse=True)
    rows = [
        f"{own[name] + ended[name]:9.1f} {own[name]:9.1f} {ended[name]:9.1f} {tests[name]:6}  {name}"
        for name in names
    ]
    longest = [f"{seconds:9.1f}  {test}" for test, seconds in single.most_common(shown)]
    return "\n".join(["  seconds       own  children  tests  folder", *rows, "", *longest])


if __name__ == "__main__":
    print(table(Path(sys.argv[1]).read_text().splitlines(), *map(int, sys.argv[2:3])))
