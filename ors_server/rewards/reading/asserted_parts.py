"""Which of the marked parts of a response it asserts: boxes, elements of an answer, fenced blocks. Pure."""

from collections.abc import Sequence
from typing import Final

from ors_server.rewards.reading.mentions import MAX_TAIL, Mention, Reading, is_joined, read_mentions
from ors_server.rewards.reading.polarity import Polarity
from ors_server.rewards.reading.sentences import Span

_TAKEN_BACK: Final = frozenset({Polarity.DENIED, Polarity.RETRACTED, Polarity.ASKED, Polarity.QUOTED})
_MAX_REMARK: Final = 4_000
"""Characters behind the last part that are read."""


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


def parts_not_taken_back(text: str, parts: Sequence[Span]) -> list[Span]:
    """Return the parts that a response does not deny, ask, quote or take back."""
    if not text.strip() or not parts:
        return list(parts)
    readings = _read(text, parts)
    gone = {
        (item.mention.start, item.mention.end) for item in readings if item.statement.polarity in _TAKEN_BACK
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
    readings = read_mentions(text[start:end], mentions, are_labels=True)
    return [
        Reading(
            Mention(item.mention.start + start, item.mention.end + start, item.mention.name), item.statement
        )
        for item in readings
    ]


def _is_beside(text: str, neighbour: Reading, chosen: Reading) -> bool:
    """Whether "or" or "and" joins another part to the chosen one."""
    first, last = sorted((neighbour.mention, chosen.mention), key=lambda mention: mention.start)
    is_other = neighbour.mention.name != chosen.mention.name
    return (
        is_other
        and neighbour.statement.polarity not in _TAKEN_BACK
        and is_joined(text[first.end : last.start])
    )
