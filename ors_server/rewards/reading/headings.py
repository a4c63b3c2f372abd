"""Tells what a heading, or another clause without a value, says of the value behind it. Pure.

"Rejected: 42" denies, "First guess: 42" is on the way, "According to Ann, 42" quotes. The clause in front
of the value decides; what the value's own clause says is read elsewhere.
"""

from collections.abc import Sequence
from typing import Final

from ors_server.rewards.reading.conditions import MENDED
from ors_server.rewards.reading.dispositions import announces_denial, is_lone_denial, is_speaker
from ors_server.rewards.reading.frames import is_own_report, is_restated, is_saying
from ors_server.rewards.reading.left_frames import governs_another, is_answer_of_another
from ors_server.rewards.reading.polarity import Polarity, words_of
from ors_server.rewards.reading.remarks import is_no_noun
from ors_server.rewards.reading.sentence_rules import SentenceRules
from ors_server.rewards.reading.sentences import MAX_NEAR_WORDS, Clause, Sentence, TextToken, classes_in

_ACCORDING: Final = frozenset(
    {"according to", "per", "per the", "in the opinion of", "in the view of", "in the words of"}
)
EVERYTHING: Final = words_of(
    "all any every anything everything everyone anybody everywhere anywhere another other different"
)
_APART: Final = words_of("different apart aside away another other elsewhere")
_HEADED: Final = frozenset({"which", "that", "why", "how", "where", "by which", "in which"})
_MAX_HEADING: Final = 4
"""Words in front of a colon that judge the value behind it: "Not the answer: 42"."""
_PROVING: Final = words_of("prove disprove decide")
_FACTS: Final = words_of("fact truth reality")
_CONTRARY: Final = frozenset({"contrary to", "unlike", "despite", "against", "opposed to", "in contrast to"})
_HAVING: Final = words_of("has have had contains lacks misses")
DISAGREEING: Final = ("disagree", "differ", "contradict", "conflict", "diverge", "vary")
"""Verbs of sources between which nothing is decided: "The sources disagree: 41 or 42"."""
_TASKS: Final = words_of("exercise problem task question prompt assignment challenge")
"""Headings of a question that is only repeated: "Exercise: find a square whose area is 42"."""


def _is_about_work(heading: Clause) -> bool:
    """Whether a heading is a sentence about something else than a value: "the proof has a hole: 0.4"."""
    tokens = heading.tokens
    at = next((index for index, token in enumerate(tokens) if token.word.partition(" ")[0] in _HAVING), 0)
    return at > 0 and not classes_in(tokens[:at]) & {"pronoun", "answer", "negative"}


def is_other_than(left: Sequence[TextToken]) -> bool:
    """Whether words exclude the name behind them: "every town save", "another town than"."""
    is_exception = bool(left) and left[-1].word in ("save", "than", "but", "bar")
    is_apart = bool(left) and left[-1].word == "from" and any(token.word in _APART for token in left)
    return is_apart or (is_exception and any(token.word in EVERYTHING for token in left))


