"""Finds the lines of a file that are most like a text that was not found. Pure, bounded work."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from ors_server.environments.toolsets.file_views import show_lines
from ors_server.environments.toolsets.text_files import TextFile

MAX_COMPARED = 60
"""Lines of a file whose letters are compared: those that share the most words with the text."""
MAX_LETTERS = 200
"""Letters of a line that are compared."""
MAX_WORDS = 8
"""Words, the longest ones, by which these lines are chosen."""
MAX_SHOWN_LINES = 8
"""Lines that are shown."""
_MIN_LIKENESS = 0.6
"""Likeness of two texts, in [0, 1], from which on one is shown as near the other."""
_WORD = re.compile(r"\w{2,}")


def explain_missing(file: TextFile, old: str, name: str) -> str:
    """Explain why a text is not in a file: line ends, white space, or different lines."""
    problem = f"old_str was not found in {name}; it must match exactly, including white space"
    lines = file.text.replace("\r\n", "\n").split("\n")
    searched = old.replace("\r\n", "\n").split("\n")
    if file.mixes_line_ends and "\n".join(searched) in "\n".join(lines):
        first = "\n".join(lines).partition("\n".join(searched))[0].count("\n") + 1
        return (
            f"{problem}. From line {first} on it matches except for line ends: the file mixes LF and CR LF. "
            "Replace shorter texts, each within one line"
        )
    match = _same_but_for_spaces(lines, searched)
    if match is not None:
        return (
            f"{problem}. Except for white space, it matches these lines:\n{_show(file, match, len(searched))}"
        )
    near = find_nearest(lines, searched)
    if near is None:
        return problem
    return f"{problem}. The nearest lines are:\n{_show(file, near, len(searched))}"


def _show(file: TextFile, first: int, count: int) -> str:
    return show_lines(file, first + 1, min(first + min(count, MAX_SHOWN_LINES), file.line_count))


def _same_but_for_spaces(lines: list[str], searched: list[str]) -> int | None:
    bare = ["".join(line.split()) for line in lines]
    looked_for = ["".join(line.split()) for line in searched]
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


def find_nearest(lines: Sequence[str], searched: Sequence[str]) -> int | None:
    """Return the line, from 0, where the most similar text begins, by the longest searched line."""
    offset, longest = max(enumerate(searched), key=lambda item: len(item[1].strip()))
    longest = longest.strip()[:MAX_LETTERS]
    words = sorted(set(_WORD.findall(longest)), key=len)[-MAX_WORDS:]
    shared = ((sum(word in line for word in words), at) for at, line in enumerate(lines))
    likely = sorted((item for item in shared if item[0]), reverse=True)[:MAX_COMPARED]
    # The line number is negated, so that of equally good lines the first is the greatest.
    rated = [(_likeness(lines[at].strip()[:MAX_LETTERS], longest) + count, -at) for count, at in likely]
    _, negated_line = max(rated, default=(0.0, 1))
    is_near = (
        negated_line <= 0 and _likeness(lines[-negated_line].strip()[:MAX_LETTERS], longest) >= _MIN_LIKENESS
    )
    return max(0, -negated_line - offset) if is_near else None


def _likeness(line: str, other: str) -> float:
    """Return the share of common letters, in [0, 1]; in linear time."""
    return SequenceMatcher(None, line, other, autojunk=False).quick_ratio()
