"""Rules on how a text ends: cut off, with a plan, or with labelled values without a total. Pure."""

from typing import Final

from ors_server.rewards.reading.characters import CharacterReader
from ors_server.rewards.reading.dispositions import is_operation
from ors_server.rewards.reading.frames import asks
from ors_server.rewards.reading.polarity import Polarity, words_of
from ors_server.rewards.reading.remarks import endorses, is_offer, reconsiders
from ors_server.rewards.reading.sentences import MAX_NEAR_WORDS, Sentence, Value, classes_in

_CONTINUING: Final = words_of("now next then but so thus hence")
"""Words that open a sentence of a solution: the last one, without a full stop, was cut off."""
_TOTALS: Final = words_of(
    "total totals sum altogether overall final all combined together difference grand left"
)
"""Headings of the line that has the answer."""
_LEFT_TO_DO: Final = words_of(
    "need must have find compute calculate solve determine evaluate turn let consider add subtract multiply "
    "divide double halve take"
)
_MISSING: Final = words_of("missing unknown undetermined unresolved outstanding")
_YET: Final = words_of("now next still then yet")
_DATA: Final = words_of("given known data input inputs knowns")
"""Headings of what a question gives."""
_SOUGHT: Final = frozenset({"to find", "find", "wanted", "sought", "to determine", "required"})
"""Headings of what a question asks for: "To find: the number of ways to seat 42 guests"."""
_ASKING: Final = ("how much", "how many", "how far", "how long", "how old", "how tall")
_GOALS: Final = ("what we want", "what we need", "what we seek", "what is asked", "what is wanted")


_COLONS: Final = frozenset({":", "-", "\u2013", "\u2014"})
_MAX_VERSIONS: Final = 12
"""Last asserted values, labels included, of which the headings are compared."""
_SEQUENCES: Final = words_of(
    "step steps part stage phase round attempt try draft iteration pass day year week month hour row line "
    "equation answer result score total check side"
)
"""Nouns of which a later one goes on from, or corrects, the earlier one."""
_LATER: Final = words_of(
    "after final new corrected revised total overall combined last now actual true correct real right"
)
_NEEDING: Final = frozenset({"need", "want", "need to", "seek", "must"})
_LIKEWISE: Final = words_of(
    "similarly likewise analogously analogous continue remaining rest follows next harder trickier similar"
)
_DETERMINERS: Final = words_of("the that of a an its their all both only for to and or in this is by one")
_CONFIRMING: Final = words_of("done finished")
_COURTESIES: Final = words_of("hope helps help regards questions feel thanks glad happy luck")
_MAX_COURTESY: Final = 4
"""Last sentences of a text that may take leave of the reader."""
_MAX_REMARK: Final = 40
"""Words of a remark behind an answer that are read."""


