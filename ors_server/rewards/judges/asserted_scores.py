"""What a judge's reply asserts: without what it denies, quotes, asks or takes back. Pure.

A number is blanked for one of four reasons: the reader of statements finds that it is not asserted, a pattern
of `score_phrases.toml` fits its words, it is within a quotation, or the judge refuses to score. A number that
is denied or replaced leaves a gap, which the next number fills; any other is not a score of this work.
"""

import re
import tomllib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from ors_server.rewards.reading.mentions import visible
from ors_server.rewards.reading.polarity import Polarity, words_of
from ors_server.rewards.reading.sentences import Span
from ors_server.rewards.reading.statements import Statement, read_statements

_DIGITS: Final = (
    r"(?<![^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])(?<!\.)[-+]?(?:\d[\d.,]{0,40}|\.\d{1,30})(?:[eE][-+]?\d{1,3})?"
    r"(?:\s{0,3}(?:/|out\sof)\s{0,3}\d{1,6}(?:\.\d{1,9})?|\s{0,2}%)?"
)
_NUMBER: Final = re.compile(_DIGITS)
_WORK: Final = r"(?:answers?|response|submission|solution|work|text|essay|reply|question)"
_REFUSAL: Final = re.compile(
    r"(?:\b(?:cannot|can't|can\snot|couldn't|could\snot|won't|will\snot|unable\sto|not\sable\sto|refuse\sto"
    r"|decline\sto|rather\snot)\s{1,3}(?:really\s|fairly\s|reliably\s|properly\s)?"
    r"(?:score|judge|grade|rate|assess|evaluate|mark|decide|choose|(?:give|assign|state)\s(?:it\s|this\s)?(?:an?y?\s)?"
    rf"(?:score|rating|grade|mark))(?:\s{{1,3}}(?:this|it|that|(?:the|this)\s{_WORK}))?\s{{0,3}}(?=[.,;:!)\n\u2013\u2014]|\Z)"
    r"|\b(?<!not )(?<!n't )abstain\b)",
    re.IGNORECASE,
)
_STATED: Final = re.compile(
    r"\b(?:score|rating|grade|verdict)[*_]{0,2}\s{0,3}[:=][*_]{0,2}\s{0,3}\Z", re.IGNORECASE
)
_LABEL: Final = re.compile(r"\b(?:score|rating|reward|grade|mark|verdict)s?\b", re.IGNORECASE)
_QUOTATION: Final = re.compile(r"[\"“«„][^\"“”«»„\n]{1,400}[\"”»“]")
_QUOTED_LINE: Final = re.compile(r"(?m)^[ \t]{0,3}>[^\n]*")
_FENCED: Final = re.compile(r"(?m)^[ \t]{0,3}```[^\n]{0,40}\n(?:(?!```).)*?^[ \t]{0,3}```", re.DOTALL)
_LEAD: Final = re.compile(
    r"(?i)\b(?:answer|response|author|student|text|prompt|solution|submission|candidate|he|she|they|it)\b[^\n]{0,80}:\s*\Z"
)
_TOO: Final = re.compile(r"(?i)\btoo\b")
_PAST: Final = re.compile(r"(?i)\b(?:would|could|should|might)\s+have\b")
_WOULD: Final = re.compile(r"(?i)[ \t]{1,3}(?:would|might|could)\b")
_SENTENCE: Final = re.compile(r"[.!?](?=\s)|\n")
_UNREAL: Final = re.compile(
    r"(?i)\b(?:if|had)\b.{0,80}\b(?:had|were|was|been|\w{2,20}ed)\b.{0,80}\bwould\b"
    r"|\A\s*were\b.{0,80}(?:\bwould|['\u2019]d)\b"
)
_REMARK_CHARS: Final = 40
_OF_WORK: Final = re.compile(
    r"\b(?:student|author|candidate|submission|text|essay|response|user|prompt)(?:['\u2019]s)?\s(?:\w{1,12}\s){0,3}?"
    r"(?:contains?|includes?|outputs?|wrote|writes|ends\swith|JSON|object|claims?|says?|reads?|states?)[\s:,]{0,4}"
    r"(?:```\w{0,8}\s{0,4})?\Z",
    re.IGNORECASE,
)
"""Says in front of an object that it is in the judged work: "The student's own JSON: {...}"."""
_NOT_MINE: Final = re.compile(
    r"\s{0,2}[,;(]?\s{0,2}(?:which|but|that)\s(?:I\s(?:\w{1,12}\s)?(?:ignore|disregard|reject|dismiss|discard)|is\snot\smine)",
    re.IGNORECASE,
)
GAP: Final = "\ufffc"
"""Replaces a number that is denied or taken back, so that its label goes to the next number."""
NO_SCORE: Final = "\ufffb"
"""Replaces a number that is not asserted for another reason."""
_GAP_POLARITIES: Final = frozenset({Polarity.DENIED, Polarity.RETRACTED})
_LEAD_CHARS: Final = 160
_ITS_OWN: Final = words_of(
    "the answer answers response responses solution solutions result score scores rating grade mark overall"
)
"""Words for the judged work (that it is wrong does not deny the score), and for the score."""
_UNASSERTED_POLARITIES: Final = frozenset(
    {
        *(Polarity.DENIED, Polarity.BOUNDED, Polarity.ASKED, Polarity.SUPPOSED),
        *(Polarity.QUOTED, Polarity.RETRACTED, Polarity.HEDGED),
    }
)


