"""The fixture `audit`: it is there wherever the package is installed, and fails tests readably."""

import subprocess
import sys

import pytest

from ors_server.audit.class_ids import UnknownHackClassError
from ors_server.audit.pytest_plugin import run_audit
from ors_server.audit.waivers import WaiverError
from tests.unit.audit.quizzes import Exact, Mentions

TESTS = """
from tests.unit.audit.quizzes import Exact, Mentions

def test_a(audit):
    assert audit(Exact, only=["H3"], tasks=2).environment == "exact"

def test_b(audit):
    audit(Mentions, only=["H3"], tasks=2)
"""


def test_a_test_gets_the_fixture_and_fails_with_the_calls_and_the_remedy(tmp_path, request):
    (tmp_path / "test_quiz.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_quiz.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(request.config.rootpath), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "the audit of mentions failed: H3" in done.stdout
    assert "submit(answer=" in done.stdout
    assert "how to close it: Compare whole" in done.stdout
    assert "run_audit" not in done.stdout  # no traceback of ours


def test_a_waived_failure_fails_no_test(tmp_path):
    file = tmp_path / "accepted.toml"
    file.write_text('[[waiver]]\nclass = "H3"\nreason = "as published"\ndate = 2026-11-22\n')
    report = run_audit(Mentions, only=["H3"], tasks=2, waivers=file)
    assert [one.is_waived for one in report.classes] == [True]


def test_what_is_wrong_with_the_arguments_is_found_before_anything_is_played(tmp_path):
    with pytest.raises(UnknownHackClassError, match="unknown class 'H99'"):
        run_audit(Exact, only=["H99"])
    with pytest.raises(WaiverError, match=r"none\.toml"):
        run_audit(Exact, waivers=tmp_path / "none.toml")