class EndingRules(CharacterReader):
    """Reads the end of a text, when each sentence has been read."""

    def _reconsider(self) -> None:
        """Take back what the end of a text looks at again: "42 is right. I divided where I should add."."""
        for number in range(len(self._sentences) - 1, -1, -1):
            sentence = self._sentences[number]
            if is_offer(sentence.tokens):
                continue
            words = _words_behind(sentence)
            if not sentence.is_question and endorses(words):
                return
            if not sentence.is_question and reconsiders(words):
                for value in self._values:
                    if value.sentence <= number and value.polarity is Polarity.ASSERTED:
                        value.polarity = Polarity.RETRACTED
                return
            if sentence.values:
                return  # what is in front of a later value is corrected by it

    def _leave_unfinished(self) -> None:
        """Take no value for the answer where the last sentence asks for one, or plans the next step."""
        ending = reversed(self._sentences[-_MAX_COURTESY:])
        last = next((sentence for sentence in ending if not _is_courtesy(sentence)), None)
        if last is None:
            return
        tokens, values = last.tokens, last.values
        is_cut_off = (
            tokens[0].word in _CONTINUING
            and len(tokens) > MAX_NEAR_WORDS
            and tokens[-1].kind == "word"
            and self._text.rstrip()[-1:].isalnum()
            and all(value.polarity is not Polarity.ASSERTED for value in values)
        )
        if values and not is_cut_off:
            return
        opening = " ".join(token.word for token in tokens[:2])
        is_plan = tokens[0].word == "next" and bool(classes_in(tokens) & {"solving", "work", "work_verb"})
        words = {word for token in tokens for word in token.word.split()}
        is_left = not _LEFT_TO_DO.isdisjoint(words) and not _YET.isdisjoint(words)
        is_left = is_left or "unfinished" in classes_in(tokens)
        is_rest = opening.startswith(("what remains", "what is left", "what's left", "what is missing"))
        is_open = bool(words & _MISSING) and any("copula" in token.classes for token in tokens)
        is_plan = is_plan or is_open or (is_left and "first_person" in classes_in(tokens[:MAX_NEAR_WORDS]))
        # "We need that of the small one.", "The yearly one follows by multiplying by twelve."
        openers = [token.word for token in tokens[:3]]
        is_wanted = len(openers) > MAX_NEAR_WORDS and openers[0] in ("we", "i") and openers[1] in _NEEDING
        is_wanted = is_wanted and openers[2].partition(" ")[0] in (
            "the",
            "that",
            "those",
            "all",
            "both",
            "its",
        )
        is_share = openers[0] in ("half of it", "half of that", "half of them", "half of") or (
            openers[0] in ("half", "twice") and openers[1:2] in (["of"], ["that"], ["it"], ["this"])
        )
        is_like = tokens[-1].word in _LIKEWISE and not classes_in(tokens) & {"reject", "negative", "approval"}
        # "For the denominator, we use the same identity."
        is_other_part = openers[:2] == ["for", "the"] and "first_person" in classes_in(tokens)
        is_like = is_like or is_operation(tokens) or (is_other_part and not words & _CONFIRMING)
        if not self.are_labels and not words & _CONFIRMING:
            is_plan = is_plan or is_share or is_like or is_wanted
        if (is_wanted or asks(tokens)) and not self.are_labels:
            self._take_sought(frozenset(token.word for token in tokens[2:]) - _DETERMINERS)
        is_asked = last.is_question and opening.startswith(_ASKING)
        is_goal = any("copula" in token.classes for token in tokens[:-1]) and (
            " ".join(token.word for token in tokens[-3:]).endswith(_GOALS)
        )
        if is_plan or is_asked or is_goal or is_cut_off or is_rest:
            for value in self._values:
                if value.polarity is Polarity.ASSERTED and not value.is_framed:
                    value.polarity = Polarity.INTERMEDIATE

    def _leave_corrected(self) -> None:
        """Take back what only a correction follows: "The answer is 42. Actually no."."""
        if "correction" not in self._classes:
            return
        last = self._values[-1].sentence
        behind = [s.tokens for s in self._sentences[last + 1 :] if not is_offer(s.tokens)]
        is_left = any(
            len(tokens) == 1 and "correction" in tokens[0].classes and " " in tokens[0].word
            for tokens in behind
        )
        if is_left and not any(classes_in(tokens) & {"approval", "yes"} for tokens in behind):
            for value in self._values:
                if value.polarity is Polarity.ASSERTED:
                    value.polarity = Polarity.RETRACTED

    def _differ(self, value: Value, other: Value) -> bool:
        written, other_text = self._written(value), self._written(other)
        return written != other_text and not (self.is_same is not None and self.is_same(written, other_text))

    def _contradict(self) -> None:
        """Take the last value back if the text denies it later: "The answer is 42. It is not 42."."""
        last = next((v for v in reversed(self._values) if v.polarity is Polarity.ASSERTED), None)
        if last is None:
            return
        for value in self._values[self._values.index(last) + 1 :][:_MAX_VERSIONS]:
            is_denied = value.polarity is Polarity.DENIED and value.clause is not last.clause
            if is_denied and not self._differ(last, value):
                last.polarity = Polarity.RETRACTED
                return

    def _take_sought(self, nouns: frozenset[str]) -> None:
        """Assert the value of the noun sought: "The mean is 41, the median 42. We seek the median."."""
        asserted = [value for value in self._values if value.polarity in (Polarity.ASSERTED, Polarity.HEDGED)]
        named = [
            value
            for value in asserted
            if any(
                token.start < value.token.start and not nouns.isdisjoint(token.word.split())
                for token in value.clause.tokens
            )
        ]
        if len({self._written(value) for value in named}) == 1:
            for value in asserted:
                value.polarity = Polarity.ASSERTED if value in named else Polarity.INTERMEDIATE
                value.is_framed = value in named

    def _set_data_apart(self) -> None:
        """Take no value of the data of a question for the answer: "Given: 42 workers, 21 days."."""
        for sentence in self._sentences if ":" in self._text else ():
            if len(sentence.clauses) < 2 or len(sentence.clauses[0].tokens) > MAX_NEAR_WORDS:  # noqa: PLR2004  (heading, data)
                continue
            entry = sentence.clauses[1].lead
            heading = " ".join(token.word for token in sentence.clauses[0].tokens)
            is_goal = heading in _SOUGHT and sentence.clauses[1].tokens[0].kind == "word"
            if entry is None or entry.word != ":" or not (heading in _DATA or is_goal):
                continue
            for clause in sentence.clauses[1:]:
                if clause is not sentence.clauses[1] and clause.lead is not None and clause.lead.word == ":":
                    break
                for value in clause.values:
                    if value.polarity is Polarity.ASSERTED:
                        value.polarity, value.is_framed = Polarity.INTERMEDIATE, False

    def _leave_versions(self) -> None:
        """Decide for no value of two headings alike: "Interpretation 1: 42. Interpretation 2: 43."."""
        if self._takes_alternatives:
            return
        # The last ones only: to find the clause of each value of a long sentence takes quadratic time.
        recent = [value for value in self._values if value.polarity is Polarity.ASSERTED][-_MAX_VERSIONS:]
        asserted = [value for value in recent if not self._is_heading(value)]
        if len(asserted) < 2 or any(value.is_framed for value in asserted[-2:]):  # noqa: PLR2004  (two versions)
            return
        headings = [self._heading_of(value) for value in asserted[-2:]]
        first, second = (heading.split() for heading in headings)
        if not first or not second or first == second or first[-1] != second[-1]:
            return
        if first[-1] not in _SEQUENCES and _LATER.isdisjoint(second):
            for value in asserted:
                if self._heading_of(value).split()[-1:] == first[-1:]:
                    value.polarity = Polarity.HEDGED

    def _is_heading(self, value: Value) -> bool:
        """Whether a value is the label of what follows its colon: "Option 1: 42"."""
        clauses = self._sentences[value.sentence].clauses
        following = clauses[clauses.index(value.clause) + 1 :][:1]
        lead = following[0].lead if following else None
        is_label = len(value.clause.tokens) > 1 and value.clause.tokens[-1] is value.token
        return is_label and lead is not None and lead.word in _COLONS

    def _heading_of(self, value: Value) -> str:
        """Return the words in front of the colon of a value's line, its label first."""
        clauses = self._sentences[value.sentence].clauses
        at = next((index for index, clause in enumerate(clauses) if value in clause.values), 0)
        entry, heading = clauses[at], clauses[at - 1]
        is_entry = at > 0 and entry.lead is not None and entry.lead.word in _COLONS
        if not is_entry or entry.tokens[0] is not value.token or len(heading.tokens) > 2 * MAX_NEAR_WORDS:
            return ""
        words = [token.word for token in heading.tokens if token.kind == "word"]
        label = [self._text[item.token.start : item.token.end] for item in heading.values]
        if words and len(words[-1]) == 1:
            label, words = [words[-1]], words[:-1]
        return " ".join([*label, *words]) if words else ""

    def _leave_fields(self) -> None:
        """Take no value of labelled lines for the answer, none of which has its name: "width: 42"."""
        if self._takes_alternatives or not self.is_closed:
            return
        fields: list[Value] = []
        for sentence in self._sentences:
            field = _field_of(sentence)
            if field is None:
                break
            fields.append(field)
        if len(fields) < 2 or len(fields) < len(self._sentences):  # noqa: PLR2004  (a single field names the answer)
            return
        headings = [self._sentences[field.sentence].clauses[0].tokens for field in fields]
        if any(
            len(words) != 1 or "quantity" not in words[0].classes or words[0].word in _TOTALS
            for words in headings
        ):
            return
        for field in fields:
            if field.polarity is Polarity.ASSERTED:
                field.polarity = Polarity.INTERMEDIATE


