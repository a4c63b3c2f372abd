"""`ors-server serve` where a requirement is missing: one line at the start, with what installs it."""

from importlib import util

import pytest

from ors_server.installation import install_hint


@pytest.fixture
def java(monkeypatch, tmp_path):
    """The path of a program java, which there is none of but this."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path / "java"


def test_java_that_is_missing_is_said_at_the_start(run, java):
    assert not java.exists()
    ran = run("serve", "scienceworld", "--port", "0")
    (line,) = ran.err.splitlines()
    assert ran.status == 1
    assert "Java is missing" in line
    assert "apt-get install -y --no-install-recommends openjdk-17-jre-headless" in line


@pytest.mark.parametrize("package", ["py4j", "scienceworld"])
def test_a_package_that_is_missing_is_said_at_the_start(run, java, monkeypatch, package):
    java.touch(0o755)
    installed = util.find_spec("ors_server")
    monkeypatch.setattr(
        "ors_server_tasks.scienceworld.game.find_spec", lambda name: None if name == package else installed
    )
    ran = run("serve", "scienceworld", "--port", "0")
    (line,) = ran.err.splitlines()
    assert ran.status == 1
    assert f"the package {package} is missing. Install it: {install_hint('scienceworld')}" in line
