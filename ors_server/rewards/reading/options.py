"""Decides what a sentence says about options: letters and names, of which one is the answer. Pure.

Options are compared, ranked, excepted and chosen, as numbers are not. What is read here comes on top of the
rules for any value in `clauses.py`:

* comparisons: "A over B", "A beats B", "B comes second to A"; rankings: "from best to worst: A, B";
* exceptions: "all options but A fail", "no option other than A fits";
* what another person chooses: "beginners choose A";
* two denials that cancel each other: "it would be wrong to choose anything but A", "A cannot be excluded";
* options that a sentence only lists before it decides: "Of A and B, B fits".
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ors_server.rewards.reading.clauses import ClauseReader
from ors_server.rewards.reading.headings import DISAGREEING
from ors_server.rewards.reading.option_limits import (
    asks_for_other,
    gives_reason,
    is_before_main,
    is_elsewhere_then,
    is_narrowed,
    is_only_considered,
    limited,
    moves,
)
from ors_server.rewards.reading.option_phrases import (
    ELSE,
    EXCEPTION,
    denies_each,
    is_at_distance,
    is_chosen_by_others,
    is_contrasted,
    is_declined,
    is_elsewhere,
    is_example,
    is_gapped,
    is_lone_denial,
    is_other_event,
    is_rhetorical,
    is_side,
    is_superlative,
    may_be_right_too,
    restart_of,
    seems,
    words_in,
)
from ors_server.rewards.reading.polarity import NO_CLASSES, Classes, Polarity, words_of
from ors_server.rewards.reading.right_frames import tells_what
from ors_server.rewards.reading.sentences import AND, Clause, Sentence, TextToken, Value, classes_in

_ABSENCE: Final = words_of("no none nothing nobody nowhere neither never not hardly")
_UNIVERSAL: Final = words_of(
    "all any every everything everyone everybody everywhere anything anyone anybody anywhere whatever"
)
_QUANTIFIERS: Final = _UNIVERSAL | _ABSENCE
_DETERMINERS: Final = _UNIVERSAL | words_of("no none nothing nobody nowhere")
_WRONGNESS: Final = frozenset({"negative", "reject", "fault", "refuse"})
_OPENERS: Final = frozenset({"of", "between", "among", "amongst", "out of", "comparing", "weighing"})
_AS_ASKED: Final = words_of("required described asked demanded requested wanted stated")
_MAX_CANCELLED: Final = 5
"""Words between two denials of which the second is denied."""
_ORDER: Final = frozenset({"outranks", "outranked", "tied"})
_ORDER_PREPOSITIONS: Final = frozenset({"before", "over", "above", "below", "behind"})
_SO: Final = frozenset({"so", "and so"})
_LOSING: Final = words_of("lost loses yielded yields ceded cedes bowed succumbed conceded")
_AGREEING: Final = frozenset({"is", "was", "are", "does", "did", "do", "has", "will", "can", "would"})
_FAREWELLS: Final = frozenset({"goodbye", "good-bye", "bye", "farewell", "adieu"})
_ENUMERATORS: Final = frozenset({"first", "firstly", "next", "second", "secondly", "third", "thirdly"})
_PLACES: Final = ("first", "second", "third", "fourth", "last")
_RANKED: Final = words_of("came comes ranks ranked finished is was")
_CONCLUSIONS: Final = frozenset({"so", "hence", "thus", "therefore", "ergo", "consequently", "then"})
_FRONTED: Final = frozenset(
    {"for", "with", "under", "by", "in", "on", "about", "at", "without", "concerning"}
)
_AUXILIARIES: Final = frozenset({"isn't", "doesn't", "wasn't", "hasn't", "aren't", "don't", "not", "none"})
_REST: Final = words_of("other others else rest remaining alternatives everything")
_ONLY: Final = words_of("just only merely simply even")
_PLACING: Final = frozenset({"in", "at"})
_POSTPOSED: Final = frozenset({"değil", "degil"})
"""Denials behind what they deny: "Riga değil"."""
_MAX_LISTED: Final = 64
"""Names in front of words that decide for none of them."""
_RELATIVES: Final = frozenset({"which", "who", "whose", "whom", "where"})
_BESIDES: Final = frozenset({"whereas", "while", "whilst"})
_REFERRING: Final = frozenset({"that's", "that"})
_TOPICS: Final = frozenset(
    {"next", "next up", "candidate", "another candidate", "contender", "topic", "hint", "see also", "compare"}
)
_ASCENDING: Final = ("worst to best", "least to most", "weakest to strongest", "lowest to highest")
_DESCENDING: Final = (
    "best first",
    "rank them",
    "ranking",
    "order of likelihood",
    "order of preference",
    "order of plausibility",
    "order of probability",
    "best to worst",
    "most to least",
    "strongest to weakest",
    "highest to lowest",
)
_ARROWS: Final = frozenset({"->", "=>", "\u2192", "\u21d2"})
_REPLACING: Final = ("replaced", "replaces", "succeeded", "supplanted", "superseded", "displaced")
_SIGNS: Final = dict.fromkeys((">", *_REPLACING), frozenset({"outranks"})) | {"<": frozenset({"outranked"})}
_RELATING: Final = frozenset({"to", "of", "from", "with", "like", "as", "in", "for"})
_OPPOSED: Final = frozenset({"but", "though", "although", "however", "yet", ";"})
_POSSIBLE: Final = frozenset(
    {"could be", "might be", "may be", "could", "might", "may", "may well be", "could also be"}
)
_EQUALLY: Final = frozenset(
    {"as likely", "equally", "as plausible", "as good", "as well", "likewise", "as probable"}
)
_TICK: Final = re.compile(r"\A\s*(?:[-*+]\s+)?[\[(]([ xX\u2713\u2714])[\])]\s{0,3}\Z")
_MAX_TICK: Final = 16
_CONTRARY: Final = frozenset(
    {"unlike", "contrary to", "despite", "in spite of", "in contrast to", "in contrast with", "as opposed to"}
)
_OPEN_SIDES: Final = frozenset({Polarity.ASSERTED, Polarity.SUPPOSED})
_SHARE: Final = re.compile(r"[\s(:=\u2013\u2014-]{0,4}(?:about |around |~)?(\d{1,3}(?:\.\d{1,6})?)\s?%")


class OptionReader(ClauseReader):
    """Reads sentences about options with rules that hold for options only."""

    def _read_sentence(self, sentence: Sentence, number: int) -> None:
        # A question that only stresses its answer is read as a statement.
        if self.are_labels and sentence.is_question and is_rhetorical(sentence):
            sentence.is_question = False
            _make_harmless(sentence.tokens)
        super()._read_sentence(sentence, number)
        if self.are_labels and sentence.is_question and self._is_yes(number + 1):
            for value in sentence.values:
                if value.polarity is Polarity.SUPPOSED and "trial" in value.clause.classes():
                    value.polarity = Polarity.ASSERTED  # "What about A? It fits."
        # After the rules for any value, which these overrule; lists come last, since they judge values that
        # nothing else did.
        if self.are_labels and not sentence.is_question:
            self._except(sentence)
            self._compare(sentence)
            self._rank(sentence)
            self._weigh(sentence)
            self._repeat(sentence)
            self._continue_predicates(sentence)
            self._set_aside_lists(sentence)
            self._leave_open(sentence)
            self._hedge_sides(sentence)
            self._set_against(sentence, number)
            self._tick(sentence)
            self._finish(sentence)
            self._judge_lists(sentence)
            self._name_by_apposition(sentence)

    def _judge(self, value: Value, left: list[TextToken], right: list[TextToken]) -> None:
        if self.are_labels:
            # `left` and `right` are changed in place, so that the rules of the base class do not see the
            # cancelled words.
            if left and left[0].word in ("<", ">"):
                del left[0]  # a quotation of Markdown
            _spare_others(left)
            _cancel_denials(left)
            _cancel_denials(right)
            if left and "outranks" in left[-1].classes and "negative" in classes_in(left[:-1]):
                _make_harmless(left)  # "there is no better choice than A"
            _spare_passives(left)
            if left and left[0].word in _CONTRARY:
                del left[: restart_of(left)]
            self._frame(value, left)
        super()._judge(value, left, right)
        if self.are_labels:
            value.polarity = limited(value, left, right, is_english=self.is_english) or value.polarity
        if (
            self.are_labels
            and value.polarity is Polarity.ASSERTED
            and self._is_inside_noun_phrase(value, left, right)
        ):
            value.polarity = Polarity.INTERMEDIATE
        if self.are_labels and value.polarity is Polarity.ASSERTED and "former" in classes_in(right[:2]):
            value.polarity = Polarity.RETRACTED  # "I said A earlier"
        if self.are_labels and value.polarity is Polarity.ASSERTED:
            if (left and "beside" in left[-1].classes) or is_at_distance(left):
                value.polarity = Polarity.BOUNDED
            elif is_chosen_by_others(left) or _is_what_others_choose(right):
                value.polarity = Polarity.QUOTED
            elif is_only_considered(left):
                value.polarity = Polarity.SUPPOSED

    def _is_inside_noun_phrase(
        self, value: Value, left: Sequence[TextToken], right: Sequence[TextToken]
    ) -> bool:
        """Whether a name only says more about a noun: "the Basel Philharmonic", "the old Porto road"."""
        is_name = value.token.end - value.token.start > 2 and self._text[value.token.start].isupper()  # noqa: PLR2004  (a name, not a letter)
        noun = right[0] if right else None
        return (
            is_name
            and noun is not None
            and noun.kind == "word"
            and not noun.classes
            and self._text[value.token.end : noun.start] == " "
            and any(token.word in ("the", "a", "an", "its", "this", "that") for token in left[-2:])
        )

    def _frame(self, value: Value, left: Sequence[TextToken]) -> None:
        """Take what the author chooses or concludes for named as the answer: "I now choose A", "so A"."""
        lead = value.clause.lead
        classes = classes_in(left)
        is_changed = any(_opening(token).startswith(("chang", "switch", "settl")) for token in left)
        is_own = "first_person" in classes and "former" not in classes
        is_own = is_own and (is_changed or any("choosing" in token.classes for token in left))
        is_concluding = bool(left) or (lead is not None and lead.word in _CONCLUSIONS)
        is_conclusion = is_concluding and all(token.word in _CONCLUSIONS for token in left)
        is_first = value is value.clause.values[0]
        is_only = len(left) == 1 and left[0].word == "only" and lead is None  # "Only Riga has a bridge."
        behind = value.clause.tokens[2:]
        is_only = is_only and bool(behind) and not classes_in(behind) & _NOT_STATED
        value.is_framed = value.is_framed or (is_first and (is_own or is_conclusion or is_only))

    def _as_subject(
        self, value: Value, left: list[TextToken], right: list[TextToken], before: Classes, seen: Classes
    ) -> Polarity:
        is_elliptic = len(right) == 1 and "copula" in right[0].classes and not before & {"answer", "copula"}
        if is_elliptic or (self.are_labels and ("harmless" in seen or is_superlative(right))):
            return Polarity.ASSERTED  # "A is not in dispute"
        return super()._as_subject(value, left, right, before, seen)

    def _is_in_relative_clause(self, left: list[TextToken]) -> bool:
        denials = [index for index, token in enumerate(left) if "negative" in token.classes]
        auxiliary = left[denials[0] - 1] if denials and denials[0] else None
        if self.are_labels and auxiliary is not None and auxiliary.classes & {"maybe", "would"}:
            return False  # "it could not have been Riga"
        if self.are_labels and denials and denials[-1] == len(left) - 2 and " " in left[-2].word:
            return any(
                token.word in ("that", "which", "who") for token in left[:-2]
            )  # "that is not true is A"
        return super()._is_in_relative_clause(left)

    def _is_secondary(self, value: Value) -> bool:
        at = value.clause.tokens.index(value.token)
        is_place = at > 0 and value.clause.tokens[at - 1].word in _PLACING
        lead = value.clause.lead
        is_apposed = at == 1 and lead is not None and lead.word == ","  # "Riga, in Latvia"
        is_opened = is_apposed or (lead is not None and ("reason" in lead.classes or lead.word in "(["))
        is_confirmed = not is_opened and "confirm" in classes_in(value.clause.tokens[at + 1 : at + 2])
        if self.are_labels and (is_confirmed or (is_place and not is_opened)):
            return False  # "the battle took place at Riga", "of those Riga fits"
        is_participle = lead is not None and lead.word == "," and value.clause.tokens[0].word.endswith("ed")
        is_participle = (
            is_participle and not value.clause.tokens[0].classes
        )  # "Riga, founded by men from Porto"
        is_aside = lead is not None and (
            lead.word in _BESIDES
            or (lead.word in _RELATIVES and self._text[lead.start] == ",")
            or is_participle
        )
        return super()._is_secondary(value) or (self.are_labels and is_aside)

    def _is_yes(self, number: int) -> bool:
        if super()._is_yes(number) or not self.are_labels or number >= len(self._sentences):
            return super()._is_yes(number)
        sentence = self._sentences[number]
        tokens, classes = sentence.tokens, classes_in(sentence.tokens)
        if not sentence.clauses:
            return False  # "Riga (Bergen?)": a bracket closes, and nothing else
        if sentence.is_question or classes & _WRONGNESS or any(token.kind == "value" for token in tokens):
            return False
        lead = sentence.clauses[0].lead
        is_reason = lead is not None and lead.word == "because"
        question = self._sentences[number - 1].tokens
        if is_reason:
            return question[0].word == "why" and not classes_in(question) & _WRONGNESS
        return "pronoun" in tokens[0].classes and "confirm" in classes

    def _judge_by_introduction(
        self, heading: Clause, lead: TextToken, left: list[TextToken]
    ) -> Polarity | None:
        if self.are_labels and lead.word == ":" and not left and _denies_what_follows(heading):
            return Polarity.DENIED
        opening = heading.tokens[0].word if len(heading.tokens) == 1 and lead.word == "," and not left else ""
        if self.are_labels and opening in _FAREWELLS | _ENUMERATORS:
            return Polarity.DENIED if opening in _FAREWELLS else Polarity.INTERMEDIATE
        is_impression = lead.word == "," and len(heading.tokens) == 1 and "report" in heading.classes()
        if self.are_labels and is_impression and "first_person" not in heading.classes():
            return Polarity.QUOTED  # "At first glance, A"
        return super()._judge_by_introduction(heading, lead, left)

    def _judge_by_heading(self, heading: Clause) -> Polarity | None:
        is_correction = any("retract" in token.classes and " " in token.word for token in heading.tokens)
        if self.are_labels and is_correction and "negative" not in heading.classes():
            return None  # "I take that back: B"
        if self.are_labels and " ".join(token.word for token in heading.tokens) in _TOPICS:
            return Polarity.INTERMEDIATE
        if self.are_labels and heading.tokens[0].word in _REFERRING:
            return None  # "that's wrong: Riga"
        is_replaced = "exceptive" in heading.tokens[0].classes and len(heading.tokens) > 1
        if self.are_labels and is_replaced and "negative" not in heading.tokens[-1].classes:
            return None  # "Instead of Riga: Porto"
        return super()._judge_by_heading(heading)

    def _judge_remark(
        self, clause: Clause, polarity: Polarity, *, is_framed: bool, is_corrected: bool
    ) -> Polarity | None:
        tokens = [
            token for token in clause.tokens if token.word not in ("and", "but", "certainly", "definitely")
        ]
        is_contrast = (
            len(tokens) > 1 and "negative" in tokens[0].classes and not tokens[0].classes & {"retract"}
        )
        is_contrast = is_contrast or (len(tokens) > 1 and tokens[0].word == "not")
        if self.are_labels and is_contrast and not any(token.classes for token in tokens[1:]):
            return None  # "Basel, not Tartu"
        if self.are_labels and clause.tokens[0].word in _CONTRARY:
            return None  # "A, unlike what the forum says"
        if self.are_labels and (is_example(clause) or is_elsewhere(clause)):
            return Polarity.INTERMEDIATE
        # "It was built in Riga, but the question asks who lived there"
        is_other = not is_framed and asks_for_other(clause)
        if self.are_labels and (is_other or is_declined(clause)):
            return Polarity.RETRACTED  # "I'd say A if I had to guess, but I won't"
        is_marked = clause.lead is not None and clause.lead.word == "as" and len(clause.tokens) <= 2  # noqa: PLR2004  ("wrong", "a mistake")
        if self.are_labels and is_marked and clause.classes() & {"reject", "fault"}:
            return Polarity.DENIED  # "I marked A as wrong"
        return super()._judge_remark(clause, polarity, is_framed=is_framed, is_corrected=is_corrected)

    def _except(self, sentence: Sentence) -> None:
        """Read "all options but A fail" and "no option other than A fits"."""
        words = list(words_in(sentence))
        positions = {id(word): index for index, word in enumerate(words)}
        for clause in sentence.clauses:
            for value in clause.values:
                at = positions[id(value.token)]
                before, after = words[max(0, at - 8) : at], words[at + 1 : at + 8]
                is_exception = bool(before) and (
                    _is_exception(before[-1])
                    or (before[-1].word == "than" and before[-2:-1] != [] and before[-2].word in ELSE)
                )
                if not is_exception:
                    continue
                quantifier = next((word for word in reversed(before) if _opening(word) in _QUANTIFIERS), None)
                if quantifier is None:
                    before, after = _move_quantifier(before, after)
                    quantifier = before[0] if before else None
                if quantifier is None or quantifier.word == "neither":
                    continue  # "neither A nor B but C"
                predicate = _until_value(after)
                # The predicate judges the rest, so the exception gets the opposite.
                is_wrong = bool(classes_in(predicate) & _WRONGNESS)
                between = before[before.index(quantifier) + 1 : -1]
                is_wrong = is_wrong or bool(classes_in(between) & _WRONGNESS)
                if _opening(quantifier) in _UNIVERSAL:
                    outside = before[: before.index(quantifier)]
                    is_wrong = is_wrong or any(map(_is_denial, outside))
                    value.polarity = Polarity.ASSERTED if is_wrong else Polarity.DENIED
                else:
                    value.polarity = Polarity.DENIED if is_wrong else Polarity.ASSERTED
                value.is_framed = value.polarity is Polarity.ASSERTED

    def _compare(self, sentence: Sentence) -> None:
        """Read "A over B", "A is better than B", "A rather than B": one of two wins."""
        values = sentence.values
        words = list(words_in(sentence))
        # By identity: the same word may be in a sentence twice.
        positions = {id(word): index for index, word in enumerate(words)}
        losers: list[Value] = []
        for first, second in pairwise(values):
            between = words[positions[id(first.token)] + 1 : positions[id(second.token)]]
            before = words[max(0, positions[id(first.token)] - 4) : positions[id(first.token)]]
            if len(between) > 2 and not any(" " in word.word or "copula" in word.classes for word in between):  # noqa: PLR2004  (longer than a comparison such as "is over")
                between = [word for word in between if word.word not in _ORDER_PREPOSITIONS]
            if self._text[first.token.end : second.token.start].strip() in _ARROWS:
                first.polarity, first.is_framed = Polarity.RETRACTED, False  # "Riga → Bergen"
                continue
            if (
                between
                and between[-1].word == "to"
                and between[0].word in _LOSING
                and second.polarity in _OPEN_TO_LOSERS
            ):
                first.polarity, first.is_framed = Polarity.DENIED, False
                second.polarity = Polarity.ASSERTED  # "Riga lost the vote to Porto"
                continue
            sign = _SIGNS.get("".join(word.word for word in between), NO_CLASSES)
            classes = classes_in(between) | sign
            between = [] if sign else between  # "replaced" speaks against what is behind it
            if not classes & _ORDER:
                continue
            # A tie decides for neither; a denied comparison says only that the first is not better.
            if "tied" in classes:
                first.polarity = second.polarity = Polarity.HEDGED
            elif classes_in([*before, *(word for word in between if not word.classes & _ORDER)]) & _WRONGNESS:
                first.polarity = Polarity.DENIED
            elif first.polarity in _OPEN_TO_COMPARE and "suppose" not in classes_in(before):
                winner, loser = (first, second) if "outranks" in classes else (second, first)
                loser.polarity, loser.is_framed = Polarity.DENIED, False
                losers.append(loser)
                if winner not in losers:  # "A > B > C"
                    winner.polarity, winner.is_framed = Polarity.ASSERTED, True

    def _rank(self, sentence: Sentence) -> None:
        """Read "From best to worst: A, B": the first, or the last, wins."""
        words = " ".join(token.word for token in words_in(sentence) if token.kind == "word")
        is_falling = any(phrase in words for phrase in _DESCENDING)
        if not is_falling and not any(phrase in words for phrase in _ASCENDING):
            return
        values = sentence.values
        if len(values) > 1:
            for value in values:
                value.polarity = Polarity.DENIED
            winner = values[0 if is_falling else -1]
            winner.polarity, winner.is_framed = Polarity.ASSERTED, True

    def _weigh(self, sentence: Sentence) -> None:
        """Read "A (90 %), B (10 %)" and "A first, B second": the first, or the likeliest, wins."""
        shares: dict[int, tuple[float, Value]] = {}
        for value in sentence.values:
            share = _SHARE.match(self._text, value.token.end)
            following = value.clause.tokens[value.clause.tokens.index(value.token) + 1 :][:1]
            if share is not None:
                shares[id(value)] = float(share[1]), value
            if following and following[0].word in _RANKED:
                following = value.clause.tokens[value.clause.tokens.index(value.token) + 2 :][:1]
            if share is None and following and following[0].word in _PLACES:
                shares[id(value)] = -float(_PLACES.index(following[0].word)), value
        if len(shares) > 1:
            best = max(share for share, _ in shares.values())
            winners = [value for share, value in shares.values() if share == best]
            for _, value in shares.values():
                value.polarity = Polarity.DENIED
            if len(winners) == 1:
                winners[0].polarity, winners[0].is_framed = Polarity.ASSERTED, True

    def _repeat(self, sentence: Sentence) -> None:
        """Read "A is wrong and so is B"."""
        for earlier, clause in pairwise(sentence.clauses):
            if not earlier.values or not clause.values or clause.lead is None:
                continue
            words = [token for token in clause.tokens if token is not clause.lead and token.word not in _SO]
            is_so = clause.lead.word in _SO or any(token.word in _SO for token in clause.tokens[:2])
            first, second = earlier.values[-1], clause.values[0]
            if is_so and len(words) > 1 and words[0].word in _AGREEING and words[1] is second.token:
                is_denied = first.polarity is not Polarity.ASSERTED
                first.polarity = second.polarity = Polarity.DENIED if is_denied else Polarity.HEDGED

    def _continue_predicates(self, sentence: Sentence) -> None:
        """Read "A is cautious and is supported": a second predicate confirms the subject of the first."""
        for earlier, clause in pairwise(sentence.clauses):
            if clause.values or not earlier.values or clause.lead is None:
                continue
            value = earlier.values[-1]
            words = [token for token in clause.tokens if token.word not in ("and", "but")]
            is_predicate = clause.lead.word in ("and", "but", ",") and bool(
                classes_in(words[:1]) & {"copula", "confirm"}
            )
            classes = clause.classes()
            # "A has a bridge, as required"
            is_predicate = is_predicate or (clause.lead.word == "as" and clause.tokens[0].word in _AS_ASKED)
            classes |= {"confirm"} if clause.tokens[0].word in _AS_ASKED else NO_CLASSES
            is_weak = value.is_weak and value.polarity is Polarity.INTERMEDIATE
            # A trial that succeeds, as in "Let's test A: it works", states its option.
            is_tried = value.polarity in (Polarity.SUPPOSED, Polarity.INTERMEDIATE)
            is_tried = is_tried and "trial" in earlier.classes()
            is_passed = is_tried and clause.lead.word in ":,;" and clause.tokens[0].word in ("it", "it works")
            # "it" alone, as in "it mentions ships", confirms nothing.
            is_passed = is_passed and "confirm" in classes_in(clause.tokens[int(len(clause.tokens) > 1) :])
            if is_passed and not classes & _WRONGNESS:
                value.polarity, value.is_framed = Polarity.ASSERTED, True
            if is_predicate and is_weak and "confirm" in classes and not classes & _WRONGNESS:
                value.polarity, value.is_framed = Polarity.ASSERTED, True

    def _leave_open(self, sentence: Sentence) -> None:
        """Read "A, though it could be B" and "A, but B is as likely"; "A is similar to B" states neither."""
        values = sentence.values
        for first, second in pairwise(values):
            tokens, at = second.clause.tokens, second.clause.tokens.index(second.token)
            lead = second.clause.lead
            if second.clause is first.clause:
                between = tokens[tokens.index(first.token) + 1 : at]
                is_relation = len(between) > 2 and between[-1].word in _RELATING  # noqa: PLR2004  (a verb, a word, a relation)
                if is_relation and "copula" in between[0].classes and not classes_in(between) & _ORDER:
                    first.polarity = second.polarity = Polarity.INTERMEDIATE
                continue
            behind = _until_value(tokens[at + 1 :])
            is_opposed = lead is not None and lead.word in _OPPOSED and first.polarity is Polarity.ASSERTED
            is_possible = any(token.word in _POSSIBLE | _EQUALLY for token in tokens[:at]) or (
                any(token.word in _EQUALLY for token in behind) or may_be_right_too(behind)
            )
            if is_opposed and is_possible and not classes_in(tokens) & _WRONGNESS and second is values[-1]:
                first.polarity = second.polarity = Polarity.HEDGED

    def _set_against(self, sentence: Sentence, number: int) -> None:
        """Read "A sounds right, but only B fits", "B, and not, as some say, A", "A fails. B doesn't."."""
        values = sentence.values
        positions = {id(clause): position for position, clause in enumerate(sentence.clauses)}
        for first, second in pairwise(values):
            places = [positions[id(value.clause)] for value in (first, second)]
            tokens, lead = first.clause.tokens, second.clause.lead
            right = tokens[tokens.index(first.token) + 1 :]
            if lead is not None and lead.word in _OPPOSED and seems(right) and first.polarity in _OPEN_SIDES:
                first.polarity, first.is_framed = Polarity.INTERMEDIATE, False
                is_open = second.polarity is Polarity.INTERMEDIATE and second is values[-1]
                second.polarity = Polarity.ASSERTED if is_open else second.polarity
            if any(map(is_lone_denial, sentence.clauses[places[0] + 1 : places[1] - 1])):
                second.polarity, second.is_framed = Polarity.DENIED, False
                is_open = first.polarity is Polarity.INTERMEDIATE and not classes_in(right) & _WRONGNESS
                first.polarity = Polarity.ASSERTED if is_open else first.polarity
        if is_contrasted(sentence) and number:
            before = self._sentences[number - 1]
            denied = [value for clause in before.clauses for value in clause.values]
            if denied and all(value.polarity in (Polarity.DENIED, Polarity.INTERMEDIATE) for value in denied):
                values[0].polarity, values[0].is_framed = Polarity.ASSERTED, True

    def _hedge_sides(self, sentence: Sentence) -> None:
        """Read "A in theory, B in practice": it states neither."""
        values = sentence.values
        places = {id(clause): position for position, clause in enumerate(sentence.clauses)}
        for first, second in pairwise(values):
            lead = second.clause.lead
            is_beside = lead is not None and lead.word in ("and", ",", ";", "but") and is_side(second)
            if moves(first, second) and second.polarity in _OPEN_TO_LOSERS:
                first.polarity, second.polarity = Polarity.RETRACTED, Polarity.ASSERTED
            if is_before_main(first, second) and second.polarity is Polarity.ASSERTED:
                first.polarity, first.is_framed = Polarity.INTERMEDIATE, False
            if is_narrowed(first, second):
                first.polarity = second.polarity = Polarity.HEDGED
            if is_elsewhere_then(first, second):
                second.polarity = Polarity.INTERMEDIATE  # "not Riga, since she was in Porto that week"
            if is_other_event(first, second) and {first.polarity, second.polarity} == {Polarity.ASSERTED}:
                first.polarity = second.polarity = Polarity.HEDGED  # "born in Riga and buried in Porto"
            is_gap = is_gapped(first, second) and second.polarity is not Polarity.BOUNDED
            if is_gap and first.polarity is Polarity.ASSERTED and second.polarity in _OPEN_TO_COMPARE:
                first.polarity = second.polarity = Polarity.HEDGED
            sides = [_has_condition(sentence, places[id(value.clause)] + 1) for value in (first, second)]
            if all(sides) and {first.polarity, second.polarity} <= _OPEN_SIDES:
                first.polarity = second.polarity = Polarity.HEDGED
            if is_beside and is_side(first) and {first.polarity, second.polarity} <= _OPEN_SIDES:
                first.polarity = second.polarity = Polarity.HEDGED

    def _finish(self, sentence: Sentence) -> None:
        """Read "For A, one needs a prism", and "B has a flaw, A doesn't"."""
        for position, clause in enumerate(sentence.clauses):
            if not clause.values:
                continue
            value = clause.values[-1]
            at = clause.tokens.index(value.token)
            left, right = clause.tokens[:at], clause.tokens[at + 1 :]
            following = sentence.clauses[position + 1 :]
            is_denial = bool(following) and "negative" in following[0].tokens[0].classes  # "in A, not in B"
            is_nearby = all(  # "at Riga, near Basel"
                clause.values and all(value.polarity is Polarity.BOUNDED for value in clause.values)
                for clause in following
            )
            has_more = bool(right) or not (is_nearby or is_denial or gives_reason(following))
            has_more = has_more and (self.is_english or not position)  # "sondern in Riga statt"
            if len(left) == 1 and left[0].word in _FRONTED and has_more:
                value.polarity = Polarity.INTERMEDIATE
            earlier = sentence.clauses[position - 1].classes() if position else NO_CLASSES
            is_contrast = bool(right) and right[-1].word in _AUXILIARIES and len(right) <= 2  # noqa: PLR2004  ("doesn't", "certainly does")
            if is_contrast and not left and earlier & {"reject", "fault"} and "negative" not in earlier:
                value.polarity, value.is_framed = Polarity.ASSERTED, True
            heading = sentence.clauses[position - 1] if position else clause
            is_end = clause is sentence.clauses[-1]
            if is_end and _asks_for_answer(clause, heading) and value.polarity is Polarity.ASSERTED:
                value.is_framed = True  # "The question asks where it started: Riga."
            is_would = "would" in classes_in(left) and value.polarity is Polarity.ASSERTED
            opening = sentence.clauses[0].tokens
            if is_would and opening[0].word in _FRONTED and not classes_in(opening[:3]) & _OWN:
                value.polarity = Polarity.SUPPOSED  # "in a vacuum the answer would be A"

    def _judge_lists(self, sentence: Sentence) -> None:
        """Read "A, B: eliminated" and "A looks right but isn't"."""
        earlier: list[Value] = []
        for position, clause in enumerate(sentence.clauses):
            if clause.values or clause.lead is None or not earlier:
                earlier += clause.values
                continue
            if denies_each(clause) and position + 1 == len(sentence.clauses):
                for value in earlier:
                    value.polarity, value.is_framed = Polarity.DENIED, False
            classes = clause.classes()
            if "undecided" in classes:
                listed = earlier[-_MAX_LISTED:]
                if len({self._text[value.token.start : value.token.end] for value in listed}) > 1:
                    for value in listed:
                        value.polarity, value.is_framed = Polarity.HEDGED, False
            is_verdict = clause.lead.word in (":", "\u2013", "\u2014", "-") and bool(
                classes & {"reject", "fault"}
            )
            is_bare = all(token.kind == "value" for token in sentence.clauses[0].tokens)
            is_last = position + 1 == len(sentence.clauses) and len(clause.tokens) <= 2  # noqa: PLR2004  ("eliminated", "is out")
            if is_verdict and is_bare and is_last and "negative" not in classes:
                for value in earlier:
                    value.polarity = Polarity.DENIED
            if clause.tokens[0].word in _POSTPOSED:
                earlier[-1].polarity, earlier[-1].is_framed = Polarity.DENIED, False
            is_elliptic = clause.lead.word in _OPPOSED and clause.tokens[-1].word in _AUXILIARIES
            if is_elliptic and is_last and earlier[-1].clause is sentence.clauses[position - 1]:
                earlier[-1].polarity = Polarity.DENIED

    def _tick(self, sentence: Sentence) -> None:
        """Read boxes in front of options: "[ ] A", "[x] B"."""
        for value in sentence.values:
            start = value.token.start
            tick = _TICK.search(self._text[self._text.rfind("\n", max(0, start - 16), start) + 1 : start])
            if tick is not None and start - self._text.rfind("\n", 0, start) < _MAX_TICK:
                value.polarity = Polarity.DENIED if tick[1].isspace() else Polarity.ASSERTED
                value.is_framed = not tick[1].isspace()

    def _name_by_apposition(self, sentence: Sentence) -> None:
        """Read "Riga, the right answer, ..."."""
        for earlier, clause in pairwise(sentence.clauses):
            is_apposed = clause.lead is not None and clause.lead.word == "," and not clause.values
            is_behind = bool(earlier.values) and earlier.tokens[-1] is earlier.values[-1].token
            words = [token for token in clause.tokens if token.word not in ("the", "my", "our")]
            if not is_apposed or not is_behind or len(words) != 1 or "answer" not in words[0].classes:
                continue
            value = earlier.values[-1]
            if "negative" not in classes_in(earlier.tokens) and value.polarity in _OPEN_TO_COMPARE:
                value.polarity, value.is_framed = Polarity.ASSERTED, True

    def _set_aside_lists(self, sentence: Sentence) -> None:
        """Take options that a sentence lists before it decides for no answer: "Of A and B, B fits"."""
        values = sentence.values
        listed = _listed(sentence)
        is_none = bool(sentence.clauses) and sentence.clauses[0].tokens[0].word in ("none", "neither")
        if len(listed) == 2 and _choose_by_place(sentence, listed):  # noqa: PLR2004  ("the former" and "the latter")
            return
        if is_none:
            for clause in sentence.clauses:
                if clause.lead is not None and clause.lead.word not in (*AND, ","):
                    break
                for value in clause.values:
                    value.polarity = Polarity.DENIED
        elif 1 < len(listed) < len(values):
            for value in listed:
                value.polarity = Polarity.RETRACTED


def _is_what_others_choose(right: Sequence[TextToken]) -> bool:
    """Whether a predicate tells what others take a name for: "is what the careless reader picks"."""
    return tells_what(right) and "choosing" in classes_in(right) and "first_person" not in classes_in(right)


def _spare_passives(left: Sequence[TextToken]) -> None:
    """Take no report from what was done at a place, or rightly reported: "the letter was posted in Riga"."""
    if any(token.word in ("rightly", "correctly") for token in left):
        for word in left:
            word.classes = word.classes - {"report", "source", "choosing"}
    for index, word in enumerate(left):
        is_passive = index > 0 and "copula" in left[index - 1].classes and "report" in word.classes
        if is_passive and index + 1 < len(left) and left[index + 1].word in _PLACING:
            word.classes = word.classes - {"report"}


def _listed(sentence: Sentence) -> list[Value]:
    """Return the options of a list that "of", "between" or the like opens."""
    listed: list[Value] = []
    for clause in sentence.clauses:
        is_list = not listed or (
            clause.lead is not None
            and clause.lead.word in (*AND, ",")
            and all(token.kind == "value" or token.word in AND for token in clause.tokens)
        )
        if not listed and clause.values:
            at = clause.tokens.index(clause.values[0].token)
            is_list = at > 0 and clause.tokens[at - 1].word in _OPENERS
        if not is_list or (clause.values and clause.tokens[-1].kind != "value"):
            break
        listed += clause.values
    return listed


def _choose_by_place(sentence: Sentence, listed: Sequence[Value]) -> bool:
    """Read "Between A and B, the latter is right"; return whether it is such a sentence."""
    words = {token.word.rpartition(" ")[2] for token in words_in(sentence)}
    chosen = 1 if "latter" in words else 0 if "former" in words else None
    if chosen is None or not words & {"correct", "right"} or any(map(_is_denial, sentence.tokens)):
        return False
    for index, value in enumerate(listed):
        value.polarity = Polarity.ASSERTED if index == chosen else Polarity.DENIED
    return True


def _asks_for_answer(clause: Clause, heading: Clause) -> bool:
    is_heading = clause.lead is not None and clause.lead.word == ":" and not heading.values
    return is_heading and len(clause.tokens) == 1


_OWN: Final = frozenset({"first_person", "harmless", "pronoun"})
_NOT_STATED: Final = frozenset({"negative", "reject", "fault", "would", "maybe", "suppose", "report"})
_OPEN_TO_LOSERS: Final = frozenset({Polarity.ASSERTED, Polarity.INTERMEDIATE, Polarity.QUOTED})
_OPEN_TO_COMPARE: Final = frozenset(
    {Polarity.ASSERTED, Polarity.INTERMEDIATE, Polarity.BOUNDED, Polarity.DENIED, Polarity.HEDGED}
)


def _denies_what_follows(heading: Clause) -> bool:
    """Whether a heading denies what is behind it: "Do not use this:", "This is wrong:", "A wrong answer:"."""
    tokens = heading.tokens
    last = tokens[-1]
    if "correction" in heading.classes() or last.word.startswith(DISAGREEING):
        return False
    if tokens[0].word in _REFERRING:
        return False
    denials = [token for token in tokens if token.classes & _WRONGNESS and "outranks" not in token.classes]
    if not denials:
        return False
    is_shown = (
        last.word.rpartition(" ")[2] in ("this", "these", "following", "below", "that")
        or "heed" in last.classes
    )
    is_of_others = any(token.word in ("they", "he", "she", "others") for token in tokens)
    is_wrong = bool(last.classes & {"reject", "fault"}) and not is_of_others
    is_attribute = len(tokens) > 1 and bool(tokens[-2].classes & {"reject"}) and tokens[-2] in denials
    return is_shown or is_wrong or is_attribute


def _move_quantifier(
    before: list[TextToken], after: list[TextToken]
) -> tuple[list[TextToken], list[TextToken]]:
    """Put the quantifier behind an exception in front of it: "except for A, all are wrong"."""
    at = next((index for index, word in enumerate(after) if _opening(word) in _DETERMINERS), None)
    if at is None or len(before) > 2:  # noqa: PLR2004  ("and except")
        return [], after
    return [after[at], before[-1]], after[at + 1 :]


def _is_denial(word: TextToken) -> bool:
    is_cancelled = "harmless" in word.classes and (
        word.word in _ABSENCE or word.word.endswith(("n't", "not"))
    )
    return is_cancelled or bool(word.classes & _WRONGNESS)


def _spare_others(left: Sequence[TextToken]) -> None:
    """Take the marks of words that reject other options: "I eliminate everything else, leaving A"."""
    for index, word in enumerate(left):
        following = left[index + 1 : index + 4]
        if word.classes & {"reject", "leave"} and any(_opening(token) in _REST for token in following):
            _make_harmless([word])


def _opening(word: TextToken) -> str:
    return word.word.partition(" ")[0]


def _is_exception(word: TextToken) -> bool:
    is_phrase = _opening(word) in _UNIVERSAL and word.word.rpartition(" ")[2] in EXCEPTION
    return word.word in EXCEPTION or "exceptive" in word.classes or is_phrase


def _until_value(words: Sequence[TextToken]) -> Sequence[TextToken]:
    end = next((index for index, word in enumerate(words) if word.kind == "value"), len(words))
    return words[:end]


def _make_harmless(tokens: Sequence[TextToken]) -> None:
    for token in tokens:
        if token.kind == "word":
            token.classes = frozenset({"harmless"})


def _cancel_denials(words: Sequence[TextToken]) -> None:
    """Take the marks of two denials of which one denies the other: "cannot be excluded", "nobody doubts"."""
    for index, word in enumerate(words):
        is_order = word.word in ("don't", "never", "dont") or (index == 1 and words[0].word == "do")
        is_order = is_order and (not index or words[0].word in ("do", "please", "and", "so", "but"))
        if "negative" not in word.classes or word.word in _ONLY or (is_order and index <= 1):
            continue
        following = words[index + 1 : index + 1 + _MAX_CANCELLED]
        end = next((at for at, token in enumerate(following) if token.kind != "word"), len(following))
        for offset, denied in enumerate(following[:end]):
            if denied.word.partition(" ")[0] in _ONLY or "negative" in denied.classes:
                break
            if denied.classes & {"reject", "fault"}:
                _make_harmless([word, *following[: offset + 1]])
                return


def _has_condition(sentence: Sentence, position: int) -> bool:
    """Whether the clause at a place is a condition: "A if the diary is right"."""
    lead = sentence.clauses[position].lead if position < len(sentence.clauses) else None
    return lead is not None and lead.word in ("if", "when", "provided", "assuming")
