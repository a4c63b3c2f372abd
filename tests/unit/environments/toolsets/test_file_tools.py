"""The file tools: what they show, what they change, and what they never reach."""

import base64
import contextlib
from collections.abc import AsyncIterator

import pytest

from ors_server import OffloadLimits
from ors_server.environments.tool import ToolError
from ors_server.environments.toolsets import file_tools as files_module
from ors_server.environments.toolsets.file_tools import MAX_BYTES, MAX_EDITS, MAX_IMAGE_BYTES, FileTools
from ors_server.model.errors import EnvironmentFailedError
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.sandbox_errors import SandboxClosedError, SandboxFileError
from ors_server.sandboxes.scripted import ScriptedSandbox
from tests.fixtures.loop_slices import measured_slices, yardstick


@pytest.fixture
async def files(scripted):
    return FileTools(await scripted())


@pytest.fixture
async def real_files(real) -> AsyncIterator[FileTools]:
    async with real() as place:
        yield FileTools(place)


def text_of(output):
    return "\n".join(block.text for block in output.blocks)


async def test_a_file_is_created_viewed_and_replaced(files):
    assert text_of(await files.create("d/a.txt", "one\ntwo\n")) == "Created d/a.txt: 2 lines, 8 bytes."
    assert text_of(await files.view("d/a.txt")) == "     1\tone\n     2\ttwo"
    assert text_of(await files.view("/work/d/a.txt", [2, -1])) == "     2\ttwo"
    assert text_of(await files.view("d")) == "d/a.txt (8 bytes)"
    assert text_of(await files.create("d/a.txt", "")) == "Replaced d/a.txt: 0 lines, 0 bytes."
    assert text_of(await files.view("d/a.txt")) == "[the file is empty]"
    assert text_of(await files.list_files()) == "d/\nd/a.txt (0 bytes)"
    assert text_of(await files.list_files(depth=1)) == "d/"


async def test_a_piece_that_occurs_once_is_replaced(files):
    sandbox = files.environment.sandbox
    sandbox.files["a"] = b"one\ntwo\nthree\n"
    output = await files.str_replace("a", "two\n", "2\n2b\n")
    assert sandbox.files["a"] == b"one\n2\n2b\nthree\n"
    assert text_of(output) == (
        "Edited a, which now has 4 lines:\n     1\tone\n     2\t2\n     3\t2b\n     4\tthree"
    )
    await files.str_replace("a", "one\n", "")
    assert sandbox.files["a"] == b"2\n2b\nthree\n"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("nothing", "x", "was not found in a; it must match exactly"),
        ("x", "y", "occurs 3 times in a, at lines 1, 1, 3"),
        ("aa", "b", "occurs 2 times in a, at lines 4, 4"),
        ("", "y", "old_str is empty"),
        ("end", "end", "nothing would change"),
        ("end", "\udc80", "encoded as utf-8, which has no"),
    ],
)
async def test_an_edit_that_cannot_be_meant_is_refused(files, old, new, said):
    sandbox = files.environment.sandbox
    sandbox.files["a"] = b"x x\n\nx\naaa\nend\n"
    with pytest.raises(ToolError, match=said):
        await files.str_replace("a", old, new)
    assert sandbox.files["a"] == b"x x\n\nx\naaa\nend\n"


async def test_a_piece_that_occurs_very_often_is_not_counted_to_the_end(files):
    files.environment.sandbox.files["a"] = b"x" * 1_000_000
    with pytest.raises(ToolError, match="more than 20 times"):
        await files.str_replace("a", "x", "y")


@pytest.mark.parametrize(
    ("before", "line", "text", "after"),
    [
        (b"a\nb\n", 0, "x", b"x\na\nb\n"),
        (b"a\nb\n", 1, "x\ny", b"a\nx\ny\nb\n"),
        (b"a\nb\n", 2, "x\n", b"a\nb\nx\n"),
        (b"a\nb", 2, "x", b"a\nb\nx"),
        (b"a\nb", 2, "x\n", b"a\nb\nx\n"),
        (b"a\nb", 1, "x", b"a\nx\nb"),
        (b"", 0, "x", b"x\n"),
        (b"a\r\nb\r\n", 1, "x\ny", b"a\r\nx\r\ny\r\nb\r\n"),
        (b"\xef\xbb\xbfa\n", 0, "x", b"\xef\xbb\xbfx\na\n"),
        (b"caf\xe9\n", 1, "\u00fc", b"caf\xe9\n\xfc\n"),
        (b"a\n", 1, "", b"a\n\n"),
    ],
)
async def test_lines_are_inserted_where_they_were_wanted(files, before, line, text, after):
    sandbox = files.environment.sandbox
    sandbox.files["a"] = before
    await files.insert("a", line, text)
    assert sandbox.files["a"] == after


