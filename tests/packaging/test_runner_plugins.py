"""The tests are found, and Ctrl-C works in them, whatever surrounds pytest."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGINS = ("xdist", "xdist.looponfail", "timeout", "pytest_cov", "schemathesis")
pytestmark = pytest.mark.timeout(300)


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )


@pytest.mark.parametrize(
    "folder", ["tests/unit/processes/offload", "tests/unit/replaying", "tests/packaging"]
)
def test_tests_are_collected_without_the_runners_plugins(folder):
    without = [word for name in PLUGINS for word in ("-p", f"no:{name}")]
    done = run("--collect-only", *without, folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ctrl_c_ends_programs_though_the_runner_ignores_it():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = run("tests/packaging/test_runner_plugins.py", "-k", "interrupted")
    finally:
        signal.signal(signal.SIGINT, before)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_a_program_is_interrupted_by_ctrl_c():
    program = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('went on')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "")


def test_every_folder_of_tests_is_listed_for_contributors():
    words = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = [path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name[0] not in "._"]
    assert [name for name in sorted(folders) if f"`tests/{name}`" not in words] == []