def _is_courtesy(sentence: Sentence) -> bool:
    """Whether a sentence only takes leave: "I hope this helps!", "Let me know if you have questions."."""
    if sentence.values:
        return False
    words = {word for token in sentence.tokens for word in token.word.split()}
    return not words or not words.isdisjoint(_COURTESIES)


def _words_behind(sentence: Sentence) -> list[str]:
    """Return the words of a sentence behind its last value, with those that open its clauses."""
    words: list[str] = []
    for clause in sentence.clauses:
        if clause.lead is not None and clause.lead.kind == "word" and clause.tokens[0] is not clause.lead:
            words += clause.lead.word.split()
        for token in clause.tokens:
            if token.kind == "value":
                words.clear()
            words += token.word.split()
    return words[:_MAX_REMARK]


def _field_of(sentence: Sentence) -> Value | None:
    """Return the value of a line that is a heading and a value: "width: 42"."""
    if len(sentence.clauses) != 2:  # noqa: PLR2004  (the heading and its value)
        return None
    heading, entry = sentence.clauses
    is_field = (
        not heading.values
        and len(heading.tokens) <= 2 * MAX_NEAR_WORDS
        and entry.lead is not None
        and entry.lead.word == ":"
        and len(entry.values) == 1
        and entry.tokens[0] is entry.values[0].token
    )
    return entry.values[0] if is_field else None