async def test_the_last_edits_of_a_file_are_undone_one_by_one(files):
    sandbox = files.environment.sandbox
    await files.create("d/a", "one\n")
    await files.create("b", "b\n")
    await files.str_replace("./d/a", "one", "two")
    await files.insert("d/../d/a", 1, "three")
    await files.create("/work/d/a", "")
    contents = []
    for _ in range(4):
        contents.append(sandbox.files["d/a"])
        output = await files.undo_edit("d/a")
    assert contents == [b"", b"two\nthree\n", b"two\n", b"one\n"]
    assert text_of(output) == "Undone: d/a was new and is removed."
    assert sandbox.files == {"b": b"b\n"}
    with pytest.raises(ToolError, match="no such file"):
        await files.undo_edit("d/a")


async def test_an_undo_never_takes_back_what_something_else_wrote(files):
    sandbox = files.environment.sandbox
    sandbox.files["a"] = b"0"
    snapshots = []
    for number in range(3):
        await files.str_replace("a", str(number), str(number + 1))
        snapshots.append(await sandbox.snapshot())
    sandbox.files["a"] = b"by a command"
    with pytest.raises(ToolError, match="another tool or process changed the file"):
        await files.undo_edit("a")
    assert sandbox.files["a"] == b"by a command"
    await sandbox.restore(snapshots[0])
    await files.undo_edit("a")
    assert sandbox.files["a"] == b"0"
    with pytest.raises(ToolError, match="no edit of this file can be undone"):
        await files.undo_edit("a")
    assert sandbox.files["a"] == b"0"


async def test_a_session_remembers_a_bounded_number_of_edits_and_bytes(files):
    sandbox = files.environment.sandbox
    for number in range(MAX_EDITS + 5):
        await files.create("a", str(number))
    for _ in range(MAX_EDITS):
        await files.undo_edit("a")
    assert sandbox.files["a"] == b"4"
    with pytest.raises(ToolError, match="can be undone"):
        await files.undo_edit("a")
    large = "x" * MAX_BYTES
    for content in (large, large + "y", ""):
        await files.create("large", content)
    with pytest.raises(ToolError, match="can be undone"):
        await files.undo_edit("large")
    assert sandbox.files["large"] == b""
    assert files._history._bytes == 0


async def test_an_undo_that_fails_keeps_the_file_and_the_edit(files):
    full = FullDisk("full", Limits(), files.environment.sandbox._backend)
    files.environment.sandbox = full
    full.files["a"] = b"longer than ten"
    await files.str_replace("a", "longer than ten", "new")
    for _ in range(2):
        with pytest.raises(ToolError, match="no space left"):
            await files.undo_edit("a")
        assert full.files["a"] == b"new"


@pytest.mark.parametrize("line", [-1, 3])
async def test_lines_are_not_inserted_outside_the_file(files, line):
    files.environment.sandbox.files["a"] = b"a\nb\n"
    with pytest.raises(ToolError, match="from 0 to 2"):
        await files.insert("a", line, "x")


async def test_line_ends_and_encodings_stay_as_they_were(files):
    sandbox = files.environment.sandbox
    sandbox.files["crlf"] = b"a\r\nb\r\nc\r\n"
    await files.str_replace("crlf", "a\nb", "x\ny\nz")
    assert sandbox.files["crlf"] == b"x\r\ny\r\nz\r\nc\r\n"
    sandbox.files["mixed"] = b"a\r\nb\nc"
    await files.str_replace("mixed", "b\nc", "d\ne")
    assert sandbox.files["mixed"] == b"a\r\nd\ne"
    sandbox.files["utf16"] = "\ufeffé\n".encode("utf-16-le")
    await files.str_replace("utf16", "é", "ü")
    assert sandbox.files["utf16"] == "\ufeffü\n".encode("utf-16-le")
    sandbox.files["latin"] = b"caf\xe9"
    with pytest.raises(ToolError, match="encoded as latin-1, which has no '€'"):
        await files.str_replace("latin", "é", "€")
    assert sandbox.files["latin"] == b"caf\xe9"


