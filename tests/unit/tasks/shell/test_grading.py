"""The grading: what is right passes, and every way of being wrong is seen and named."""

import io
import os
import tarfile

import anyio
import pytest

from ors_server import FreshRun
from ors_server.sandboxes.captured_output import Output
from ors_server_tasks.shell.delivery import PROGRAMS, deliver, pack
from ors_server_tasks.shell.documents import ARCHIVE_BYTES, is_archive, is_json
from ors_server_tasks.shell.exercise import (
    Archive,
    Exercise,
    File,
    Folder,
    Json,
    Link,
    changed,
    gzip_stored,
    text_file,
)
from ors_server_tasks.shell.families import FAMILIES
from ors_server_tasks.shell.generator import generate
from ors_server_tasks.shell.observation import UnjudgedError, observe
from tests.fixtures.case_tables import tables
from tests.fixtures.loop_slices import measured_slices, yardstick

TABLES = tables("grading")

BEFORE = {"in.txt": text_file("one\n"), "old/a.txt": text_file("a\n"), "box/b.txt": text_file("b\n")}


def exercise(**wishes) -> Exercise:
    """An exercise: write out.txt, remove old/a.txt, leave the rest."""
    settings = {
        "ask": "Do it.",
        "before": BEFORE,
        "after": changed(BEFORE, {"out.txt": text_file("two\n")}, ("old/a.txt",)),
        "gold": "echo two > out.txt; rm old/a.txt",
        "whole": ("old", "box"),
    }
    return Exercise(**{**settings, **wishes})


def test_the_gold_state_has_no_faults(lay):
    desk = lay(exercise())
    desk.solve()
    assert desk.faults() == []


def test_the_given_state_is_told_apart(lay):
    assert lay(exercise()).faults() == ["old/a.txt: still there", "out.txt: missing"]


@pytest.mark.parametrize(
    ("deed", "fault"),
    [*TABLES["faults"], ("echo x > \"old/$(printf 'x\\377y')\"", "old/x\udcffy: not asked for")],
)
def test_a_fault_after_the_gold_state_is_named(lay, deed, fault):
    desk = lay(exercise())
    desk.solve()
    desk.bash(deed)
    assert fault in desk.faults()


@pytest.mark.parametrize(
    "deed", ["echo x > scratch.txt", "mkdir .cache", "rmdir old", "ln -s in.txt else.txt"]
)
def test_what_does_not_matter_is_no_fault(lay, deed):
    desk = lay(exercise())
    desk.solve()
    desk.bash(deed)
    assert desk.faults() == []


def test_modes_matter_where_they_were_asked_for(lay):
    before = {"f": text_file("x\n", 0o644), "d": Folder(0o755), "d/g": text_file("y\n", 0o600)}
    after = {"f": text_file("x\n", 0o640), "d": Folder(0o2770), "d/g": text_file("y\n")}
    desk = lay(exercise(before=before, after=after, whole=("d",)))
    assert desk.faults() == ["d: wrong mode", "f: wrong mode"]
    desk.bash("chmod 640 f; chmod 2770 d; chmod 444 d/g")
    assert desk.faults() == []
    desk.bash("chmod 4640 f; chmod 00770 d")
    assert desk.faults() == ["d: wrong mode", "f: wrong mode"]


def test_a_link_is_wanted_with_its_text(lay):
    desk = lay(exercise(after={**BEFORE, "new": Link("in.txt")}, whole=()))
    desk.bash("ln -s ./in.txt new")
    assert desk.faults() == ["new: not the required link"]
    desk.bash("ln -sf in.txt new")
    assert desk.faults() == []


@pytest.mark.parametrize("timed_out", [False, True])
def test_a_listing_without_end_is_a_fault_and_not_read(lay, timed_out):
    desk = lay(exercise())
    desk.solve()
    listing, is_flood = Output(b"f", b"", 10**7), not timed_out
    run = FreshRun(None, listing, Output(), timed_out=timed_out, output_limit=is_flood, duration_s=0.0)
    desk.evidence.run = lambda *_, **__: answer(run)
    assert desk.faults() == ["the work dir holds far more than was asked for"]


