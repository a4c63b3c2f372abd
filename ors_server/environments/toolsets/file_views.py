"""Renders files, folders and matches for an agent. Pure."""

import re
from collections.abc import Sequence

from ors_server.environments.tool import ToolError
from ors_server.environments.toolsets.file_names import show_name
from ors_server.environments.toolsets.text_files import TextFile
from ors_server.sandboxes.base import Entry, EntryKind

MAX_CHARACTERS = 64_000
"""Characters of a file that one view shows."""
MAX_LINE = 2_000
"""Characters of one line that a view shows."""
MAX_ROWS = 1_000
"""Rows of a listing that are shown."""
LEFT_OUT = frozenset({".git", "node_modules"})
"""Folders whose content is listed only if the listing is of them."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_AROUND = 4


def check_range(view_range: Sequence[int] | None, total: int) -> tuple[int, int]:
    """Return the first and the last line to show, from 1."""
    if view_range is None:
        return 1, total
    if len(view_range) != 2:  # noqa: PLR2004  (first, last)
        raise ToolError(f"view_range must be two numbers, first and last line, got {list(view_range)}")
    first, last = view_range[0], total if view_range[1] == -1 else view_range[1]
    if not 1 <= first <= max(total, 1) or last < first - (total == 0):
        raise ToolError(
            f"view_range must be within the file's {total} lines, first before last, got {list(view_range)}"
        )
    return first, min(last, total)


def show_lines(file: TextFile, first: int, last: int) -> str:
    """Return numbered lines, and remarks on lines left out, line ends and encoding."""
    total = file.line_count
    if not total:
        return "[the file is empty]"
    shown: list[str] = []
    left = MAX_CHARACTERS
    for number, line in enumerate(file.lines[first - 1 : last], first):
        row = f"{number:6}\t{_shorten(line)}"
        left -= len(row) + 1
        if left < 0:
            shown.append(f"[{total} lines in all; use view_range to see lines from {number} on]")
            break
        shown.append(row)
    else:
        shown += _remarks(file, last, total)
    return "\n".join(shown)


def _shorten(line: str) -> str:
    more = f" [... {len(line) - MAX_LINE} characters more]" if len(line) > MAX_LINE else ""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", line[:MAX_LINE]) + more


def _remarks(file: TextFile, last: int, total: int) -> list[str]:
    remarks: list[str] = []
    if file.uses_crlf:
        remarks.append("lines end with CR LF")
    elif file.mixes_line_ends:
        remarks.append("some lines end with CR LF, shown as \\x0d")
    if _CONTROL.search(file.text.replace("\r\n", "")):
        remarks.append("control characters are shown as \\xNN")
    if file.encoding != "utf-8" or file.mark:
        remarks.append(f"encoded as {file.encoding}{' with a byte order mark' if file.mark else ''}")
    if last == total and file.lacks_newline:
        remarks.append("no newline at the end of the file")
    return [f"[{'; '.join(remarks)}]"] if remarks else []


def show_entries(entries: Sequence[Entry], folder: str = ".") -> str:
    """Return a listing, one entry a line."""
    if not entries:
        return "[the folder is empty]"
    left_out = LEFT_OUT.difference(folder.split("/"))
    shown = [entry for entry in entries if left_out.isdisjoint(entry.path.split("/")[:-1])]
    rows = [_row(entry) for entry in shown[:MAX_ROWS]]
    if len(shown) > MAX_ROWS:
        rows.append(f"[{len(shown) - MAX_ROWS} more; list a subfolder, or with a smaller depth]")
    if len(shown) < len(entries):
        names = " and ".join(sorted(LEFT_OUT))
        rows.append(f"[the content of {names} is left out; list these folders by their path]")
    return "\n".join(rows)


def _row(entry: Entry) -> str:
    name = show_name(entry.path)
    if entry.kind is EntryKind.FILE:
        return f"{name} ({entry.size} bytes)"
    return name + {EntryKind.FOLDER: "/", EntryKind.LINK: "@"}.get(entry.kind, "?")


def show_edit(name: str, file: TextFile, first: int, last: int) -> str:
    """Return what an edited file looks like around the edit."""
    total = file.line_count
    around = show_lines(file, max(1, first - _AROUND), min(total, last + _AROUND))
    return f"Edited {name}, which now has {count_lines(file.text)}:\n{around}"


def show_matches(matches: Sequence[tuple[str, int, str]], *, is_cut: bool) -> str:
    """Return the matches of a search, one a line; each is a path, a line number from 1, and the line."""
    rows = [f"{show_name(path)}:{number}: {line}" for path, number, line in matches]
    if is_cut:
        rows.append(f"[more than {len(rows)} matches; narrow the pattern, the path or the glob]")
    return "\n".join(rows) or "[no match]"


def count_lines(text: str) -> str:
    """Return the number of lines of a text, such as `2 lines`."""
    number = TextFile(text).line_count
    return "1 line" if number == 1 else f"{number} lines"
