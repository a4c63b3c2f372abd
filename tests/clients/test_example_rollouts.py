"""The programs of `examples/` that roll out, by the commands of its README, in the packages' environments."""

import json
import re
import signal

import pytest

from tests.clients.conftest import client_python
from tests.fixtures.example_folder import ROOT, ExampleFolder

pytestmark = pytest.mark.external


@pytest.fixture
def folder(tmp_path):
    for client in ("skyrl_gym", "verifiers_0_3"):
        assert client_python(client).exists()
    return ExampleFolder(tmp_path)


def test_returns_are_the_recorded_ones(folder):
    server = folder.serve("ors-server serve")
    try:
        printed = folder.run("rollout_with_skyrl_gym.py")
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    lines = printed.replace("}{", "}\n{").splitlines()
    returns = [json.loads(line) for line in lines if line.startswith("{")]
    assert returns == [{"returns": [1.0] * 3, "recorded": [1.0] * 3}] * 2


def test_make_examples_prepares_every_environment_that_the_commands_name():
    readme, makefile = ((ROOT / name).read_text() for name in ("examples/README.md", "Makefile"))
    named = set(re.findall(r"\.venvs/(\w+)/bin", readme))
    (prepared,) = re.findall(r"^EXAMPLES := (.*)$", makefile, re.MULTILINE)
    assert named == set(prepared.split())
    assert "examples: $(VENV)/.dev $(EXAMPLES:%=$(ORS_TEST_VENVS)/%/.installed)" in makefile
