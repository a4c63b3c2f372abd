"""The versions that are recorded with episodes."""

import platform
from pathlib import Path

from ors_server import __version__
from ors_server.environments.package_versions import packages_of


def make_class(module: str) -> type:
    return type("Made", (), {"__module__": module})


def test_a_package_has_the_version_of_its_distribution():
    versions = packages_of(make_class("pytest.something"))
    assert set(versions) == {"python", "pytest"}
    assert versions["python"] == platform.python_version()
    assert set(packages_of(make_class("no_such_distribution"))) == {"python"}


def test_classes_of_this_package_have_its_version_beside_another_project_of_the_name(
    tmp_path: Path, monkeypatch
):
    info = tmp_path / "ors_server-0.2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ors-server\nVersion: 0.2.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert packages_of(make_class("ors_server.adapters.gymnasium_games"))["ors_server"] == __version__
