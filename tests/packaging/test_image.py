"""The steps of the Dockerfile, run without a Docker daemon, and what comes out of them."""

import json
import re
import shlex
import socket
import urllib.request
from pathlib import Path

import pytest

from ors_server.app import make_keyring
from ors_server.model.settings import Settings

ROOT = Path(__file__).parents[2]
KEY = "trainer:tests:0123456789abcdef"

pytestmark = pytest.mark.timeout(300)  # the installation downloads, on a fresh machine


def fetch(port, path, **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.status, json.load(answer)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_the_installed_command_explains_itself(installation):
    told = installation.run("ors-server", "--help")
    assert told.returncode == 0, told.stderr
    assert "serve" in told.stdout


def test_the_installed_command_lists_the_bundled_environments(installation):
    told = installation.run("ors-server", "list", "--json")
    assert told.returncode == 0, told.stderr
    assert "math_word_problems" in told.stdout


def test_a_bundled_environment_is_served_by_name_from_another_folder(installation):
    with installation.serving("ors-server", "serve", "math_word_problems", "--port", "0") as port:
        status, _ = fetch(port, "/health")
        assert status == 200
        assert fetch(port, "/list_environments") == (200, ["math_word_problems"])


def test_the_default_command_refuses_every_address_without_keys(installation, image):
    variables = {name: value for name, value in image.environment().items() if name.startswith("ORS_")}
    refused = installation.run(*image.command(), **{**variables, "ORS_PORT": "0"})
    assert refused.returncode != 0
    assert "key" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_default_command_serves_with_keys_and_is_healthy(installation, image):
    variables = {name: value for name, value in image.environment().items() if name.startswith("ORS_")}
    variables |= {"ORS_PORT": str(free_port()), "ORS_API_KEYS": KEY, "ORS_STORE": "memory"}
    assert installation.run(*image.healthcheck(), **variables).returncode != 0
    with installation.serving(*image.command(), **variables) as port:
        assert str(port) == variables["ORS_PORT"]
        healthy = installation.run(*image.healthcheck(), **variables)
        assert healthy.returncode == 0, healthy.stderr
        assert fetch(port, "/list_environments", **{"X-API-Key": KEY.rpartition(":")[2]})[0] == 200


@pytest.mark.parametrize("page", ["docs/deployment.md", "Dockerfile"])
def test_the_documented_keys_are_ones_that_the_server_takes(page):
    documented = re.findall(r"ORS_API_KEYS=(\S+)", (ROOT / page).read_text())
    assert documented
    for keys in documented:
        assert not make_keyring(Settings(api_keys=keys)).is_open


def test_the_image_runs_as_a_user_without_rights(image):
    stages = [index for index, (word, _) in enumerate(image.instructions) if word == "FROM"]
    user = next(index for index, (word, _) in enumerate(image.instructions) if word == "USER")
    assert user > stages[-1]
    assert image.all("USER") == ["10001"]
    assert image.all("EXPOSE") == [image.environment()["ORS_PORT"]]


def test_the_images_record_is_in_a_volume_that_its_user_may_write(image):
    folder = str(Path(image.environment()["ORS_STORE"]).parent)
    assert image.all("VOLUME") == [folder]
    assert any(f"-o ors {folder}" in command for command in image.all("RUN"))


def test_what_the_image_copies_is_let_through_to_the_builder(image):
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    let_through = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert {source for sources, _ in image.copied() for source in sources} == let_through


def test_the_image_holds_the_programs_that_sandboxes_and_bundled_tasks_use(image):
    (wanted,) = re.findall(r"^SYSTEM_PACKAGES := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (installs,) = [run for run in image.all("RUN") if "apt-get install" in run]
    assert set(wanted.split()) <= set(shlex.split(installs))
    last = max(index for index, (word, _) in enumerate(image.instructions) if word == "FROM")
    assert image.instructions.index(("RUN", installs)) > last


def test_hidden_tests_can_be_run_where_only_the_lock_was_installed(installation):
    found = installation.run("python", "-c", "from ors_server.grading import pytest_process")
    assert found.returncode == 0, found.stderr
