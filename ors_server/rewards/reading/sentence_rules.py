"""Rules over the values of one sentence: lists, verdicts, replacements and checks. Pure."""

import re
from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import Final

from ors_server.rewards.reading.conditions import is_modest, is_of_sound_source
from ors_server.rewards.reading.dispositions import (
    goes_on,
    is_operation,
    is_to_be_changed,
    orders_working,
    uses_part,
)
from ors_server.rewards.reading.frame_words import is_filler
from ors_server.rewards.reading.frames import ASKS, asks, is_told_by_source, ordinal_in
from ors_server.rewards.reading.left_frames import governs_another, is_answer_of_another
from ors_server.rewards.reading.polarity import Polarity, words_of
from ors_server.rewards.reading.remarks import (
    disapproves,
    is_disapproval,
    is_exactness,
    is_of_form,
    is_passed_on,
    is_tag_question,
)
from ors_server.rewards.reading.right_frames import names_quantity
from ors_server.rewards.reading.sentences import (
    AND,
    MAX_NEAR_WORDS,
    Clause,
    Sentence,
    SentenceReader,
    TextToken,
    Value,
    classes_in,
)

_SHARED: Final = frozenset({Polarity.DENIED, Polarity.SUPPOSED, Polarity.QUOTED, Polarity.HEDGED})
_CHANGING: Final = (
    "lower",
    "rais",
    "reduc",
    "bump",
    "downgrad",
    "upgrad",
    "increas",
    "decreas",
    "replac",
    "chang",
    "revis",
    "amend",
    "switch",
    "correct",
    "swap",
    "updat",
    "adjust",
)
_INTO: Final = frozenset({"by", "with", "to", "into", "for"})
_VERIFYING: Final = words_of("check verify verification checking verifying proof test confirmation")
_EXPLAINING: Final = words_of("explanation reason reasoning justification details derivation rationale")
_CHECKING: Final = _VERIFYING | _EXPLAINING
_ARROWS: Final = ("->", "=>", "→", "\\to", "\\rightarrow")
_STATING: Final = frozenset({"copula", "result", "epistemic", "correction", "answer", "confirm", "becoming"})
"""Classes of words that state the value behind them."""
_PARTS_OF_UNITS: Final = words_of(
    "hours minutes seconds days weeks months years dollars cents euros pounds pence feet inches yards miles "
    "metres meters centimetres centimeters kilometres kilometers grams kilograms litres liters ounces degrees"
)
"""Units, of which a smaller one continues a quantity: "2 hours and 30 minutes"."""
_ALL_OF_THEM: Final = words_of("both all neither none they these those")


_OPERATOR: Final = re.compile(
    r"[+*/\xd7\xb7\xf7^]|\\(?:times|cdot|div|frac|sqrt)(?![A-Za-z])|\w\s*[-\u2212]\s*\w"
)
"""What an expression has that can still be worked out."""
_OUT: Final = frozenset(
    {"it's out", "it is out", "that's out", "that one is out", "so it's out", "so it is out"}
)
_REJECTING_ALL: Final = _ALL_OF_THEM | _OUT
_MAX_REMARKS: Final = 12
"""Clauses behind a value that may be remarks about it."""
_CONCESSIONS: Final = frozenset({"though", "although", "even though", "while", "whereas"})
_ORDERED: Final = words_of("write note mark remember state quote report put jot say")
_SEARCHING: Final = words_of("look looking seek search want wonder")
_FIRST: Final = frozenset({"first", "firstly", "first of all", "to begin", "to start", "to begin with"})
_NOTING: Final = words_of("note observe notice recall compute find calculate")
_SEEKING: Final = words_of("find determine compute calculate evaluate show prove solve")
_OF_TASKS: Final = _SEEKING | ASKS
_ANSWERING: Final = words_of("; : \u2013 \u2014 , which and so thus hence therefore but")
"""What may be in front of the answer behind a question that is repeated."""
CASES: Final = words_of("for with without under if when by")
_OTHERWISE: Final = words_of("otherwise differently different else")
_DETERMINING: Final = words_of("find compute determine calculate know get")
_CONCLUDING: Final = words_of("so thus hence therefore then meaning")


