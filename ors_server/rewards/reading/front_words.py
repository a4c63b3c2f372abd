"""Tells what the words in front of a value, in its clause, say of it: "not 42", "more than 42". Pure."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from ors_server.rewards.reading.conditions import INVERTED, is_own_work
from ors_server.rewards.reading.dispositions import (
    EMBEDDED,
    HAVING,
    KEEPING,
    OPERATIONS,
    PARTWAY,
    PROGRESS,
    TASK_NOUNS,
    is_for_to_be,
    is_no_subject,
    is_of_function,
    is_of_user,
    is_on_the_way,
    is_wrong_way,
)
from ors_server.rewards.reading.frame_words import GUESSES, is_adverb
from ors_server.rewards.reading.frames import (
    TREATING,
    WORK_NOUNS,
    is_in_place,
    is_mention,
    is_of_another,
    is_own_report,
    is_setup,
    takes_things,
)
from ors_server.rewards.reading.headings import HeadingRules, is_other_than
from ors_server.rewards.reading.left_frames import (
    ASKING,
    FICTIONS,
    OLD,
    THIRD_PERSON,
    governs_another,
    is_answer_of_another,
    is_bounded,
    is_counted,
    is_exclaimed,
    is_guess,
    is_label_of,
    is_nothing_else,
    is_of_error,
    is_of_old_version,
    is_of_relative,
    is_of_some,
    is_of_subject,
    is_of_whole_subject,
    is_owed,
    is_settled,
    is_too,
    is_way,
)
from ors_server.rewards.reading.option_phrases import DROPPING as DROPPING_NAMES
from ors_server.rewards.reading.option_phrases import is_part_of
from ors_server.rewards.reading.polarity import Classes, Polarity, words_of
from ors_server.rewards.reading.remarks import TAKING, takes_back_words
from ors_server.rewards.reading.right_frames import is_goal, is_what_others_get, tells_what
from ors_server.rewards.reading.sentences import MAX_NEAR_WORDS, TextToken, Value, classes_in

_DROPPING: Final = words_of("dropping ditching omitting shedding forsaking excluding rejecting discarding")
_ORDERED: Final = words_of("think say guess write answer report declare vote state put jot note enter")
"""Orders to the reader, which report nothing: "say 42"."""
_CIRCUMSTANCES: Final = words_of("in with under at on without")
_WHOLES: Final = words_of("total all sum end short conclusion other effect")
_NEEDS: Final = words_of("take need require cost")
_POLITE_SUBJECTS: Final = words_of("that this which i we i'd we'd that'd this'd")
_COMPLEMENTIZERS: Final = frozenset({"that", "whether", "if", "to"})
_RELATIVES: Final = frozenset({"that", "who", "which", "whose", "where"})
_JUDGING: Final = words_of(
    "leave trial unfinished fault erring retract bound undecided negative reject refuse suppose would report "
    "hearsay source wish intermediate former"
)
"""Classes of words that may judge the value behind them."""
_JUDGING_WORDS: Final = (
    OPERATIONS
    | PROGRESS
    | KEEPING
    | TASK_NOUNS
    | HAVING
    | EMBEDDED
    | PARTWAY
    | ASKING
    | FICTIONS
    | GUESSES
    | INVERTED
    | OLD
    | TAKING
    | THIRD_PERSON
    | _DROPPING
    | words_of("# no too with using of number given known including you for say")
)
"""Words without such a class for which there is a rule."""
_TREATED: Final = TREATING | WORK_NOUNS

_Rules: TypeAlias = Iterator[tuple[bool, Polarity | None]]


class FrontRules(HeadingRules):
    """Reads a value by the words in front of it in its clause."""

    def _from_left(
        self, value: Value, left: list[TextToken], right: list[TextToken], before: Classes
    ) -> Polarity | None:
        """Return what the words in front of a value say; the first rule that holds decides."""
        is_graded = "grading" in self._classes and not value.is_framed
        is_graded = is_graded and "grading" in value.clause.classes()
        # Most clauses only state their value: the rules are not tried on words of which none needs any.
        if not self.are_labels and not is_graded and not _may_judge(left, right, before):
            return None
        # The first rule that holds decides, so each may assume that none above it holds.
        for holds, polarity in self._rules_in_front(value, left, right, before):
            if holds:
                return polarity
        if is_graded:
            return Polarity.QUOTED
        late: tuple[tuple[bool, Polarity], ...] = (
            ("wish" in before, Polarity.SUPPOSED),
            ("intermediate" in before and not self._is_digit_asked(value, left), Polarity.INTERMEDIATE),
            ("former" in before, Polarity.RETRACTED),
            ("answer" not in before and is_label_of(behind_value(left)), Polarity.INTERMEDIATE),
            (self.are_labels and is_other_than(left), Polarity.DENIED),
            (self.are_labels and is_part_of(left, before), Polarity.INTERMEDIATE),
        )
        return next((polarity for holds, polarity in late if holds), None)

    def _rules_in_front(
        self, value: Value, left: list[TextToken], right: list[TextToken], before: Classes
    ) -> _Rules:
        """Yield the rules up to those on what another person says, each with whether it holds."""
        last = left[-1] if left else None
        near_value = behind_value(left)
        has_label = last is not None and ("label" in last.classes or last.word == "#")
        has_label = has_label and not (len(left) > 1 and "correction" in left[-2].classes)
        has_label = has_label and "=" not in self._text[value.token.start : value.token.end]
        yield has_label and last is not None and "answer" in last.classes, None
        yield has_label, Polarity.INTERMEDIATE
        if left:
            is_dropped = left[0].word in _DROPPING and "result" not in before
            yield is_dropped or "leave" in left[0].classes, Polarity.DENIED
        yield self.are_labels and last is not None and last.word in DROPPING_NAMES, Polarity.DENIED
        yield is_too(near_value) or is_no_subject(left) or is_wrong_way(left), Polarity.DENIED
        yield not left and is_what_others_get(right) and not is_goal(right), Polarity.QUOTED
        yield is_in_place(left, right), Polarity.SUPPOSED
        is_input = last is not None and last.word == "of" and is_of_function(left)
        yield is_input or is_on_the_way(value, left), Polarity.INTERMEDIATE
        if self.are_labels:
            yield is_of_relative(left), Polarity.INTERMEDIATE
            # "Read B once more."
            yield bool(right) and [token.word for token in left] == ["read"], Polarity.INTERMEDIATE
        yield is_of_old_version(left), Polarity.QUOTED
        yield self.is_closed and is_setup(left, right), Polarity.INTERMEDIATE
        yield is_of_user(left), Polarity.ASKED
        yield bool(left) and left[0].word in INVERTED, Polarity.SUPPOSED
        yield len(left) > 1 and left[0].word == "for" and left[-1].word == "be", Polarity.SUPPOSED
        yield is_for_to_be(left, right), Polarity.SUPPOSED
        yield "trial" in classes_in(near_value[-MAX_NEAR_WORDS:]), Polarity.SUPPOSED
        is_task = "unfinished" in before and left[0].word == "what" and "copula" in left[-1].classes
        yield "unfinished" in before and "answer" not in before and not is_task, Polarity.INTERMEDIATE
        yield is_exclaimed(left) or (self.is_english and is_of_error(left)), Polarity.DENIED
        yield takes_back_words(near_value), Polarity.RETRACTED
        yield (
            is_bounded(near_value[-1 - MAX_NEAR_WORDS :]) and not is_of_whole_subject(left),
            Polarity.BOUNDED,
        )
        yield "undecided" in before and not is_settled(left), Polarity.HEDGED
        yield self._is_denied(left, before), Polarity.DENIED
        yield self._is_supposed(value, near_value, before), Polarity.SUPPOSED
        yield bool(near_value) and near_value[0].word.partition(" ")[0] in _ORDERED, None
        if not is_owed(left):
            is_name = self.are_labels and value.token.end - value.token.start > 1
            is_report = "report" in before and not is_own_report(near_value)
            is_report = is_report and not is_of_subject(left, "report") and not _names_what_says(left)
            is_report = is_report and not takes_things(left, right, is_name=is_name)
            yield is_report or is_answer_of_another(near_value), Polarity.QUOTED
            yield self.is_english and is_of_another(near_value, right), Polarity.QUOTED
        if self.are_labels:
            yield "hearsay" in before or is_of_some(left), Polarity.QUOTED
            yield is_mention(left, right), Polarity.INTERMEDIATE

    def _is_denied(self, left: list[TextToken], before: Classes) -> bool:
        """Whether words reject a value, or deny it and nothing else."""
        if before & {"reject", "refuse"} and not is_way(left) and not is_counted(left):
            return True
        if "negative" not in before:
            return False
        is_sure = left[0].word in ("nobody", "no one") and any(token.word == "that" for token in left)
        is_sure = is_sure and "negative" in left[-1].classes  # "Nobody can say that it isn't 42"
        is_of_other = self.is_closed and governs_another(left)
        return not (is_sure or is_nothing_else(left) or is_of_other or self._is_in_relative_clause(left))

    def _is_digit_asked(self, value: Value, left: list[TextToken]) -> bool:
        """Whether a digit is the answer, not the last one of a value: "the units digit is 9"."""
        written = self._digits_of(value)
        names_digit = any(t.word.endswith("digit") for t in left) and "copula" in left[-1].classes
        if not names_digit or len(written) != 1 or any(token.word == "its" for token in left):
            return False
        earlier = [self._digits_of(other) for other in self._values[: self._values.index(value)]]
        return not any(len(other) > 1 and other.endswith(written) for other in earlier)

    def _digits_of(self, value: Value) -> str:
        written = self._text[value.token.start : value.token.end].strip("$*_`. ")
        return written.removeprefix("\\boxed{").strip("} ")

    def _is_supposed(self, value: Value, left: list[TextToken], before: Classes) -> bool:
        lead = value.clause.lead
        is_own = lead is not None and lead.word == "if" and is_own_work(value.clause)
        is_if = "suppose" in before and not is_own and not is_guess(left)
        # "Say there are 42", "Say n = 42", but not "Say 42"
        is_equation = "=" in self._text[value.token.start : value.token.end]
        is_case = bool(left) and left[0].word == "say" and (len(left) > 1 or is_equation)
        is_if = is_if or (is_case and not is_guess(left))
        if "would" in before and left and left[0].word in _CIRCUMSTANCES and "answer" not in before:
            return len(left) > 1 and left[1].word not in _WHOLES  # "in base eight this would read 42"
        return is_if or ("would" in before and not self._may_be_would(left, before))

    def _is_in_relative_clause(self, left: list[TextToken]) -> bool:
        """Whether all negations are about the subject: "the number that does not divide it is 42"."""
        if (
            not left
            or "copula" not in left[-1].classes
            or not any("negative" in token.classes for token in left)
        ):
            return False
        first = next(index for index, token in enumerate(left) if "negative" in token.classes)
        last = max(index for index, token in enumerate(left) if "negative" in token.classes)
        behind = [token for token in left[last + 1 : -1] if not is_adverb(token)]
        if not behind or any(
            token.word in _COMPLEMENTIZERS or token.classes & {"answer"} for token in behind
        ):
            return False
        before = left[:first]
        if any(token.word in _RELATIVES for token in before):
            return True
        return bool(before) and not before[-1].classes & {"copula", "first_person", "pronoun"}

    def _may_be_would(self, left: list[TextToken], before: Classes) -> bool:
        """Whether "would" is mere politeness: "the answer would be 42", "that would make 42"."""
        if any(token.word in ("have", "have to") for token in left) and left[0].word in ("i", "we"):
            return False  # "I would have said 42"
        if any(token.word == "have to" for token in left[1:3]):
            return True  # "he'd have to drive 42 km"
        if len(left) > MAX_NEAR_WORDS and left[0].word == "it" and left[-1].word in _NEEDS:
            return True  # "it would take 42 workers"
        return bool(before & ({"answer", "harmless"} if self.are_labels else {"answer"})) or any(
            token.word in _POLITE_SUBJECTS for token in left
        )


def _names_what_says(left: Sequence[TextToken]) -> bool:
    """Whether a clause names the answer by what it says: "the correct option is the one that says so"."""
    if len(left) < 4 or left[-2].word not in ("that", "which"):  # noqa: PLR2004  ("option is", "that says")
        return False
    return bool(classes_in(left[:-2]) & {"answer"}) and "copula" in classes_in(left[:-2])


def behind_value(tokens: list[TextToken]) -> list[TextToken]:
    """Return the tokens behind the last value among them."""
    for index in range(len(tokens) - 1, -1, -1):
        if tokens[index].kind == "value":
            return tokens[index + 1 :]
    return tokens


def _may_judge(left: Sequence[TextToken], right: Sequence[TextToken], before: Classes) -> bool:
    """Whether a rule about the words in front of a value may hold, by the words that the rules need."""
    if not left:
        return bool(right) and (tells_what(right) or any(token.word in _TREATED for token in right))
    if any(token.word in _TREATED for token in right):
        return True
    if not before.isdisjoint(_JUDGING) or (not right and "epistemic" in before):
        return True
    if "label" in before and "label" in classes_in(left[-2:]):
        return True
    text = " ".join([token.word for token in left])
    # "her neighbour's sheet"; but "it's" is not an owner
    is_owned = "'s" in text and not (text.count("'") == 1 and left[0].word in ("it's", "that's"))
    if is_owned or ("'" in text and "answer" in before):
        return True
    return not _JUDGING_WORDS.isdisjoint(text.split())
