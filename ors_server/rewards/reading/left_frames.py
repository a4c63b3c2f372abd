"""What the words in front of a value say of it: "the number of edges is", "my friend got". Pure.

Each predicate gets these words (`left`, in their order) and knows nothing behind the value. Its lists of
words are in front of it; `frame_words` has those of several modules.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ors_server.rewards.reading.frame_words import (
    ERROR_STARTS,
    GUESSES,
    OBJECTS,
    POSSESSIVES,
    RELATIONS,
    is_filler,
    is_source,
)
from ors_server.rewards.reading.polarity import words_of
from ors_server.rewards.reading.sentences import MAX_NEAR_WORDS, TextToken, classes_in

FUNCTIONS: Final = words_of(
    "half double triple twice third quarter fifth square cube root reciprocal inverse negative"
    " opposite complement "
    "logarithm factorial divisors factors digits multiple divisor factor remainder successor predecessor"
)
"""What is computed from a value: "half of 42"."""
_COMPUTED_FROM: Final = FUNCTIONS - {"remainder"} | words_of(
    "power function combination pair set list series grid kind ratio"
)


def is_found_noun(before: Sequence[TextToken]) -> bool:
    """Whether a verb of results has found a quantity with an article: "this yields an inradius"."""
    nouns = list(before)
    while nouns and not nouns[-1].classes and nouns[-1].word not in ("a", "an"):
        nouns = nouns[:-1]
    is_relation = any(word in _COMPUTED_FROM for token in before[len(nouns) :] for word in token.word.split())
    return (
        len(nouns) > 1
        and len(nouns) < len(before)
        and nouns[-1].word in ("a", "an")
        and "result" in nouns[-2].classes
        and not is_relation
    )


def states_behind(words: Sequence[TextToken]) -> bool:
    """Whether a verb states the value behind its preposition: "adding the tip brings it to 42"."""
    before = [token for token in words[:-1] if token.word not in OBJECTS]
    return (bool(before) and {"quantity", "result"} <= before[-1].classes) or is_found_noun(words[:-1])


THIRD_PERSON: Final = frozenset({"his", "her", "their", "your"})


def is_answer_of_another(left: Sequence[TextToken]) -> bool:
    """Whether a clause is about another person's answer: "Tom's answer is", "his guess was"."""
    for index, owner in enumerate(left[:-1]):
        noun = left[index + 1]
        if not noun.classes and noun.kind == "word" and index + 2 < len(left):
            noun = left[index + 2]  # "the forum's top answer"
        if "answer" not in noun.classes and noun.word not in GUESSES:
            continue
        if owner.word in THIRD_PERSON:
            return True
        is_name = owner.word.endswith("'s") and owner.is_capital and "copula" not in owner.classes
        is_name = is_name or owner.word in ("year's", "week's", "month's", "semester's", "yesterday's")
        if is_name or ("'" in owner.word and is_source(owner)):
            return True
    return False


OLD: Final = words_of("old older previous earlier former different another alternate alternative parallel")
FICTIONS: Final = words_of("movie film novel song joke")
_EDITIONS: Final = words_of("edition version draft printing textbook book key")


def is_of_old_version(left: Sequence[TextToken]) -> bool:
    """Whether a clause tells the answer of an older text: "in the old edition the answer was 42".

    The text may also be the subject: "the old edition has 42".
    """
    words = [word for token in left[:4] for word in token.word.split()]
    if words[:1] == ["in"] and not FICTIONS.isdisjoint(words):
        return True  # "In the movie the answer is 42"
    is_subject = words[:1] == ["the"] and not _EDITIONS.isdisjoint(words)
    is_place = is_subject or words[:1] == ["in"]
    is_long = len(words) > 2  # noqa: PLR2004  (a lead, an article and a noun: "in the old edition")
    return is_long and is_place and words[-1] not in OLD and not OLD.isdisjoint(words)


def is_bounded(near: Sequence[TextToken]) -> bool:
    """Whether a bound is in front of a value: "I'd say under 42", but not "no less a number than 42"."""
    at = max((index for index, token in enumerate(near) if "bound" in token.classes), default=None)
    if at is None:
        return False
    word = near[at].word
    if word in ("above", "below") and "copula" in classes_in(near[at + 1 : at + 2]):
        return False  # "the computation above is 42"
    is_strict = word in ("under", "over", "above", "below") or word.endswith(" than")
    return "harmless" not in classes_in(near[at + 1 :] if is_strict else near)


