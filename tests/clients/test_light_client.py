"""The distribution ors-mcp-client beside the packages of trainers, each in its own environment."""

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pip
import pytest

from tests.clients.conftest import ROOT, SCRIPTS, client_python
from tests.clients.consuming import LADDER, returns_of

BESIDE = {
    "inspect": "inspect-ai",
    "openenv": "openenv",
    "openenv_0_4": "openenv",
    "skyrl_gym": "skyrl-gym",
    "trl": "trl",
    "verifiers": "verifiers",
    "verifiers_0_3": "verifiers",
}
"""Environment of a client -> the distribution that it is there for."""
UNPREPARED = {"ORS_TEST_PREPARED": "0"}
"""Has a program started by an interpreter that has imported nothing: these do not import the packages."""
FOLDER = ROOT / "packages" / "client"
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]

pytestmark = [pytest.mark.external, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def url(serve_with):
    return serve_with(None, LADDER)


@pytest.mark.parametrize("client", BESIDE)
def test_one_ordinary_installation_adds_the_client_and_changes_nothing_else(client_wheel, client, tmp_path):
    report = tmp_path / "report.json"
    options = ["--no-index", "--dry-run", "--report", str(report)]
    # What `pip --python` starts, without the interpreter that starts it.
    command = [str(client_python(client)), str(Path(pip.__file__).with_name("__pip-runner__.py"))]
    command += ["install", *options, str(client_wheel)]
    variables = {**os.environ, **UNPREPARED}
    installed = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert installed.returncode == 0, installed.stderr
    planned = json.loads(report.read_text())["install"]
    assert [entry["metadata"]["name"] for entry in planned] == ["ors-mcp-client"]


@pytest.mark.parametrize("client", BESIDE)
def test_an_episode_is_played_beside_the_package(url, light_client, client):
    command = [str(client_python(client)), str(SCRIPTS / "play_light_client.py"), url, BESIDE[client]]
    played = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=light_client,
        env={**os.environ, **UNPREPARED, "PYTHONPATH": str(light_client)},
    )
    assert played.returncode == 0, played.stderr
    seen = json.loads(played.stdout)
    assert seen["return"] == returns_of(url, seen["session_id"]).episode_return == 0.375
    assert seen["version"] == PINNED[client]
    assert seen["from"] == str(light_client / "ors_server" / "__init__.py")
    assert "ors-mcp-server" not in seen["distributions"]
    assert seen["missing"].startswith(
        "ors_server.Environment is in ors-mcp-server, and only ors-mcp-client is"
    )
    assert "is in ors-mcp-server" in seen["missing_adapter"]
    # With structlog or without it, events are logged and their secrets are not.
    assert "played" in played.stderr
    assert "failed" in played.stderr
    assert "agt_secret" not in played.stderr


def _pinned(client):
    """Read which version of the package a lock file pins."""
    lock = (ROOT / "requirements" / "clients" / f"{client}.lock").read_text()
    (line,) = [line for line in lock.splitlines() if line.startswith(f"{BESIDE[client]}==")]
    return line.split()[0].partition("==")[2]


PINNED = {client: _pinned(client) for client in BESIDE}


def test_the_wheel_requires_three_packages_and_has_the_version_of_the_server(client_wheel):
    with zipfile.ZipFile(client_wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        stated = metadata.PathDistribution(zipfile.Path(archive, name.partition("/")[0] + "/")).metadata
    required = [line for line in stated.get_all("Requires-Dist") if "extra ==" not in line]
    names = [re.match(r"[a-z0-9]+", line).group() for line in required]
    assert sorted(names) == ["anyio", "httpx2", "pydantic"]
    assert stated["Version"] == metadata.version("ors-mcp-server")


def test_the_wheel_has_files_of_the_server_s_package_and_the_taskset(client_wheel):
    with zipfile.ZipFile(client_wheel) as archive:
        for name in archive.namelist():
            if name.startswith("ors_server/"):
                assert archive.read(name) == (ROOT / name).read_bytes(), name
            else:
                assert name == "ors_taskset.py" or ".dist-info/" in name
                assert name != "ors_taskset.py" or archive.read(name) == (FOLDER / name).read_bytes()


def test_every_module_of_the_wheel_but_those_of_other_packages_imports(light_client):
    folder = light_client / "ors_server"
    names = [".".join(path.relative_to(light_client).with_suffix("").parts) for path in folder.rglob("*.py")]
    # These import the package that they are for, or mcp, or structlog.
    foreign = (
        "_env",
        ".patient_transport",
        ".mcp_connection",
        ".mcp_content",
        ".mcp_episode",
        ".mcp_client",
        ".mcp_blocking",
    )
    own = [name.removesuffix(".__init__") for name in names if not name.endswith((*foreign, ".log_events"))]
    assert len(own) > 30
    program = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)\n"
    # An environment of none of the server's packages: OpenEnv's has no structlog, no sympy, no SQLAlchemy.
    subprocess.run(
        [str(client_python("skyrl_gym")), "-c", program, *own],
        check=True,
        env={**os.environ, "PYTHONPATH": str(light_client)},
    )


def test_the_source_distribution_builds_the_same_wheel(client_wheel, tmp_path):
    build = [sys.executable, "-m", "hatchling", "build"]
    subprocess.run([*build, "-t", "sdist", "-d", str(tmp_path)], cwd=FOLDER, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        # Python 3.11.2, as Debian 12 has it, knows no filters.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(tmp_path)  # noqa: S202  (what was just built)
    (source,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    command = [*build, "-t", "wheel", "-d", str(tmp_path / "again")]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (again,) = (tmp_path / "again").glob("*.whl")
    with zipfile.ZipFile(again) as one, zipfile.ZipFile(client_wheel) as other:
        assert sorted(one.namelist()) == sorted(other.namelist())


def test_the_locks_of_the_environments_hold_what_the_client_requires():
    for client in BESIDE:
        lines = (ROOT / "requirements" / "clients" / f"{client}.txt").read_text().splitlines()
        assert set(PROJECT["dependencies"]) <= set(lines), client


def test_the_client_requires_no_more_than_the_server_and_has_its_licence():
    server = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(PROJECT["dependencies"]) <= set(server["dependencies"])
    assert (FOLDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