class SentenceRules(SentenceReader):
    """Reads the values of a sentence together, when each has been read by itself."""

    def _is_yes(self, number: int) -> bool:
        if number >= len(self._sentences) or self._sentences[number].is_question:
            return False
        tokens = self._sentences[number].tokens
        is_short = len(tokens) <= 2 * MAX_NEAR_WORDS or not any(
            clause.values for clause in self._sentences[number].clauses
        )
        closing = self._sentences[number].clauses[-1:]
        if closing and closing[0].lead is not None and closing[0].lead.word == "so":
            words = [token.word for token in closing[0].tokens if token.word != "so"]
            if words == ["yes"]:
                return True  # "Every smaller value fails, so yes"
        opening = tokens[: 2 * MAX_NEAR_WORDS + 1] if is_short else tokens[:1]
        closing_tokens = [clause.tokens[-1] for clause in self._sentences[number].clauses]
        return any(
            # "It is.", but not "It is an even number."; "Exactly.", but not "Definitely 42."
            "yes" in token.classes
            and ("copula" not in token.classes or token in closing_tokens)
            and not (following is not None and following.kind == "value")
            for token, following in zip_longest(opening, tokens[1 : len(opening) + 1])
        ) and not any(token.classes & {"negative", "reject"} for token in tokens)

    def _trails_off(self, sentence: Sentence, position: int, value: Value) -> bool:
        """Whether words that no list knows follow a value that nothing names: "42 and what not"."""
        if value.is_framed or len(sentence.values) != 1 or position + 1 == len(sentence.clauses):
            return False
        clauses = sentence.clauses[position + 1 :]
        following = clauses[0]
        if any(
            "correction" in token.classes
            for clause in sentence.clauses[: position + 1]
            for token in clause.tokens
        ):
            return False
        lead = following.lead
        is_aside = is_exactness(following.tokens) or following.tokens[0].word in ("see", "cf")
        if lead is None or lead.word in ("nor", *"()[]") or "reason" in lead.classes or is_aside:
            return False
        has_left = value.clause.tokens[0] is not value.token
        if lead.word == "," and (has_left or position):
            return False
        words = [token for clause in clauses for token in clause.tokens if token.kind == "word"]
        if classes_in(words) & {"answer", "approval", "harmless", "confirm", "granted"}:
            return False
        is_bare_addition = lead.word == "and" and not has_left
        return is_bare_addition or any(not token.classes and not is_filler(token) for token in words)

    def _judge_by_following(self, sentence: Sentence, position: int, value: Value) -> Polarity | None:
        """Return what the clauses behind a value, up to the next value, make of it."""
        if position + 1 == len(sentence.clauses):
            return None
        opening = sentence.clauses[max(position - 1, 0) : position + 1]
        is_corrected = any("correction" in token.classes for clause in opening for token in clause.tokens)
        for clause, following in zip(
            sentence.clauses[position + 1 : position + _MAX_REMARKS],
            # Up to the next value and no farther, so that the work on a sentence is linear.
            [*sentence.clauses[position + 2 : position + 1 + _MAX_REMARKS], None],
            strict=False,
        ):
            if clause.values:
                openers = [token.word.partition(" ")[0] for token in (clause.lead, clause.tokens[0]) if token]
                is_used = bool({"and", "then"}.intersection(openers))
                return Polarity.INTERMEDIATE if is_used and is_operation(clause.tokens) else None
            is_lone = len(clause.tokens) == 1 and "negative" in clause.tokens[0].classes
            if (
                clause.tokens[0].word in ("not", "and not")
                and following is not None
                and following.tokens[0].kind == "value"
            ):
                break  # "42 (and not the mean, 41)"
            if is_lone and (
                following is not None and (following.values or clause.tokens[0].word.startswith("and"))
            ):
                break  # "42; no, not 43", "42 and not, as some say, 43"
            polarity = self._judge_remark(
                clause, value.polarity, is_framed=value.is_framed, is_corrected=is_corrected
            )
            if polarity is not None:
                return polarity
        return None

    def _judge_remark(
        self, clause: Clause, polarity: Polarity, *, is_framed: bool, is_corrected: bool
    ) -> Polarity | None:
        """Return what a clause without a value says of the value in front of it."""
        classes = clause.classes()
        lead = clause.lead
        if is_modest(clause) or is_of_sound_source(clause) or (lead is not None and lead.word == "nor"):
            return None  # what "nor" denies, "neither" has denied
        if clause.tokens[0].word in ("see", "cf"):
            return None  # "42; see the derivation above"
        if is_exactness(clause.tokens) or is_of_form(clause.tokens) or is_tag_question(clause):
            return None  # "42, no more, no less", "42, written with a comma"
        first, opener = clause.tokens[0], "" if lead is None else lead.word
        is_contradicted = {"source", "report"} <= classes and (
            "negative" in classes or any(token.word in _OTHERWISE for token in clause.tokens)
        )
        is_marked = bool(classes_in(clause.tokens[:3]) & {"reject", "fault"}) and first.word != "it"
        is_operated = opener.partition(" ")[0] in ("and", "then") and (
            is_operation(clause.tokens) or (opener == "then" and "operation" in first.classes)
        )
        is_operated = is_operated or (opener in ("and", "but", "then", ",") and uses_part(clause.tokens))
        # "x is 42, and we must find y"
        is_operated = is_operated or (
            (opener in ("and", "but") or first.word == "and")
            and bool(classes_in(clause.tokens[:MAX_NEAR_WORDS]) & {"first_person", "copula"})
            and (
                (
                    "must" in "".join(token.word for token in clause.tokens[:MAX_NEAR_WORDS])
                    and any(token.word in _DETERMINING for token in clause.tokens)
                )
                or any(token.word.partition(" ")[0] in _SEARCHING for token in clause.tokens[:4])
            )
        )
        is_concluded = (
            self.is_closed
            and not is_framed
            and opener in _CONCLUDING
            and len(clause.tokens) > MAX_NEAR_WORDS
            and not classes & {"answer", "approval", "yes", "harmless", "first_person", "maybe"}
            and not classes_in(clause.tokens[1:2]) & {"pronoun"}
        )
        is_reason = lead is not None and "reason" in lead.classes and opener not in _CONCESSIONS
        is_approved = "approval" in classes and not classes & {"negative", "reject", "fault", "report"}
        early: tuple[tuple[bool, Polarity | None], ...] = (
            (opener == "as" and is_marked, Polarity.DENIED),  # "marked 42 as wrong"
            (opener == "as" and is_answer_of_another(clause.tokens), Polarity.QUOTED),  # "as their answer"
            (
                lead is not None and lead.kind == "mark" and is_told_by_source(clause.tokens),
                Polarity.QUOTED,
            ),  # "or so my tutor says"
            (opener == "as" and bool(classes & {"wish", "intermediate"}), Polarity.INTERMEDIATE),
            (is_reason, None),
            (is_concluded, Polarity.INTERMEDIATE),  # "The discriminant is 42, so there are two roots"
            (is_contradicted, Polarity.RETRACTED),  # "the book says otherwise"
            (polarity is Polarity.QUOTED, Polarity.ASSERTED if is_approved else None),
            # "Sorry, 43; I misread the sign" is about the value in front of 43
            (is_corrected and "first_person" in classes, None),
            (self.is_closed and not is_framed and goes_on(clause.tokens), Polarity.INTERMEDIATE),
            (is_operated, Polarity.INTERMEDIATE),  # "take 42 and subtract one"
            (lead is not None and is_to_be_changed(clause.tokens), Polarity.INTERMEDIATE),
        )
        for holds, result in early:
            if holds:
                return result
        is_retraction = ("retract" in first.classes and len(clause.tokens) <= MAX_NEAR_WORDS) or any(
            "retract" in token.classes and " " in token.word for token in clause.tokens
        )
        rules = (
            (is_retraction, Polarity.RETRACTED),
            ("unfinished" in classes or "intermediate" in classes, Polarity.INTERMEDIATE),
            ("hearsay" in classes, Polarity.QUOTED),
            (is_passed_on(clause), Polarity.INTERMEDIATE),
            (
                "report" in first.classes and "first_person" not in classes and not _is_order(clause),
                Polarity.QUOTED,
            ),
            ("refuse" in classes, Polarity.RETRACTED),
            (is_disapproval(clause, is_framed=is_framed), Polarity.RETRACTED),
        )
        return next((polarity for holds, polarity in rules if holds), None)

    def _leave_asked(self, sentence: Sentence) -> None:
        """Take no value of what a task asks for the answer: "It asks how many cuts make 42 parts"."""
        if self.are_labels or self._words.isdisjoint(_OF_TASKS):
            return
        last = sentence.clauses[-1]
        is_order = last.tokens[0].word in _SEEKING and not last.values and len(sentence.clauses) > 1
        if not is_order and not asks(sentence.tokens):
            return
        for clause in sentence.clauses:
            if clause.lead is not None and clause.lead.word in _ANSWERING:
                break
            for value in clause.values:
                if value.polarity is Polarity.ASSERTED and not value.is_framed:
                    value.polarity = Polarity.ASKED

    def _leave_cases(self, sentence: Sentence) -> None:
        """Take no value of a case for the answer: "When n equals 42, the sum is even"."""
        opening, *following = sentence.clauses
        is_case = opening.tokens[0].word == "when" and bool(following) and not following[0].values
        if is_case and following[0].lead is not None and following[0].lead.word == ",":
            for value in opening.values:
                value.polarity = Polarity.SUPPOSED

    def _leave_definitions(self, sentence: Sentence) -> None:
        """Take no value that is only explained for the answer: "Here, 42 is the number of boys"."""
        if sentence.tokens[0].word not in ("here", "where"):
            return
        for clause in sentence.clauses:
            for value in clause.values[:1]:
                if names_quantity(clause.tokens[clause.tokens.index(value.token) + 1 :]):
                    value.polarity, value.is_framed = Polarity.INTERMEDIATE, False

    def _leave_unworked(self, sentence: Sentence) -> None:
        """Take no expression that is only to be worked out for the answer: "Let me compute: 6 * 7"."""
        if not self.is_closed:
            return
        for position, clause in enumerate(sentence.clauses):
            if not clause.values or clause.values[0].polarity is not Polarity.ASSERTED:
                continue
            value = clause.values[0]
            written = self._text[value.token.start : value.token.end]
            words = clause.tokens[: clause.tokens.index(value.token)]
            if not words and position and clause.lead is not None and clause.lead.word == ":":
                words = sentence.clauses[position - 1].tokens
            if (
                not value.is_framed
                and "=" not in written
                and _OPERATOR.search(written)
                and orders_working(words)
            ):
                value.polarity = Polarity.INTERMEDIATE

    def _leave_first_steps(self, sentence: Sentence) -> None:
        """Take no value of a first step for the answer: "First, note that the train is 42 metres long"."""
        if not self.is_closed or sentence.tokens[0].word not in _FIRST:
            return
        opening = sentence.clauses[0].tokens
        if len(opening) > 1 and "first_person" not in opening[1].classes and opening[1].word not in _NOTING:
            return  # "First prize is 42 dollars."
        for clause in sentence.clauses:
            lead = clause.lead
            joining = clause.tokens[0].word if clause is not sentence.clauses[0] else ""
            if {"then", "finally", "so", "thus", "hence"} & {joining, "" if lead is None else lead.word}:
                break
            for value in clause.values:
                if value.polarity is Polarity.ASSERTED and not value.is_framed:
                    value.polarity = Polarity.INTERMEDIATE

    def _reject_all(self, sentence: Sentence) -> None:
        """Take back all values that a remark rejects together: "41, then 42, and both were wrong"."""
        if self._words.isdisjoint(_REJECTING_ALL):
            return
        values: list[Value] = []
        for clause in sentence.clauses:
            subject = clause.tokens[:6]
            is_out = any(token.word in _OUT for token in subject)
            if is_out or (
                len(values) > 1
                and not clause.values
                and any(token.word in _ALL_OF_THEM for token in subject)
                and disapproves(clause.tokens, is_framed=True)
            ):
                for value in values:
                    if value.polarity is Polarity.ASSERTED:
                        value.polarity = Polarity.RETRACTED
            values += clause.values

    def _side_with(self, sentence: Sentence) -> None:
        """Assert what a person stated who is found right: "Ann says 41, Ben says 42, and Ben is right"."""
        values = sentence.values
        if len(values) < 2:  # noqa: PLR2004  (of two speakers)
            return
        for clause in sentence.clauses:
            tokens = [token for token in clause.tokens if token.word not in ("and", "but")]
            classes = [token.classes for token in tokens[1:]]
            is_verdict = len(classes) == 2 and "copula" in classes[0] and "approval" in classes[1]  # noqa: PLR2004  (a verb and an approval)
            if clause.values or not is_verdict:
                continue
            said = [value for value in values if value.clause.tokens[0].word == tokens[0].word]
            if said and len(said) < len(values):
                for value in values:
                    value.polarity = Polarity.ASSERTED if value in said else Polarity.QUOTED

    def _set_checks_apart(self, sentence: Sentence, number: int) -> None:
        """Take values of a check behind an answer for no answer: "It is 42. Check: 42 - 2 = 40"."""
        if self._words.isdisjoint(_CHECKING):
            return
        tokens = sentence.tokens
        before = self._sentences[number - 1].tokens if number else []
        at = int(tokens[0].word in ("to", "quick", "sanity"))
        is_headed = len(before) == 1 and before[0].word in _VERIFYING
        is_heading = len(sentence.clauses) > 1 and [t.kind for t in sentence.clauses[0].tokens] == ["word"]
        is_headed = is_headed or (is_heading and tokens[0].word in _VERIFYING)  # "Check: 42 - 2 = 40"
        is_check = len(tokens) > at + 1 and tokens[at].word in _VERIFYING and tokens[at + 1].kind != "value"
        is_reason = (
            tokens[0].word in _EXPLAINING
            and len(sentence.clauses[0].tokens) == 1
            and len(sentence.clauses) > 1
        )
        if not (is_headed or is_check or is_reason):
            return
        first = next(iter(sentence.values), None)
        if first is None or first is self._values[0]:
            return
        earlier = self._values[: self._values.index(first)]
        if all(value.polarity is not Polarity.ASSERTED for value in earlier):
            return
        for clause in sentence.clauses:
            for value in clause.values:
                if value.polarity is Polarity.ASSERTED and not value.is_framed:
                    value.polarity = Polarity.INTERMEDIATE

    def _replace(self, sentence: Sentence) -> None:
        """Read "41 should read 42" and "41 turns into 42": the second value replaces the first."""
        for earlier, clause in pairwise(sentence.clauses):
            if (
                earlier.values
                and clause.values
                and clause.lead is not None
                and self._text.startswith(_ARROWS, clause.lead.start)
                and clause.tokens[0].kind == earlier.tokens[-1].kind == "value"
                and earlier.values[-1].polarity is Polarity.ASSERTED
            ):
                earlier.values[-1].polarity = Polarity.RETRACTED  # "Answer: 41 → 42"
                clause.values[0].polarity, clause.values[0].is_framed = Polarity.ASSERTED, True
            if earlier.values and clause.values and clause.lead is not None and clause.lead.word == "which":
                before = clause.tokens[: clause.tokens.index(clause.values[0].token)]
                if len(before) > 1 and before[-1].word in _INTO and _changes(before):
                    earlier.values[-1].polarity = Polarity.RETRACTED
                    clause.values[0].polarity = Polarity.ASSERTED
        for clause in sentence.clauses:
            for first, second in zip(clause.values, clause.values[1:], strict=False):
                start, end = clause.tokens.index(first.token), clause.tokens.index(second.token)
                between = clause.tokens[start + 1 : end]
                classes = classes_in(between)
                is_changed = (
                    _changes(clause.tokens[:start])
                    and between != []
                    and between[-1].word in _INTO
                    and not classes_in(between) & {"copula", "negative"}
                )
                order = [token.word for token in clause.tokens[:start]]
                # "Please read 42 for 41"
                if (
                    order[-1:] == ["read"]
                    and {*order[:-1]} <= {"please", "kindly", "so"}
                    and ([token.word for token in between] in (["for"], ["instead of"]))
                ):
                    first.polarity, second.polarity = Polarity.ASSERTED, Polarity.RETRACTED
                if (
                    ("becoming" in classes or is_changed)
                    and "negative" not in classes
                    and not sentence.is_question
                ):
                    first.polarity = Polarity.RETRACTED
                    if second.polarity in (
                        Polarity.INTERMEDIATE,
                        Polarity.RETRACTED,
                        Polarity.QUOTED,
                        Polarity.SUPPOSED,
                        Polarity.DENIED,
                        Polarity.BOUNDED,
                    ):
                        second.polarity = Polarity.ASSERTED

    def _choose(self, sentence: Sentence) -> None:
        """Read which value of a list a sentence takes: "Between 41 and 42, the second is right"."""
        values: list[Value] = []
        for clause in sentence.clauses:
            index = None if clause.values or len(values) <= 1 else ordinal_in(clause.tokens)
            if index is not None and index < len(values):
                for value in values:
                    value.polarity = Polarity.DENIED
                values[index].polarity, values[index].is_framed = Polarity.ASSERTED, True
            values += clause.values

    def _set_parts_apart(self, sentence: Sentence) -> None:
        """Take parts of a value that is stated for no answer: "42, of which 12 are red and 30 blue"."""
        stated = False
        is_part = False
        # The parts end the sentence, and a colon opens them: the last one is enough to look at.
        colons = [at for at, clause in enumerate(sentence.clauses) if clause.lead and clause.lead.word == ":"]
        opening = sentence.clauses[colons[-1]] if colons and not self._takes_alternatives else None
        is_broken_down = opening is not None and _is_breakdown(sentence.clauses[colons[-1] :])
        for earlier, clause in zip([None, *sentence.clauses], sentence.clauses, strict=False):
            is_which = clause.lead is not None and clause.lead.word in ("which", "whom")
            if is_which and earlier is not None and earlier.tokens[-1].word in ("of", "among") and stated:
                is_part = True
            is_part = is_part or (clause is opening and is_broken_down and stated)
            for value in clause.values:
                if is_part and value.polarity is Polarity.ASSERTED and not value.is_framed:
                    value.polarity = Polarity.INTERMEDIATE
                stated = stated or value.polarity is Polarity.ASSERTED

    def _hedge_without(self, sentence: Sentence) -> None:
        """Decide for no value of a case and its opposite: "with it 41, without it 42"."""
        earlier: Value | None = None
        for clause in sentence.clauses:
            for value in clause.values:
                left = clause.tokens[: clause.tokens.index(value.token)]
                is_opposite = earlier is not None and governs_another(left) and clause.lead is not None
                if earlier is not None and is_opposite and _are_open(earlier, value):
                    earlier.polarity = value.polarity = Polarity.HEDGED
                earlier = value

    def _contrast(self, sentence: Sentence) -> None:
        """Assert what is set against a value that a sentence denies: "we eliminate 41 and retain 42"."""
        values = sentence.values
        if any(value.polarity is Polarity.ASSERTED for value in values) or len(values) < 2:  # noqa: PLR2004  (the denied value and its rival)
            return
        denied = [
            value
            for value in values
            if value.polarity in (Polarity.DENIED, Polarity.QUOTED, Polarity.RETRACTED)
        ]
        weak = [value for value in values if value.is_weak and value.polarity is Polarity.INTERMEDIATE]
        # "Some give 42, others 41; I don't know which is right."
        is_open = any("refuse" in clause.classes() for clause in sentence.clauses if not clause.values)
        if denied and len(weak) == 1 and len(denied) + 1 == len(values) and not is_open:
            weak[0].polarity = Polarity.ASSERTED

    def _hedge_counts(self, sentence: Sentence) -> None:
        """Decide for no count of two things side by side: "there are 20 boys and 22 girls"."""
        if not self.is_closed or self._takes_alternatives or len(sentence.clauses) < 2:  # noqa: PLR2004  (two counts)
            return
        *_, earlier, clause = sentence.clauses
        nouns = [part.tokens[-1] for part in (earlier, clause)]
        is_pair = (
            clause.lead is not None
            and clause.lead.word == "and"
            and len(earlier.values) == len(clause.values) == 1
            and clause.tokens[0].kind == "value"
            and len(clause.tokens) == 2  # noqa: PLR2004  (a number and its noun)
            and earlier.tokens[-2:-1] == [earlier.values[0].token]
        )
        if not is_pair or any(noun.word in _PARTS_OF_UNITS or not noun.word.endswith("s") for noun in nouns):
            return
        values = [earlier.values[0], clause.values[0]]
        if all(value.polarity is Polarity.ASSERTED and not value.is_framed for value in values):
            for value in values:
                value.polarity = Polarity.INTERMEDIATE

    def _leave_unstated(self, sentence: Sentence) -> None:
        """Take a value behind another one for no answer, unless a verb states it: "box 41 beside 42 here"."""
        if not self.is_closed or self._takes_alternatives:
            return
        values = sentence.values
        for earlier, value in pairwise(values):
            if value.polarity is not Polarity.ASSERTED or value.is_framed:
                continue
            tokens = value.clause.tokens
            at = tokens.index(value.token)
            is_same = value.clause is earlier.clause
            between = tokens[tokens.index(earlier.token) + 1 : at] if is_same else tokens[:at]
            words = [token for token in between if not is_filler(token)]
            if classes_in(between) & _STATING:
                continue
            lead = value.clause.lead
            is_carried = (
                not is_same
                and earlier.polarity is Polarity.INTERMEDIATE
                and lead is not None
                and lead.word == "and"
            )
            is_beside = (
                is_same
                and bool(words)
                and earlier.polarity in (Polarity.ASSERTED, Polarity.INTERMEDIATE)
                and at + 1 < len(tokens)
            )
            if is_carried or is_beside:
                value.polarity = Polarity.INTERMEDIATE

    def _share_predicate(self, sentence: Sentence) -> None:
        """Apply the predicate behind a list to all its members: "41, 42 and 43 are ruled out"."""
        following: Value | None = None
        for position in reversed(range(len(sentence.clauses))):
            clause = sentence.clauses[position]
            for value in reversed(clause.values):
                if (
                    following is not None
                    and not value.is_framed
                    and value.polarity is Polarity.ASSERTED
                    and following.polarity in _SHARED
                ):
                    lead = following.clause.lead
                    is_listed = (
                        lead is not None
                        and lead.word in (*AND, ",")
                        and following.clause.tokens[0] is following.token
                    )
                    if (
                        is_listed
                        and following.clause in sentence.clauses[position + 1 : position + 2]
                        and clause.tokens[-1] is value.token
                    ):
                        value.polarity = following.polarity
                following = value


