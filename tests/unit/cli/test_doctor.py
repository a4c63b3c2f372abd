"""`ors-server doctor`: what works here, what is missing, and the command that helps."""

import os
import re
import shutil
import socket
import sys
from importlib import util
from pathlib import Path

import pytest

from ors_server.cli import doctor_checks
from ors_server.cli.doctor_checks import EXTRAS, TEST_PROGRAMS, CheckOutcome, install_command
from ors_server.installation import install_hint, reinstall_hint, uninstall_hint
from ors_server.model.settings import Settings
from ors_server.sandboxes.host.bubblewrap import BubblewrapBackend
from ors_server.sandboxes.sandbox_errors import SandboxUnavailableError

PARTS = {
    "python",
    "ors-server",
    "command",
    "settings",
    "environments",
    "sandbox",
    "docker",
    "images",
    "store",
    "port",
    "judge",
    "user model",
}
GAMES = {"alfworld", "scienceworld", "webshop"}
"""They have a line where what they need is not installed."""


@pytest.fixture
def found(run, monkeypatch, tmp_path):
    def look(status=0, **variables):
        settings = {"ORS_PORT": "0", "ORS_STORE": str(tmp_path / "new" / "e.db"), **variables}
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        ran = run("doctor", "--json")
        assert ran.status == status, ran.out
        return {finding["name"]: finding for finding in ran.json}

    return look


def test_every_part_is_looked_at_and_only_what_is_missing_has_a_remedy(found, tmp_path):
    findings = found()
    assert set(findings) - GAMES == PARTS | {f"[{name}]" for name in EXTRAS} | set(TEST_PROGRAMS)
    assert findings["python"]["text"].endswith(sys.executable)
    assert {"qa", "shell"} <= set(findings["environments"]["text"].split(", "))
    assert findings["store"]["outcome"] == "ok"
    assert not (tmp_path / "new").exists()
    for finding in findings.values():
        assert bool(finding["remedy"]) == (finding["outcome"] != "ok"), finding


def test_another_project_s_distribution_of_our_names_is_a_problem(found, tmp_path, monkeypatch):
    info = tmp_path / "site" / "ors_server-0.2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ors-server\nVersion: 0.2.0\n")
    monkeypatch.syspath_prepend(str(info.parent))
    finding = found(1)["name clash"]
    assert "the distribution ors-server 0.2.0 is another project" in finding["text"]
    assert finding["remedy"] == f"{uninstall_hint('ors-server')} && {reinstall_hint()}"


def test_a_command_that_the_shell_does_not_find_comes_with_what_to_type(found, monkeypatch):
    folder = Path(sys.executable).parent
    monkeypatch.setenv("PATH", "/usr/bin")
    finding = found()["command"]
    assert finding["outcome"] == "missing"
    assert finding["remedy"] == f"source {(folder / 'activate').relative_to(Path.cwd())}"
    monkeypatch.setenv("PATH", str(folder))
    assert found()["command"]["outcome"] == "ok"


def test_the_empty_openreward_that_pip_takes_beside_us_is_named(found, tmp_path, monkeypatch, run):
    info = tmp_path / "site" / "openreward-0.0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: openreward\nVersion: 0.0.1\n")
    (info.parent / "openreward").mkdir()
    (info.parent / "openreward/__init__.py").touch()
    monkeypatch.syspath_prepend(str(info.parent))
    assert "clients/bin/pip install openreward" in found()["openreward"]["remedy"]
    environment = tmp_path / "theirs.py"
    environment.write_text("from openreward.environments import Environment")
    ran = run("check", str(environment))
    assert ran.status == 1
    assert "No module named 'openreward.environments'" in ran.err
    assert "clients/bin/pip install openreward" in ran.err


def test_the_judge_and_the_user_model_have_lines(found, monkeypatch):
    for name in ("JUDGE_BASE_URL", "JUDGE_MODEL", "USER_BASE_URL", "USER_MODEL"):
        monkeypatch.delenv(f"ORS_{name}", raising=False)
    findings = found()
    assert findings["judge"]["outcome"] == "missing"
    assert findings["judge"]["remedy"].startswith("export ORS_JUDGE_BASE_URL=")
    assert findings["user model"]["outcome"] == "ok"
    assert "follow their scripts" in findings["user model"]["text"]
    given = {"ORS_JUDGE_BASE_URL": "http://me:s3cr3t@judge.example/v1?key=s3cr3t", "ORS_JUDGE_MODEL": "big"}
    findings = found(1, ORS_USER_BASE_URL="http://127.0.0.1:1/v1", **given)
    assert findings["judge"]["text"] == "big at http://judge.example/v1"
    assert findings["user model"]["outcome"] == "problem"
    assert findings["user model"]["remedy"] == "export ORS_USER_MODEL=MODEL"