async def test_images_are_shown_and_other_binaries_only_named(files):
    sandbox = files.environment.sandbox
    sandbox.files["i.png"] = b"\x89PNG\r\n\x1a\n" + bytes(10)
    output = await files.view("i.png")
    assert output.blocks[0].text == "i.png: image/png, 18 bytes"
    assert output.blocks[1].mimeType == "image/png"
    assert base64.b64decode(output.blocks[1].data) == sandbox.files["i.png"]
    sandbox.files["large.png"] = b"\x89PNG\r\n\x1a\n" + bytes(MAX_IMAGE_BYTES)
    large = await files.view("large.png")
    assert text_of(large) == f"large.png is image/png of {MAX_IMAGE_BYTES + 8} bytes and cannot be shown."
    sandbox.files["b"] = b"\0\1"
    assert "a binary file of 2 bytes" in text_of(await files.view("b"))
    with pytest.raises(ToolError, match="binary file and cannot be edited"):
        await files.insert("b", 0, "x")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "", "a\0b", "d/../../x"])
async def test_nothing_outside_the_work_dir_is_reached(files, path):
    for attempt in (
        files.view(path),
        files.create(path, "x"),
        files.str_replace(path, "a", "b"),
        files.insert(path, 0, "x"),
        files.undo_edit(path),
        files.list_files(path),
    ):
        with pytest.raises(ToolError):
            await attempt
    assert files.environment.sandbox.files == {}


async def test_what_is_missing_or_too_large_is_told(scripted):
    files = FileTools(await scripted(limits=Limits(read_bytes=10)))
    for attempt in (files.view("none"), files.str_replace("none", "a", "b"), files.list_files("none")):
        with pytest.raises(ToolError, match="no such file or folder"):
            await attempt
    with pytest.raises(ToolError, match="larger than 10 bytes"):
        await files.create("a", "x" * 11)
    with pytest.raises(ToolError, match="lone surrogate at position 1"):
        await files.create("a", "x\udc80")
    with pytest.raises(ToolError, match="depth must be at least 1"):
        await files.list_files(depth=0)


class FullDisk(ScriptedSandbox):
    """A sandbox whose disk takes no file longer than 10 bytes, and that loses the old content first."""

    async def write_file(self, path, content):
        self.files[path] = content[:10]
        if len(content) > 10:
            raise SandboxFileError(path, "no space left on device")


async def test_a_full_disk_does_not_take_the_old_content(files):
    full = FullDisk("full", Limits(), files.environment.sandbox._backend)
    files.environment.sandbox = full
    full.files["a"] = b"old\n"
    with pytest.raises(ToolError, match="no space left"):
        await files.str_replace("a", "old", "new and longer")
    assert full.files["a"] == b"old\n"


async def test_a_dead_sandbox_is_the_machinerys_fault(files):
    await files.environment.sandbox.aclose()
    with pytest.raises(SandboxClosedError):
        await files.view("a")


async def test_names_with_strange_bytes_are_shown_and_understood(real_files):
    await real_files.environment.sandbox.exec(
        "printf x >$'caf\\xe9'; mkdir $'d\\xff'; printf y >$'d\\xff/in'"
    )
    assert text_of(await real_files.list_files()) == "caf\\xe9 (1 bytes)\nd\\xff/\nd\\xff/in (1 bytes)"
    assert text_of(await real_files.view("caf\\xe9")).startswith("     1\tx")
    assert text_of(await real_files.view("d\\xff")) == "d\\xff/in (1 bytes)"
    assert text_of(await real_files.create("caf\\xe9", "new")).startswith("Replaced caf\\xe9")
    assert text_of(await real_files.search("new")) == "caf\\xe9:1: new"
    assert text_of(await real_files.search("y", "d\\xff")) == "d\\xff/in:1: y"


