"""Reads a patch in the format that begins with `*** Begin Patch`, as `patch.py` describes it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from ors_server.environments.tool import ToolError

BEGIN, END, END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
ADD, UPDATE, DELETE, MOVE = "*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "
MAX_HUNKS = 1_000
"""Hunks of one patch."""
MAX_FILES = 100
"""Files that one patch names, moved ones counted once."""
MAX_ANCHORS = 20
"""`@@` lines of one hunk."""
_MAX_SHOWN_CHARACTERS = 200
"""Characters of a wrong line that an error repeats."""


@dataclass(slots=True)
class Hunk:
    """One place of a file that a patch changes."""

    number: int
    """Of the file's hunks, from 1."""
    patch_line: int
    """The line of the patch at which it begins, from 1."""
    anchors: list[str] = field(default_factory=list[str])
    """Lines somewhere above it, from top to bottom."""
    body: str = ""
    """Its lines, each with a space, `-` or `+` in front."""
    ends_file: bool = False
    """Whether it is the end of the file."""

    @property
    def lines(self) -> list[tuple[str, str]]:
        """A space, `-` or `+`, and the line without it."""
        return [(row[0], row[1:]) for row in self.body.split("\n")]

    @property
    def old(self) -> list[str]:
        """The lines that the file has."""
        return [text for mark, text in self.lines if mark != "+"]


@dataclass(slots=True)
class FileChange:
    """A patch's change of one file."""

    kind: str
    """`ADD`, `UPDATE` or `DELETE`."""
    path: str
    move_to: str | None = None
    content: str = ""
    """All of a new file."""
    hunks: list[Hunk] = field(default_factory=list[Hunk])


def read_patch(patch: str) -> list[FileChange]:
    """Return what a patch changes, file by file.

    Raises:
        ToolError: It is not a patch; the message names the line and what was expected there.
    """
    lines = patch.replace("\r\n", "\n").strip("\n").split("\n")
    if lines[0].strip() != BEGIN:
        _refuse(1, f"{BEGIN!r}", lines[0])
    if lines[-1].strip() != END:
        _refuse(len(lines), f"{END!r}, the last line of a patch", lines[-1])
    reader = _PatchReader(lines[:-1])
    for number, line in reader.numbered():
        reader.take(number, line)
    return reader.finish(len(lines))


class _PatchReader:
    """Reads a patch line by line."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._changes: list[FileChange] = []
        self._hunk: Hunk | None = None
        self._hunks = 0
        self._rows: list[str] = []  # of the hunk or the new file

    def numbered(self) -> list[tuple[int, str]]:
        """Return the lines after the first, without empty ones before a heading."""
        numbered: list[tuple[int, str]] = []
        is_above_heading = True
        # Backwards, because the next heading decides whether empty lines above it belong to a hunk.
        for number in range(len(self._lines), 1, -1):
            line = self._lines[number - 1]
            if line or not is_above_heading:
                numbered.append((number, line))
                is_above_heading = line.startswith("*** ") and line.rstrip() != END_OF_FILE
        return numbered[::-1]

    def take(self, number: int, line: str) -> None:
        for heading in (ADD, UPDATE, DELETE):
            if line.startswith(heading):
                self._begin_file(number, heading, line)
                return
        if not self._changes:
            _refuse(number, f"{ADD!r}, {UPDATE!r} or {DELETE!r} with a path", line)
        change = self._changes[-1]
        if change.kind == ADD:
            if not line.startswith("+"):
                _refuse(number, "a line of the new file, which begins with '+'", line)
            self._rows.append(line[1:])
        elif change.kind == DELETE:
            _refuse(number, "the next file: nothing follows a deleted one", line)
        else:
            self._take_update(number, line, change)

    def finish(self, last: int) -> list[FileChange]:
        self._end_file(last)
        if not self._changes:
            raise ToolError("the patch changes no file")
        return self._changes

    def _begin_file(self, number: int, heading: str, line: str) -> None:
        self._end_file(number)
        path = line.removeprefix(heading).strip()
        if not path:
            _refuse(number, "a path", line)
        self._changes.append(FileChange(heading, path))
        if len(self._changes) > MAX_FILES:
            raise ToolError(f"a patch changes at most {MAX_FILES} files; split it")

    def _end_file(self, number: int) -> None:
        self._end_hunk()
        if self._changes:
            change = self._changes[-1]
            change.content = "".join(f"{row}\n" for row in self._rows)
            self._rows = []
            if change.kind == UPDATE and not change.hunks and change.move_to is None:
                raise ToolError(f"line {number} of the patch: the update of {change.path!r} has no hunk")

    def _take_update(self, number: int, line: str, change: FileChange) -> None:
        if line.startswith(MOVE) and change.move_to is None and not change.hunks:
            change.move_to = line.removeprefix(MOVE).strip()
        elif line == "@@" or line.startswith("@@ "):
            self._anchor(number, line[3:], change)
        elif line.rstrip() == END_OF_FILE and self._hunk is not None and self._rows:
            self._hunk.ends_file = True
        # An empty row is an empty context line: the space in front of it is easily stripped.
        elif line[:1] in {" ", "+", "-", ""}:
            hunk = self._hunk or self._begin_hunk(number, change)
            if hunk.ends_file:
                _refuse(number, f"'@@' or the next file after {END_OF_FILE!r}", line)
            self._rows.append(line or " ")
        else:
            _refuse(number, "a line that begins with a space, '+', '-', '@@' or a '*** ' heading", line)

    def _anchor(self, number: int, anchor: str, change: FileChange) -> None:
        if self._hunk is None or self._rows:
            self._end_hunk()
            self._begin_hunk(number, change)
        if anchor.strip() and self._hunk is not None:
            self._hunk.anchors.append(anchor)
            if len(self._hunk.anchors) > MAX_ANCHORS:
                raise ToolError(f"line {number} of the patch: a hunk has at most {MAX_ANCHORS} '@@' lines")

    def _begin_hunk(self, number: int, change: FileChange) -> Hunk:
        self._hunks += 1
        if self._hunks > MAX_HUNKS:
            raise ToolError(f"a patch has at most {MAX_HUNKS} hunks; split it")
        self._hunk = Hunk(len(change.hunks) + 1, number)
        change.hunks.append(self._hunk)
        return self._hunk

    def _end_hunk(self) -> None:
        hunk, self._hunk = self._hunk, None
        if hunk is None:
            return
        rows, self._rows = self._rows, []
        hunk.body = "\n".join(rows)
        if all(row[0] == " " for row in rows):
            where = f"hunk {hunk.number} of {self._changes[-1].path} (line {hunk.patch_line} of the patch)"
            raise ToolError(f"{where} changes nothing; removed lines begin with '-', added ones with '+'")


def _refuse(number: int, expected: str, line: str) -> NoReturn:
    raise ToolError(f"line {number} of the patch: expected {expected}, got {line[:_MAX_SHOWN_CHARACTERS]!r}")
