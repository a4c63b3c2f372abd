"""Decides from the words of its sentence whether a value is asserted. Pure.

The words in front of a value in its clause (`front_words.py`), those behind it, and the clauses around it
decide, in this order. `statements.py` then reads what other sentences say.
"""

import re
from collections.abc import Sequence
from typing import Final

from ors_server.rewards.reading.conditions import (
    INVERTED,
    ORDERS,
    SOURCES,
    TEMPORAL,
    is_condition,
    is_granted,
    is_mistaken_way,
    is_own_work,
)
from ors_server.rewards.reading.dispositions import (
    is_kept_in_mind,
    is_no_solution,
    is_pending,
)
from ors_server.rewards.reading.frame_words import is_filler
from ors_server.rewards.reading.frames import governor_states, has_unit_of_verb, is_of_author, is_sought
from ors_server.rewards.reading.front_words import FrontRules, behind_value
from ors_server.rewards.reading.left_frames import is_answer_of_another, is_apt_answer, states_behind
from ors_server.rewards.reading.polarity import Classes, Polarity, words_of
from ors_server.rewards.reading.remarks import (
    takes_back_words,
)
from ors_server.rewards.reading.right_frames import (
    has_wrong_source,
    is_by_error,
    is_count_of,
    is_goal,
    is_identity,
    is_mere,
    is_object_taker,
    is_part_counted,
    is_unit,
    names_quantity,
)
from ors_server.rewards.reading.sentences import (
    AND,
    MAX_NEAR_WORDS,
    OR,
    Clause,
    Sentence,
    TextToken,
    Value,
    classes_in,
)

_REFERENCE: Final = re.compile(r"\[\d[\d., ]*\]")
_CONNECTING: Final = words_of("of the a an even also from with for by some others to say just either")
_CHANGES: Final = tuple(
    words_of(
        "rise rose fall fell grow grew drop increas decreas go went climb shrink shrank sink sank jump declin"
    )
)
_FAILING: Final = frozenset({"negative", "reject", "refuse", "fault", "would", "suppose", "maybe"})
_ABOUT: Final = frozenset({"about", "around"})
_BE: Final = words_of("is was are were")
_CONCLUDING: Final = words_of("so thus hence therefore then meaning")
_NEEDING: Final = words_of("would need must requires require needs required")
_FUNCTION_WORDS: Final = words_of(
    "to of in on at by for the a an that who per from into each every this with all its their"
)
_MAX_UNIT: Final = 3
"""Words of an unknown unit."""
_WORK_SUBJECTS: Final = frozenset(
    {"that", "this", "it", "which", "there", "there were", "there are", "my proof", "after", "within"}
)
_STATING: Final = frozenset(
    {"copula", "result", "harmless", "report", "quantity", "answer", "confirm", "hash", "yes"}
)
_OF_FORM: Final = frozenset(
    {"source", "preposition", "condition", "apt", "no_unit", "linking", "epistemic", "alternative", "belief"}
)
"""Classes that do not make a sentence of words around a value."""
_OF_ITS_VALUE: Final = frozenset({"exceptive", "reject", "report", "bound", "former", "trial", "leave"})
_NOUNS: Final = words_of("votes states reports notes figures estimates offers guesses bets claims quotes")
"""Plurals that are verbs of saying, too: "42 votes"."""
_TIMES: Final = frozenset({"hour", "hours", "minute", "minutes", "second", "seconds"})
_DETERMINERS: Final = words_of("the a an all her his my our their its those these about only just both each")
_IN_FAVOUR: Final = frozenset({"in favour of", "in favor of"})
_LISTING: Final = words_of("and or nor even y e et und en i и ve och og") | {
    "as well as",
    "and also",
    "or even",
}
_UNIVERSAL: Final = words_of("all any every each anything everything everyone anybody")
_INDEFINITE: Final = words_of("a an any some no another my your")
_RELATIVE_PRONOUNS: Final = frozenset({"that", "who", "whom", "whose"})
_INHERITED: Final = frozenset(
    {Polarity.DENIED, Polarity.BOUNDED, Polarity.QUOTED, Polarity.HEDGED, Polarity.SUPPOSED, Polarity.ASKED}
)
"""What a list passes on: "not 41 or 42"."""
_ELLIPSES: Final = words_of("too also likewise either neither similarly") | {"as well"}
"""What follows a value for the predicate of the value in front of it: "41 is out, 42 as well"."""
_LIMITS: Final = words_of("limit timeout crashed aborted quota budget stopped halted terminated")
_OTHER_TIMES: Final = words_of("next previously earlier before afterwards later") | {"the year before"}
"""Times that are not asked about: "Riga will host it next", "Riga hosted the previous one"."""
_REASONS: Final = frozenset({"because", "since", "for"})
_CONDITIONING: Final = frozenset({"suppose", "reject", "fault", "leave"})
_CONDITIONAL: Final = TEMPORAL | INVERTED | {"if", "to", "wrong"}
"""Words of which a clause that may be a condition or a purpose has one, or one of these classes."""
_PARTICLE_VERBS: Final = words_of(
    "rule rules ruled ruling cross crosses crossed strike strikes struck count counts leave leaves "
    "left vote throw set sets put puts push brush cast "
)
"""Verbs that reject a value together with a word behind it: "this rules 42 out"."""


