"""The audit of a flawed environment that the `openreward` package's own server serves, by its URL."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.conftest import client_python, free_port, running

SCRIPT = Path(__file__).parent / "scripts" / "serve_flawed_openreward.py"

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def flawed_url():
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with running([str(client_python("openreward")), str(SCRIPT), str(port)], url) as served:
        yield served


def audit(url, *options):
    command = [sys.executable, "-m", "ors_server", "audit", url, "--json", *options]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return ran.returncode, ran.stdout


JUDGED = ("H1", "H3", "H4", "H9", "H15", "H17", "H21", "H23")


@pytest.mark.parametrize(
    ("only", "tasks"), [(JUDGED, "3"), pytest.param((), "6", marks=pytest.mark.stress)], ids=["some", "all"]
)
def test_its_holes_are_found_and_what_the_wire_does_not_say_is_not_judged(flawed_url, only, tasks):
    chosen = [word for name in only for word in ("--only", name)]
    status, printed = audit(flawed_url, "--tasks", tasks, *chosen)
    report = json.loads(printed)
    assert status == 1
    verdicts = {one["id"]: one["verdict"] for one in report["classes"]}
    assert {name for name, verdict in verdicts.items() if verdict == "fail"} == {"H3", "H4", "H9", "H23"}
    assert verdicts["H15"] == verdicts["H17"] == verdicts["H21"] == "not_judged"
    assert any("the tasks' field 'answer', given to submit" in note for note in report["notes"])
    (leak,) = (one["findings"][0] for one in report["classes"] if one["id"] == "H9")
    assert leak["message"] == "the answer is in the prompt, in base64"


@pytest.mark.stress  # an ordinary run audits an environment of our own twice
def test_the_same_command_prints_the_same_json(flawed_url):
    some = ["--tasks", "6", *(word for name in ("H3", "H9", "H20") for word in ("--only", name))]
    assert audit(flawed_url, *some) == audit(flawed_url, *some)
