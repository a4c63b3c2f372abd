"""What the wheel and the source distribution hold."""

import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

import ors_server


@pytest.fixture(scope="session")
def distributions(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("dist")
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


@pytest.fixture(scope="session")
def wheel_names(distributions) -> list[str]:
    return zipfile.ZipFile(distributions["wheel"]).namelist()


def test_the_wheel_takes_two_names_in_site_packages_and_no_more(wheel_names):
    top = {name.split("/")[0] for name in wheel_names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"ors_server", "ors_server_tasks"}


def test_the_wheel_carries_every_file_of_the_bundled_environments(wheel_names):
    root = Path(__file__).parents[2] / "tasks"
    files = {
        f"ors_server_tasks/{path.relative_to(root)}"
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files == {name for name in wheel_names if name.startswith("ors_server_tasks/")}


def test_the_wheel_says_that_it_is_typed(wheel_names):
    assert "ors_server/py.typed" in wheel_names


def test_the_source_distribution_builds_the_same_wheel(distributions, wheel_names, tmp_path):
    with tarfile.open(distributions["sdist"]) as archive:
        # Python 3.11.2, as Debian 12 has it, knows no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)  # noqa: S202  (what was just built)
    (source,) = tmp_path.iterdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (again,) = (tmp_path / "dist").glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(wheel_names)


def test_every_bundled_environment_has_an_entry_point_that_leads_to_its_class():
    root = Path(__file__).parents[2] / "tasks"
    folders = {path.parent.name for path in root.glob("*/__init__.py")}
    points = [
        point
        for point in entry_points(group="ors_server.environments")
        if point.value.startswith("ors_server_tasks.")
    ]
    assert {point.name for point in points} == folders
    for point in points:
        assert issubclass(point.load(), ors_server.Environment)
        assert point.load().name == point.name


def test_the_installed_version_is_the_package_s():
    assert version("ors-mcp-server") == ors_server.__version__
