"""Patches: what applies, what is refused, and that a refused one changes nothing."""

import random
from collections.abc import AsyncIterator
from difflib import SequenceMatcher

import anyio
import pytest

from ors_server.environments.tool import ToolError
from ors_server.environments.toolsets.patch import MAX_BYTES, MAX_PATCH, PatchTools
from ors_server.sandboxes.base import Limits
from ors_server.sandboxes.sandbox_errors import SandboxFileError
from ors_server.sandboxes.scripted import ScriptedSandbox
from tests.fixtures.loop_slices import measured_slices, yardstick


@pytest.fixture
async def patches(scripted):
    return PatchTools(await scripted())


@pytest.fixture
async def real_patches(real) -> AsyncIterator[PatchTools]:
    async with real() as place:
        yield PatchTools(place)


def patch_of(*lines):
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def update(path, *lines):
    return patch_of(f"*** Update File: {path}", *lines)


async def refused(patches, patch, said=""):
    files = patches.environment.sandbox.files
    before = dict(files)
    with pytest.raises(ToolError, match=said) as caught:
        await patches.apply_patch(patch)
    assert files == before
    return str(caught.value)


async def test_files_are_added_updated_moved_and_deleted_by_one_patch(patches):
    files = patches.environment.sandbox.files
    files |= {"a.py": b"one\ntwo\nthree\n", "old": b"\0binary", "b": b"x\n", "gone": b"g\n"}
    output = await patches.apply_patch(
        patch_of(
            "*** Add File: d/new.py",
            "+first",
            "+",
            "*** Update File: a.py",
            "@@",
            " one",
            "-two",
            "+2",
            "+2b",
            "",
            "*** Update File: old",
            "*** Move to: d/moved",
            "*** Update File: b",
            "*** Move to: c",
            "@@ x",
            "+y",
            "*** Delete File: gone",
        )
    )
    assert files == {
        "d/new.py": b"first\n\n",
        "a.py": b"one\n2\n2b\nthree\n",
        "d/moved": b"\0binary",
        "c": b"x\ny\n",
    }
    assert output.blocks[0].text == "Done:\nA d/new.py\nM a.py\nM old -> d/moved\nM b -> c\nD gone"


@pytest.mark.parametrize(
    ("before", "lines", "after"),
    [
        (b"a\nb", ["-b", "+c"], b"a\nc"),
        (b"", ["+a"], b"a\n"),
        (b"a\n", ["-a"], b""),
        (b"a\nb\n", ["+c", "*** End of File"], b"a\nb\nc\n"),
        (b"x\nx\n", [" x", "+y", "*** End of File"], b"x\nx\ny\n"),
        (b"a\r\nb\r\n", [" a", "+n", " b"], b"a\r\nn\r\nb\r\n"),
        (b"a\r\nb", ["-a", " b", "+c"], b"b\r\nc"),
        (b"a\r\nb\nc\n", [" a", " b", "-c", "+d"], b"a\r\nb\nd\n"),
        (b"caf\xe9\nx\n", [" caf\xe9", "-x", "+\xfc"], b"caf\xe9\n\xfc\n"),
        (b"\xef\xbb\xbfa\n", ["-a", "+b"], b"\xef\xbb\xbfb\n"),
        (b"a\x0c\x85\nb\n".replace(b"\x85", b"\xc2\x85"), ["-b", "+c"], b"a\x0c\xc2\x85\nc\n"),
        (b"class A:\n f\n x\nclass B:\n f\n x\n", ["@@ class B:", "  f", "- x", "+ y"], None),
        (b"class A:\n f\n x\nclass B:\n f\n x\n", ["@@ class B:", "@@  f", "- x", "+ y"], None),
        (b"a\n\nb\n", [" a", "", "-b", "+c"], b"a\n\nc\n"),
        (b"*** End Patch\n", ["-*** End Patch", "+@@ x"], b"@@ x\n"),
    ],
    ids=str,
)
async def test_only_what_the_hunks_name_changes(patches, before, lines, after):
    files = patches.environment.sandbox.files
    files["f"] = before
    await patches.apply_patch(update("f", *lines))
    assert files["f"] == (b"class A:\n f\n x\nclass B:\n f\n y\n" if after is None else after)


