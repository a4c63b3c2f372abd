r"""Boxes, `\boxed{}` and the like, which mark the answer in a response."""

import re
from typing import Final

from ors_server.rewards.math.braces import find_closing
from ors_server.rewards.math.normalise import unfence

_BOX: Final = re.compile(r"\\(?:boxed|fbox|framebox|beginboxed)(?![A-Za-z])\s*")
_UNBRACED: Final = re.compile(r"\\?[A-Za-z0-9.,]+")
_FORMULA_END: Final = re.compile(r"(?<!\\)\$|\\[)\]]|\n")
_BETWEEN: Final = re.compile(
    r"(?:for part \w\s*)?(?:,|;|and|or|&|, and)\s*(?:[A-Za-z]\w*(?:\s*_\s*\w+)?\s*=)?", re.IGNORECASE
)
_MATH_MARKS: Final = re.compile(
    r"\\[()\[\]]|\$|\\(?:quad|qquad|text|mbox|textrm|[ ,;:!])(?![A-Za-z])|[{}()~]"
)
_JOINER_CHARS: Final = 200
"""Characters between two joined boxes."""
_MAX_UNCLOSED: Final = 2
"""Unclosed boxes that are skipped; each costs a search in the rest of the text."""
_MAX_BOXES: Final = 64

Box = tuple[int, int, str]
"""Start, end and content."""


def find_boxes(text: str) -> list[Box]:
    """Return start, end and content of every outermost box, in order.

    A box without its closing brace ends with its formula; one that the end of the text cuts off is ignored.
    """
    boxes: list[Box] = []
    position = unclosed = 0
    while (match := _BOX.search(text, position)) is not None:
        position = match.end()
        if text.startswith("{", position):
            end = find_closing(text, position)
            unclosed += end < 0
            if unclosed > _MAX_UNCLOSED:
                break
            if end < 0:
                boxes += _close(text, match)
                continue
            boxes.append((match.start(), end + 1, text[position + 1 : end]))
            position = end + 1
        elif (unbraced := _UNBRACED.match(text, position)) is not None:
            boxes.append((match.start(), unbraced.end(), unbraced[0]))
            position = unbraced.end()
    return boxes


def _close(text: str, opening: re.Match[str]) -> list[Box]:
    end = _FORMULA_END.search(text, opening.end())
    if end is None or end[0] == "\n" or "boxed" in text[opening.end() : end.start()]:
        return []
    return [(opening.start(), end.start(), text[opening.end() + 1 : end.start()])]


def boxed(text: str, *, is_gold: bool = False, must_agree: bool = False) -> str | None:
    """Return the content of the last box, or of the boxes that are one list.

    `is_gold` makes all boxes one list; with `must_agree`, several different boxes are not an answer.
    """
    boxes = find_boxes(text)
    if not boxes:
        return None
    if must_agree and len({"".join(content.split()) for _, _, content in boxes}) > 1:
        return ""
    run = boxes if is_gold else _last_run(text, boxes)
    contents = list(dict.fromkeys(unfence(content) for _, _, content in run))
    return ", ".join(contents[-_MAX_BOXES:])


def _last_run(text: str, boxes: list[Box]) -> list[Box]:
    run = [boxes[-1]]
    for box in reversed(boxes[:-1]):
        between = text[box[1] : run[0][0]]
        if len(between) > _JOINER_CHARS:
            break
        if _BETWEEN.fullmatch(" ".join(_MATH_MARKS.sub(" ", between).split())) is None:
            break
        run.insert(0, box)
    return run


def unbox(text: str) -> str:
    """Replace boxes inside an answer by their contents."""
    for _ in range(4):
        boxes = find_boxes(text)
        if not boxes:
            break
        for start, end, content in reversed(boxes):
            text = (
                f"{text[:start]}{{{content}}}{text[end:]}"
                if "," not in content
                else f"{text[:start]}{content}{text[end:]}"
            )
    return text
