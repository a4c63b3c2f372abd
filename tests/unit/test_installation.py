"""How the package is installed decides what its hints say."""

import importlib.util
import json
import os
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from ors_server.installation import (
    explain_absence,
    find_activation,
    find_intruders,
    install_hint,
    package_hint,
    reinstall_hint,
    uninstall_hint,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture
def add(tmp_path, monkeypatch):
    """Puts a distribution before all installed ones; returns its folder."""

    def add(name, *, origin=None, version="9.9", record="", scripts=""):
        site = tmp_path / f"site-{name}"
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "RECORD").write_text(record)
        (info / "entry_points.txt").write_text(scripts)
        if origin is not None:
            (info / "direct_url.json").write_text(json.dumps(origin))
        monkeypatch.syspath_prepend(str(site))
        return site

    return add


@pytest.fixture(autouse=True)
def active_environment(monkeypatch):
    """The environment is activated: its programs come first."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def test_from_an_index_the_distribution_is_named(add):
    add("ors-mcp-server")
    assert install_hint("docker") == "pip install 'ors-mcp-server[docker]'"
    assert install_hint() == "pip install ors-mcp-server"
    assert reinstall_hint() == "pip install --force-reinstall --no-deps ors-mcp-server"


def test_from_a_checkout_the_folder_is_named(add, monkeypatch, tmp_path):
    checkout = tmp_path / "my checkout"
    checkout.mkdir()
    (checkout / "pyproject.toml").touch()
    add("ors-mcp-server", origin={"url": checkout.as_uri(), "dir_info": {"editable": True}})
    assert install_hint("docker") == f"pip install -e '{checkout}[docker]'"
    monkeypatch.chdir(checkout)
    assert install_hint("docker") == "pip install -e '.[docker]'"


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (
            {"url": "https://example.org/ors.git", "vcs_info": {"vcs": "git", "commit_id": "abc1"}},
            "'ors-mcp-server[text] @ git+https://example.org/ors.git@abc1'",
        ),
        (
            {"url": "https://example.org/ors.whl", "archive_info": {}},
            "'ors-mcp-server[text] @ https://example.org/ors.whl'",
        ),
        (
            {"url": ROOT.as_uri(), "vcs_info": {"vcs": "git", "commit_id": "abc1"}},
            f"'ors-mcp-server[text] @ git+file://localhost{ROOT}@abc1'",
        ),
        (
            {"url": "file:///no/such/ors.git", "vcs_info": {"vcs": "git", "commit_id": "abc1"}},
            "'ors-mcp-server[text]'",
        ),
        ({"url": "file:///no/such/ors.whl", "archive_info": {}}, "'ors-mcp-server[text]'"),
        ({"url": "file:///no/such/folder", "dir_info": {}}, "'ors-mcp-server[text]'"),
        ({"url": ROOT.as_uri(), "dir_info": {}}, f"'{ROOT}[text]'"),
    ],
)
def test_another_origin_is_repeated_while_it_exists(add, origin, requirement, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    add("ors-mcp-server", origin=origin)
    assert install_hint("text") == f"pip install {requirement}"


def test_a_wheel_that_still_exists_is_named(add, tmp_path):
    wheel = tmp_path / "ors.whl"
    wheel.touch()
    add("ors-mcp-server", origin={"url": wheel.as_uri(), "archive_info": {}})
    assert install_hint("text") == f"pip install 'ors-mcp-server[text] @ {wheel.as_uri()}'"


def test_the_pip_of_another_python_is_never_named(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    assert package_hint("--no-deps", "a>=1") == f"{sys.executable} -m pip install --no-deps 'a>=1'"
    assert uninstall_hint("a") == f"{sys.executable} -m pip uninstall -y a"


def test_an_environment_without_pip_is_served_by_uv(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "ors_server.installation.find_spec", lambda name: None if name == "pip" else find_spec(name)
    )
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/uv" if name == "uv" else None)
    assert package_hint("a") == f"uv pip install --python {sys.executable} a"
    assert uninstall_hint("a") == f"uv pip uninstall --python {sys.executable} a"


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("ors-server", {}),
        ("fork-of-it", {"record": "ors_server/__init__.py,,\n"}),
        ("same-command", {"scripts": "[console_scripts]\nors-server = other:main\n"}),
    ],
)
def test_a_distribution_with_our_names_is_an_intruder(add, name, files):
    add(name, version="0.2.0", **files)
    (intruder,) = (found for found in find_intruders() if found.name == name)
    assert f"the distribution {name} 0.2.0 is another project" in intruder.text
    assert not intruder.is_harmless


def test_a_distribution_with_other_names_is_none(add):
    add("ors-servers", record="ors_servers/__init__.py,,\n", scripts="[console_scripts]\nors = x:y\n")
    assert "ors-servers" not in {found.name for found in find_intruders()}


def test_this_checkout_under_its_earlier_name_is_harmless(add):
    add("ors-server", origin={"url": ROOT.as_uri(), "dir_info": {"editable": True}})
    intruder = next(found for found in find_intruders() if found.name == "ors-server")
    assert "this checkout under its earlier name" in intruder.text
    assert intruder.is_harmless


@pytest.mark.parametrize(("client", "is_harmless"), [(version("ors-mcp-server"), True), ("0.0.9", False)])
def test_the_client_s_distribution_in_the_same_version_is_harmless(add, client, is_harmless):
    add("ors-mcp-client", version=client, record="ors_server/__init__.py,,\n")
    intruder = next(found for found in find_intruders() if found.name == "ors-mcp-client")
    assert f"ors-mcp-client {client} has a part of this package's files" in intruder.text
    assert intruder.is_harmless is is_harmless
    assert intruder.remedy == f"{uninstall_hint('ors-mcp-client')} && {reinstall_hint()}"


def test_a_name_of_the_server_is_missing_where_only_the_client_is_installed():
    absent = ModuleNotFoundError("No module named 'ors_server.app'", name="ors_server.app")
    assert str(explain_absence("ors_server.create_app", absent)) == (
        "ors_server.create_app is in ors-mcp-server, and only ors-mcp-client is installed: "
        f"{uninstall_hint('ors-mcp-client')} && {package_hint('ors-mcp-server')}"
    )
    foreign = ModuleNotFoundError("No module named 'sympy'", name="sympy")
    assert explain_absence("ors_server.score", foreign) is foreign


def test_another_package_of_the_name_on_the_path_is_an_intruder(tmp_path, monkeypatch):
    package = tmp_path / "ors_server"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    (intruder,) = (found for found in find_intruders() if not found.name)
    assert str(package) in intruder.text


def test_a_shell_that_finds_the_command_needs_nothing(monkeypatch, tmp_path):
    folder = Path(sys.executable).parent
    assert not find_activation()
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.chdir(tmp_path)
    assert find_activation() == f"source {folder / 'activate'}"
    monkeypatch.chdir(folder)
    assert find_activation() == "source activate"
    monkeypatch.setattr(sys, "executable", "/opt/my python/bin/python")
    assert find_activation() == "export PATH='/opt/my python/bin':$PATH"
