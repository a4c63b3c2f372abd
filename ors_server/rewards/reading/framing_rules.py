"""Tells which value a text names as its answer: the first or last one alone, or what it concludes. Pure."""

import re
from typing import Final

from ors_server.rewards.reading.option_phrases import replaces, says_name_alone
from ors_server.rewards.reading.polarity import Polarity
from ors_server.rewards.reading.references import ReferenceRules
from ors_server.rewards.reading.sentences import Value, classes_in

UNDECIDED: Final = frozenset(
    {
        Polarity.INTERMEDIATE,
        Polarity.ASSERTED,
        Polarity.HEDGED,
        Polarity.RETRACTED,
        Polarity.SUPPOSED,
    }
)
HEDGEABLE: Final = UNDECIDED - {Polarity.RETRACTED, Polarity.INTERMEDIATE}
_CONCLUSIONS: Final = frozenset({"so", "then", "hence", "thus", "therefore"})
_ITEM: Final = re.compile(r"(?:\A|\s)(?:[-*+•]|\(?[\w]{1,3}[.):])[ \t]+[*_`\"]{0,3}\Z|\|")
_MAX_MARK: Final = 12


class FramingRules(ReferenceRules):
    """Names the answer of a text, when each sentence has been read."""

    def _frame_opening(self) -> None:
        """Take a name that comes first, alone, for the answer, and what follows for its reasons."""
        opening = [sentence for sentence in self._sentences if says_name_alone(sentence)]
        values = [value for sentence in opening for value in sentence.values]
        asserted = [value for value in values if value.polarity is Polarity.ASSERTED]
        if not asserted or asserted[0] is not self._values[0] or self._is_item(asserted[0]):
            return
        # A later name may replace the first one, unless it only continues it.
        first, last = asserted[0], self._values[-1]
        if any("refuse" in classes_in(sentence.tokens) for sentence in self._sentences[: first.sentence]):
            return
        if last is not first and last.polarity is Polarity.ASSERTED and self._differ(first, last):
            between = self._sentences[first.sentence : last.sentence + 1]
            if replaces(between, last, is_definite=self.is_definite(last)):
                first.polarity = Polarity.RETRACTED
                return
        if len(asserted) == 1:
            first.is_framed = True

    def _frame_closing(self) -> None:
        """Take a name that comes last, alone, behind sentences that name several, for the answer."""
        sentences = [sentence for sentence in self._sentences if sentence.clauses]
        last = sentences[-1] if len(sentences) > 1 else None
        if last is None or not says_name_alone(last):
            return
        value = last.clauses[0].values[0]
        earlier = [item for item in self._values if item.sentence < value.sentence]
        is_decided = any(item.is_framed or self.is_definite(item) for item in earlier)
        is_repeated = any(not self._differ(item, value) for item in earlier)
        if (
            value.polarity is Polarity.ASSERTED
            and is_repeated
            and not is_decided
            and not self._is_item(value)
        ):
            value.is_framed = not any(says_name_alone(sentence) for sentence in sentences[:-1])

    def _frame_conclusion(self) -> None:
        """Take what a last sentence concludes for the answer: "Hence the minimum is 42."."""
        last = next((v for v in reversed(self._values) if v.polarity is Polarity.ASSERTED), None)
        if last is None or last is not self._values[-1]:
            return
        lead = last.clause.lead
        left = last.clause.tokens[: last.clause.tokens.index(last.token)]
        opener = left[0].word if left else ""
        is_led = opener in _CONCLUSIONS or (lead is not None and lead.word in _CONCLUSIONS)
        last.is_framed = last.is_framed or (
            is_led and len(left) > 1 and bool(left[-1].classes & {"copula", "result"})
        )

    def _set_cases_apart(self) -> None:
        """Hedge values of cases in sentences side by side: "If the map is right, A. If the text is, B."."""
        if len(self._values) < 2 or "if" not in self._words:  # noqa: PLR2004  (two cases)
            return
        cases = [
            sentence.values
            for sentence in self._sentences
            if sentence.tokens and sentence.tokens[0].word == "if" and not sentence.is_question
        ]
        cases = [values for values in cases if len(values) == 1 and values[0].polarity in HEDGEABLE]
        if len(cases) > 1 and any(self._differ(cases[0][0], values[0]) for values in cases[1:]):
            for (value,) in cases:
                value.polarity = Polarity.HEDGED

    def _is_item(self, value: Value) -> bool:
        """Whether a value begins an item of a list."""
        start = value.token.start
        line = self._text[self._text.rfind("\n", max(0, start - _MAX_MARK), start) + 1 : start]
        return _ITEM.search(line) is not None

    def is_definite(self, value: Value) -> bool:
        """Whether a clause names its value by a pronoun: "it is 42", "that makes 42"."""
        left = value.clause.tokens[: value.clause.tokens.index(value.token)]
        if left and left[0].word in _CONCLUSIONS:
            left = left[1:]
        return (
            bool(left)
            and bool(left[-1].classes & {"copula"})
            and bool(left[0].classes & {"pronoun", "copula"})
        )
