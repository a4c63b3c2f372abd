"""What a session has added to an image, found in folders alone: without a sandbox."""

import os

import pytest

from ors_server.sandboxes.cells.descriptors import opened
from ors_server.sandboxes.host.image_programs import ProgramRule
from ors_server.sandboxes.host.image_shadows import ShadowFinder

SITE = "opt/venv/lib/python3.11/site-packages"


def write(folder, *paths, text=""):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)


@pytest.fixture
def image(tmp_path):
    write(tmp_path / "image", "opt/venv/bin/tool", f"{SITE}/own.py", "usr/lib/x86_64-linux-gnu/libz.so.1")
    write(tmp_path / "image", "usr/lib/python3.11/random.py", f"{SITE}/own.libs/liba.so")
    return tmp_path / "image"


def find(image, upper):
    """The session's changes are its whole root here."""
    programs = ProgramRule([image], "/app", "/root").find("/opt/venv/bin:/usr/bin")
    with opened(str(upper), os.O_RDONLY | os.O_DIRECTORY) as folder:
        return ShadowFinder([image], programs, folder, folder).find()


@pytest.mark.parametrize(
    "path",
    [
        "usr/local/lib/libz.so.1",
        "usr/local/lib/tls/x86_64/libz.so.1",
        "opt/venv/lib/libz.so.1",
        f"{SITE}/own.libs/libz.so.1",
    ],
)
def test_added_libraries_where_a_program_of_the_image_may_look_first_are_hidden(image, tmp_path, path):
    write(tmp_path / "upper", path)
    assert find(image, tmp_path / "upper").paths == [path]


@pytest.mark.parametrize("path", [f"{SITE}/new.libs/libz.so.1", "usr/local/lib/liba.so.1", f"{SITE}/new.so"])
def test_libraries_of_added_packages_stay(image, tmp_path, path):
    write(tmp_path / "upper", path)
    assert find(image, tmp_path / "upper").paths == []


@pytest.mark.parametrize("name", ["x-1.dist-info", "x.egg-info"])
def test_only_entry_points_with_plugins_are_hidden(image, tmp_path, name):
    path = f"{SITE}/{name}/entry_points.txt"
    write(tmp_path / "upper", path, text="[console_scripts]\nx = x:main\n")
    assert find(image, tmp_path / "upper").paths == []
    write(tmp_path / "upper", path, text="[pytest11]\nx = x\n")
    assert find(image, tmp_path / "upper").paths == [path]


def test_compiled_modules_are_hidden_only_where_the_image_has_modules(image, tmp_path):
    write(tmp_path / "upper", f"{SITE}/new/__pycache__/a.pyc", f"{SITE}/__pycache__/own.cpython-311.pyc")
    assert find(image, tmp_path / "upper").caches == [f"{SITE}/__pycache__"]
    (image / SITE / "__pycache__").mkdir()
    assert find(image, tmp_path / "upper").caches == [f"{SITE}/__pycache__/own.cpython-311.pyc"]


@pytest.fixture
def listed(monkeypatch):
    names: list[str] = []
    real = os.listdir

    def count(folder):
        result = real(folder)
        names.extend(result)
        return result

    monkeypatch.setattr(os, "listdir", count)
    return names


def test_a_folder_that_many_lines_name_is_read_once(image, tmp_path, listed):
    upper = tmp_path / "upper"
    write(upper, *(f"opt/mine/m{number}" for number in range(300)))
    lines = "\n".join(f"/opt/{'./' * number}mine" for number in range(100))
    write(upper, *(f"{SITE}/{number}.pth" for number in range(20)), text=lines)
    assert find(image, upper).paths == []
    assert len(listed) < 1000


def test_many_added_modules_take_time_with_their_number(image, tmp_path, listed):
    write(image, *(f"{SITE}/p{number}.py" for number in range(200)))
    library = "opt/venv/lib/python3.11"
    write(tmp_path / "upper", *(f"{library}/m{number}.py" for number in range(300)), f"{library}/own.py")
    assert find(image, tmp_path / "upper").paths == [f"{library}/own.py"]
    assert len(listed) < 2000