def is_owed(left: Sequence[TextToken]) -> bool:
    """Whether a clause says what a person has to answer: "they should answer 42"."""
    return any(
        modal.word in ("should", "must") and verb.classes & {"report", "epistemic", "answer"}
        for modal, verb in pairwise(left)
    )


def is_settled(left: Sequence[TextToken]) -> bool:
    """Whether a verb of results is behind a choice: "this removes some of them and leaves 42"."""
    at = max((index for index, token in enumerate(left) if "undecided" in token.classes), default=0)
    return left[at].word.endswith(" of") and any(
        {"copula", "result"} <= token.classes for token in left[at + 2 :]
    )


def begins_with_name(left: Sequence[TextToken]) -> bool:
    """Whether a clause begins with a name and a verb of finding: "Tom got"."""
    if len(left) < 2:  # noqa: PLR2004  (a name and a verb)
        return False
    name, verb = left[0], left[1]
    return (
        name.is_capital
        and not name.classes
        and "'" not in name.word
        and not name.word.endswith(("ing", "ion", "ly", "ment", "sis"))
        and not is_filler(name)
        and "epistemic" in verb.classes
        and "answer" not in verb.classes
        and not verb.word.endswith(" up with")
        and verb.word
        not in ("have", "has", "had", "give", "gives", "gave", "show", "shows", "showed", "find")
    )


_PARTS: Final = words_of(
    "part half previous other another different next subproblem subquestion sub-question step warm-up "
    "easier simpler related similar "
    "opposite earlier last's preceding"
)


def is_apt_answer(left: Sequence[TextToken]) -> bool:
    """Whether the noun for the answer in front of a value means the answer: not "the fashionable answer"."""
    at = next((index for index in reversed(range(len(left))) if "answer" in left[index].classes), None)
    if at is None:
        return True
    behind = left[at + 1 :]
    if any(token.word in _PARTS for token in behind):
        return False
    if not at or " " in left[at].word:
        return True
    adjective = left[at - 1]
    return (
        bool(adjective.classes)
        or is_filler(adjective)
        or adjective.word == "whose"
        or "'" in adjective.word
        or not adjective.word.isalpha()
    )


def is_label_of(left: Sequence[TextToken]) -> bool:
    """Whether a clause says the number of something that is only numbered: "the room number is 42"."""
    if len(left) < 2 or "copula" not in left[-1].classes:  # noqa: PLR2004  (a noun and its verb)
        return False
    noun = left[-2]
    is_numbered = noun.word == "number" and len(left) > 2 and "label" in left[-3].classes  # noqa: PLR2004  (what is numbered, "number", a verb)
    return is_numbered or ("label" in noun.classes and noun.word.endswith("number"))


_OPINIONS: Final = frozenset({"suppose", "assume", "presume", "imagine"})
_SELVES: Final = frozenset({"i", "we", "i'd", "we'd", "i suppose", "i assume"})


def is_guess(left: Sequence[TextToken]) -> bool:
    """Whether "suppose" is the author's opinion: "I suppose the answer is 42"."""
    names = [token for token in left if "suppose" in token.classes]
    return all(token.word.removeprefix("i ") in _OPINIONS for token in names) and left[0].word in _SELVES


_SHARES_OF: Final = frozenset({"half of", "a third of", "a quarter of", "twice", "double"})
_PLACING: Final = words_of("between under over below above within beyond behind around")


def is_of_whole_subject(left: Sequence[TextToken]) -> bool:
    """Whether words of a bound are about the subject: "half of them is 42", "the gap between them is 42"."""
    is_predicate = len(left) > 2 and "copula" in left[-1].classes  # noqa: PLR2004  (a bound, its object, a verb)
    if not is_predicate or left[-1].classes & {"bound"}:
        return False
    at = next(index for index, token in enumerate(left) if "bound" in token.classes)
    is_share = at == 0 and left[0].word in _SHARES_OF
    return is_share or (left[at].word in _PLACING and at + 2 < len(left))


_ELSE: Final = words_of("other else different others")


