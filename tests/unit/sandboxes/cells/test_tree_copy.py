"""The copier of small trees: everything that a tree can hold, and nothing beside it."""

import os
import stat

import pytest

from ors_server.sandboxes.cells.tree_copy import MAX_ENTRIES, copy_tree, is_small
from tests.fixtures.opened_backend import open_backend

MEGABYTE = 1 << 20


@pytest.fixture
def places(tmp_path):
    """Descriptors of two folders that each hold an empty `work`, and their paths."""
    made = []
    for name in ("source", "target"):
        (tmp_path / name / "work").mkdir(parents=True)
        made.append(os.open(tmp_path / name, os.O_RDONLY | os.O_DIRECTORY))
    yield (*made, tmp_path / "source" / "work", tmp_path / "target" / "work")
    for descriptor in made:
        os.close(descriptor)


def test_contents_modes_and_times_are_kept(places):
    source, target, old, new = places
    (old / "sub").mkdir()
    (old / "sub" / "run.sh").write_bytes(b"echo\n" * 1000)
    (old / "sub" / "run.sh").chmod(0o4751)
    os.utime(old / "sub" / "run.sh", ns=(10**18, 10**18 + 1))
    (old / "sub").chmod(0o1770)
    os.utime(old / "sub", ns=(10**18, 10**18 + 2))
    copy_tree(source, target, ["work"], None)
    copied = (new / "sub" / "run.sh").stat()
    assert (new / "sub" / "run.sh").read_bytes() == b"echo\n" * 1000
    assert stat.S_IMODE(copied.st_mode) == 0o4751
    assert copied.st_mtime_ns == 10**18 + 1
    assert stat.S_IMODE((new / "sub").stat().st_mode) == 0o1770
    assert (new / "sub").stat().st_mtime_ns == 10**18 + 2


def test_links_are_copied_and_never_followed(places, tmp_path):
    source, target, old, new = places
    (tmp_path / "secret").write_text("secret")
    (old / "out").symlink_to(tmp_path / "secret")
    (old / "dangling").symlink_to("nowhere")
    (old / "folder").symlink_to("..")
    copy_tree(source, target, ["work"], None)
    links = [str((new / name).readlink()) for name in ("out", "dangling", "folder")]
    assert links == [str(tmp_path / "secret"), "nowhere", ".."]


def test_two_names_of_one_file_stay_one_file(places):
    source, target, old, new = places
    (old / "a").write_text("same")
    (old / "deep").mkdir()
    os.link(old / "a", old / "deep" / "b")
    copy_tree(source, target, ["work"], None)
    assert (new / "a").stat().st_ino == (new / "deep" / "b").stat().st_ino
    assert (new / "deep" / "b").read_text() == "same"


def test_holes_stay_holes(places):
    source, target, old, new = places
    with (old / "sparse").open("wb") as file:
        file.seek(64 * MEGABYTE)
        file.write(b"end")
        file.truncate(128 * MEGABYTE)
    (old / "empty").touch()
    (old / "hollow").touch()
    os.truncate(old / "hollow", 5 * MEGABYTE)
    copy_tree(source, target, ["work"], None)
    copied = (new / "sparse").stat()
    assert copied.st_size == 128 * MEGABYTE
    assert copied.st_blocks * 512 < 2 * MEGABYTE
    with (new / "sparse").open("rb") as file:
        file.seek(64 * MEGABYTE)
        assert file.read(3) == b"end"
    assert (new / "empty").stat().st_size == 0
    assert (new / "hollow").stat().st_size == 5 * MEGABYTE


def test_pipes_are_made_and_not_opened(places):
    source, target, old, new = places
    os.mkfifo(old / "pipe", 0o640)
    copy_tree(source, target, ["work"], None)
    assert stat.S_ISFIFO((new / "pipe").stat().st_mode)


def test_names_may_be_any_bytes(places):
    source, target, old, new = places
    names = [b"-rf", b"new\nline", b"\xff\xfe", b" ", b"a" * 255]
    for name in names:
        (old / os.fsdecode(name)).write_bytes(name)
    copy_tree(source, target, ["work"], None)
    assert sorted(os.fsencode(path.name) for path in new.iterdir()) == sorted(names)


def test_what_has_a_name_already_is_replaced(places):
    source, target, old, new = places
    (old / "file").write_text("new")
    (old / "folder").mkdir()
    (new / "file").write_text("old and longer")
    (new / "folder").mkdir()
    copy_tree(source, target, ["work"], None)
    assert (new / "file").read_text() == "new"


def test_a_copy_gets_its_owner(places):
    if os.geteuid() != 0:
        pytest.fail("only root may give files away; run these tests as root, as make test does in CI")
    source, target, old, new = places
    (old / "file").write_text("x")
    (old / "link").symlink_to("file")
    (old / "folder").mkdir()
    copy_tree(source, target, ["work"], 54_321)
    assert {(new / name).lstat().st_uid for name in ("file", "link", "folder")} == {54_321}


def test_a_tree_is_small_up_to_a_number_of_entries(places):
    source, _, old, _ = places
    for number in range(MAX_ENTRIES - 1):
        (old / f"f{number}").touch()
    (old / "folder").mkdir()
    assert is_small(source, ["work"])
    (old / "folder" / "one more").touch()
    assert not is_small(source, ["work"])


@pytest.mark.parametrize("count", [3, MAX_ENTRIES + 50])
async def test_a_fork_has_what_the_original_had_either_way(count):
    async with open_backend() as backend:
        one = await backend.start("one")
        await one.exec(
            f"mkdir -p d/e; for i in $(seq {count}); do echo $i > d/e/f$i; done; ln d/e/f1 hard; "
            "ln -s /etc soft; mkfifo p; chmod 640 hard; chmod 000 d/e/f2; touch -d @1000000000 d/e/f3; "
            "truncate -s 9M hole; kept=1"
        )
        other = await one.fork("two")
        # Whole seconds: an archive keeps no more.
        rows = "find . /home/agent /tmp -printf '%p %y %m %s %n %l %Ts\\n' | sed 's/[.]0*$//' | sort"
        look = f"echo $kept; {rows}; cat d/e/f1 hard"
        first, second = await one.exec(look), await other.exec(look)
        assert first.stdout.text == second.stdout.text
        assert first.stdout.text.startswith("1\n")
