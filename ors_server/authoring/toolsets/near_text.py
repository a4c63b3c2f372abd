"""Says where a text almost stands in a file, for an agent whose text does not match. Pure, bounded work."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from ors_server.authoring.toolsets.file_views import show_lines
from ors_server.authoring.toolsets.text_files import TextFile

MOST_COMPARED = 60
"""Lines of a file whose letters are compared: those that share the most words with what was given."""
MOST_LETTERS = 200
"""Letters of a line that are compared."""
MOST_WORDS = 8
"""Words, the longest ones, by which lines are chosen."""
MOST_SHOWN = 8
"""Lines that are shown."""
_ALIKE = 0.6
_WORD = re.compile(r"\w{2,}")


def explain_missing(file: TextFile, old: str, name: str) -> str:
    """Return why a text is not in a file: line ends, white space, or what stands there instead."""
    said = f"old_str was not found in {name}; it must match exactly, white space included"
    lines = file.text.replace("\r\n", "\n").split("\n")
    wanted = old.replace("\r\n", "\n").split("\n")
    if file.mixes_line_ends and "\n".join(wanted) in "\n".join(lines):
        first = "\n".join(lines).partition("\n".join(wanted))[0].count("\n") + 1
        return (
            f"{said}. From line {first} on it matches but for the ends of lines: the file mixes LF and CR "
            "LF. Give shorter pieces, each within one line"
        )
    found = _same_but_for_spaces(lines, wanted)
    if found is not None:
        return f"{said}. But for white space it is what stands here:\n{_show(file, found, len(wanted))}"
    near = find_nearest(lines, wanted)
    if near is None:
        return said
    return f"{said}. The nearest lines are:\n{_show(file, near, len(wanted))}"


def _show(file: TextFile, first: int, count: int) -> str:
    return show_lines(file, first + 1, min(first + min(count, MOST_SHOWN), file.line_count))


def _same_but_for_spaces(lines: list[str], wanted: list[str]) -> int | None:
    bare = ["".join(line.split()) for line in lines]
    looked_for = ["".join(line.split()) for line in wanted]
    while looked_for and not looked_for[-1]:
        looked_for.pop()
    if not any(looked_for):
        return None
    last = looked_for[-1]
    for at in (at for at, line in enumerate(bare) if line.endswith(looked_for[0])):
        if len(looked_for) == 1 and looked_for[0] in bare[at]:
            return at
        middle = bare[at + 1 : at + len(looked_for) - 1]
        end = bare[at + len(looked_for) - 1 : at + len(looked_for)]
        if middle == looked_for[1:-1] and len(looked_for) > 1 and end and end[0].startswith(last):
            return at
    return None


def find_nearest(lines: Sequence[str], wanted: Sequence[str]) -> int | None:
    """Return where the text begins that is most like the given one's longest line; `None` if nothing is.

    Args:
        lines: Of the file; the place is counted from 0.
    """
    offset, longest = max(enumerate(wanted), key=lambda item: len(item[1].strip()))
    longest = longest.strip()[:MOST_LETTERS]
    words = sorted(set(_WORD.findall(longest)), key=len)[-MOST_WORDS:]
    shared = ((sum(word in line for word in words), at) for at, line in enumerate(lines))
    likely = sorted((item for item in shared if item[0]), reverse=True)[:MOST_COMPARED]
    rated = [(_likeness(lines[at].strip()[:MOST_LETTERS], longest) + count, -at) for count, at in likely]
    _, place = max(rated, default=(0.0, 1))
    is_near = place <= 0 and _likeness(lines[-place].strip()[:MOST_LETTERS], longest) >= _ALIKE
    return max(0, -place - offset) if is_near else None


def _likeness(one: str, other: str) -> float:
    """Share of the letters that both have, in [0, 1]; in linear time, whatever the texts are."""
    return SequenceMatcher(None, one, other, autojunk=False).quick_ratio()