def is_nothing_else(left: Sequence[TextToken]) -> bool:
    """Whether a negation leaves only the value: "I see no other way than 42"."""
    if not left or left[-1].word != "than":
        return False
    words = [word for token in left for word in token.word.split()]
    denials = [token for token in left if "negative" in token.classes]
    return len(denials) == 1 and not _ELSE.isdisjoint(words)


def is_of_relative(left: Sequence[TextToken]) -> bool:
    """Whether a clause is about a person near to whom the question asks for: "His brother lived in Riga"."""
    words = [word for token in left[: MAX_NEAR_WORDS + 1] for word in token.word.split()]
    return len(words) > 1 and words[0] in POSSESSIVES and not RELATIONS.isdisjoint(words[1:3])


_SOME: Final = words_of("some many several other most few certain")


def is_of_some(left: Sequence[TextToken]) -> bool:
    """Whether a clause tells what some sources have: "some books name Riga"."""
    return any(
        token.word in _SOME and "source" in following.classes
        for token, following in pairwise(left[: MAX_NEAR_WORDS + 1])
    )


def is_of_error(left: Sequence[TextToken]) -> bool:
    """Whether an error is what leads to a value: "a common error leads to 42"."""
    at = next((index for index, token in enumerate(left) if token.classes & ERROR_STARTS), None)
    if at is None or any(token.classes - {"apt"} and not is_filler(token) for token in left[:at]):
        return False
    behind = left[at + 1 :]
    if left[at].word.endswith("ing") and left[at].classes & {"erring"}:
        return any("result" in token.classes for token in behind)  # "forgetting the sign gives 42"
    return bool(behind) and bool(behind[0].classes & {"result"}) and behind[0].word not in ("was", "is")


_MODALS: Final = words_of("could can may might would should must will shall cannot")
ASKING: Final = frozenset({"how", "why"})


def is_exclaimed(left: Sequence[TextToken]) -> bool:
    """Whether words ask how a value could be: "How could it be 42!"."""
    is_asking = len(left) > 1 and left[0].word in ASKING and left[1].word.partition(" ")[0] in _MODALS
    return is_asking and all(token.word != "not" for token in left)  # "how could it not be 42?" asserts


_RELATIVE: Final = frozenset({"that", "which", "who"})


def is_of_subject(left: Sequence[TextToken], name: str) -> bool:
    """Whether the words of a class are about the subject: "the number that can be written so is 42"."""
    if not left or "copula" not in left[-1].classes:
        return False
    at = next((index for index, token in enumerate(left) if token.word in _RELATIVE), None)
    if not at or not classes_in(left[:at]) & {"quantity", "answer", "result", "bound"}:
        return False
    return all(index > at for index, token in enumerate(left) if name in token.classes)


def is_too(left: Sequence[TextToken]) -> bool:
    """Whether words say that something is too much for a value: "too short to confirm 42"."""
    at = next((index for index, token in enumerate(left) if token.word == "too"), None)
    if at is None or any("negative" in token.classes for token in left[:at]):
        return False
    behind = [token.word for token in left[at + 1 : at + 5]]
    return "to" in behind and not any("copula" in token.classes for token in left[at + 1 :])


def governs_another(left: Sequence[TextToken]) -> bool:
    """Whether the only negation is "without" with its own object: "without it 42"."""
    denials = [index for index, token in enumerate(left) if token.classes & {"negative", "reject", "refuse"}]
    if len(denials) != 1 or left[denials[0]].word != "without":
        return False
    behind = left[denials[0] + 1 :]
    return bool(behind) and not is_filler(behind[-1])


def is_counted(left: Sequence[TextToken]) -> bool:
    """Whether all words of failure are what a subject counts: "the number of mistakes is 42"."""
    if not left or "copula" not in left[-1].classes or not classes_in(left[:2]) & {"quantity", "answer"}:
        return False
    return all(
        index and left[index - 1].word in ("of", "for")
        for index, token in enumerate(left)
        if token.classes & {"reject", "refuse", "negative"}
    )


def is_way(left: Sequence[TextToken]) -> bool:
    """Whether a rejection is only the way to a value: "eliminating y yields 42"."""
    return (
        bool(left)
        and left[0].word.endswith("ing")
        and all("reject" not in token.classes for token in left[1:])
        and "result" in classes_in(left[1:])
    )
