"""Rules on how a text ends: cut off, with a plan, or with labelled values without a total. Pure."""

from typing import Final

from ors_server.rewards.reading.characters import CharacterReader
from ors_server.rewards.reading.polarity import Polarity, words_of
from ors_server.rewards.reading.sentences import NEAR, Sentence, Value, classes_in

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


class EndingRules(CharacterReader):
    """Reads the end of a text, when each sentence has been read."""

    def _leave_unfinished(self) -> None:
        """Take no value for the answer where the last sentence asks for one, or plans the next step."""
        last = self._sentences[-1]
        tokens = last.tokens
        if not tokens:
            return
        opening = " ".join(token.word for token in tokens[:2])
        values = [value for clause in last.clauses for value in clause.values]
        is_cut_off = (
            tokens[0].word in _CONTINUING
            and len(tokens) > NEAR
            and tokens[-1].kind == "word"
            and self._text.rstrip()[-1:].isalnum()
            and all(value.polarity is not Polarity.ASSERTED for value in values)
        )
        if values and not is_cut_off:
            return
        is_plan = tokens[0].word == "next" and bool(classes_in(tokens) & {"solving", "work", "work_verb"})
        words = {word for token in tokens for word in token.word.split()}
        is_left = not _LEFT_TO_DO.isdisjoint(words) and not _YET.isdisjoint(words)
        is_left = is_left or "unfinished" in classes_in(tokens)
        is_open = bool(words & _MISSING) and any("copula" in token.classes for token in tokens)
        is_plan = is_plan or is_open or (is_left and "first_person" in classes_in(tokens[:NEAR]))
        is_asked = last.is_question and opening.startswith(_ASKING)
        is_goal = any("copula" in token.classes for token in tokens[:-1]) and (
            " ".join(token.word for token in tokens[-3:]).endswith(_GOALS)
        )
        if is_plan or is_asked or is_goal or is_cut_off:
            for value in self._values:
                if value.polarity is Polarity.ASSERTED and not value.is_framed:
                    value.polarity = Polarity.INTERMEDIATE

    def _set_data_apart(self) -> None:
        """Take no value of the data of a question for the answer: "Given: 42 workers, 21 days."."""
        for sentence in self._sentences if ":" in self._text else ():
            if len(sentence.clauses) < 2 or len(sentence.clauses[0].tokens) > NEAR:  # noqa: PLR2004  (heading, data)
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


def _field_of(sentence: Sentence) -> Value | None:
    """Return the value of a line that is a heading and a value: "width: 42"."""
    if len(sentence.clauses) != 2:  # noqa: PLR2004  (the heading and its value)
        return None
    heading, entry = sentence.clauses
    is_field = (
        not heading.values
        and len(heading.tokens) <= 2 * NEAR
        and entry.lead is not None
        and entry.lead.word == ":"
        and len(entry.values) == 1
        and entry.tokens[0] is entry.values[0].token
    )
    return entry.values[0] if is_field else None
