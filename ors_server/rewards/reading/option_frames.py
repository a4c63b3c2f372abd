"""Reads what sentences of a known form say of the choices in them, on top of the reader of statements. Pure.

The reader of statements goes by the words around a value. The forms here need more than words: which of two
choices a sentence chooses ("A isn't the answer, C is"), a verdict in a list or a table ("B: no"), an idiom
("D turns the statement on its head"). `option_frames.toml` has them.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from ors_server.rewards.reading.mentions import Mention, Reading, outermost, read_mentions
from ors_server.rewards.reading.polarity import Polarity

_FRAMES: Final[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("option_frames.toml").read_text(encoding="utf-8")
)
_CHOICE: Final = "\ue000"
"""Stands for every character of a choice, so that a pattern finds choices by this character."""
_OPEN: Final = re.compile(
    r"\b(?:if|whether|unless|suppose|assuming|imagine|pretend|doubt|hardly)\b"
    r"|\b(?:says?|said|claims?|thinks?|believes?)\b[^,;]{0,60}\Z",
    re.IGNORECASE,
)
"""Words in front of a form, in its sentence, after which it chooses nothing."""
_STOP: Final = re.compile(r"[.!?](?=\s)|\n")
_SENTENCE: Final = re.compile(r"[.!?;](?=\s)|\n")
_NEXT_PART: Final = re.compile(
    r"\n[ \t]{0,3}(?:#{1,6}\s|[*_]{0,3}(?:so|therefore|thus|hence|final|answer|conclusion|the answer)\b)",
    re.IGNORECASE,
)
"""Where a part about other choices ends."""
_MAX_SENTENCE: Final = 200


@cache
def _patterns(table: str) -> tuple[re.Pattern[str], ...]:
    return tuple(map(_compile, _FRAMES[table]["patterns"]))


def _compile(text: str) -> re.Pattern[str]:
    while (part := re.search(r"\{([a-z]+)\}", text)) is not None:
        text = text.replace(part[0], _FRAMES["parts"][part[1]])
    # Possessive: a pattern that fails behind a long choice does not try its parts: a second and more.
    text = text.replace("<O>", rf"[(*_]{{0,3}}{_CHOICE}{{1,400}}+[)*_]{{0,3}}")
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


def read_options(text: str, mentions: Iterable[Mention]) -> list[Reading]:
    """Return what a text says of choices, in order."""
    outer = outermost(mentions)
    if not outer:
        return []
    masked = _masked(text, outer)
    written = _without("unread", masked, text)
    readings = read_mentions(written, outer, are_labels=True)
    chosen, last, gone = set[int](), set[int](), set[int]()
    for match in _matches("chosen", masked):
        if _is_open(masked, match) or not _is_same(text, match):
            continue
        chosen |= _starts(match, "it")
        # A later sentence may still take it back.
        if not any(map(str.isalnum, "".join(_STOP.split(masked[match.end() :], 1)[1:]))):
            last |= _starts(match, "it")
        gone |= _starts(match, "gone")
    for match in _matches("not_chosen", masked):
        gone |= _starts(match, "gone") | _starts(match, "also")
    for match in _matches("others", masked):
        end = _NEXT_PART.search(masked, match.end() + 1)
        gone |= set(range(match.end(), len(masked) if end is None else end.start()))
    voided = max((match.start() for match in _matches("taken_back", masked)), default=0)
    return [_framed(reading, chosen - gone, last, gone, voided) for reading in readings]


def without_asides(text: str) -> str:
    """Blank what says nothing of an answer that is marked, in a text of the same length."""
    return _without("unread_around_parts", text, text)


def _without(table: str, masked: str, text: str) -> str:
    read = masked
    for pattern in (*_patterns(table), *_patterns("others")):
        read = pattern.sub(lambda aside: re.sub(f"[^{_CHOICE}]", " ", aside[0]), read)
    if read == masked:
        return text
    return "".join(new if new == " " else old for new, old in zip(read, text, strict=True))


def _masked(text: str, mentions: Sequence[Mention]) -> str:
    parts: list[str] = []
    end = 0
    for mention in mentions:
        if mention.is_marked:
            continue  # a box or a tag: what is around it is read as ever
        parts += [text[end : mention.start], _CHOICE * (mention.end - mention.start)]
        end = mention.end
    return "".join([*parts, text[end:]])


def _matches(table: str, masked: str) -> Iterator[re.Match[str]]:
    for pattern in _patterns(table):
        yield from pattern.finditer(masked)


def _starts(match: re.Match[str], group: str) -> set[int]:
    span = match.span(group) if group in match.re.groupindex and match[group] else (0, 0)
    return set(range(*span))


def _is_same(text: str, match: re.Match[str]) -> bool:
    """Whether the groups `x` and `y` of a form are the same choice."""
    if "x" not in match.re.groupindex:
        return True
    return text[slice(*match.span("x"))].strip("()*_") == text[slice(*match.span("y"))].strip("()*_")


def _is_open(masked: str, match: re.Match[str]) -> bool:
    """Whether the sentence of a form only asks, supposes or reports."""
    if "x" in match.re.groupindex:
        return False
    start = match.start()
    before = _SENTENCE.split(masked[max(0, start - _MAX_SENTENCE) : start])[-1]
    following = _SENTENCE.search(masked, match.end(), match.end() + _MAX_SENTENCE)
    return _OPEN.search(before) is not None or (following is not None and following[0] == "?")


def _framed(reading: Reading, chosen: set[int], last: set[int], gone: set[int], voided: int) -> Reading:
    statement = reading.statement
    if reading.mention.is_marked:
        return reading
    if statement.start in gone or statement.start < voided:
        return replace(reading, statement=replace(statement, polarity=Polarity.DENIED, is_framed=False))
    is_standing = statement.polarity is not Polarity.RETRACTED or statement.start in last
    if statement.start in chosen and is_standing:
        return replace(reading, statement=replace(statement, polarity=Polarity.ASSERTED, is_framed=True))
    return reading