_PHRASES: Final[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("score_phrases.toml").read_text(encoding="utf-8")
)


def _compile(text: str) -> re.Pattern[str]:
    while (part := re.search(r"\{([a-z]+)\}", text)) is not None:
        text = text.replace(part[0], _PHRASES["parts"][part[1]])
    return re.compile(text.replace("<NUMBER>", f"(?P<number>{_DIGITS})"), re.IGNORECASE | re.VERBOSE)


@cache
def phrases(table: str, key: str = "patterns") -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a table of `score_phrases.toml`, those with examples first."""
    texts = [phrase["pattern"] for phrase in _PHRASES[table].get("phrases", ())] if key == "patterns" else []
    return tuple(_compile(text) for text in (*texts, *_PHRASES[table][key]))


def asserted_reply(text: str) -> str:
    """Return a reply in plain text with a blank for every number that it does not assert."""
    text = visible(text)
    spans = [(match.start(), match.start() + len(match[0].rstrip(".,"))) for match in _NUMBER.finditer(text)]
    read = text
    for pattern in phrases("unread"):
        read = pattern.sub(lambda aside: " " * len(aside[0]), read)  # of the same length
    statements = read_statements(read, spans, neutral=_ITS_OWN)
    has_others = any(item.polarity is Polarity.ASSERTED for item in statements)
    remarks, *_ = phrases("remarks")
    unasserted = [
        item
        for item in statements
        if item.polarity in _UNASSERTED_POLARITIES
        # "The proof is not complete" is about the work, and takes no number back.
        and not (item.polarity is Polarity.RETRACTED and remarks.match(text, item.end))
        and not (has_others and _is_rival(text, item))
    ]
    gap_spans = [(item.start, item.end) for item in unasserted if item.polarity in _GAP_POLARITIES]
    gap_spans += _number_spans("replaced", text)
    no_score_spans = [(item.start, item.end) for item in unasserted if item.polarity not in _GAP_POLARITIES]
    no_score_spans += _number_spans("not_scores", text)
    # A judge that takes its score back takes back every number in front of that.
    voided = max(
        (match.start() for pattern in phrases("taken_back") for match in pattern.finditer(text)), default=0
    )
    no_score_spans += [(start, end) for start, end in spans if start < voided]
    blanks = dict.fromkeys((*no_score_spans, *_quotations(text), *_find_refused(text, spans)), NO_SCORE)
    return _blank_out(text, blanks | dict.fromkeys(gap_spans, GAP))


def _number_spans(table: str, text: str) -> Iterator[Span]:
    """Yield the spans of the numbers that the patterns of a table find in a reply."""
    for pattern in phrases(table):
        for match in pattern.finditer(text):
            yield match.span("number")


def _find_refused(text: str, numbers: Sequence[Span]) -> Iterator[Span]:
    """Yield the numbers of a reply that refuses to score, but for a score that it states behind that."""
    refusal = next(iter(deque(_REFUSAL.finditer(text), 1)), None)
    if refusal is None:
        return
    for start, end in numbers:
        is_stated = _STATED.search(text[max(0, start - _REMARK_CHARS) : start]) is not None
        if start < refusal.start() or not is_stated:
            yield start, end


def is_asserted(text: str, span: Span) -> bool:
    """Return whether a reply asserts the object at a span."""
    if _OF_WORK.search(text[max(0, span[0] - _LEAD_CHARS) : span[0]]) or _NOT_MINE.match(text, span[1]):
        return False
    (statement,) = read_statements(text, [span], neutral=_ITS_OWN)
    return statement.polarity not in _UNASSERTED_POLARITIES


def _is_rival(text: str, statement: Statement) -> bool:
    """Whether a number under a condition could be the score: "With sources it would be 0.9"."""
    is_past = _PAST.search(text, max(0, statement.start - _REMARK_CHARS), statement.start) is not None
    is_fault = _TOO.search(text, statement.end, statement.end + _REMARK_CHARS) is not None
    is_subject = _WOULD.match(text, statement.end) is not None
    sentence = _SENTENCE.split(text[max(0, statement.start - _LEAD_CHARS) : statement.start])[-1]
    is_unreal = _UNREAL.search(sentence) is not None
    is_open = not is_fault and not is_past and not is_subject and not is_unreal
    return statement.polarity is Polarity.SUPPOSED and is_open


def _quotations(text: str) -> Iterator[Span]:
    """Yield the parts of a reply that quote a labelled score, unless they are all of it."""
    parts = [*_QUOTATION.finditer(text), *_QUOTED_LINE.finditer(text)]
    parts += [
        part
        for part in _FENCED.finditer(text)
        if _LEAD.search(text[max(0, part.start() - _LEAD_CHARS) : part.start()])
    ]
    for part in parts:
        outside = text[: part.start()] + text[part.end() :]
        if _LABEL.search(part[0]) is not None and any(char.isalpha() for char in outside):
            yield part.span()


def _blank_out(text: str, blanks: Mapping[Span, str]) -> str:
    texts: list[str] = []
    position = 0
    for start, end in sorted(blanks):
        texts.append(text[position : max(position, start)])
        if end > position:
            # A full stop or a comma behind the number belongs to the sentence.
            number = text[start:end]
            texts.append(f" {blanks[start, end]} {number[len(number.rstrip('.,')) :]}")
        position = max(position, end)
    return "".join([*texts, text[position:]])
