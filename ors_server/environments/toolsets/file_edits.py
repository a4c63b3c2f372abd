"""Views and edits of a file's content. Pure, for a worker process where the file is large."""

from collections.abc import Sequence
from dataclasses import dataclass

from ors_server.environments.tool import ToolError
from ors_server.environments.toolsets.file_views import check_range, show_edit, show_lines
from ors_server.environments.toolsets.near_text import explain_missing
from ors_server.environments.toolsets.text_files import TextFile

_MAX_PLACES = 20


@dataclass(frozen=True, slots=True)
class Edited:
    """A file after an edit."""

    content: bytes
    shown: str
    """The changed lines, for the agent."""


def show_file(content: bytes, view_range: Sequence[int] | None) -> str | None:
    """Return a text file's lines with their numbers; `None` for a binary file.

    Raises:
        ToolError: `view_range` is outside the file.
    """
    file = TextFile.read(content)
    return None if file is None else show_lines(file, *check_range(view_range, file.line_count))


def replace_text(name: str, content: bytes, old_str: str, new_str: str) -> Edited:
    """Replace a text that occurs once."""
    file = TextFile.read_editable(name, content)
    old, new = file.adapt(old_str), file.adapt(new_str)
    at = _find_single(file, old, name)
    if old == new:
        raise ToolError("new_str is the same as old_str; nothing would change")
    text = file.text[:at] + new + file.text[at + len(old) :]
    first = file.text.count("\n", 0, at) + 1
    return _edited(name, file, text, first, first + new.count("\n"))


def insert_lines(name: str, content: bytes, insert_line: int, text: str) -> Edited:
    """Insert lines after a line, counted from 1; 0 is before the first."""
    file = TextFile.read_editable(name, content)
    total = file.line_count
    if not 0 <= insert_line <= total:
        raise ToolError(f"insert_line must be from 0 to {total}, the number of lines, got {insert_line}")
    end = "\r\n" if file.uses_crlf else "\n"
    new = file.adapt(text)
    at = sum(len(line) + 1 for line in file.text.split("\n", insert_line)[:insert_line])
    if at > len(file.text):  # the last line has no newline
        at, new = len(file.text), end + new
    elif not new.endswith("\n"):
        new += end
    whole = file.text[:at] + new + file.text[at:]
    return _edited(name, file, whole, insert_line + 1, insert_line + TextFile(text).line_count)


def _edited(name: str, file: TextFile, text: str, first: int, last: int) -> Edited:
    return Edited(file.with_text(name, text), show_edit(name, TextFile(text, file.encoding), first, last))


def _find_single(file: TextFile, old: str, name: str) -> int:
    at = file.text.find(old)
    if at < 0:
        raise ToolError(explain_missing(file, old, name))
    places: list[int] = []
    # A text may occur very often: counting stops just above what is shown.
    while at >= 0 and len(places) <= _MAX_PLACES:
        places.append(at)
        at = file.text.find(old, at + 1)
    if len(places) == 1:
        return places[0]
    count = f"more than {_MAX_PLACES}" if len(places) > _MAX_PLACES else str(len(places))
    lines = ", ".join(str(file.text.count("\n", 0, offset) + 1) for offset in places[:_MAX_PLACES])
    raise ToolError(f"old_str occurs {count} times in {name}, at lines {lines}; include more lines around it")