WORDS = [
    *("", " ", "def f():", "    return 1", "}", "a", "b", "x = 'y'", "+", "-z", "@@ q", "*** End of File"),
    "\t",
]


def random_edit(chance):
    """Random lines, the same edited, and the hunks of a patch with enough context to be at one place."""
    old = [chance.choice(WORDS) for _ in range(chance.randint(0, 40))]
    new = list(old)
    for _ in range(chance.randint(1, 5)):
        at = chance.randint(0, len(new))
        new[at : at + chance.randint(0, 3)] = [chance.choice(WORDS) for _ in range(chance.randint(0, 3))]
    if old == new:
        new.append("more")
    groups = SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(chance.randint(1, 4))
    hunks, end = [], 0
    for group in groups:
        first, last = group[0][1], group[-1][2]
        wanted = old[first:last]
        rest = range(end, len(old) - len(wanted) + 1)
        is_once = wanted and sum(old[at : at + len(wanted)] == wanted for at in rest) == 1
        if not is_once and last != len(old):
            return old, new, [whole(old, new)]
        rows = ["@@"]
        for kind, i, j, k, m in group:
            if kind == "equal":
                rows += [f" {line}" for line in old[i:j]]
            else:
                rows += [f"-{line}" for line in old[i:j]] + [f"+{line}" for line in new[k:m]]
        hunks.append(rows + (["*** End of File"] if not is_once else []))
        end = last
    return old, new, hunks


def whole(old, new):
    return ["@@", *(f"-{line}" for line in old), *(f"+{line}" for line in new)]


def joined(lines, end):
    return "".join(line + end for line in lines).encode()


@pytest.mark.parametrize("seed", range(300))
async def test_a_random_edit_applies_exactly_and_near_misses_do_not(patches, seed):
    chance = random.Random(seed)  # noqa: S311  (reproducible test data)
    old, new, hunks = random_edit(chance)
    end = chance.choice(["\n", "\r\n"]) if old else "\n"
    files = patches.environment.sandbox.files
    files["f"] = joined(old, end)
    files["other"] = b"kept\n"
    rows = [row for hunk in hunks for row in hunk]
    patch = update("f", *rows)
    for place, row in enumerate(rows):
        if row[0] in " -" and chance.random() < 0.2:
            changed = [*rows[:place], row + "~", *rows[place + 1 :]]
            said = await refused(patches, update("f", *changed), "does not apply: expected")
            assert "of f (line " in said
    await refused(patches, patch.removesuffix("*** End Patch"), "expected '\\*\\*\\* End Patch'")
    await refused(patches, patch.replace("File: f", "File: g"), "no such file")
    await refused(patches, patch.replace("File: f", "File: ../f"), "out of the work dir")
    await refused(
        patches, update("f", *rows).replace("*** End Patch", "*** Delete File: f\n*** End Patch"), "twice"
    )
    await patches.apply_patch(patch)
    assert files == {"f": joined(new, end), "other": b"kept\n"}


