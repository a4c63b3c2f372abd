r"""Reads a text the way a careful person does: which of the values in it does it assert? Pure.

A *statement* is a value of the text (numbers, formulas, letters, names: the caller decides), its place, and
its polarity. Only an asserted value is an answer, and the last one is *the* answer.

How a sentence is read. It is cut into clauses at punctuation and at conjunctions ("but", "because", "which").
The words of a value's clause decide its polarity, by the classes of `polarity.toml`:

* in front of the value: negation, rejection, bounds, suppositions, reports of others;
* behind it: the same, and predicates; a value that is the subject of a predicate which does not confirm it
  ("42 is off the table", "71 would be too large") is not an answer;
* "not 41, 42": a clause that is nothing but a value continues the clause in front of it;
* a clause or sentence without a value may take back the values in front of it ("No.", "That is wrong.").

Corrections ("Wait, 43") take back what was asserted before, and values between which the text does not decide
("42 or 43", "maybe 42, maybe 43") are hedged. What a phrase of the class `harmless` says denies nothing.

Work is linear in the length of the text: phrases have a greatest length, and a value is compared with the
clauses up to its neighbours.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

from ors_server.rewards.reading.characters import WINDOW
from ors_server.rewards.reading.dispositions import is_to_be_changed
from ors_server.rewards.reading.frame_words import is_filler
from ors_server.rewards.reading.frames import sets_beside
from ors_server.rewards.reading.framing_rules import HEDGEABLE, UNDECIDED, FramingRules
from ors_server.rewards.reading.front_words import behind_value
from ors_server.rewards.reading.option_phrases import approves_of_several
from ors_server.rewards.reading.polarity import Polarity, words_of
from ors_server.rewards.reading.remarks import (
    disapproves,
    is_offer,
    looks_again,
    overcomes_doubt,
    refutes,
    takes_back_words,
    tells_fault,
    tells_of_several,
    tells_own_error,
    turns_against,
)
from ors_server.rewards.reading.sentence_patterns import match_sentence_patterns
from ors_server.rewards.reading.sentence_rules import CASES, cases_of, verb_of
from ors_server.rewards.reading.sentences import (
    CROSSES,
    MAX_NEAR_WORDS,
    OR,
    Clause,
    Sentence,
    Span,
    TextToken,
    Value,
    classes_in,
)
from ors_server.rewards.reading.struck_text import merge_spans, struck_regions


class Place(StrEnum):
    """Where a value is."""

    BOX = "box"
    TAG = "tag"
    HASHES = "hashes"
    FIELD = "field"
    LINE = "line"
    SENTENCE = "sentence"


@dataclass(frozen=True, slots=True)
class Statement:
    """A value of a text, and what the text says about it."""

    start: int
    end: int
    polarity: Polarity
    place: Place
    region: Span
    """The part of the clause that says it; what is struck if the value does not count."""
    is_framed: bool
    """Whether the clause names it as the answer ("the answer is 42", "42 is correct")."""
    is_definite: bool = False
    """Whether the clause names it by a pronoun ("it is 42")."""
    sentence: int = 0
    """Number of the sentence."""
    is_stated: bool = False
    """Whether a verb of results states it ("that leaves 42"), whatever the subject."""


_QUOTATION: Final = re.compile(
    '"[^"\n]{1,300}"|\u201c[^\u201d\n]{1,300}\u201d|\u00ab[^\u00bb\n]{1,300}\u00bb|(?<!\\w)\u2018[^\u2019\n]{1,300}\u2019'
)
_QUOTATION_MARKS: Final = ('"', "\u201c", "\u00ab", "\u2018")
_TEXTS: Final = (
    r"(?:text|passage|article|paragraph|line|sentence|document|record|charter|register|excerpt|abstract)"
)
_FROM_TEXT: Final = re.compile(
    rf"(?i)\b{_TEXTS}s?(?: \d{{1,3}})? (?:says|reads|states|has it|tells us|has)\b[,:]? ?\Z"
)
_OF_TEXT: Final = re.compile(rf"(?i),? (?:says|reads|states) the (?:\w+ )?{_TEXTS}\b")
"""Who quotes the text that the task gives agrees with it: `The text says: "He was born in Riga."`."""
_QUOTED_WORDS: Final = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}['’]?[a-z]*\s")
_MARK_CHARS: Final = 60
"""Characters around a value in which its mark is."""
_BOXED: Final = re.compile(r"\$?\\(?:boxed|fbox)")
_TAGGED: Final = re.compile(r"<(?:answer|final_answer|solution)>\s{0,20}\Z", re.IGNORECASE)
FIELD_KEY: Final = re.compile(r"""["']([\w -]{1,40})["']\s{0,4}:\s{0,4}["'\[{]{0,3}\s{0,4}\Z""")
"""The key of a JSON field in front of its value."""
_POLITE: Final = frozenset({"please", "kindly", "now", "so", "just"})
_REFERENCES: Final = words_of(
    "previous above last line sentence answer paragraph message preceding foregoing former earlier"
)
_OTHERS: Final = words_of("other others rest remaining alternatives else")
_OPEN: Final = frozenset({Polarity.ASSERTED, Polarity.RETRACTED})
_NOES: Final = words_of("no nope nah nein non nee neen não nej nei нет hayır")
_TO_ABSURDITY: Final = words_of("otherwise suppose if indeed assume assuming were supposing imagine")
"""Words that open an argument by contradiction."""
_SUPPOSITIONS: Final = words_of("suppose assume assuming supposing imagine otherwise")
_CONSEQUENCES: Final = words_of("then this that which but so hence thus therefore it two both one there we")
"""Words that open a consequence of a supposition: "Suppose it were 41. Then two of them would be equal."."""
_ARTICLES: Final = words_of("the a an each")
_ERRATA: Final = words_of("correction erratum errata corrigendum")
_ELSE: Final = words_of("otherwise")
_BESIDE: Final = words_of("and , ; while whereas but though although –")
_AHEAD: Final = words_of("following below next underneath hereafter")
_LISTED: Final = re.compile(r"[ \t.]*\n[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]")
_DECIDERS: Final = words_of("so hence thus therefore then ergo consequently finally")
_INVITING: Final = words_of("don't do please let feel never")
_RELATIVES: Final = frozenset({"which", "who", "whose"})
_LATER: Final = words_of("after afterwards later then finally eventually")
_BESIDES: Final = words_of("also though but or however equally")
_MAYS: Final = words_of("may might could")
_MAX_LED: Final = 2
"""Sentences behind "Wait." in which the corrected value may be: "Hold on. She gave one away. So 42."."""
_OWN: Final = words_of("this i we mine ours my our here")
"""Words that open a clause about the author, or about the case at hand."""
_MAX_BETWEEN: Final = 6
"""Words between two values that "or" joins."""
_FIRSTS: Final = frozenset({"one", "first", "half", "former", "on the one hand"})
_SECONDS: Final = frozenset({"other", "second", "latter", "another"})
_FRAGMENT_START: Final = re.compile(r"\A[\s,;:)\]?!]+(?:(?:and|but|or|so)\s+)?")


def read_statements(
    text: str,
    spans: Iterable[Span],
    *,
    neutral: Collection[str] = (),
    takes_alternatives: bool = False,
    is_same: Callable[[str, str], bool] | None = None,
    is_closed: bool = False,
    are_labels: bool = False,
) -> list[Statement]:
    """Read what a text says about each of the values at `spans`, in order.

    Args:
        spans: Start and end of each value; they do not overlap.
        neutral: Words, in lower case, that deny nothing here: those of the gold answer.
        takes_alternatives: Whether "42 or 43" asserts both, as where the gold answer is a list.
        is_same: Whether two different texts are one value, which "or" then only repeats ("3/4, or 0.75").
        is_closed: Whether words that are not known to make a sentence assert nothing: "shy of 42".
        are_labels: Whether the values are labels or names: as the subject of a verb that does not confirm it,
            such a value is not an answer ("B comes close").
    """
    ordered = sorted(set(spans))
    if not ordered:
        return []
    # Struck text first: it is a property of the text, not of a sentence.
    struck = struck_regions(text)
    struck_starts = [start for start, _ in struck]
    reader = _Reader(
        text, ordered, frozenset(neutral), takes_alternatives=takes_alternatives, are_labels=are_labels
    )
    reader.is_same = is_same
    reader.is_closed = reader.is_closed and is_closed
    values = reader.read()
    statements: list[Statement] = []
    for value in values:
        span = (value.token.start, value.token.end)
        region = value.region
        polarity = value.polarity
        index = bisect_right(struck_starts, span[0]) - 1
        container = struck[index] if index >= 0 and span[1] <= struck[index][1] else None
        if container is not None:
            polarity, region = Polarity.RETRACTED, container
        position = _place_of(text, span)
        is_relative = value.clause.lead is not None and value.clause.lead.word == "which"
        is_named = is_relative and bool(statements) and statements[-1].is_framed
        is_definite = reader.is_definite(value) and not is_named  # "The answer is 42, which gives 7 each."
        statements.append(
            Statement(
                *span,
                polarity,
                position,
                region,
                value.is_framed,
                is_definite,
                value.sentence,
                is_stated=_is_stated(value),
            )
        )
    return statements


def _place_of(text: str, span: Span) -> Place:
    """Return where a value is, by the marks around it."""
    before = text[max(0, span[0] - _MARK_CHARS) : span[0]]
    line = before.rpartition("\n")[2] + text[span[1] : span[1] + _MARK_CHARS].partition("\n")[0]
    if _BOXED.match(text, span[0]) is not None:
        return Place.BOX
    if ">" in before and _TAGGED.search(before) is not None:
        return Place.TAG
    if before.rstrip().endswith("####"):
        return Place.HASHES
    if ":" in before and FIELD_KEY.search(before) is not None:
        return Place.FIELD
    return Place.SENTENCE if line.strip(" \t.*_`") else Place.LINE


def keep_asserted(text: str, statements: Sequence[Statement]) -> str:
    """Return a text without what it does not assert."""
    texts: list[str] = []
    position = 0
    # Regions overlap where several values share a clause.
    for start, end in merge_spans(s.region for s in statements if s.polarity is not Polarity.ASSERTED):
        # An asserted value inside of the region of another one stays (`the sum of 41, not 42`).
        texts.append(text[position : max(position, start)])
        position = max(position, end)
    texts.append(text[position:])
    if len(texts) == 1:
        return text
    pieces = [texts[0], *(_FRAGMENT_START.sub(" ", piece) for piece in texts[1:])]
    return "\n".join(piece for piece in pieces if piece.strip(" .\t"))


def _announces_wrong(sentence: Sentence) -> bool:
    """Whether a sentence says that what follows is wrong: "The following values are wrong:"."""
    words = {part for token in sentence.tokens for part in token.word.split()}
    classes = classes_in(sentence.tokens)
    is_wrong = bool(classes & {"reject", "fault", "erring"}) or (
        "negative" in classes and bool(classes & {"answer", "confirm"})
    )
    return bool(words & _AHEAD) and is_wrong and not sentence.is_question


def _is_stated(value: Value) -> bool:
    """Whether a verb between the value and the one in front of it states it."""
    at = value.clause.tokens.index(value.token)
    before = classes_in(behind_value(value.clause.tokens[:at]))
    return not before.isdisjoint(("copula", "result", "epistemic", "quantity"))


def _opens_doubt(opening: Clause, sentence: Sentence) -> bool:
    """Whether a sentence begins with doubt: "Possibly, though, it is 42", "It might also be 42"."""
    if not opening.values and "maybe" in opening.tokens[0].classes:
        return True
    words = {word for token in sentence.tokens[:_MAX_BETWEEN] for word in token.word.split()}
    return "also" in words and not _MAYS.isdisjoint(words)


def _up_to_semicolon(sentence: Sentence, text: str) -> list[Value]:
    values: list[Value] = []
    for clause in sentence.clauses:
        if values and clause.lead is not None and text[clause.lead.start] in ";:":
            break
        values += clause.values
    return values


class _Reader(FramingRules):
    """Reads a text: each sentence by itself, then what sentences say about each other."""

    def read(self) -> list[Value]:
        for index, sentence in enumerate(self._sentences):
            if sentence.values:
                self._read_sentence(sentence, index)
        matches = match_sentence_patterns(
            self._sentences,
            self._tokens,
            self._values,
            takes_alternatives=self._takes_alternatives,
            are_names=self.are_labels,
        )
        for match in matches:
            match.judge(is_final=False)
        # Rules across sentences, whose order matters: only a value that is still asserted can be taken back,
        # corrected or hedged.
        if self.are_labels:
            self._frame_opening()
            self._frame_closing()
        self._set_cases_apart()
        self._quote()
        self._give_up()
        self._take_back()
        self._reconsider()
        self._correct()
        self._hedge()
        self._resolve()
        self._contradict()
        self._leave_unfinished()
        self._leave_fields()
        self._leave_versions()
        self._set_data_apart()
        self._finish_sequence()
        if self.are_labels:
            self._meet_requirements()
        self._follow_references()
        self._frame_conclusion()
        for match in matches:
            match.judge(is_final=True)
        if self.has_characters:
            self._read_characters()
        return self._values

    def _quote(self) -> None:
        """Take values in quotation marks, with words of another person, for quoted."""
        if '":' in self._text:
            return  # JSON
        if not any(mark in self._text for mark in _QUOTATION_MARKS):
            return
        starts = [value.token.start for value in self._values]
        for match in _QUOTATION.finditer(self._text):
            # Quotation marks around a single word or formula are emphasis, not a quotation.
            if not _QUOTED_WORDS.search(match[0]):
                continue
            before = self._text[max(0, match.start() - WINDOW) : match.start()]
            after = self._text[match.end() : match.end() + WINDOW]
            if self.are_labels and (_FROM_TEXT.search(before) or _OF_TEXT.match(after)):
                continue
            first = bisect_right(starts, match.start())
            for value in self._values[first:]:
                if value.token.end >= match.end():
                    break
                is_all = value.token.start <= match.start() + 1 and value.token.end >= match.end() - 1
                if value.polarity is Polarity.ASSERTED and not is_all:
                    value.polarity = Polarity.QUOTED

    def _give_up(self) -> None:
        """Deny what follows words of giving up and is not named as the answer."""
        if "refuse" not in self._classes:
            return
        has_given_up = False
        for sentence in self._sentences:
            for clause in sentence.clauses:
                has_given_up = has_given_up or ("refuse" in clause.classes() and not sentence.is_question)
                for value in clause.values:
                    is_definite = (
                        value.is_framed
                        or self.is_definite(value)
                        or any(
                            not self.are_labels
                            and "copula" in t.classes
                            and " " not in t.word
                            and "'" in t.word
                            for t in clause.tokens
                        )
                    )
                    if has_given_up and not is_definite and value.polarity is Polarity.ASSERTED:
                        value.polarity = Polarity.DENIED

    def _take_back(self) -> None:
        """Take back the values in front of sentences that do so: "No.", "That is wrong."."""
        if len(self._sentences) == 1:
            return
        # Values that a later sentence could still take back.
        open_values: list[Value] = []
        is_announced = is_asked = is_supposing = False
        may_announce = not self._words.isdisjoint(_AHEAD)
        for sentence in self._sentences:
            if is_offer(sentence.tokens):
                continue
            values = sentence.values
            asserted = [value for value in values if value.polarity is Polarity.ASSERTED]
            is_reply = (
                is_asked
                and bool(sentence.tokens)
                and (sentence.tokens[0].word in _NOES or "pronoun" in sentence.tokens[0].classes)
            )
            is_asked = bool(values) and all(value.polarity is Polarity.ASKED for value in values)
            opening = sentence.tokens[0].word if sentence.tokens else ""
            is_opened = opening in _SUPPOSITIONS
            is_absurd = is_supposing and not is_opened and opening in _CONSEQUENCES
            is_supposing = is_opened or is_absurd
            if (
                open_values
                and not (is_reply or is_absurd)
                and (
                    self._takes_back(sentence, has_value=bool(values))
                    or (not values and self._is_about(sentence, open_values[-1]))
                )
            ):
                for value in open_values:
                    if value.polarity is Polarity.ASSERTED:
                        value.polarity = Polarity.RETRACTED
                open_values = []
            if is_announced:
                for value in asserted:
                    value.polarity = Polarity.DENIED
                asserted = []
            is_listed = is_announced and _LISTED.match(self._text, sentence.clauses[-1].end) is not None
            is_announced = is_listed or (may_announce and not values and _announces_wrong(sentence))
            open_values += asserted
            is_open = any("undecided" in token.classes for token in sentence.tokens)
            is_open = is_open and sentence.tokens[0].word not in _INVITING
            if not values and (is_open or (self.are_labels and approves_of_several(sentence))):
                self._hedge_all([value for value in open_values if value.polarity is Polarity.ASSERTED])

    def _is_about(self, sentence: Sentence, value: Value) -> bool:
        """Whether a sentence says that what a value's sentence is about is wrong: "The model was wrong."."""
        tokens = sentence.tokens
        if any(token.word and token.word in CROSSES for token in tokens):
            return True
        if sentence.is_question or not any("reject" in token.classes for token in tokens):
            return False
        subjects = {token.word for token in tokens[:3] if not token.classes and not is_filler(token)}
        return any(token.word in subjects for token in self._sentences[value.sentence].tokens)

    def _takes_back(self, sentence: Sentence, *, has_value: bool) -> bool:
        if " ".join(token.word for token in sentence.tokens) == "or is it":
            return True
        lead = sentence.clauses[0].lead if sentence.clauses else None
        openers = sentence.tokens[:2] if lead is None else [*sentence.tokens[:2], lead]
        words = {token.word for token in openers}
        is_aside = bool(words & _TO_ABSURDITY) or any(t.word in _ELSE for t in sentence.tokens)
        if sentence.is_question or is_aside or words & {"why", "how"} or overcomes_doubt(sentence):
            return False
        if not has_value and not self.are_labels and turns_against(sentence, self._text):
            return True
        for position, clause in enumerate(sentence.clauses):
            if any(value.polarity is not Polarity.INTERMEDIATE for value in clause.values):
                break
            is_relative = position and clause.lead is not None and clause.lead.word in _RELATIVES
            if clause.values or (is_relative and sentence.tokens[0].word.startswith("there")):
                continue
            if clause.lead is not None and clause.lead.word in ("if", "in case"):
                continue  # "Let me know if I made a mistake."
            is_entry = position and clause.lead is not None and clause.lead.word == ":"
            if is_entry and len(clause.tokens) == 1 and clause.tokens[0].word in ("none", "nil"):
                continue  # "Units: none"
            following = sentence.clauses[position + 1].lead if position + 1 < len(sentence.clauses) else None
            if has_value and following is not None and following.word == ":":
                continue  # a heading: it judges the value behind it
            if self._clause_takes_back(clause, has_value=has_value):
                return True
        return False

    def _clause_takes_back(self, clause: Clause, *, has_value: bool) -> bool:
        """Return whether a clause without a value takes back the values in front of its sentence."""
        tokens = clause.tokens
        has_subject = len(tokens) > 1 and not tokens[0].classes and "copula" in tokens[1].classes
        if self.are_labels and (has_subject or any(token.word in _OTHERS for token in tokens)):
            return False  # "Riga is wrong.", "The others are wrong."
        classes = clause.classes()
        is_short = len(tokens) <= MAX_NEAR_WORDS
        heeded = next((index for index, token in enumerate(tokens) if "heed" in token.classes), 0)
        is_lone = not has_value or is_short
        orders = [token for token in tokens[:MAX_NEAR_WORDS] if token.word not in _POLITE]
        is_order = bool(orders) and bool(orders[0].classes & {"leave", "reject"})
        rules = (
            "refuse" in classes or takes_back_words(tokens),
            tokens[0].word in ("neither", "none") and not any(t.word in _OTHERS for t in tokens),
            not has_value and is_short and "reject" in classes,  # "Rejected."
            # "don't count this", but not "the break does not count"
            "negative" in classes_in(tokens[max(heeded - 3, 0) : heeded])
            and not (len(tokens) > MAX_NEAR_WORDS and tokens[0].word in _ARTICLES and not tokens[1].classes),
            any(
                "retract" in token.classes
                and (
                    is_short
                    or (
                        " " in token.word
                        and (
                            # "no way to have more" and "and no row is left" deny what follows them.
                            not token.word.endswith((" no", " way"))
                            or not tokens[i + 1 :]
                            or "pronoun" in tokens[i + 1].classes
                            or bool(classes_in(tokens[i + 1 :]) & {"confirm", "answer"})
                        )
                    )
                )
                for i, token in enumerate(tokens)
            ),
            is_lone
            and is_order
            and any(t.word in _REFERENCES or t.word == "what" or "pronoun" in t.classes for t in tokens),
            is_lone
            and disapproves(tokens, is_framed=True)
            and "pronoun" in classes_in(tokens[:3])
            and not tells_of_several(tokens),
            not has_value and refutes(tokens) and not tells_of_several(tokens),
            tells_own_error(tokens) or (not has_value and tells_fault([token.word for token in tokens])),
            not has_value and not self.are_labels and is_to_be_changed(tokens),  # "This must be doubled."
        )
        return any(rules)

    def _correct(self) -> None:
        """Take back what was asserted in front of a correction: "Wait, 43", "or rather 43"."""
        earlier: list[Value] = []
        is_correcting = "correction" in self._classes
        is_led = False
        led_at = 0
        # A correction announces a value within the next sentences; after that it was a remark.
        for number, sentence in enumerate(self._sentences):
            if number > led_at + _MAX_LED:
                is_led = False
            for clause in sentence.clauses:
                head = clause.tokens[:3]
                opened = is_correcting and any(
                    token is not None and "correction" in token.classes for token in (clause.lead, *head)
                )
                opened = opened or (len(clause.tokens) == 1 and head[0].word in _NOES)
                opened = opened or (
                    not clause.values and looks_again([token.word for token in clause.tokens])
                )
                if opened and not is_led:
                    is_led, led_at = True, number
                for value in clause.values:
                    if value.polarity is Polarity.ASSERTED and is_led:
                        for other in earlier:
                            if other.polarity is Polarity.ASSERTED and other.clause is not clause:
                                other.polarity = Polarity.RETRACTED
                        is_led = False
                    earlier.append(value)
        self._leave_corrected()
        last = self._sentences[-1]
        is_open = (
            is_led
            and led_at == len(self._sentences) - 1
            and (
                "unfinished" in classes_in(last.tokens)
                or any(token.word in _ERRATA for token in last.tokens[:1])
            )
        )
        if is_open and not last.values:
            for value in earlier:
                if value.polarity is Polarity.ASSERTED:
                    value.polarity = Polarity.RETRACTED  # "42. Wait, I need to count again."

    def _hedge(self) -> None:
        """Decide for none of the values between which a text does not decide."""
        self._spread_doubt()
        if len(self._values) == 1:
            return
        doubtful = [value for value in self._values if value.is_maybe and value.polarity in _OPEN]
        if len({self._written(value) for value in doubtful}) > 1:
            last = self._values[-1]
            if last in doubtful or last.polarity is not Polarity.ASSERTED:
                for value in doubtful:
                    value.polarity = Polarity.HEDGED
        self._hedge_by_doubt()
        self._hedge_alternatives()
        self._hedge_cases()
        self._hedge_parallels()
        if not self._takes_alternatives:
            self._hedge_either()
            self._hedge_neighbours()

    def _spread_doubt(self) -> None:
        """Doubt all values of a sentence that begins with doubt."""
        if "maybe" not in self._classes and "also" not in self._words:
            return
        for sentence in self._sentences:
            opening = next(iter(sentence.clauses), None)
            if opening is not None and _opens_doubt(opening, sentence):
                for clause in sentence.clauses:
                    for value in clause.values:
                        value.is_maybe = True

    def _hedge_either(self) -> None:
        if "either" not in self._words:
            return
        for sentence in self._sentences:
            words = [
                token.word
                for clause in sentence.clauses
                for token in (clause.lead, *clause.tokens)
                if token is not None
            ]
            if "either" in words and "or" in words:
                self._hedge_all(_up_to_semicolon(sentence, self._text))

    def _hedge_neighbours(self) -> None:
        """Decide for neither of two neighbours that "or" joins."""
        positions: dict[int, int] = {}
        for earlier, value in pairwise(self._values):
            if value.sentence > earlier.sentence + 1:
                continue
            pair = {value.polarity, earlier.polarity}
            if earlier.polarity is Polarity.BOUNDED:
                pair.remove(Polarity.BOUNDED)  # "41 or so, or 42"
            if Polarity.ASSERTED not in pair or not pair <= UNDECIDED:
                continue
            positions = positions or {id(token): index for index, token in enumerate(self._tokens)}
            between = self._tokens[positions[id(earlier.token)] + 1 : positions[id(value.token)]]
            # The values are compared last: to parse them costs more than all the rest.
            if self._leaves_open(earlier, value, between) and self._differ(value, earlier):
                value.polarity = earlier.polarity = Polarity.HEDGED

    def _resolve(self) -> None:
        """Assert the value for which a text decides in the end: "Either 41 or 42; hence 42"."""
        # Only the last value can settle what was open.
        last = self._values[-1]
        if last.polarity is not Polarity.HEDGED or last.is_maybe:
            return
        lead = last.clause.lead
        left = last.clause.tokens[: last.clause.tokens.index(last.token)]
        is_decided = (
            lead is not None and (lead.word in ":;" or not _DECIDERS.isdisjoint(lead.word.split()))
        ) or (bool(left) and left[0].word in ("only", "just"))
        written = self._written(last)
        if is_decided and any(self._written(value) == written for value in self._values[:-1]):
            last.polarity = Polarity.ASSERTED

    def _hedge_parallels(self) -> None:
        """Decide for no value of two clauses alike: "Method A yields 42, method B yields 43"."""
        if self._takes_alternatives:
            return
        for sentence in self._sentences:
            values = sentence.values
            if "undecided" in self._classes:
                self._hedge_choice(sentence)
            if len(values) < 2:  # noqa: PLR2004  (two clauses alike)
                continue
            places = {id(clause): position for position, clause in enumerate(sentence.clauses)}
            for earlier, value in pairwise(values):
                lead = value.clause.lead
                opener = earlier.clause.lead
                if opener is not None and "reason" in opener.classes:
                    continue
                if value.clause.tokens[0].word in _LATER:
                    continue  # "Before tax it is 41, after tax it is 42."
                between = sentence.clauses[places[id(earlier.clause)] + 1 : places[id(value.clause)] + 1]
                if any(
                    not _DECIDERS.isdisjoint(token.word.split())
                    for clause in between
                    for token in (clause.lead, *clause.tokens)
                    if token is not None
                ):
                    continue
                if any(token.word.endswith("'d") for token in earlier.clause.tokens) and not any(
                    token.word.endswith("'d") for token in value.clause.tokens
                ):
                    continue  # "Without the ends we'd get 41, but with them we get 42"
                is_own = value.clause.tokens[0].word in _OWN and earlier.clause.tokens[0].word not in _OWN
                # Of no solver in particular: "a naive solver gets 42".
                is_indefinite = earlier.clause.tokens[0].word in (
                    "a",
                    "an",
                    "another",
                    "some",
                    "most",
                    "many",
                )
                if is_own and is_indefinite and earlier.polarity is Polarity.ASSERTED:
                    earlier.polarity, earlier.is_framed = Polarity.QUOTED, False
                    continue  # "A perfect answer gets 41; this one gets 42"
                if (
                    {earlier.polarity, value.polarity} == {Polarity.ASSERTED}
                    and earlier.is_framed is value.is_framed
                    and lead is not None
                    and lead.word in _BESIDE
                    and value.clause is not earlier.clause
                    and (verb := verb_of(value)) is not None
                    and verb == verb_of(earlier)
                ):
                    self._hedge_all([earlier, value])

    def _hedge_choice(self, sentence: Sentence) -> None:
        """Decide for none of the values of a choice that a sentence leaves open: "one of 42 and 43"."""
        tokens = sentence.tokens
        at = next((index for index, token in enumerate(tokens) if "undecided" in token.classes), None)
        if at is None:
            return
        every = sentence.values
        values = [value for value in every if value.token.start > tokens[at].start]
        if not values:
            self._hedge_all([value for value in every if value.polarity in HEDGEABLE])
        listed = values[:1]
        for value in values[1:]:
            lead = value.clause.lead
            is_listed = value.clause is listed[-1].clause or (
                lead is not None and lead.word in ("and", "or", ",", "nor")
            )
            if not is_listed:
                break
            listed.append(value)
        self._hedge_all([value for value in listed if value.polarity in HEDGEABLE])

    def _hedge_cases(self) -> None:
        """Decide for no value of several cases: "42 for even n and 43 for odd n"."""
        if self._words.isdisjoint(CASES):
            return
        for sentence in self._sentences:
            values = sentence.values
            asserted = [
                value for value in values if value.polarity is Polarity.ASSERTED and not value.is_framed
            ]
            self._hedge_all(cases_of(sentence) if not self._takes_alternatives else [])
            if len(asserted) < 2 or self._takes_alternatives:  # noqa: PLR2004  (cases are several)
                continue
            tokens = sentence.tokens
            cases = [
                token.word
                for token, following in pairwise(tokens)
                if token.word in CASES
                and (following.classes & {"condition", "alternative"} or following.kind == "value")
            ]
            cases += [token.word for token in tokens[-1:] if token.word == "without"]
            if len(cases) > 1:
                self._hedge_all(asserted)

    def _hedge_alternatives(self) -> None:
        """Decide for no value if the text adds an alternative: "Another candidate is 43."."""
        is_adding = "alternative" in self._classes or any(s.is_question for s in self._sentences)
        if self._takes_alternatives or not is_adding:
            return
        earlier: list[Value] = []
        for number, sentence in enumerate(self._sentences):
            values = sentence.values
            named = [clause for clause in sentence.clauses if sets_beside(clause)]
            earlier = [value for value in earlier if value.sentence >= number - 2]
            near = list(earlier)
            opening = sentence.tokens[0].word.partition(" ")[0] if sentence.tokens else ""
            is_asked = sentence.is_question and opening in OR and bool(values)  # "42. Or 43?"
            named = named or (sentence.clauses[:1] if is_asked else [])
            if named and not any("correction" in token.classes for token in sentence.tokens):
                later = [value for value in values if value.clause.start >= named[0].start]
                first = [value for value in values if value.clause.start < named[0].start]
                beside = [*near, *first, *later] if later or not values else [*first]
                hedged = HEDGEABLE | {Polarity.ASKED} if is_asked else HEDGEABLE
                self._hedge_all([value for value in beside if value.polarity in hedged or value.is_weak])
            earlier += values

    def _leaves_open(self, earlier: Value, value: Value, between: Sequence[TextToken]) -> bool:
        """Whether the words between two values leave open which of them it is."""
        words = [token.word for token in between if token.kind == "word"]
        if any("correction" in token.classes for token in between):
            return False
        if len(words) <= _MAX_BETWEEN and any(word.partition(" ")[0] in OR for word in words):
            return True
        if any(token.word == "of" and "maybe" in token.classes for token in between):
            return True  # Dutch "or"
        lead = value.clause.lead
        if (
            value.is_maybe
            and lead is not None
            and lead.word == ","
            and "maybe" in value.clause.tokens[0].classes
        ):
            return True
        firsts = {token.word for token in earlier.clause.tokens} & _FIRSTS
        seconds = {word for token in value.clause.tokens for word in token.word.split()} & _SECONDS
        return bool(firsts) and bool(seconds) and not earlier.is_framed and not value.is_framed

    def _hedge_by_doubt(self) -> None:
        """Take a guess behind a definite statement for a hedge: "It's 42. Then again, maybe 43."."""
        asserted = [value for value in self._values if value.polarity is Polarity.ASSERTED]
        # Only the last value may be such a guess; looking at every pair would read its sentence each time.
        for earlier, value in pairwise(asserted[-2:]):
            is_near = value.sentence <= earlier.sentence + 1
            is_definite = earlier.is_framed or earlier.is_maybe or self.is_definite(earlier)
            opening = [token.word for token in self._sentences[value.sentence].tokens[:_MAX_BETWEEN]]
            is_definite = is_definite or not _BESIDES.isdisjoint(opening)
            if value.is_maybe and is_near and is_definite and self._differ(value, earlier):
                value.polarity = earlier.polarity = Polarity.HEDGED