def cases_of(sentence: Sentence) -> list[Value]:
    """Return the values of cases side by side: "42 with order, 43 without order"."""
    clauses = sentence.clauses
    cases: list[Value] = []
    for clause, following in zip_longest(clauses, clauses[1:]):
        if len(clause.values) != 1 or clause.values[0].is_framed:
            continue
        if clause.tokens[0].kind != "value" and (cases or verb_of(clause.values[0]) is None):
            continue  # only the first case has the verb: "I get 42 by hand and 43 by machine"
        after = clause.tokens[clause.tokens.index(clause.values[0].token) + 1 :]
        behind = after[0].word if after else ""
        lead = following.lead.word if following is not None and following.lead is not None else ""
        if behind in CASES or (
            not behind and lead in CASES and following is not None and not following.values
        ):
            cases.append(clause.values[0])
    return cases if len(cases) > 1 else []


def verb_of(value: Value) -> str | None:
    """Return the verb in front of a value in its clause."""
    at = value.clause.tokens.index(value.token)
    verb = value.clause.tokens[at - 1] if at else None
    return verb.word if verb is not None and verb.classes & {"copula", "result", "epistemic"} else None


def _is_breakdown(clauses: Sequence[Clause]) -> bool:
    """Whether a colon opens the parts of a value: "42 students: 20 boys and 22 girls"."""
    values = [value for part in clauses for value in part.values]
    return len(values) > 1 and all(
        part.lead is not None and part.lead.word in (":", ",", *AND) and part.tokens[0].kind == "value"
        for part in clauses
    )


def _is_order(clause: Clause) -> bool:
    """Whether a remark asks the reader to keep the value in front of it: "42, write it down"."""
    words = [token.word for token in clause.tokens[:2]]
    return words[0] in _ORDERED and (len(words) == 1 or words[1] in ("it", "that", "this", "down"))


def _are_open(*values: Value) -> bool:
    """Whether nothing is known against values that no noun names as the answer."""
    return all(value.is_weak or value.polarity is Polarity.ASSERTED for value in values) and not any(
        value.is_framed for value in values
    )


def _changes(tokens: Sequence[TextToken]) -> bool:
    """Whether words say that something is changed: "I correct"."""
    return any(word.startswith(_CHANGING) for token in tokens for word in token.word.split())
