"""Follows words that point back to one of several values, or to the speaker of one. Pure.

"41 or 42; the latter fits" names the second value, "The roots are 41 and 42. We want the smaller one." the
first, "Ann says 41, Ben says 42. Ben is right." that of the speaker. Such words decide over what the sentence
of the values says of each of them. Words that point back without accepting or rejecting decide nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ors_server.rewards.reading.ending_rules import EndingRules
from ors_server.rewards.reading.polarity import Polarity, words_of
from ors_server.rewards.reading.sentences import Clause, Sentence, TextToken, Value, classes_in

_POSITIONS: Final = {"former": 0, "first": 0, "second": 1, "third": 2, "latter": -1, "last": -1}
_OF_PAIRS: Final = frozenset(
    {"former", "latter", "other", "larger", "smaller", "greater", "bigger", "lesser"}
)
_LEAST: Final = words_of("smaller smallest lesser least lower lowest")
_GREATEST: Final = words_of("larger largest greater greatest bigger biggest higher highest")
_POINTERS: Final = frozenset(_POSITIONS) | _LEAST | _GREATEST | {"other"}
_POINTING: Final = _POINTERS | words_of("right correct trust believe prefer use take with choose")
"""A text without any of these words is not read again."""
_MAX_SPEAKERS: Final = 8
"""Last statements about a speaker that are followed."""
_CLAUSE_END: Final = re.compile(r"[.;:!?\n]|, (?!who )|\b(?:and|but|while)\b")
_NEGATIONS: Final = frozenset({"not", "no", "never", "cannot"})
_NOUNS: Final = words_of(
    "one ones root value candidate solution option town city place number answer possibility choice letter "
    "integer of"
)
_OTHER_NOUNS: Final = frozenset({"neutral", "label", "work", "quantity", "source"})
_TAKING: Final = words_of(
    "only take taking want wants wanted choose chose choosing pick picked need needs keep keeping"
    " leaves leave "
    "agree agrees favour favours favor favors support supports back backs confirm confirms "
    "leaving asks select wins stays remains survives just it's that's so hence thus therefore must"
)
_REJECTING: Final = frozenset({"reject", "fault", "negative", "bound_after", "leave"})
_ACCEPTING: Final = frozenset({"confirm", "answer", "choosing", "wish", "yes", "approval"})
_OPEN: Final = frozenset({"suppose", "would", "maybe", "undecided", "trial"})
_JOINED: Final = re.compile(
    r"[\s,;$*\"'()]*(?:(?:and|or|nor|vs\.?|versus|with|und|et|[/&])[\s,$*\"'(]*)?"
    r"(?:the (?:(?:other|second|third|latter) )?(?:one )?(?:says |in |at |has |had )?|in )?",
    re.IGNORECASE,
)
_RIGHT_SPEAKER: Final = re.compile(
    r"(?:(?:and|so|but|hence|thus|here) )?(?P<speaker>[A-Z][a-z]+(?: [A-Z\d])?|(?:[Tt]he|[Mm]y) [a-z]+)"
    r"(?:,? who)? (?:is|was|were) (?:right|correct|the one who is right)\b"
)
_TRUSTED: Final = re.compile(
    r"(?i)\b(?:go with|take|trust|believe|choose|prefer|use) the (?P<speaker>[a-z]{3,20})(?: one"
    r"| value| count| result)?(?=[.,;!]|\Z)"
)
"""Words that point to a value by what it was called: "The honest count says 42. Go with the honest one."."""
_SPEAKER_CHARS: Final = 60
_REQUIRED: Final = frozenset(
    {"as required", "as asked", "as wanted", "as demanded", "as described", "as needed"}
)
_SEEKERS: Final = words_of("we i you is was question text task")
_LASTLY: Final = words_of("finally eventually ultimately now lastly ended")
_MAX_BACK: Final = 3
"""Sentences between words that point back and the values."""
_MIN_GROUP: Final = 2


@dataclass(frozen=True, slots=True)
class _Pointer:
    """Words that point back: "the latter", "the second one"."""

    word: str
    start: int
    clause: Clause
    rest: Sequence[TextToken]
    """The other tokens of the clause."""
    is_only: bool


class ReferenceRules(EndingRules):
    """Reads words that point back, when each sentence has been read."""

    def _follow_references(self) -> None:
        """Assert the value that later words point to, and deny those beside it."""
        if len(self._values) < _MIN_GROUP or self._takes_alternatives:
            return
        # Most texts have none of these words; the search for them takes a tenth of that for what they
        # point to.
        if _POINTING.isdisjoint(token.word.rpartition(" ")[2] for token in self._tokens):
            return
        rejected: list[Value] = []
        for number, sentence in enumerate(self._sentences):
            if sentence.is_question:
                continue
            for pointer in _pointers_of(sentence):
                group = self._group_before(pointer.start, number)
                value = self._pointed_value(pointer, group, rejected)
                if value is None:
                    continue
                classes = classes_in(pointer.rest)
                words = {word for token in pointer.rest for word in token.word.split()}
                # "The first is not even" denies something, though it may say nothing of a number.
                is_negated = any(word in _NEGATIONS or word.endswith("n't") for word in words)
                if classes & _REJECTING or is_negated:
                    value.polarity, value.is_framed = Polarity.DENIED, False
                    rejected.append(value)
                elif not classes & _OPEN and _accepts(pointer):
                    for other in group:
                        other.polarity, other.is_framed = Polarity.DENIED, False
                    value.polarity, value.is_framed, value.is_maybe = Polarity.ASSERTED, True, False
        self._follow_speaker()

    def _meet_requirements(self) -> None:
        """Assert a name of which a remark says that it is as required."""
        for sentence in self._sentences if " as " in self._text or "which is what" in self._text else ():
            for clause, remark in pairwise(sentence.clauses):
                is_met = len(remark.tokens) == 1 and remark.tokens[0].word in _REQUIRED
                words = [token.word for token in remark.tokens]
                # "which is what we see"
                is_what = len(words) > _MIN_GROUP and words[0] == "which" and "what" in words[1:4]
                is_met = is_met or (is_what and not _SEEKERS.isdisjoint(words[3:6]))
                if not is_met or len(clause.values) != 1 or "negative" in clause.classes():
                    continue
                value = clause.values[0]
                if value.polarity is Polarity.INTERMEDIATE and value.is_weak and not sentence.is_question:
                    value.polarity, value.is_framed = Polarity.ASSERTED, True

    def _finish_sequence(self) -> None:
        """Take back what a sentence tells of former answers: "First I thought 40, then 41, finally 42."."""
        for sentence in self._sentences if len(self._values) >= _MIN_GROUP else ():
            values = sentence.values
            if len(values) < _MIN_GROUP or values[0].polarity is not Polarity.RETRACTED:
                continue
            last = values[-1]
            left = last.clause.tokens[: last.clause.tokens.index(last.token)]
            lead = "" if last.clause.lead is None else last.clause.lead.word
            words = {word for token in left for word in token.word.split()} | {lead}
            if last.polarity is Polarity.ASSERTED and words & _LASTLY:
                for value in values[:-1]:
                    value.polarity, value.is_framed = Polarity.RETRACTED, False

    def _group_before(self, position: int, number: int) -> list[Value]:
        """Return the values that stand side by side in the last sentence that has several of them."""
        earlier = [value for value in self._values if value.token.end <= position]
        earlier = [value for value in earlier if value.sentence >= number - _MAX_BACK]
        group: list[Value] = []
        for value in reversed(earlier):
            if group and not self._is_beside(value, group[0]):
                if len(group) >= _MIN_GROUP:
                    break
                group = []
            group.insert(0, value)
        return group if len(group) >= _MIN_GROUP else []

    def _is_beside(self, value: Value, following: Value) -> bool:
        between = self._text[value.token.end : following.token.start]
        return value.sentence == following.sentence and _JOINED.fullmatch(between) is not None

    def _pointed_value(
        self, pointer: _Pointer, group: Sequence[Value], rejected: Sequence[Value]
    ) -> Value | None:
        if not group or (pointer.word in _OF_PAIRS and len(group) != _MIN_GROUP):
            return None
        if pointer.word == "other":
            rest = [value for value in group if value not in rejected]
            return rest[0] if len(rest) == 1 else None
        if (index := _POSITIONS.get(pointer.word)) is not None:
            return group[index] if index < len(group) else None
        sizes = [self._size_of(value) for value in group]
        known = [size for size in sizes if size is not None]
        if len(known) < len(group):
            return None
        return group[sizes.index(min(known) if pointer.word in _LEAST else max(known))]

    def _size_of(self, value: Value) -> float | None:
        """Return the number that a value is written as, if it is a plain one."""
        try:
            return float(self._written(value).replace(",", ""))
        except ValueError:
            return None

    def _follow_speaker(self) -> None:
        """Assert the value of the speaker who is called right: "Ann says 41. Ann is right."."""
        matches = [*_RIGHT_SPEAKER.finditer(self._text), *_TRUSTED.finditer(self._text)]
        for match in matches[-_MAX_SPEAKERS:]:  # each one goes through all values
            begin, end = match.span("speaker")
            if any(begin <= value.token.start < end for value in self._values):
                continue  # "Riga is right" is about the value itself
            speaker = match["speaker"].casefold()
            said: list[Value] = []
            for value in self._values:
                start = value.token.start
                # From the end of the clause or value in front of it.
                before = _CLAUSE_END.split(self._text[max(0, start - _SPEAKER_CHARS) : start])[-1]
                if speaker in before.casefold() and not match.start() <= start < match.end():
                    said.append(value)
            if (
                len({self._written(value) for value in said}) != 1
                or said[-1].token.start < match.start() - 300
            ):
                continue
            for value in self._values:
                if value.polarity is Polarity.ASSERTED and not value.is_framed:
                    value.polarity = Polarity.QUOTED
            said[-1].polarity, said[-1].is_framed = Polarity.ASSERTED, True


def _pointers_of(sentence: Sentence) -> list[_Pointer]:
    """Return the words of a sentence that point back to values in front of it or of its clause."""
    pointers: list[_Pointer] = []
    for clause in sentence.clauses:
        for index, token in enumerate(clause.tokens):
            words = token.word.split()
            if token.kind != "word" or not words or words[-1] not in _POINTERS:
                continue
            before = clause.tokens[index - 1].word if index else ""
            is_definite = "the" in words[:-1] or before.split(" ")[-1:] in (["the"], ["our"])
            behind = clause.tokens[index + 1 : index + 2]
            if is_definite and _ends_phrase(behind) and all(t.kind == "word" for t in clause.tokens[index:]):
                rest = [*clause.tokens[:index], *clause.tokens[index + 1 :]]
                if clause.lead is not None and clause.lead.kind == "word":
                    rest.insert(0, clause.lead)
                pointers.append(_Pointer(words[-1], token.start, clause, rest, "only" in words))
    return pointers


def _ends_phrase(behind: Sequence[TextToken]) -> bool:
    """Whether no noun of another thing follows: "the second fits", but not "the second clue"."""
    if not behind or behind[0].word.partition(" ")[0] in _NOUNS:
        return True
    classes = behind[0].classes
    is_verb = bool(classes) or behind[0].word.endswith("s")
    return is_verb and ("confirm" in classes or not classes & _OTHER_NOUNS)


def _accepts(pointer: _Pointer) -> bool:
    words = {word for token in pointer.rest for word in token.word.split()} - {"the", "one"}
    is_alone = not words - {"only", "just", "of", "them", "these", "two"}
    fitting = classes_in([token for token in pointer.rest if token.word not in ("one", "it", "so")])
    return is_alone or pointer.is_only or bool(words & _TAKING) or bool(fitting & _ACCEPTING)
