import contextlib
import os
import threading

import pytest

from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.cells.workdir import WorkDir
from ors_server.sandboxes.sandbox_errors import (
    SandboxFileError,
    SandboxFileMissingError,
    SandboxFileTooLargeError,
    SandboxPathError,
)


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("secret")
    return folder


@pytest.fixture
def inside(tmp_path, outside):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def files(inside):
    descriptor = os.open(inside, os.O_PATH | os.O_DIRECTORY)
    yield WorkDir(descriptor, "/work", Limits(read_bytes=100, entries=5))
    os.close(descriptor)


def test_a_link_that_leads_out_is_refused_in_every_place(files, inside, outside):
    (inside / "file").symlink_to(outside / "secret")
    (inside / "folder").symlink_to(outside)
    (inside / "up").symlink_to("../outside")
    (inside / "proc").symlink_to("/proc/self/root")
    for path in ("file", "folder/secret", "up/secret", f"proc{outside}/secret", "../outside/secret"):
        with pytest.raises(SandboxPathError):
            files.read(path)
        with pytest.raises(SandboxPathError):
            files.write(path, b"pwn")
    for path in ("folder", "up", "..", "proc"):
        with pytest.raises(SandboxPathError):
            files.entries(path, 1)
    assert (outside / "secret").read_text() == "secret"
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_a_link_that_stays_inside_is_followed(files, inside):
    files.write("real", b"x")
    (inside / "link").symlink_to("real")
    assert files.read("link") == b"x"
    files.write("link", b"y")
    assert files.read("real") == b"y"
    assert (inside / "link").is_symlink()


def test_folders_are_not_made_through_a_link_that_leads_out(files, inside, outside):
    (inside / "folder").symlink_to(outside)
    with pytest.raises(SandboxPathError):
        files.write("folder/new/file", b"")
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_pipes_devices_sockets_and_folders_are_not_read(files, inside):
    os.mkfifo(inside / "pipe")
    (inside / "d").mkdir()
    for path in ("pipe", "d", "."):
        with pytest.raises(SandboxPathError):
            files.read(path)
        with pytest.raises(SandboxPathError):
            files.write(path, b"x")
    with pytest.raises(SandboxPathError, match="not a folder"):
        files.entries("pipe", 1)


def test_a_sparse_giant_is_refused_at_once(files, inside):
    with (inside / "giant").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(SandboxFileTooLargeError):
        files.read("giant")


def test_caps_hold_on_both_sides(files):
    files.write("x", b"0" * 100)
    assert len(files.read("x")) == 100
    with pytest.raises(SandboxFileTooLargeError):
        files.read("x", 99)
    with pytest.raises(SandboxFileTooLargeError):
        files.write("x", b"0" * 101)


def test_a_shorter_content_replaces_the_whole_of_a_longer_one(files, inside):
    files.write("x", b"long content")
    (inside / "x").chmod(0o750)
    files.write("x", b"short")
    assert files.read("x") == b"short"
    assert (inside / "x").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800", "/", "/workshop", "/etc/passwd"])
def test_what_is_no_path_in_the_work_dir_is_refused(files, path):
    with pytest.raises(SandboxPathError):
        files.read(path)


def test_names_that_are_not_utf_8_can_be_listed_and_read(files, inside):
    (inside / os.fsdecode(b"\xff")).write_text("x")
    entry = files.entries(".", 1)[0]
    assert files.read(entry.path) == b"x"


def test_a_listing_has_kinds_a_depth_and_an_end(files, inside):
    files.write("a/b/c", b"123")
    (inside / "l").symlink_to("/")
    os.mkfifo(inside / "p")
    kinds = {entry.path: entry.kind.name for entry in files.entries("/work", 2)}
    assert kinds == {"a": "FOLDER", "a/b": "FOLDER", "l": "LINK", "p": "OTHER"}
    for number in range(10):
        files.write(f"many/{number}", b"")
    assert len(files.entries("many", 1)) == 5


def test_what_the_file_system_refuses_keeps_its_reason(files):
    with pytest.raises(SandboxFileMissingError):
        files.entries("none", 1)
    with pytest.raises(SandboxFileError, match="too long"):
        files.write("x" * 300, b"")
    files.write("plain", b"")
    with pytest.raises(SandboxPathError):
        files.write("plain/below", b"")


def test_a_race_of_links_never_leads_out(files, inside, outside):
    files.write("d/secret", b"ours")
    (inside / "evil").symlink_to(outside)
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            (inside / "d").rename(inside / "was")
            (inside / "evil").rename(inside / "d")
            (inside / "d").rename(inside / "evil")
            (inside / "was").rename(inside / "d")

    racer = threading.Thread(target=swap)
    racer.start()
    try:
        for _ in range(3000):
            with contextlib.suppress(SandboxFileError):
                assert files.read("d/secret") == b"ours"
    finally:
        stop.set()
        racer.join()
