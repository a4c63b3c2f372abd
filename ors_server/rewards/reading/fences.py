"""Fenced blocks in a response: a line of three backticks opens one, another closes it. Pure."""

from collections.abc import Collection

FENCE = "```"


def fenced_blocks(text: str, languages: Collection[str]) -> list[str]:
    """Return the contents of the closed fenced blocks whose lower-case language, perhaps empty, is given."""
    found: list[str] = []
    lines: list[str] | None = None
    language = ""
    for line in text.split("\n"):
        mark = line.strip()
        if lines is None:
            if mark.startswith(FENCE) and "`" not in mark[3:]:
                lines, language = [], mark[3:].strip().lower()
        elif mark == FENCE:
            if language in languages:
                found.append("\n".join(lines))
            lines = None
        else:
            lines.append(line)
    return found