def test_a_person_reads_lines(run, monkeypatch, tmp_path):
    monkeypatch.setenv("ORS_STORE", str(tmp_path / "e.db"))
    ran = run("doctor")
    assert ran.status == 0
    assert ran.out.startswith("ok   python ")
    assert ran.out.splitlines()[-1].endswith("optional missing, 0 problems")


def test_wrong_settings_a_store_that_cannot_be_written_and_an_environment_that_breaks_are_problems(
    found, tmp_path
):
    (tmp_path / "broken.py").write_text("1 / 0")
    toml = tmp_path / "ors.toml"
    toml.write_text('environments = ["./broken.py"]')
    findings = found(1, ORS_CONFIG=str(toml), ORS_STORE="redis://x")
    assert "ZeroDivisionError" in findings["environments"]["text"]
    assert findings["store"]["outcome"] == "problem"
    toml.write_text("prot = 1")
    assert f"{toml}, line 1: unknown setting 'prot'" in found(1)["settings"]["text"]


def test_a_port_that_is_taken_is_said(found):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        finding = found(ORS_PORT=str(taken.getsockname()[1]))["port"]
    assert finding["outcome"] == "missing"
    assert finding["remedy"] == "ors-server serve --port 0"


def test_a_database_that_is_not_there_is_a_problem(found):
    finding = found(1, ORS_STORE="postgresql://nobody:s3cr3t@127.0.0.1:1/none")["store"]
    assert finding["outcome"] == "problem"
    assert "s3cr3t" not in finding["text"]


def test_extras_and_programs_that_are_missing_come_with_their_command(monkeypatch):
    monkeypatch.setattr(doctor_checks, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/dnf" if name == "dnf" else None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for finding, extra in zip(doctor_checks.extras(), EXTRAS, strict=True):
        assert finding.outcome is CheckOutcome.MISSING
        assert finding.remedy == install_hint(extra)
    assert all(finding.remedy.startswith("sudo dnf install -y ") for finding in doctor_checks.test_programs())
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert "package manager" in install_command("x")


def test_one_kind_of_gap_is_said_in_one_way(found, monkeypatch):
    find_spec = util.find_spec
    packages = {package for package, _ in EXTRAS.values()}
    monkeypatch.setattr(
        doctor_checks, "find_spec", lambda name: None if name in packages else find_spec(name)
    )
    monkeypatch.setattr(
        "ors_server_tasks.scienceworld.game.find_spec",
        lambda name: None if name == "py4j" else find_spec(name),
    )
    monkeypatch.setattr("ors_server_tasks.scienceworld.game.find_java", lambda: "/usr/bin/java")
    findings = found()
    gaps = [findings[name] for name in ("scienceworld", "docker", *(f"[{extra}]" for extra in EXTRAS))]
    for gap in gaps:
        assert re.fullmatch(r"[^:]+: [\w, ]+ not installed", gap["text"]), gap
        assert gap["remedy"].startswith(("pip install ", f"{sys.executable} -m pip install ", "uv pip ")), gap
    assert findings["scienceworld"]["text"] == "an optional environment: py4j not installed"


async def test_a_weaker_sandbox_says_what_would_raise_it(monkeypatch):
    async def refuse(backend):
        raise SandboxUnavailableError("not installed: bwrap")

    monkeypatch.setattr(BubblewrapBackend, "probe", refuse)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    finding, *_ = await doctor_checks.sandbox(Settings(sandbox="bubblewrap"))
    assert finding.outcome is CheckOutcome.PROBLEM
    assert "level 0 of 3" in finding.text
    finding, *_ = await doctor_checks.sandbox(Settings())
    assert finding.outcome is CheckOutcome.MISSING
    assert "not installed: bwrap" in finding.text
    assert finding.remedy.endswith("apt-get install -y bubblewrap")
