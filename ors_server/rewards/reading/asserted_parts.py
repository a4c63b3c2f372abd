"""Which of the marked parts of a response it asserts: boxes, elements of an answer, fenced blocks. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ors_server.rewards.reading.mentions import (
    MAX_TAIL,
    OPENERS,
    SENTENCE_START,
    Mention,
    Reading,
    is_joined,
    read_mentions,
)
from ors_server.rewards.reading.option_frames import without_asides
from ors_server.rewards.reading.polarity import Polarity, classes_of, languages_of, words_of
from ors_server.rewards.reading.sentences import Span

_TAKEN_BACK: Final = frozenset({Polarity.DENIED, Polarity.RETRACTED, Polarity.ASKED, Polarity.QUOTED})
_MAX_REMARK: Final = 4_000
"""Characters behind the last part that are read."""
_WORD: Final = r"[A-Z\u00c0-\u00de][a-z\u00df-\u00ff]{2,40}"
_NAME: Final = re.compile(rf"(?<![\w'\u2019.<\\{{-]){_WORD}(?: {_WORD}){{0,3}}(?!['\u2019\w])")
_MAX_NAMES: Final = 200
_FOLLOWING: Final = re.compile(r" ([a-z]+)")
_MODALS: Final = words_of("would will has had might may could also always still never")
_PEOPLE: Final = frozenset({"report", "first_person"})
_CAPITAL: Final = re.compile(r" (?=[A-Z\u00c0-\u00de])")


def answer_part(text: str, parts: Sequence[Span]) -> Span | None:
    """Return the last part that a response asserts as its answer; `None` if it asserts none, or hesitates."""
    readings = _read(text, parts)
    asserted = [index for index, reading in enumerate(readings) if reading.is_asserted]
    if not asserted:
        return None
    last = asserted[-1]
    for index in (last - 1, last + 1):
        if 0 <= index < len(readings) and _is_beside(text, readings[index], readings[last]):
            return None
    return readings[last].mention.start, readings[last].mention.end


def parts_not_taken_back(text: str, parts: Sequence[Span], *, takes_examples: bool = True) -> list[Span]:
    """Return the parts that a response does not deny, ask, quote or take back, nor gives as examples."""
    if not text.strip() or not parts:
        return list(parts)
    readings = _read(text, parts)
    taken_back = _TAKEN_BACK if takes_examples else _TAKEN_BACK | {Polarity.INTERMEDIATE}
    gone = {
        (item.mention.start, item.mention.end) for item in readings if item.statement.polarity in taken_back
    }
    return [part for part in parts if part not in gone]


def _read(text: str, parts: Sequence[Span]) -> list[Reading]:
    """Read what is stated of the parts near the end of a text; the parts themselves are not read."""
    start, end = max(0, parts[-1][0] - MAX_TAIL), min(len(text), parts[-1][1] + _MAX_REMARK)
    mentions = [
        Mention(first - start, last - start, " ".join(text[first:last].split()).casefold(), is_marked=True)
        for first, last in parts
        if first >= start
    ]
    # A sentence may begin behind a part without a full stop: "<answer>A</answer> Correction: ...".
    characters = list(text[start:end])
    for mention in mentions:
        if _CAPITAL.match(text, mention.end + start, end):
            characters[mention.end] = "\n"
    written = "".join(characters)
    # What a remark says of another name, it does not say of the part: "(Cork was ruled out)".
    beside = list(_names_beside(written, mentions))
    readings = read_mentions(without_asides(written), [*mentions, *beside], are_labels=True)
    denied = {
        str(item.mention.name)
        for item in readings
        if not item.mention.is_marked and item.statement.polarity is Polarity.DENIED
    }
    last = mentions[-1].end
    return [
        Reading(
            Mention(item.mention.start + start, item.mention.end + start, item.mention.name),
            replace(item.statement, polarity=Polarity.RETRACTED)
            if any(name in str(item.mention.name) and item.mention.end == last for name in denied)
            else item.statement,
        )
        for item in readings
        if item.mention.is_marked
    ]


def _names_beside(text: str, parts: Sequence[Mention]) -> Iterator[Mention]:
    """Yield the names around the parts of a text."""
    inside = iter(parts)
    part = next(inside, None)
    for index, match in enumerate(_NAME.finditer(text)):
        if index >= _MAX_NAMES:
            return
        while part is not None and part.end <= match.start():
            part = next(inside, None)
        start = match.start()
        words = match[0].casefold().split()
        if part is not None and match.end() > part.start:
            continue
        while words and (words[0] in OPENERS or classes_of(words[0]) or len(languages_of(words[:1])) > 1):
            start += len(words.pop(0)) + 1  # "Not Riga"
        said = [
            word for word in _FOLLOWING.findall(text, match.end(), match.end() + 40) if word not in _MODALS
        ]
        is_opening = SENTENCE_START.search(text[max(0, start - 8) : start]) is not None
        if is_opening and said and text.startswith(" ", match.end()) and not classes_of(said[0]):
            continue  # "Interviews with witnesses": any word begins with a capital letter here
        is_person = bool(said) and not _PEOPLE.isdisjoint(classes_of(said[0]))  # that says something
        if words and not is_person:
            yield Mention(start, match.end(), " ".join(words))


def _is_beside(text: str, neighbour: Reading, chosen: Reading) -> bool:
    """Whether "or" or "and" joins another part to the chosen one."""
    first, last = sorted((neighbour.mention, chosen.mention), key=lambda mention: mention.start)
    is_other = neighbour.mention.name != chosen.mention.name
    return (
        is_other
        and neighbour.statement.polarity not in _TAKEN_BACK
        and is_joined(text[first.end : last.start])
    )