BODY = (
    "def one():\n    value = compute(1)\n    return value\n\n"
    "def two():\n    value = compute(2)\n    return value\n"
)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            [" def one():", "-    value = compute(3)", "+    value = 0"],
            (
                r"hunk 1 of f \(line 3 of the patch\) does not apply: expected the line "
                r"'    value = compute\(3\)' at line 2, got '    value = compute\(1\)'. "
                r"The nearest line is 2: '    value = compute\(1\)'"
            ),
        ),
        (["-    value = compute(11)", "+x"], r"expected the line .*compute\(11\)'. The nearest line is 2"),
        (["-    return value", "+x"], "its lines occur 2 times, at lines 3, 7; add context or an '@@ line'"),
        (
            ["@@", " def two():", "-    value = compute(2)", "@@", "-def one():", "+x"],
            r"hunk 2 of f \(line 6 .* below line 6, but they occur at line 1; hunks must be in",
        ),
        (
            [" def one():", "-    value = compute(1)", "@@", "-    value = compute(1)", "+x"],
            "hunk 2 of f .* not overlap",
        ),
        (
            ["@@ def three():", "-    return value"],
            "the line 'def three\\(\\):' of '@@', which is not in the file",
        ),
        (["@@     return value", "-    return value"], None),
        (["@@ def two():", "-    value = compute(1)"], "below line 5, but they occur at line 2"),
        (["+x"], "it has only '\\+' lines"),
        (["@@     return value", "+x"], "it has only '\\+' lines"),
        ([" def one():"], "changes nothing"),
        (["@@ def one():"], "changes nothing"),
        ([], "has no hunk"),
        (["-def one():", "*** End of File"], "at the end of the file, but they occur at line 1"),
        (["-def one():", "*** End of File", "+x"], None),
        (["-def one():", "*** Move to: g"], "begins with a space"),
        (["nonsense"], "line 3 of the patch: expected a line that begins with a space.*'nonsense'"),
        (["--- a/f"], "No line of f is similar|nearest"),
    ],
    ids=str,
)
async def test_a_hunk_that_does_not_apply_says_why(patches, lines, said):
    patches.environment.sandbox.files["f"] = BODY.encode()
    if said is None:
        lines, said = ["-def one():", "*** End of File", "+x"], "expected '@@' or the next file"
    await refused(patches, update("f", *lines), said)


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("", r"line 1 of the patch: expected '\*\*\* Begin Patch'"),
        ("*** Begin Patch", r"expected '\*\*\* End Patch', the last line"),
        (patch_of(), "changes no file"),
        (patch_of("+x"), "line 2 of the patch: expected '.*Add File: '"),
        (patch_of("*** Add File: "), "expected a path"),
        (patch_of("*** Add File: n", "x"), "begins with '\\+'"),
        (patch_of("*** Add File: f", "+x"), "f: already exists"),
        (patch_of("*** Add File: empty", "+x"), "empty: already exists"),
        (patch_of("*** Add File: n", "+x", "*** Add File: ./n", "+y"), "names './n' twice"),
        (patch_of("*** Add File: n", "+x", "*** Delete File: none"), "'none': no such file"),
        (patch_of("*** Add File: n", "+x", "*** Add File: n/m", "+y"), ""),
        (patch_of("*** Delete File: f", "-x"), "nothing follows a deleted one"),
        (patch_of("*** Delete File: d"), "not a plain file"),
        (patch_of("*** Delete File: f", "*** Delete File: ../f"), "leads out"),
        (patch_of("*** Delete File: /etc/passwd"), "out"),
        (patch_of("*** Add File: ../n", "+x"), "leads out"),
        (patch_of("*** Update File: f", "*** Move to: ../f"), "leads out"),
        (patch_of("*** Update File: f", "*** Move to: d/g"), "d/g: already exists"),
        (patch_of("*** Update File: f", "*** Move to: f"), "twice"),
        (patch_of("*** Update File: bin", "+x"), "bin is a binary file"),
        (patch_of("*** Update File: f", " f", "+\u20ac") + "\nmore", "the last line of a patch"),
        (patch_of("*** Add File: n", "+\udc80"), "lone surrogate"),
        ("x" * (MAX_PATCH + 1), "at most"),
        (patch_of(*(f"*** Delete File: {number}" for number in range(101))), "at most 100 files"),
        (update("f", *["@@", "-a"] * 1001), "at most 1000 hunks"),
        (update("f", *["@@ a"] * 21), "at most 20 '@@' lines"),
    ],
    ids=lambda value: str(value)[:60].encode(errors="replace").decode(),
)
async def test_a_patch_that_cannot_be_meant_changes_nothing(patches, patch, said):
    files = patches.environment.sandbox.files
    files |= {"f": b"f\n", "d/g": b"g\n", "bin": b"\0", "empty": b""}
    if said:
        await refused(patches, patch, said)
        return
    files["n/old"] = b""
    await refused(patches, patch, "not a plain file")