@pytest.mark.parametrize("exit_code", [127, 137])
def test_a_grader_that_cannot_look_gives_no_judgement(lay, exit_code):
    desk = lay(exercise())
    desk.solve()
    run = FreshRun(exit_code, Output(), Output(), timed_out=False, output_limit=False, duration_s=0.0)
    desk.evidence.run = lambda *_, **__: answer(run)
    with pytest.raises(UnjudgedError):
        desk.faults()


async def answer(run):
    return run


def test_names_of_any_bytes_are_seen(lay):
    desk = lay(exercise())
    desk.bash("mkdir -p odd; touch $'odd/new\\nline' $'odd/\\377' 'odd/ -x'")
    seen = anyio.run(observe, desk.evidence, ["odd"], ["odd"])
    assert sorted(seen.nodes) == ["odd", "odd/ -x", "odd/new\nline", "odd/\udcff"]
    assert os.fsencode("odd/\udcff") == b"odd/\xff"


@pytest.mark.parametrize(
    ("text", "value", "verdict"),
    [
        ('{"b": [1, 2.0], "a": null}', {"a": None, "b": [1, 2]}, True),
        ('{"a": 1, "a": 1}', {"a": 1}, False),
        ("[true]", [1], False),
        ("[1]", [True], False),
        ("[1, 2]", [1], False),
        ("[2, 1]", [1, 2], False),
        ('{"a": 1}', {"a": 1, "b": 2}, False),
        ('"1"', 1, False),
        ("[]", {}, False),
        ("{}", [], False),
        ("NaN", 1.0, False),
        ("1 2", 1, False),
        ("", 1, False),
        ("[" * 100_000, [1], False),
        ("9" * 5000, 9, False),
    ],
)
def test_json_is_compared_by_value(text, value, verdict):
    assert is_json(text.encode(), value) is verdict


def test_json_that_is_no_utf_8_is_none():
    assert not is_json(b'"\xff"', "\xff")


def archive(members, mode="w:gz", *, kind=tarfile.REGTYPE) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.type, member.size = kind, len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


WANTED = Archive({"a/b.txt": b"b\n", "c.txt": b"c\n"})
MEMBERS = [("a/b.txt", b"b\n"), ("c.txt", b"c\n")]


@pytest.mark.parametrize(
    ("content", "verdict"),
    [
        (archive(MEMBERS), True),
        (archive([(f"./{name}", content) for name, content in MEMBERS]), True),
        (archive(MEMBERS, "w"), False),
        (archive(MEMBERS[:1]), False),
        (archive([*MEMBERS, ("d.txt", b"")]), False),
        (archive([*MEMBERS, MEMBERS[0]]), False),
        (archive([MEMBERS[0], ("c.txt", b"x\n")]), False),
        (archive(MEMBERS, kind=tarfile.SYMTYPE), False),
        (archive(MEMBERS)[:-20], False),
        (archive(MEMBERS) + b"more", False),
        (archive([("big", bytes(5 << 20))]), False),
        (b"", False),
        (b"\x1f\x8b", False),
        (gzip_stored(b"no archive"), False),
    ],
    ids=[
        "the members",
        "with a dot before",
        "not compressed",
        "one missing",
        "one more",
        "one twice",
        "another content",
        "links",
        "cut off",
        "something behind",
        "large",
        "empty",
        "two bytes",
        "no archive",
    ],
)
def test_an_archive_is_compared_by_its_members(content, verdict):
    assert is_archive(content, WANTED) is verdict


def test_a_plain_archive_is_wanted_plain():
    assert is_archive(archive(MEMBERS, "w"), Archive(WANTED.members, gzipped=False))
    assert not is_archive(archive(MEMBERS), Archive(WANTED.members, gzipped=False))


def test_json_and_archives_are_judged_where_they_stand(lay):
    after = {**BEFORE, "x.json": Json([1]), "x.tar": Archive({"in.txt": b"one\n"}, gzipped=False)}
    desk = lay(exercise(after=after, whole=()))
    desk.bash("echo '[1]' > x.json; tar -cf x.tar in.txt")
    assert desk.faults() == []
    desk.bash("echo '[2]' > x.json; tar -cf x.tar old")
    assert desk.faults() == ["x.json: not the required JSON", "x.tar: not the required archive"]
    desk.bash("truncate -s 2M x.json; truncate -s 5M x.tar")
    assert desk.faults() == ["x.json: too long", "x.tar: too long"]