class HeadingRules(SentenceRules):
    """Reads a value by the clause in front of it."""

    def _behind_heading(self, sentence: Sentence, position: int, left: list[TextToken]) -> Polarity | None:
        heading, lead = sentence.clauses[position - 1], sentence.clauses[position].lead
        before = sentence.clauses[position - 2] if position > 1 else None
        if lead is None:
            return None
        if before is not None and lead.word == "," and is_lone_denial(before):
            return Polarity.DENIED  # "42 and not, as some say, 43"
        if before is not None and lead.word == ")" and before.values:
            return None  # "41 (crossed out) 42"
        opening = [token.word for token in (heading.lead, *heading.tokens[:1]) if token is not None]
        is_apposed = lead.word == "," and not left and 1 < len(heading.tokens) <= _MAX_HEADING
        if is_apposed and opening[0] in ("(", ",") and opening[-1] in ("not", "and not"):
            return Polarity.DENIED  # "42 (and not the mean, 41)"
        return self._judge_by_introduction(heading, lead, left)

    def _judge_by_introduction(
        self, heading: Clause, lead: TextToken, left: list[TextToken]
    ) -> Polarity | None:
        """Return what a clause without a value says of the value behind it: "Rejected: 42"."""
        classes = heading.classes()
        if lead.word == "," and heading.tokens[0].word in _CONTRARY:
            return None  # "Contrary to what people think, it's 42"
        is_exception = lead.word in ("but", "save", "except") and not left
        is_all = self.are_labels and any(token.word in EVERYTHING for token in heading.tokens)
        is_denied = "negative" in classes
        is_absent = is_denied and heading.tokens[0].word.startswith("there") and lead.word in _HEADED
        is_of_every = len(heading.tokens) <= MAX_NEAR_WORDS + 1 and heading.tokens[0].word in (
            "every",
            "each",
            "any",
        )
        if is_absent or (is_exception and (is_all or (is_of_every and not is_denied))):
            return Polarity.DENIED  # "every number but 42 works", "There is no way in which 42 comes out"
        if lead.word == "when" and any("retract" in t.classes and " " in t.word for t in heading.tokens):
            return Polarity.RETRACTED
        is_named_answer = "answer" in classes_in(left)
        is_named = is_named_answer or "copula" in classes_in(left)
        is_name = any(token.is_capital and not token.classes for token in heading.tokens[1:])
        is_source = is_name or "source" in classes
        is_source_named = not is_named or is_speaker(heading.tokens) or "source" in classes
        is_told = lead.word == ":" and "report" in classes and "harmless" not in classes and is_source_named
        if (
            (heading.tokens[0].word in _ACCORDING and is_source and "theorem" not in classes)
            # A colon, a comma or "according to" with a source quotes another person, unless the author is the
            # source.
            or ("grading" in classes and not is_named)
            or (is_told and heading.tokens[0].word != "sorry" and not is_own_report(heading.tokens))
            or (self.are_labels and lead.word == "," and is_saying(heading))
        ):
            return Polarity.QUOTED
        is_task = bool(left) and len(heading.tokens) == 1 and heading.tokens[0].word in _TASKS
        is_task = is_task or is_restated(heading.tokens)
        # "Before rounding up, that is 42"
        words = " ".join(token.word for token in heading.tokens[:2]).split()
        is_before = len(words) > 1 and words[0] == "before" and words[1].endswith("ing")
        colon_rules = (
            (is_task, Polarity.ASKED),
            ("wish" in classes or heading.tokens[0].word in _PROVING, Polarity.SUPPOSED),
            (announces_denial(heading), Polarity.DENIED),
        )
        announced = next((polarity for holds, polarity in colon_rules if holds), None)
        if lead.word == "," and is_before and not is_named_answer:
            announced = Polarity.INTERMEDIATE
        if announced is not None and (lead.word == ":" or announced is Polarity.INTERMEDIATE):
            return announced
        is_heading = lead.word in (":", "]", ")") and not left and len(heading.tokens) <= _MAX_HEADING
        return self._judge_by_heading(heading) if is_heading else None

    def _judge_by_heading(self, heading: Clause) -> Polarity | None:
        """Return what a heading says of the value behind its colon: "Rejected: 42", "First guess: 42"."""
        classes = heading.classes()
        is_order = heading.tokens[0].word in ("do", "don't", "never") and "negative" in classes
        if len(heading.tokens) > 1 and (is_order or "negative" in heading.tokens[-1].classes):
            return Polarity.DENIED  # "The answer is not: 42", "Do not use this: 42"
        is_lone = len(heading.tokens) == 1
        is_phrase = any(" " in token.word for token in heading.tokens)
        is_report = "report" in classes and "first_person" not in classes and is_phrase
        words = {token.word for token in heading.tokens}
        is_elliptic = len(heading.tokens) > 1 and "first_person" in heading.tokens[-2].classes
        is_elliptic = is_elliptic and len(heading.tokens) == MAX_NEAR_WORDS
        rules: tuple[tuple[bool, Polarity | None], ...] = (
            (bool(words & MENDED) or governs_another(heading.tokens) or is_no_noun(heading.tokens), None),
            (is_lone and bool(words & _FACTS), None),
            (is_elliptic and heading.tokens[1].word.endswith("n't"), None),  # "I didn't: 42"
            (
                is_lone and heading.tokens[0].word.startswith(("extraneous", "spurious", "false")),
                Polarity.DENIED,
            ),
            (bool(classes & {"copula", "correction"}), None),
            (
                is_lone
                and "bound" in classes
                and heading.tokens[0].word.endswith(("limit", "bound", "estimate")),
                Polarity.BOUNDED,
            ),
            (is_lone and bool(classes & {"negative", "bound"}), None),
            (not self.are_labels and _is_about_work(heading), None),
            (heading.tokens[-1].word.startswith(DISAGREEING), Polarity.HEDGED),
            (bool(classes & {"reject", "negative", "fault"}), Polarity.DENIED),
            (is_lone and "retract" in classes, Polarity.DENIED),
            (bool(classes & {"intermediate", "remark"}), Polarity.INTERMEDIATE),
            (is_lone and "label" in classes, Polarity.INTERMEDIATE),
            (is_report or is_answer_of_another(heading.tokens), Polarity.QUOTED),
        )
        return next((polarity for holds, polarity in rules if holds), None)