async def test_links_lead_nowhere_outside(real_files):
    sandbox = real_files.environment.sandbox
    await sandbox.exec("ln -s /etc/passwd out; ln -s / root; mkfifo pipe; echo in >plain; ln -s plain link")
    for path in ("out", "root/etc/passwd", "pipe", "root"):
        with pytest.raises(ToolError):
            await real_files.view(path)
        with pytest.raises(ToolError):
            await real_files.create(path, "x")
    assert text_of(await real_files.view("link")) == "     1\tin"
    assert text_of(await real_files.search("root:")) == "[no match]"
    for path in ("root", "root/etc", "/etc", "..", "/work/../etc"):
        with pytest.raises(ToolError, match=r"outside the work dir|out of the work dir"):
            await real_files.search("root:", path)


async def test_a_search_finds_lines_by_pattern_path_and_glob(real_files):
    sandbox = real_files.environment.sandbox
    await sandbox.write_file("a.py", b"import os\r\nx = 1\n")
    await sandbox.write_file("d/b.py", b"import sys\n")
    await sandbox.write_file("d/c.txt", b"import nothing\n")
    await sandbox.write_file("d/bin", b"import\0")
    everything = "a.py:1: import os\nd/b.py:1: import sys\nd/c.txt:1: import nothing"
    assert text_of(await real_files.search("^import")) == everything
    assert text_of(await real_files.search("import", "/work")) == everything
    assert text_of(await real_files.search("import", "d", "*.py")) == "d/b.py:1: import sys"
    assert text_of(await real_files.search("import", glob="d/*")) == "\n".join(everything.splitlines()[1:])
    assert text_of(await real_files.search("x = 1", "a.py")) == "a.py:2: x = 1"
    assert text_of(await real_files.search("absent")) == "[no match]"
    await sandbox.write_file("many", b"hit\n" * 1000)
    assert text_of(await real_files.search("hit")).endswith(
        "[more than 200 matches; narrow the pattern, the path or the glob]"
    )


@pytest.mark.parametrize(
    ("pattern", "path", "said"),
    [
        ("(", ".", "not a Python regular expression"),
        ("x", "none", "no such file"),
        ("\udc80", ".", "lone surrogate"),
    ],
)
async def test_a_search_that_cannot_be_done_is_refused(real_files, pattern, path, said):
    with pytest.raises(ToolError, match=said):
        await real_files.search(pattern, path)


async def test_a_pattern_that_never_ends_hangs_nobody(real_files, monkeypatch):
    monkeypatch.setattr(files_module, "SEARCH_SECONDS", 1.0)
    await real_files.create("a", "a" * 50 + "b")
    with pytest.raises(ToolError, match="longer than 1 seconds"):
        await real_files.search("(a+)+$")


async def test_a_sandbox_without_python_is_not_the_agents_fault(files):
    with pytest.raises(EnvironmentFailedError, match="needs a python3"):
        await files.search("x")


LONG = {"newlines": b"\n" * (4 << 20), "controls": b"\x01" * (4 << 20), "carriage": b"\r\n" * (2 << 20)}


@pytest.mark.parametrize("kind", LONG)
async def test_a_large_file_holds_up_nobody(files, kind):
    sandbox = files.environment.sandbox
    sandbox.files["a"] = LONG[kind] + b"x"
    with measured_slices() as slices:
        await files.view("a")
        for edit in (files.str_replace("a", "x", "y"), files.insert("a", 2_000_000, "new")):
            with contextlib.suppress(ToolError):  # what is binary is not edited
                await edit
    assert sandbox.files["a"] == LONG[kind] + b"x" or b"new" in sandbox.files["a"]
    assert slices.worst < yardstick(), slices.where


async def test_an_edit_that_takes_too_much_is_refused(files, monkeypatch):
    monkeypatch.setattr(files_module, "_EDIT_LIMITS", OffloadLimits(memory_bytes=100 << 20))
    files.environment.sandbox.files["a"] = LONG["newlines"] + b"x"
    with pytest.raises(ToolError, match="a is too large for this tool: it takes more than"):
        await files.str_replace("a", "x", "y")
