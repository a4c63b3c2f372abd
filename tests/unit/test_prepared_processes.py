"""A program of the package's that is forked is what an interpreter of its own would be."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.prepared_processes import COMMAND, ROOT, PreparedPopen

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


@pytest.mark.parametrize("words", [["rewards"], ["nothing"]], ids=["well", "misused"])
def test_its_output_and_status_are_those_of_the_installed_command(words):
    ran = []
    for start in STARTS:
        with start([COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            ran.append((*process.communicate(timeout=60), process.returncode))
    assert ran[0] == ran[1]
    assert any(ran[1][:2])


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


BOUND = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from tests.prepared_processes import PREPARED, PreparedPopen
command = ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-m", "ors_server"]
command += ["serve", "qa", "--json", "--port", "0"]
process = PreparedPopen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
process.stdout.readline()
print(process.pid, len(PREPARED.pids()), flush=True)
sys.stdin.read()
"""


def test_it_dies_with_its_parent_where_it_is_started_so():
    command = [sys.executable, "-c", BOUND, str(ROOT)]
    with PreparedPopen.__base__(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        pid, prepared = map(int, parent.stdout.readline().split())
        assert prepared == 1
        server = os.pidfd_open(pid)
        parent.kill()
        ended, _, _ = select.select([server], [], [], 60)
        os.close(server)
    assert ended


@pytest.mark.parametrize("seed", [pytest.param("0", marks=pytest.mark.stress), "7"])
def test_its_hashes_are_those_of_its_seed(seed, tmp_path):
    (tmp_path / "asked.py").write_text("import sys; print(hash('text'), file=sys.stderr)\nraise RuntimeError")
    hashes = []
    for start in STARTS:
        command = [sys.executable, "-c", PROGRAM, "check", "asked.py"]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        with start(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
            hashes.append(process.communicate(timeout=60)[1].splitlines()[0])
    assert hashes[0] == hashes[1]


def test_a_program_of_a_document_has_warnings_as_errors_and_the_folder_s_modules(tmp_path):
    (tmp_path / "near.py").write_text(
        "import warnings\ndef say(): warnings.warn('old', DeprecationWarning)\n"
    )
    program = "import sys, near\nprint(sys.argv, sys.path[0], sys.warnoptions, __name__)\nnear.say()"
    ran = []
    for start in STARTS:
        command = [sys.executable, "-W", "error", "-c", program]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with start(command, cwd=tmp_path, text=True, **pipes) as process:
            output, errors = process.communicate(timeout=60)
            ran.append((output, errors.splitlines()[-1], process.returncode))
    assert ran[0] == ran[1]
    assert ran[1][1:] == ("DeprecationWarning: old", 1)


def test_a_command_may_have_an_interpreter_of_its_own_whose_variables_proc_shows():
    command = [sys.executable, "-c", PROGRAM, "serve", "qa", "--port", "0", "--json"]
    environment = {**os.environ, "ORS_TEST_PREPARED": "0", "OF_ITS_OWN": "yes"}
    with PreparedPopen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert b'"url"' in process.stdout.readline()
        assert b"OF_ITS_OWN=yes" in Path(f"/proc/{process.pid}/environ").read_bytes()
        process.kill()
