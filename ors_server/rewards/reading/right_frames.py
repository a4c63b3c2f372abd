"""What the words behind a value say of it: "red balloons", "is only the perimeter". Pure.

Each predicate gets these words (`right`, in their order) and knows nothing in front of the value. Its lists
of words are in front of it; `frame_words` has those of several modules.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ors_server.rewards.reading.frame_words import (
    ERROR_STARTS,
    POSSESSIVES,
    RELATIONS,
    SOUGHT,
    is_third_person,
)
from ors_server.rewards.reading.polarity import words_of
from ors_server.rewards.reading.sentences import TextToken, classes_in

_UNIT_LINKS: Final = words_of(
    "of per in on at for from the a an each every left more altogether total and to with by"
)
_MAX_UNKNOWN: Final = 3
"""Words of an unknown unit."""


def is_unit(right: Sequence[TextToken]) -> bool:
    """Whether words behind a bare value may be its unit: "jars of honey", "people in the room"."""
    unknown = 0
    for index, token in enumerate(right):
        if token.kind != "word":
            return True
        if index == 0 and token.classes & {"confirm", "answer", "harmless", "quantity"}:
            return token.word not in ("what", "how")
        if "no_unit" in token.classes or (
            token.classes & {"linking"} and "confirm" not in classes_in(right[index:][1:])
        ):
            return False
        is_link = token.word in _UNIT_LINKS
        if not is_link and "preposition" in token.classes and unknown > 1:
            return False  # "sheep jump over the fence"
        unknown = 0 if is_link else unknown + (not token.classes)
        if unknown > _MAX_UNKNOWN:
            return False
    return True


def has_wrong_source(right: Sequence[TextToken]) -> bool:
    """Whether words behind a value say that something wrong led to it: "came from the wrong formula"."""
    return any(
        token.word in ("from", "by", "of", "with") and following.word.startswith(("the wrong", "a wrong"))
        for token, following in pairwise(right)
    )


def _predicate_of(right: Sequence[TextToken]) -> Sequence[TextToken]:
    """Return the words behind a form of "be" that follows a value; empty if another word follows it."""
    return right[1:] if right and "copula" in right[0].classes else ()


_MERE_NOUNS: Final = words_of("the a an part half one my our his her its their")


def is_mere(right: Sequence[TextToken]) -> bool:
    """Whether a predicate says that a value is something less: "is only the perimeter", "is just a step"."""
    words = [token.word for token in _predicate_of(right)[:2]]
    return len(words) > 1 and words[0] in ("only", "just", "merely", "simply") and words[1] in _MERE_NOUNS


def names_quantity(right: Sequence[TextToken]) -> bool:
    """Whether a predicate only tells what a value counts: "is the number of boys"."""
    words = [token.word for token in _predicate_of(right)[:2]]
    is_noun = len(words) > 1 and words[0].rpartition(" ")[2] in ("number", "count", "amount", "quantity")
    return is_noun and words[1] in ("of", "on")


def tells_what(right: Sequence[TextToken]) -> bool:
    """Whether a predicate begins with a form of "be" and "what": "is what ..."."""
    predicate = _predicate_of(right)
    return len(predicate) > 1 and predicate[0].word == "what"


_OTHERS: Final = words_of("a many most some people others everybody everyone he she they")
_HASTY: Final = words_of("careless hasty naive unwary impatient lazy")


def is_what_others_get(right: Sequence[TextToken]) -> bool:
    """Whether a predicate tells what others take for the answer: "is what the careless get"."""
    if not tells_what(right) or classes_in(right) & {"first_person", "approval"}:
        return False
    is_hasty = right[2].word == "the" and any(token.word in _HASTY for token in right[3:5])
    return is_hasty or right[2].word in _OTHERS


def is_goal(right: Sequence[TextToken]) -> bool:
    """Whether a predicate says that a value is what the task asks for: "is what's asked for"."""
    predicate = _predicate_of(right)
    words = [word for token in predicate[1:] for word in token.word.split()]
    return bool(predicate) and predicate[0].word.startswith("what") and not SOUGHT.isdisjoint(words)


_WHOLES: Final = words_of("the them these those his her my our their its all")


def is_part_counted(right: Sequence[TextToken]) -> bool:
    """Whether a value counts a part of a whole: "42 of the students are girls"."""
    return len(right) > 2 and right[0].word == "of" and right[1].word in _WHOLES  # noqa: PLR2004  (of, the whole, a noun)


def is_identity(right: Sequence[TextToken]) -> bool:
    """Whether words behind a value say what it is: "is the town"."""
    predicate = _predicate_of(right)
    is_the = bool(predicate) and predicate[0].word.partition(" ")[0] == "the"
    is_of_other = any(  # "is the hometown of his rival"
        owner.word in POSSESSIVES and noun.word in RELATIONS for owner, noun in pairwise(right)
    )
    return is_the and not is_of_other


_IN_FRONT_OF_OBJECTS: Final = words_of(
    "the a an it this that its no every each all another many most some few my his her their our your them "
    "us me him nobody everybody nothing everything"
)


def is_object_taker(right: Sequence[TextToken]) -> bool:
    """Whether a value is the subject of an unknown verb: "42 counts the corner twice", "42 fools many"."""
    if len(right) < 2 or not is_third_person(right[0]):  # noqa: PLR2004  (a verb and an object)
        return False
    is_known = bool(right[0].classes - {"source", "oblique", "erring"})
    return not is_known and right[1].word in _IN_FRONT_OF_OBJECTS


_FOR_FALSE: Final = frozenset({"by", "from", "after", "when", "if"})


def is_by_error(right: Sequence[TextToken]) -> bool:
    """Whether words behind a value say that an error leads to it: "by forgetting the sign"."""
    return any(
        token.word in _FOR_FALSE and following.classes & ERROR_STARTS and following.word.endswith("ing")
        for token, following in pairwise(right)
    )


_COUNTED_VERBS: Final = words_of(
    "take have had play played study speak own like liked hold contain need eat drink read use know attend "
    "took studied spoke owned chose choose passed pass solved solve visited visit voted got get bought buy"
)


def is_count_of(right: Sequence[TextToken]) -> bool:
    """Whether a value counts what words of failure describe: "42 of them are not even", "42 lost coins"."""
    denials = [
        index
        for index, token in enumerate(right)
        if token.classes & {"negative", "reject", "fault", "refuse"}
    ]
    if (
        right[0].word == "of"
        and len(right) > 2  # noqa: PLR2004  ("of", "the" and a noun)
        and right[1].word in ("the", "these", "those", "them")
    ):
        return denials[0] > 2  # noqa: PLR2004  (behind these)
    if right[denials[0]].word in ("neither", "no", "none") and len(denials) == 1:
        # "42 pupils take neither of them", "42 of the boxes hold no coins"
        verbs = [token for token in right[1 : denials[0]] if not token.classes & {"negative"}]
        return bool(verbs) and right[0].word.endswith("s") and verbs[-1].word in _COUNTED_VERBS
    if len(right) != 2 or denials != [0]:  # noqa: PLR2004  (an adjective and a noun)
        return False
    adjective, noun = right
    is_participle = adjective.word.endswith(("ed", "en")) or adjective.word == "lost"
    return is_participle and not noun.classes and noun.word.endswith("s")
