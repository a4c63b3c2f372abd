"""No submission is paid for anything but the work, on any isolation; honest work is paid in full."""

import functools
import importlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from ors_server.sandboxes.host import launcher

ROOT = Path(__file__).parents[3]
PLAYER = ROOT / "tests" / "fixtures" / "grading_forgeries.py"
NOBODY = 65_534
SOME_PYTHON = "/usr/bin/python3"


def load_tables():
    sys.path.insert(0, str(PLAYER.parent))
    try:
        return importlib.import_module("grading_submissions").TABLES
    finally:
        sys.path.remove(str(PLAYER.parent))


TABLES = load_tables()
ROWS = [(kind, name) for kind, table in TABLES.items() for name in table]


def command(backend, user, kind):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("XDG_RUNTIME_DIR", None)
    if user == "root" or os.geteuid() != 0:
        return [sys.executable, str(PLAYER), backend, kind], environment
    environment["PYTHONPATH"] += f":{sysconfig.get_path('purelib')}"
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
    return [*drop, SOME_PYTHON, str(PLAYER), backend, kind], environment


@functools.cache
def played(backend, user, kind):
    argv, environment = command(backend, user, kind)
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def judge(backend, user, kind, name):
    passed, total, reason = played(backend, user, kind)[name]
    submission = TABLES[kind][name]
    assert (passed, reason is None) == (submission.earns, submission.earns == total), reason


@pytest.mark.timeout(300)  # the first row of a kind plays them all
@pytest.mark.parametrize(("kind", "name"), ROWS)
def test_a_submission_earns_what_it_does_right(kind, name):
    judge("bubblewrap", "root", kind, name)


def refusal(backend, user):
    if os.geteuid() != 0:
        return "needs root"
    if backend == "landlock" and launcher.abi() < 1:
        return "the kernel has no Landlock"
    if user == "user" and not (Path(SOME_PYTHON).exists() and shutil.which("setpriv")):
        return f"no {SOME_PYTHON} that another user may start"
    return None


@pytest.mark.stress
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("backend", "user"), [("bubblewrap", "user"), ("landlock", "root")])
@pytest.mark.parametrize(("kind", "name"), ROWS)
def test_a_submission_earns_no_more_on_other_isolations(backend, user, kind, name):
    if reason := refusal(backend, user):
        pytest.skip(reason)
    judge(backend, user, kind, name)


def test_there_are_many_forgeries_of_each_kind_and_honest_work_too():
    forged = [
        submission for table in TABLES.values() for submission in table.values() if not submission.earns
    ]
    assert len(forged) >= 50
    assert all(any(submission.earns for submission in table.values()) for table in TABLES.values())
