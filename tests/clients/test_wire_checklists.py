"""The shipped checklists of both protocols over HTTP, of one process and of two hosts behind HAProxy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.conftest import REFENV, two_hosts

COMMAND = Path(sys.executable).with_name("ors-server")
LIMIT = 600

pytestmark = [pytest.mark.stress, pytest.mark.timeout(LIMIT + 30)]


@pytest.fixture(scope="module", params=["one host", "two hosts"])
def url(request, serve_with, tmp_path_factory):
    """The URL of a server whose default environment is the acceptance environment."""
    hosts = two_hosts(tmp_path_factory.mktemp("hosts")) if request.param == "two hosts" else {}
    return serve_with(
        None, *(f"{REFENV}:{name}" for name in ("RefEnv", "SecondEnv", "IndexEnv", "TermEnv")), **hosts
    )


def failures(url, *flags):
    """Return the requirements that a server does not meet, and the number of those that it meets."""
    command = [COMMAND, "check", url, "--slow", "--json", *flags]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    rows = json.loads(checked.stdout)["verdicts"]
    failed = [(row["id"], row["reason"]) for row in rows if row["outcome"] == "fail"]
    return failed, sum(row["outcome"] == "pass" for row in rows)


def test_every_requirement_of_ors_is_met(url):
    failed, passed = failures(url)
    assert failed == []
    assert passed >= 78


def test_every_requirement_of_mcp_is_met(url):
    failed, passed = failures(f"{url}/mcp", "--mcp")
    assert failed == []
    assert passed >= 15
