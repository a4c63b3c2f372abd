"""A program of the package's that is forked is what an interpreter of its own would be."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.prepared_processes import PreparedPopen, prepared_interpreter

STARTS = [PreparedPopen.__base__, PreparedPopen]
PROGRAM = "from ors_server.cli.main import main; main()"
ASKED = """
import json, os, signal, sys
names = [int(name) for name in os.listdir("/proc/self/fd")]
told = {"parent": os.getppid(), "folder": os.getcwd(), "argv": sys.argv[1:], "path": sys.path[:2],
        "variables": {**os.environ}, "leads": os.getsid(0) == os.getpid(),
        "descriptors": sorted(name for name in names if os.path.exists(f"/proc/self/fd/{name}")),
        "signals": [str(signal.getsignal(number)) for number in (signal.SIGTERM, signal.SIGPIPE)],
        "main": __import__("__main__").__name__}
print(json.dumps(told), file=sys.stderr)
raise RuntimeError("it was asked")
"""


@pytest.fixture
def asked(tmp_path):
    (tmp_path / "asked.py").write_text(ASKED)
    return tmp_path


@pytest.mark.parametrize("words", [["-c", PROGRAM], ["-m", "ors_server"]], ids=["program", "module"])
def test_it_has_the_arguments_the_variables_the_folder_and_the_descriptors(asked, words):
    told = []
    read, write = os.pipe()
    for start in STARTS:
        process = start(
            [sys.executable, *words, "check", "asked.py"],
            cwd=asked,
            env={**os.environ, "OF_ITS_OWN": "yes"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[write],
            start_new_session=True,
        )
        output, errors = process.communicate(timeout=60)
        line, *message = errors.splitlines()
        told.append((process.returncode, output, json.loads(line), message))
    os.close(read)
    os.close(write)
    started, forked = told
    assert forked[2]["parent"] == os.getpid()
    assert forked[2]["variables"]["OF_ITS_OWN"] == "yes"
    assert forked[2]["leads"]
    assert forked == started


def test_it_ends_with_the_signal_that_it_is_sent():
    process = PreparedPopen(
        [sys.executable, "-c", PROGRAM, "serve", "qa", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        assert b'"url"' in process.stdout.readline()
        process.kill()
        assert process.wait(60) == -signal.SIGKILL


def test_other_variables_of_python_s_start_an_interpreter():
    assert prepared_interpreter().takes(os.environ)
    assert not prepared_interpreter().takes({**os.environ, "PYTHONHASHSEED": "7"})
    assert not prepared_interpreter().takes({**os.environ, "LC_ALL": "POSIX"})
