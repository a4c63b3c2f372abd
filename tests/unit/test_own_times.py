"""The record of the tests' processor time, and the table that is made of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.script_modules import load_script

ROOT = Path(__file__).parents[2]
PROGRAM = """
import subprocess, sys

SPIN = "import time\\nwhile time.process_time() < 0.3: pass"

def test_that_computes():
    assert sum(range(3_000_000))

def test_whose_child_computes():
    subprocess.run([sys.executable, "-c", SPIN], check=True)
"""
times = load_script("test_times")


def test_a_test_counts_with_the_processes_that_ended_in_it(tmp_path):
    (tmp_path / "test_two.py").write_text(PROGRAM)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    record = tmp_path / "times"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.processor_times", str(tmp_path)]
    environment = {**os.environ, "ORS_TEST_TIMES": str(record), "PYTHONPATH": str(ROOT)}
    subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True)
    (first, own, idle), (second, _, busy) = map(json.loads, record.read_text().splitlines())
    assert (first, second) == ("test_two.py::test_that_computes", "test_two.py::test_whose_child_computes")
    assert (own > 0.0, idle) == (True, 0.0)
    assert busy > 0.2


def test_folders_are_summed_up_and_the_longest_tests_named():
    lines = [
        json.dumps(["tests/unit/cli/episodes/test_list.py::test_a", 1.0, 0.5]),
        json.dumps(["tests/unit/cli/test_main.py::test_b[x::y]", 0.25, 0.0]),
        json.dumps(["tests/docs/test_site.py::test_c", 0.0, 3.0]),
    ]
    shown = [line.split() for line in times.table(lines, 1).splitlines()]
    assert shown[1:] == [
        ["4.8", "1.2", "3.5", "3", "all"],
        ["3.0", "0.0", "3.0", "1", "tests/docs"],
        ["1.8", "1.2", "0.5", "2", "tests/unit/cli"],
        [],
        ["3.0", "tests/docs/test_site.py::test_c"],
    ]