class ClauseReader(FrontRules):
    """Reads each sentence of a text by itself."""

    def _read_sentence(self, sentence: Sentence, number: int) -> None:
        # A question that the next sentence answers with "yes" states its value.
        is_confirmed = sentence.is_question and self._is_yes(number + 1)
        may_depend = bool(self._classes & _CONDITIONING) or not self._words.isdisjoint(_CONDITIONAL)
        sentence.is_granted = may_depend and (
            "granted" in classes_in(sentence.tokens) or any(map(is_granted, sentence.clauses[1:]))
        )
        # The order of the steps matters: most of them look only at values that are still asserted.
        for position, clause in enumerate(sentence.clauses):
            for index, value in enumerate(clause.values):
                left, right = self._words_around(clause, index)
                value.region = (
                    clause.start if index == 0 else clause.values[index - 1].token.end,
                    clause.end if index == len(clause.values) - 1 else value.token.end,
                )
                if index == 0 and position:
                    value.is_framed = _is_named_in_front(clause, sentence.clauses[position - 1])
                self._judge(value, left, right)
                # A range: if its beginning is a bound, so is its end, unless the sentence tells a change from
                # one to the other.
                is_ranged = index and clause.values[index - 1].polarity is Polarity.BOUNDED
                if is_ranged and _is_range(clause, index):
                    is_change = any(
                        token.word.startswith(_CHANGES) for token in clause.tokens[: MAX_NEAR_WORDS + 2]
                    )
                    value.polarity = Polarity.ASSERTED if is_change else Polarity.BOUNDED
                if right and right[-1].word in ("of", "among") and position + 1 < len(sentence.clauses):
                    following = sentence.clauses[position + 1].lead
                    if following is not None and following.word in ("which", "whom"):
                        value.polarity = Polarity.INTERMEDIATE
                if value.polarity is Polarity.ASSERTED and index == 0:
                    value.polarity = self._inherit(sentence, position, left, right) or value.polarity
                is_open = value.polarity is Polarity.ASSERTED and may_depend
                if is_open and self._is_conditional(sentence, position):
                    value.polarity = Polarity.SUPPOSED
                if value.polarity in (Polarity.ASSERTED, Polarity.QUOTED) and index == len(clause.values) - 1:
                    value.polarity = self._judge_by_following(sentence, position, value) or value.polarity
                if (
                    # Only for a value that is still asserted: words that no list knows are weak evidence.
                    value.polarity is Polarity.ASSERTED
                    and self.is_closed
                    and self._trails_off(sentence, position, value)
                ):
                    value.polarity = Polarity.INTERMEDIATE
                if sentence.is_question and not is_confirmed:
                    value.polarity = Polarity.ASKED
        self._read_together(sentence, number)

    def _read_together(self, sentence: Sentence, number: int) -> None:
        """Apply the rules over all values of a sentence, which need the polarity of each."""
        self._leave_asked(sentence)
        self._leave_first_steps(sentence)
        self._leave_unworked(sentence)
        self._leave_definitions(sentence)
        self._leave_cases(sentence)
        if len(sentence.values) == 1:
            # The others compare the values of a sentence.
            self._reject_all(sentence)
            self._set_checks_apart(sentence, number)
            return
        self._share_predicate(sentence)
        self._reject_all(sentence)
        self._side_with(sentence)
        self._set_checks_apart(sentence, number)
        self._replace(sentence)
        self._choose(sentence)
        self._set_parts_apart(sentence)
        self._hedge_without(sentence)
        self._contrast(sentence)
        self._subordinate(sentence)
        self._leave_unstated(sentence)
        self._hedge_counts(sentence)

    def _words_around(self, clause: Clause, index: int) -> tuple[list[TextToken], list[TextToken]]:
        tokens = clause.tokens
        at = tokens.index(clause.values[index].token)
        left = tokens[:at]
        following = clause.values[index + 1].token if index + 1 < len(clause.values) else None
        right = tokens[at + 1 : len(tokens) if following is None else tokens.index(following)]
        return left, right

    def _judge(self, value: Value, left: list[TextToken], right: list[TextToken]) -> None:
        # Words that are about an earlier value of the clause must not judge this one twice.
        is_first = value is value.clause.values[0]
        if not (is_first and self._words.isdisjoint(_IN_FAVOUR)):
            left = _in_scope(left)
        before = classes_in(left)
        after = classes_in(right)
        value.is_maybe = "maybe" in before or "maybe" in after
        is_confirmed = bool(right) and "copula" in right[0].classes and "confirm" in after
        is_confirmed = is_confirmed and not is_mere(right) and not names_quantity(right)
        is_confirmed = (
            is_confirmed and "former" not in after and not any(token.word in _OTHER_TIMES for token in right)
        )
        # "Since 6 * 7 is needed, we work it out"
        is_reason = bool(left) and left[0].word in _REASONS and "answer" not in after
        is_confirmed = (is_confirmed and not is_reason) or is_goal(right)
        is_named = (
            "answer" in before
            and not (left and "oblique" in left[-1].classes)
            and (is_first or (bool(left) and bool(left[-1].classes & {"copula", "answer"})))
        )
        value.is_framed = value.is_framed or is_named or is_confirmed
        if (
            any(token.word in _UNIVERSAL for token in left)
            and left[-1].classes & {"exceptive"}
            and after & {"negative", "reject", "fault"}
        ):
            value.is_framed = True
            return  # "any answer other than 42 is wrong"
        if (
            not self.are_labels
            and bool(left)
            and left[-1].word in ("only", "just")
            and bool(right)
            and right[0].word in ("is", "works", "fits", "does", "satisfies", "remains")
            and not (before | after) & {"negative", "reject", "fault", "suppose", "would", "report"}
            and not is_mere(right)
        ):
            value.is_framed = True  # "of these, only 42 is divisible by six"
            value.polarity = Polarity.ASSERTED
            return
        value.polarity = self._from_left(value, left, right, before) or self._from_right(
            value, left, right, before
        )

    def _from_right(
        self, value: Value, left: list[TextToken], right: list[TextToken], before: Classes
    ) -> Polarity:
        """Return what the words behind a value say; the first rule that holds decides."""
        # Nothing behind the value: its frame alone decides.
        if not right:
            return self._judge_by_frame(value, left, right)
        first = right[0]
        relative = next((index for index, token in enumerate(right) if token.word in _RELATIVE_PRONOUNS), 0)
        seen = classes_in(right[:relative] if relative else right)
        is_last = value is value.clause.values[-1]
        is_bound = "bound" in first.classes and "first_person" not in classes_in(right[1:2])
        is_bound = is_bound or ("bound" in seen and "copula" in first.classes)
        is_junk = (
            not left
            and len(right) > _MAX_UNIT
            and not any(token.classes or token.word in _FUNCTION_WORDS for token in right)
        )
        end = right[-1]
        is_exceeded = "bound_after" in end.classes and end.word.startswith(("and ", "or "))  # "and then some"
        is_backed = "confirm" in seen and any(token.word == "by" for token in right)  # "supported by line 3"
        is_numbered = not self.are_labels or "preposition" in seen  # "Riga was right in the old edition"
        is_numbered = is_numbered and not (self.are_labels and is_backed)
        is_dropped = bool(relative) and "reject" in right[-1].classes and "negative" not in classes_in(right)
        rules = (
            ("bound_after" in classes_in(right[:MAX_NEAR_WORDS]) or is_exceeded, Polarity.BOUNDED),
            (is_no_solution(right) or has_wrong_source(right), Polarity.DENIED),
            (is_goal(right), Polarity.ASSERTED),
            # "42 forgets the empty set"
            (
                not left and "erring" in first.classes and first.word.endswith("s") and len(right) > 1,
                Polarity.DENIED,
            ),
            (is_mere(right), Polarity.INTERMEDIATE),
            (is_dropped or ("other_task" in seen and "copula" not in before), Polarity.DENIED),
            (
                "former" in seen
                and "copula" in first.classes
                and "i'd have" in " ".join(t.word for t in right),
                Polarity.RETRACTED,
            ),
            (takes_back_words(right) or any(t.word.startswith("until i") for t in right), Polarity.RETRACTED),
            (
                (bool(seen & {"negative", "reject", "refuse", "fault"}) and not is_count_of(right))
                or is_by_error(right),
                Polarity.DENIED,
            ),
            ("suppose" in seen, Polarity.SUPPOSED),
            ("would" in seen and bool(first.classes & {"would", "harmless"}), Polarity.SUPPOSED),
            ("would" in seen and bool(left) and left[0].word == "for", Polarity.SUPPOSED),
            (self._is_reported(right, seen), Polarity.QUOTED),
            ("bound" in first.classes and first.word in ORDERS, Polarity.BOUNDED),
            (is_last and is_bound, Polarity.BOUNDED),
            (is_part_counted(right) and not seen & _FAILING, Polarity.ASSERTED),
            # "42 was my room number"
            (
                "copula" in first.classes
                and (self.are_labels or first.word in _BE)
                and "label" in seen
                and is_numbered,
                Polarity.INTERMEDIATE,
            ),
            (
                self.is_closed
                and not value.is_framed
                and (is_of_author(left, right) or is_kept_in_mind(left, right)),
                Polarity.INTERMEDIATE,
            ),
            (
                self.is_closed
                and first.word.partition(" ")[0] == "before"
                and not value.is_framed
                and is_last,
                Polarity.INTERMEDIATE,  # "42 before tax"
            ),
            (
                first.word in ("out", "off", "aside", "away")
                and bool(left)
                and left[-1].word in _PARTICLE_VERBS,
                Polarity.DENIED,
            ),
            (self._text.startswith(("-odd", "-ish", "-something"), value.token.end), Polarity.BOUNDED),
            (
                "work" in first.classes and any(token.word in _LIMITS for token in left),
                Polarity.INTERMEDIATE,
            ),
            (
                "intermediate" in seen
                or (
                    "operation" in first.classes
                    and (first.word != "percent of" or len(right) == 1)
                    and not (first.word == "times" and is_last)  # "it stops 42 times"
                )
                or is_pending(right),
                Polarity.INTERMEDIATE,
            ),
            (is_junk or self._is_about_the_work(left, right, before), Polarity.INTERMEDIATE),
        )
        judged = next((polarity for holds, polarity in rules if holds), None)
        return judged or self._as_subject(value, left, right, before, seen)

    def _is_reported(self, right: list[TextToken], seen: Classes) -> bool:
        reports = [token for token in right if "report" in token.classes]
        if reports and right[0].word in _NOUNS | {"more", "other"} and reports[0].word in _NOUNS:
            reports = reports[1:]
        is_of_others = bool(reports) and "report" in seen and "first_person" not in seen
        return is_of_others or is_answer_of_another(right)

    def _as_subject(
        self, value: Value, left: list[TextToken], right: list[TextToken], before: Classes, seen: Classes
    ) -> Polarity:
        """Return what a predicate makes of a value that nothing speaks against."""
        if self._judge_by_frame(value, left, right) is Polarity.INTERMEDIATE:
            return Polarity.INTERMEDIATE
        if self.are_labels and len(right) == 1 and "copula" in right[0].classes and not left:
            return Polarity.ASSERTED  # "41 isn't right; 42 is."
        if (
            len(right) == 1
            and "copula" in right[0].classes
            and not left
            and value.sentence > 0
            and self._sentences[value.sentence - 1].is_question
        ):
            return Polarity.ASSERTED  # "How many are free? 42 are."
        is_predicate = bool(right[0].classes & {"copula", "maybe"}) or (
            self.are_labels
            and self._text[value.token.start].isalpha()
            and _is_verb(right[0])
            and "confirm" not in right[0].classes
        )
        if self.are_labels and value.token.end - value.token.start > MAX_NEAR_WORDS and is_identity(right):
            return Polarity.ASSERTED  # "Porto is the town"
        is_subject = is_predicate and not before & {"copula", "answer"}
        is_state = (
            right[0].word in ("were", "are")
            and len(right) > 1
            and (
                "quantity" in right[1].classes
                or right[1].word.endswith(("ed", "en"))
                or (value.clause.lead is not None and value.clause.lead.word in _CONCLUDING)
            )
            and not seen & {"reject", "fault", "negative", "would"}
        )
        if is_state:
            return Polarity.ASSERTED  # "42 were sold"
        is_one_of_many = len(right) > 1 and right[1].word in _INDEFINITE
        confirming = {"answer"} if is_one_of_many else {"confirm", "answer", "harmless"}
        value.is_weak = is_subject and not seen & confirming
        return Polarity.INTERMEDIATE if value.is_weak else Polarity.ASSERTED

    def _judge_by_frame(self, value: Value, left: list[TextToken], right: list[TextToken]) -> Polarity:
        value.is_weak = not self._has_frame(value, left, right)
        return Polarity.INTERMEDIATE if value.is_weak else Polarity.ASSERTED

    def _is_about_the_work(self, left: list[TextToken], right: list[TextToken], before: Classes) -> bool:
        """Whether a value counts lines or steps of the solution, or words of the question."""
        if "answer" in before or not any("work" in token.classes for token in right[:2]):
            return False
        if right[0].word in _TIMES and "first_person" not in before:
            return False
        if any(token.word in ("them", "him", "her") for token in left):
            return False  # "It took them 42 days."
        behind = list(right)
        while behind and (behind[-1].word in ("on", "for", "with") or "pronoun" in behind[-1].classes):
            behind.pop()  # "minutes on this"
        is_short = len(behind) <= MAX_NEAR_WORDS or any(token.word in SOURCES for token in right)
        has_subject = bool(left) and (left[0].word in _WORK_SUBJECTS or "first_person" in left[0].classes)
        return is_short and has_subject and any("work_verb" in token.classes for token in left)

    def _has_frame(self, value: Value, left: list[TextToken], right: list[TextToken]) -> bool:
        """Whether a clause is a sentence that may state a value, not just words around one."""
        # An open reader (the gold answer is not mathematics) takes any words for a frame.
        if not self.is_closed:
            return True
        words = [t for t in left if t.kind == "word" and not is_filler(t) and t.word not in _ABOUT]
        if not governor_states(behind_value(left), right) or not is_apt_answer(left):
            return False
        if not words:
            is_subject = is_object_taker(right)
            is_predicate = bool(right) and (
                "copula" in right[0].classes
                or ("copula" in classes_in(right[1:2]) and "confirm" in classes_in(right[2:]))
                or ("linking" in right[0].classes and "approval" in classes_in(right[1:2]))
            )
            is_led = bool(left) or value.clause.lead is not None
            return not is_subject and (is_led or is_predicate or is_unit(right))
        is_past = any(token.word.endswith("ed") and index for index, token in enumerate(words))
        if is_past or all(token.classes - _OF_FORM for token in words):
            return True  # "the crew loaded 42 crates"
        if has_unit_of_verb(words, right):
            return True
        return any(token.classes & _STATING for token in (*left, *right))

    def _inherit(
        self, sentence: Sentence, position: int, left: list[TextToken], right: list[TextToken]
    ) -> Polarity | None:
        """Return what the clause in front says of a value: a heading, or a list that the value continues."""
        lead = sentence.clauses[position].lead
        if position == 0 or lead is None:
            return None
        earlier = sentence.clauses[position - 1]
        if not earlier.values:
            return self._behind_heading(sentence, position, left)
        is_reason = lead.word == "," and earlier.lead is not None and "reason" in earlier.lead.classes
        # Such a clause is complete: the value behind its comma belongs to the main clause.
        if is_reason or "exceptive" in earlier.tokens[0].classes:
            return None  # "since 41 fails, 42", "unlike 41, 42 works"
        polarity = earlier.values[-1].polarity
        is_elliptic = bool(left) and lead.word in (",", ";", "and")
        is_elliptic = is_elliptic and polarity in (Polarity.QUOTED, Polarity.DENIED)
        if is_elliptic and _is_of_next_speaker([*left, *right], earlier):
            return polarity  # "My first guess says 41, my second one 42"
        # "A violates the first condition, B the second"
        is_gapped = self.are_labels and lead.word in (",", ";", "and") and polarity is Polarity.DENIED
        is_gapped = is_gapped and earlier.tokens[0].kind == "value" and right[:1] != []
        is_gapped = is_gapped and right[0].word in _DETERMINERS
        is_gapped = is_gapped and not classes_in(right) & {"copula", "confirm", "answer"}
        if not left and right and (is_gapped or all(token.word in _ELLIPSES for token in right)):
            return polarity
        is_joined = (
            earlier.tokens[-1].kind == "value"
            and (lead.word in AND or lead.word == ",")
            and all(token.word in _CONNECTING or "maybe" in token.classes for token in left)
        )
        is_again = (
            bool(left) and "report" in left[0].classes and left[0].word in {t.word for t in earlier.tokens}
        )
        is_new = (
            is_again
            or "correction" in classes_in(left)
            or (
                bool(right)
                and not left
                and ("copula" in right[0].classes or (self.are_labels and _is_verb(right[0])))
            )
        )
        is_left = self.are_labels and right[:1] != [] and right[0].word in ("leaves", "leaving")
        is_new = is_new and not is_left  # "Knocking out A and B leaves C"
        is_former = (
            polarity is Polarity.RETRACTED
            and self.are_labels
            and ("former" in earlier.classes() or lead.word in ("and", "or"))
        )
        is_passed = polarity in _INHERITED or is_former  # "I considered A and B"
        return polarity if is_joined and not is_new and is_passed else None

    def _is_conditional(self, sentence: Sentence, position: int) -> bool:
        """Whether the clauses around a value make it conditional: "if x = 1, then 42", "42 if it rains"."""
        # "if the coin is fair, as stated": the sentence says itself that its condition holds.
        clauses = sentence.clauses
        if sentence.is_granted:
            return False
        own = clauses[position]
        if clauses[0].tokens[0].word == "if" and any(value.is_maybe for value in own.values):
            return True  # "If the map is right, it might be Riga."
        if len(clauses) == 1:
            return False
        is_purpose = len(own.tokens) > MAX_NEAR_WORDS and own.tokens[0].word == "to" and own.lead is None
        if is_purpose and own.tokens[1].classes & {"result", "epistemic"} and position + 1 < len(clauses):
            following = clauses[position + 1 : position + 4]
            return any(token.word in _NEEDING for clause in following for token in clause.tokens)
        start = next(
            (at for at in range(position, max(position - 2, 0), -1) if self._is_apart(clauses[at])),
            position - 2,
        )
        following = [
            clause
            for clause in clauses[position + 1 : position + 2]
            if not self._is_apart(clause) and not (clause.lead is not None and clause.lead.word in _REASONS)
        ]
        # "If you thought 41, think again: 42": the correction ends the condition.
        corrected = next(
            (
                at
                for at in range(position - 1, max(start, 0) - 1, -1)
                if "correction" in clauses[at].classes()
            ),
            max(start, 0),
        )
        return any(
            is_mistaken_way(clause) or (is_condition(clause) and not is_own_work(clause))
            for clause in clauses[corrected:position] + following
        )

    def _is_apart(self, clause: Clause) -> bool:
        """Whether a semicolon or "but" is in front of a clause."""
        return clause.lead is not None and (
            self._text[clause.lead.start] == ";" or clause.lead.word in ("but", "however", "whereas")
        )

    def _subordinate(self, sentence: Sentence) -> None:
        """Take values of subordinate clauses and remarks as intermediate where a main clause has one."""
        values = [v for v in sentence.values if v.polarity is Polarity.ASSERTED]
        if len(values) < 2:  # noqa: PLR2004  (a main clause and another)
            return
        secondary: list[Value] = []
        for earlier, value in zip([None, *values], values, strict=False):
            is_first = not value.is_framed or value.clause.values[0] is not value
            lead = value.clause.lead
            continues = (
                earlier is not None
                and earlier in secondary
                and lead is not None
                and (lead.word == "," or lead.word in AND - OR)
                and not value.is_framed
                and (lead.word in AND - OR or earlier.clause is not sentence.clauses[0])  # "While A fails, B"
                and earlier.clause.lead is not None
                and "reason" in earlier.clause.lead.classes
                and not classes_in(value.clause.tokens[:2]) & {"copula", "first_person"}
            )
            if is_first and (self._is_secondary(value) or continues):
                secondary.append(value)
        if len(secondary) < len(values):
            for value in secondary:
                value.polarity = Polarity.INTERMEDIATE

    def _is_secondary(self, value: Value) -> bool:
        clause = value.clause
        lead = clause.lead
        if self._text[value.token.start] == "[" and _REFERENCE.fullmatch(
            self._text, value.token.start, value.token.end
        ):
            return True
        if lead is not None and ("reason" in lead.classes or lead.word in "(["):
            return True
        left = behind_value(clause.tokens[: clause.tokens.index(value.token)])
        while left and left[-1].word in _DETERMINERS:
            left = left[:-1]
        is_result = left[-1:] != [] and left[-1].word in ("to", "of") and states_behind(left)
        return bool(left) and "oblique" in left[-1].classes and not is_result  # "brings it to 42"


