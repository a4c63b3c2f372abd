"""Fenced blocks in a response: a line of three backticks opens one, another closes it. Pure."""

from collections.abc import Collection

from ors_server.rewards.reading.asserted_parts import parts_not_taken_back

FENCE = "```"


def fenced_blocks(text: str, languages: Collection[str]) -> list[str]:
    """Return the contents of the closed fenced blocks whose lower-case language, perhaps empty, is given.

    A block that the text around it denies or takes back does not count ("Do not use this:").
    """
    blocks: dict[tuple[int, int], str] = {}
    lines: list[str] | None = None
    language = ""
    start = position = 0
    for line in text.split("\n"):
        mark = line.strip()
        end = position + len(line)
        if lines is None:
            if mark.startswith(FENCE) and "`" not in mark[3:]:
                lines, language, start = [], mark[3:].strip().lower(), position
        elif mark == FENCE:
            if language in languages:
                blocks[start, end] = "\n".join(lines)
            lines = None
        else:
            lines.append(line)
        position = end + 1
    spans = parts_not_taken_back(text, list(blocks))
    return [blocks[part] for part in spans]
