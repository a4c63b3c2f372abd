"""The script that sees to the system's packages: installs where it may, else says what to type."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts/system_packages.sh"
ABSENT = "no-such-package-anywhere"


@pytest.fixture
def run(tmp_path):
    """Runs the script where `id`, `dpkg` and the package manager are stand-ins."""

    def run(*words: str, uid: int = 0, manager: str = "apt-get", works: bool = True):
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in ("bash", "uname", "sh", "env"):
            (folder / name).symlink_to(f"/bin/{name}")
        said = tmp_path / "asked"
        for name, body in {
            "id": f"echo {uid}",
            "dpkg": "exit 1",
            manager: f'echo "$0 $*" >>{said}; {"exit 0" if works else "exit 100"}',
        }.items():
            (folder / name).write_text(f"#!/bin/sh\n{body}\n")
            (folder / name).chmod(0o755)
        environment = {**os.environ, "PATH": str(folder)}
        done = subprocess.run(
            ["/bin/bash", str(SCRIPT), *words], env=environment, capture_output=True, text=True, check=False
        )
        asked = said.read_text() if said.exists() else ""
        return done.returncode, done.stderr, asked

    return run


def test_what_is_there_is_left_alone(run):
    status, said, asked = run("bash")
    assert (status, said, asked) == (0, "", "")


def test_root_with_apt_installs_what_is_missing(run):
    status, _, asked = run("bash", ABSENT)
    assert status == 0
    assert asked.splitlines()[-1].endswith(f"install -y --no-install-recommends -qq {ABSENT}")


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("apt-get", f"sudo apt-get install -y --no-install-recommends {ABSENT}"),
        ("dnf", f"sudo dnf install -y {ABSENT}"),
        ("pacman", f"sudo pacman -S --noconfirm {ABSENT}"),
    ],
)
def test_who_may_not_install_is_told_the_one_command_and_goes_on_if_asked_to_try(run, manager, command):
    status, said, asked = run("--try", ABSENT, uid=1000, manager=manager)
    assert (status, asked) == (0, "")
    assert f"To install, type: {command}\n" in said
    assert "strongest isolation that works here" in said


def test_without_try_what_is_missing_is_a_failure(run):
    status, said, _ = run(ABSENT, uid=1000)
    assert status == 1
    assert f"Missing: {ABSENT}. Only root may install them." in said


@pytest.mark.parametrize("package", ["build-essential", "openjdk-17-jre-headless"])
def test_a_game_s_missing_compiler_or_java_is_a_failure_with_the_one_command(run, package):
    status, said, _ = run(package, uid=1000)
    assert status == 1
    assert f"Missing: {package}. Only root may install them." in said
    assert f"To install, type: sudo apt-get install -y --no-install-recommends {package}\n" in said


def test_an_installation_that_fails_says_the_command_too(run):
    status, said, asked = run("--try", ABSENT, works=False)
    assert status == 0
    assert asked
    assert f"To install, type: apt-get install -y --no-install-recommends {ABSENT}\n" in said


def test_postgresql_is_installed_without_a_cluster_of_its_own(tmp_path):
    folder, wishes, said = tmp_path / "bin", tmp_path / "createcluster.d", tmp_path / "wish"
    folder.mkdir()
    for name in ("bash", "mkdir", "rm", "uname", "cat"):
        (folder / name).symlink_to(f"/bin/{name}")
    # `compgen` stands for a machine on which the server is not installed.
    for name, body in {"id": "echo 0", "apt-get": f"cat {wishes}/*.conf >{said}"}.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    nowhere = "compgen() { return 1; }; export -f compgen; exec bash"
    environment = {"PATH": str(folder), "ORS_CREATECLUSTER": str(wishes)}
    subprocess.run(
        ["/bin/bash", "-c", f"{nowhere} {SCRIPT} postgresql"],
        env=environment,
        capture_output=True,
        check=True,
    )
    assert said.read_text() == "create_main_cluster = false\n"
    assert list(wishes.iterdir()) == []


def test_bubblewrap_is_there_where_its_program_is(run, tmp_path):
    folder = tmp_path / "bin"
    run("bash")
    (folder / "bwrap").symlink_to("/bin/true")
    done = subprocess.run(
        ["/bin/bash", str(SCRIPT), "bubblewrap"], env={"PATH": str(folder)}, capture_output=True, check=False
    )
    assert done.returncode == 0
