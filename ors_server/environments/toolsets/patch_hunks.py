"""Applies the hunks of a patch to the text of a file. Pure, for a worker process where the file is large."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NoReturn

from ors_server.environments.tool import ToolError
from ors_server.environments.toolsets.near_text import find_nearest
from ors_server.environments.toolsets.patch_text import FileChange, Hunk
from ors_server.environments.toolsets.text_files import TextFile

_MAX_PLACES = 20
_MAX_TRIED = 1_000
_MAX_LETTERS = 200


def apply_hunks(name: str, content: bytes, change: FileChange) -> bytes:
    """Return a file's content after an update, with its encoding, byte order mark and line ends.

    Raises:
        ToolError: A hunk does not apply at exactly one place; the message names it, the line that was
            expected and the nearest one.
    """
    file = TextFile.read_editable(name, content)
    end = "\r\n" if file.uses_crlf else "\n"
    rows = file.text.split(end)
    if not rows[-1]:
        rows.pop()
    # Lines are compared without their ends, and written as they were.
    search = _Search(name, [row.removesuffix("\r") for row in rows])
    written: list[str] = []
    at = 0
    for hunk in change.hunks:
        start = search.find(hunk, at)
        written += rows[at:start]
        at = start
        for mark, text in hunk.lines:
            if mark == "+":
                written.append(text)
                continue
            written += rows[at : at + 1] if mark == " " else []
            at += 1
    written += rows[at:]
    last = "" if file.lacks_newline or not written else end
    return file.with_text(name, end.join(written) + last)


class _Search:
    """Finds the places of hunks among the lines of a file."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self._name = name
        self._lines = lines
        # One text in which a search for whole lines is a search for a string: faster than comparing slices of
        # the list.
        self._text = "".join(f"\n{line}" for line in lines) + "\n"
        self._starts = [0, *accumulate(len(line) + 1 for line in lines)]
        self._bare = [line.strip() for line in lines]

    def find(self, hunk: Hunk, first: int) -> int:
        """Return the line, from 0, at which a hunk begins; at least `first`."""
        above, is_sure = self._find_anchors(hunk, first)
        old = hunk.old
        if hunk.ends_file:
            start = len(self._lines) - len(old)
            if start < above or self._lines[start:] != old:
                self._explain(hunk, old, above)
            return start
        if not old:
            if not (hunk.anchors and is_sure) and self._lines:
                self._refuse(
                    hunk,
                    "expected context: it has only '+' lines; put lines of the file around them, an '@@ "
                    "line' that occurs once above them, or '*** End of File' below them",
                )
            return above
        places = self._places(old, above)
        if not places:
            self._explain(hunk, old, above)
        # A unique anchor decides which of several places is meant; anything else would be a guess.
        if len(places) > 1 and not (hunk.anchors and is_sure):
            self._refuse(hunk, f"its lines occur {_several(places)}; add context or an '@@ line' above it")
        return places[0]

    def _find_anchors(self, hunk: Hunk, first: int) -> tuple[int, bool]:
        """Return the line below the last anchor, and whether the first anchor occurs only once."""
        at, is_sure = first, True
        for count, anchor in enumerate(hunk.anchors):
            try:
                index = self._bare.index(anchor.strip(), at)
            except ValueError:
                shown = f"expected the line {_shorten(anchor)} of '@@'{self._below(at)}"
                self._refuse(hunk, f"{shown}, which is not in the file. {self._nearest(anchor)}")
            if not count:
                is_sure = anchor.strip() not in self._bare[index + 1 :]
            at = index + 1
        return at, is_sure

    def _places(self, old: Sequence[str], first: int) -> list[int]:
        """Return the first places of lines, up to a few."""
        text = "\n" + "\n".join(old) + "\n"
        places: list[int] = []
        offset = self._text.find(text, self._starts[first])
        while offset >= 0 and len(places) <= _MAX_PLACES:
            places.append(bisect_left(self._starts, offset))
            offset = self._text.find(text, offset + 1)
        return places

    def _explain(self, hunk: Hunk, old: Sequence[str], first: int) -> NoReturn:
        elsewhere = self._places(old, 0)
        if elsewhere:
            at_end = " at the end of the file" if hunk.ends_file else ""
            self._refuse(
                hunk,
                f"expected its lines{at_end}{self._below(first)}, but they occur {_several(elsewhere)}; "
                "hunks must be in the order of the file, not overlap, and come after their '@@' line",
            )
        length, start = self._longest(old, first)
        expected = f"expected the line {_shorten(old[length])}"
        if not length:
            self._refuse(hunk, f"{expected}{self._below(first)}. {self._nearest(old[0])}")
        after = start + length
        actual = _shorten(self._lines[after]) if after < len(self._lines) else "the end of the file"
        self._refuse(hunk, f"{expected} at line {after + 1}, got {actual}. {self._nearest(old[length])}")

    def _longest(self, old: Sequence[str], first: int) -> tuple[int, int]:
        """Return how many of the first lines are in the file together, and where; a few places are tried."""
        best, best_at, at, budget = 0, 0, first - 1, _MAX_TRIED
        while budget > 0:
            try:
                at = self._lines.index(old[0], at + 1)
            except ValueError:
                break
            length = 1
            while old[length : length + 1] == self._lines[at + length : at + length + 1] != []:
                length += 1
            budget -= length
            if length > best:
                best, best_at = length, at
        return best, best_at

    def _nearest(self, line: str) -> str:
        index = find_nearest(self._lines, [line]) if line.strip() else None
        if index is None:
            return f"No line of {self._name} is similar."
        return f"The nearest line is {index + 1}: {_shorten(self._lines[index])}"

    def _below(self, line: int) -> str:
        return f" below line {line}" if line else ""

    def _refuse(self, hunk: Hunk, reason: str) -> NoReturn:
        where = f"hunk {hunk.number} of {self._name} (line {hunk.patch_line} of the patch)"
        raise ToolError(f"{where} does not apply: {reason}")


def _several(places: Sequence[int]) -> str:
    count = f"more than {_MAX_PLACES} times" if len(places) > _MAX_PLACES else f"{len(places)} times"
    shown = ", ".join(str(index + 1) for index in places[:_MAX_PLACES])
    return f"at line {shown}" if len(places) == 1 else f"{count}, at lines {shown}"


def _shorten(line: str) -> str:
    return repr(line[:_MAX_LETTERS]) + (" (cut)" if len(line) > _MAX_LETTERS else "")