def _is_named_in_front(clause: Clause, heading: Clause) -> bool:
    """Whether the clause in front of a value names it: "Answer: 42", "the median, which we want, is 42"."""
    if heading.values or clause.lead is None:
        return False
    return is_sought(heading) if clause.lead.word != ":" else "answer" in heading.classes()


def _is_range(clause: Clause, index: int) -> bool:
    """Whether a value ends the range that the value in front of it begins: "from 41 to 43"."""
    tokens = clause.tokens
    start, end = tokens.index(clause.values[index - 1].token), tokens.index(clause.values[index].token)
    between = [token.word for token in tokens[start + 1 : end]]
    return between in (["to"], ["and"], ["through"], ["until"]) and not any(
        token.word == "my answer" for token in tokens[:start]
    )


def _is_of_next_speaker(words: Sequence[TextToken], earlier: Clause) -> bool:
    """Whether a clause without a verb only names the next source of a value."""
    opening, earlier_opening = words[0].word.partition(" ")[0], earlier.tokens[0].word.partition(" ")[0]
    is_alike = opening == earlier_opening and opening in _DETERMINERS
    return is_alike and not classes_in(words) & {"copula", "report", "result"}


def _is_verb(token: TextToken) -> bool:
    """Whether a word behind a name is a verb in the third person: "B comes close"."""
    word = token.word
    has_form = (
        len(word) > MAX_NEAR_WORDS + 1 and word.isascii() and word.endswith("s") and word[-2] not in "siu"
    )
    return has_form and "pivot" not in token.classes


def _in_scope(left: list[TextToken]) -> list[TextToken]:
    """Return the words in front of a value without those that are about an earlier value of its clause.

    "Instead of 41 we find 42", "I reject 41 in favour of 42"; but "not 41 and 42".
    """
    # "in favour of" turns the sentence: what was rejected is in front of it.
    turn = max((index for index, token in enumerate(left) if token.word in _IN_FAVOUR), default=-1)
    if turn >= 0 and classes_in(left[:turn]) & {"reject", "retract", "leave"}:
        return left[turn:]
    last = max((index for index, token in enumerate(left) if token.kind == "value"), default=-1)
    if all(token.word in _LISTING for token in left[last + 1 :]):
        return left
    return [token for index, token in enumerate(left) if index > last or not token.classes & _OF_ITS_VALUE]