async def test_files_that_are_too_large_together_are_refused(patches):
    files = patches.environment.sandbox.files
    files |= {"a": bytes(MAX_BYTES), "b": b"xx"}
    await refused(patches, patch_of("*** Delete File: a", "*** Delete File: b"), "at most 16777216 bytes")


class FullDisk(ScriptedSandbox):
    """A sandbox whose disk takes no file that begins with `no`, and that loses the old content first."""

    async def write_file(self, path, content):
        await super().write_file(path, b"" if content.startswith(b"no") else content)
        if content.startswith(b"no"):
            raise SandboxFileError(path, "no space left on device")


class Cancelled(FullDisk):
    """A sandbox whose write takes for ever."""

    async def write_file(self, path, content):
        await super().write_file(path, content.removeprefix(b"no"))
        if content.startswith(b"no"):
            await anyio.sleep_forever()


BROKEN = patch_of("*** Add File: n", "+x", "*** Update File: f", "-f", "+no", "*** Delete File: g")


async def test_what_was_written_is_put_back_when_the_disk_is_full(patches):
    full = FullDisk("full", Limits(), patches.environment.sandbox._backend)
    patches.environment.sandbox = full
    full.files |= {"f": b"f\n", "g": b"g\n"}
    await refused(patches, BROKEN, "no space left")


async def test_what_was_written_is_put_back_when_the_call_is_cancelled(patches):
    slow = Cancelled("slow", Limits(), patches.environment.sandbox._backend)
    patches.environment.sandbox = slow
    slow.files |= {"f": b"f\n", "g": b"g\n"}
    with anyio.move_on_after(1) as scope:
        await patches.apply_patch(BROKEN)
    assert scope.cancelled_caught
    assert slow.files == {"f": b"f\n", "g": b"g\n"}


async def test_nothing_outside_is_reached_through_links(real_patches):
    sandbox = real_patches.environment.sandbox
    await sandbox.exec(
        "echo a >a; mkdir d; ln -s d e; echo b >d/b; ln -s a same; ln -s / root; ln -s /etc/passwd out"
    )
    for patch in (
        patch_of("*** Delete File: out"),
        patch_of("*** Delete File: same"),
        patch_of("*** Add File: root/tmp/x", "+x"),
        patch_of("*** Update File: root/etc/passwd", "*** Move to: p"),
        patch_of("*** Update File: a", "-a", "+1", "*** Update File: same", "-a", "+2"),
        patch_of("*** Update File: a", "-a", "+1", "*** Delete File: d/b", "*** Delete File: e/b"),
        patch_of("*** Add File: d/n", "+1", "*** Add File: e/n", "+2"),
    ):
        with pytest.raises(ToolError):
            await real_patches.apply_patch(patch)
        names = [row.path for row in await sandbox.list_files(depth=2)]
        assert names == ["a", "d", "d/b", "e", "out", "root", "same"]
        assert await sandbox.read_file("a") == b"a\n"
    await real_patches.apply_patch(patch_of("*** Update File: a", "-a", "+1", "*** Delete File: d/b"))
    assert await sandbox.read_file("same") == b"1\n"
    assert [row.path for row in await sandbox.list_files("d")] == []


LARGE = {
    "many hunks": (b"".join(b"line %d\n" % n for n in range(200_000)), 1, 990),
    "blank lines": (b"\n" * 1_000_000, 3, 1),
    "one long hunk": (b"a\n" * 100_000 + b"b\n", 90_000, 1),
}


@pytest.mark.parametrize("kind", LARGE)
async def test_a_large_patch_holds_up_nobody(patches, kind):
    content, length, count = LARGE[kind]
    rows = content.decode().split("\n")
    files = patches.environment.sandbox.files
    files["f"] = content
    hunks = []
    for number in range(count):
        hunks += ["@@", *(f" {row}" for row in rows[number * 100 :][:length]), "+new"]
    with measured_slices() as slices:
        if count > 1:
            await patches.apply_patch(update("f", *hunks))
        else:
            await refused(patches, update("f", *hunks), "occur|does not apply")
    assert files["f"].count(b"new") == (count if count > 1 else 0)
    assert slices.worst < yardstick(), slices.where