def pax_archive(records: bytes) -> bytes:
    """An archive whose extended header holds these records."""
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(records)
    padded = records + bytes(-len(records) % tarfile.BLOCKSIZE)
    return header.tobuf(tarfile.USTAR_FORMAT) + padded + archive(MEMBERS, "w")


HOSTILE = {
    "a length of 80,000 digits": pax_archive(b"1" * 80_000),
    "300,000 records": pax_archive(b"7 a=b\n\n" * 300_000),
    "a sparse map": pax_archive(
        b"".join(
            b"%d %s" % (len(record) + 3, record)
            for record in (b"GNU.sparse.offset=0\n", b"GNU.sparse.numbytes=1\n")
        )
        * 40_000
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_archive_that_is_slow_to_read_holds_up_nobody_and_is_wrong(lay, name):
    content = HOSTILE[name]
    assert len(content) < ARCHIVE_BYTES
    after = {**BEFORE, "x.tar": Archive({"in.txt": b"one\n"}, gzipped=False)}
    desk = lay(exercise(after=after, whole=()))
    (desk.work / "x.tar").write_bytes(content)
    with measured_slices() as slices:
        (fault,) = desk.faults()
    assert fault.startswith("x.tar: ")
    assert slices.worst < yardstick(), slices.where


def test_json_of_many_values_holds_up_nobody(lay):
    desk = lay(exercise(after={**BEFORE, "x.json": Json([1])}, whole=()))
    (desk.work / "x.json").write_bytes(b"[" + b"[]," * 340_000 + b"1]")
    with measured_slices() as slices:
        assert desk.faults() == ["x.json: not the required JSON"]
    assert slices.worst < yardstick(), slices.where


def test_what_is_given_is_packed_with_modes_times_and_links():
    tree = {"d": Folder(0o700), "d/f": File(b"x", 0o640, 1000), "l": Link("d/f"), "p": File(b"")}
    with tarfile.open(fileobj=io.BytesIO(pack(tree))) as tar:
        members = {member.name: member for member in tar}
        assert [member.name for member in tar] == ["d", "d/f", "l", "p"]
    assert (members["d"].isdir(), members["d"].mode) == (True, 0o700)
    assert (members["d/f"].mode, members["d/f"].mtime, members["p"].mode) == (0o640, 1000, 0o644)
    assert members["l"].linkname == "d/f"


def test_what_can_only_be_wanted_is_not_packed():
    with pytest.raises(TypeError, match=r"'x\.json' cannot be given"):
        pack({"x.json": Json(1)})


class FakeSandbox:
    def __init__(self, exit_code, stdout, stderr):
        self.result = (
            exit_code,
            Output(stdout, b"", len(stdout)),
            Output(stderr, b"", len(stderr)),
        )
        self.written = {}

    async def write_file(self, path, content):
        self.written[path] = content

    async def exec(self, command):
        assert all(program in command for program in PROGRAMS)
        exit_code, stdout, stderr = self.result
        return FreshRun(exit_code, stdout, stderr, timed_out=False, output_limit=False, duration_s=0.0)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ((0, b"git\nawk\n", b""), "does not have: git, awk; install"),
        ((2, b"", b"tar: no"), "unpacked: tar: no"),
    ],
)
def test_a_sandbox_that_lacks_something_fails_setup_in_clear_words(result, message):
    with pytest.raises(RuntimeError, match=message):
        anyio.run(deliver, FakeSandbox(*result), exercise())


@pytest.mark.parametrize("index", range(len(FAMILIES)))
def test_gold_and_blank_are_told_apart_without_a_sandbox_too(lay, index):
    desk = lay(generate("shell-1", "validation", index))
    assert desk.faults()
    desk.solve()
    assert desk.faults() == []


def test_a_stored_gzip_is_what_gzip_reads(lay):
    desk = lay(exercise(before={"a.gz": File(gzip_stored(b"x" * 200_000)), "b.gz": File(gzip_stored(b""))}))
    assert desk.bash("zcat a.gz | wc -c; zcat b.gz | wc -c").split() == ["200000", "0"]
