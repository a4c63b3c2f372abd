r"""Finds text that is struck through: `~~42~~`, `<s>42</s>`, `\sout{42}`. Pure."""

import re
from collections.abc import Iterable
from typing import Final

from ors_server.rewards.reading.braces import closing_brace
from ors_server.rewards.reading.sentences import Span

_STRUCK_MARKS: Final = (("~~", "~~"), ("<s>", "</s>"), ("<del>", "</del>"), ("<strike>", "</strike>"))
_STRUCK_COMMAND: Final = re.compile(r"\\(?:sout|st|xout|cancel|bcancel|xcancel|hcancel)\s{0,2}\{")
_MAX_STRUCK: Final = 2_000
"""Characters of a text that is struck through."""


def struck_regions(text: str) -> list[Span]:
    r"""Return what is struck through, in order: `~~42~~`, `<s>`, `<del>`, `\\sout{}`, `\\cancel{}`."""
    # Most texts have none of these signs.
    regions: list[Span] = []
    if "<" not in text and "~~" not in text and "\\" not in text:
        return regions
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text  # as a Turkish I makes it longer
    lowered = lowered.replace("~~~", "   ")  # a fence
    for opening, closing in _STRUCK_MARKS:
        start = lowered.find(opening)
        while start >= 0:
            end = lowered.find(closing, start + len(opening))
            if end < 0:
                break
            if 0 < end - start - len(opening) <= _MAX_STRUCK:
                regions.append((start, end + len(closing)))
            start = lowered.find(opening, end + len(closing))
    position = 0
    while "\\" in text and (command := _STRUCK_COMMAND.search(text, position)) is not None:
        length = closing_brace(text[command.end() : command.end() + _MAX_STRUCK], 0)
        position = command.end() + max(length + 1, 0)
        if length >= 0:
            regions.append((command.start(), position))
    return merge_spans(regions)


def merge_spans(regions: Iterable[Span]) -> list[Span]:
    """Return spans in order, those that overlap as one."""
    merged: list[Span] = []
    for start, end in sorted(set(regions)):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
