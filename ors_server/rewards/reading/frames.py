"""Tells the sentences that may state a value from words around one. Pure.

A value is stated behind a verb of results or a noun for the answer ("that leaves 42"), by itself ("So 42.")
or with a unit ("42 red balloons"). Words that no list knows do not speak for it: an unknown preposition
("the answer ends in 42"), an unknown noun ("Psalm 42"), a clause behind it.
"""

from collections.abc import Sequence
from typing import Final

from ors_server.rewards.reading.polarity import words_of
from ors_server.rewards.reading.sentences import TextToken, classes_in

FILLERS: Final = words_of("so thus hence then and or nor but finally ok okay well now the a an of to for all")
_DETERMINERS: Final = words_of(
    "the a an all her his my our their its those these just both exactly precisely only even simply that"
)
_RESULTS: Final = frozenset({"result", "quantity", "copula"})
_GOVERNORS: Final = {
    "to": _RESULTS,
    "at": _RESULTS,
    "as": _RESULTS,
    "into": frozenset({"result"}),
    "of": frozenset({"answer", "quantity", "result", "confirm"}),
    "for": frozenset({"result", "answer", "quantity"}),
    "on": frozenset({"result"}),
    "upon": frozenset({"result"}),
    "up": _RESULTS,
    "down": _RESULTS,
    "about": _RESULTS | {"answer"},
    "with": frozenset({"result"}),
    "by": frozenset({"quantity"}),
}
"""Classes of the word in front of a preposition behind which a value may be stated."""
_STATING_WITH: Final = words_of(
    "left go goes went going end ends ended ending come comes came up finish finishes finished wind "
    "wound stay stick stuck "
    "leaves leaving conclude answer remain be am 're satisfied"
)
_OBJECTS: Final = words_of("it this that everything all us me them itself together up down out back nicely")
_EQUALITY: Final = words_of("equal identical equivalent congruent equals answer: same")
_UNIT_LINKS: Final = words_of(
    "of per in on at for from the a an each every left more altogether total and to with by"
)
_MAX_UNKNOWN: Final = 3
"""Words of an unknown unit."""
_MIN_NOUN: Final = 2
_PARTS: Final = words_of(
    "part half previous other another different next subproblem subquestion sub-question step warm-up "
    "easier simpler related similar "
    "opposite earlier last's preceding"
)
_SUBJECTS: Final = words_of("it that this answer result solution")
_AUTHORS: Final = words_of("i we you i'd i'll i've i'm we'd we'll we've we're one")
_OPINIONS: Final = frozenset({"suppose", "assume", "presume", "imagine"})
_SELVES: Final = frozenset({"i", "we", "i'd", "we'd", "i suppose", "i assume"})


def is_filler(token: TextToken) -> bool:
    """Whether a word in front of a value says nothing of it: a determiner, a letter, an adverb."""
    word = token.word
    return (
        word in FILLERS
        or word in _DETERMINERS
        or len(word) == 1
        or (not token.classes and word.endswith("ly"))
        or token.classes == {"harmless"}
    )


def governor_states(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether the word that governs a value may state it."""
    words = list(left)
    while words and (is_filler(words[-1]) and words[-1].word not in _GOVERNORS):
        words = words[:-1]
    if not words:
        return True
    governor = words[-1]
    if "preposition" in governor.classes or governor.word in _GOVERNORS:
        return _preposition_states(words, right)
    if governor.classes or right:
        return True
    is_verb = governor.word.endswith("ed") or (governor.word.endswith("s") and len(words) >= _MIN_NOUN)
    return is_verb or len(words) != 1


def _preposition_states(words: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    preposition = words[-1]
    if preposition.classes & {"bound", "negative", "trial", "operation", "copula", "answer", "result"}:
        return True  # judged by other rules, or a part of a known phrase
    before = [token for token in words[:-1] if token.word not in _OBJECTS or token.classes & {"answer"}]
    while before and not before[-1].classes and before[-1].word.endswith("ly"):
        before = before[:-1]
    if not before:
        return preposition.word in ("to", "of", "for")  # left of a filler
    verb = before[-1]
    if verb.word in _EQUALITY:
        return True
    if preposition.word == "with":
        return any(token.word.partition(" ")[0] in _STATING_WITH for token in before[-3:])
    if verb.classes & _GOVERNORS.get(preposition.word, frozenset()):
        return not (
            preposition.word in ("to", "for") and verb.classes & {"answer"} and not verb.classes & {"result"}
        )
    has_unit = bool(right) and not right[0].classes & {"copula", "linking", "no_unit"}
    return has_unit and "answer" not in classes_in(before)


def is_unit(right: Sequence[TextToken]) -> bool:
    """Whether words behind a bare value may be its unit: "jars of honey", "people in the room"."""
    unknown = 0
    for index, token in enumerate(right):
        if token.kind != "word":
            return True
        if token.classes & {"confirm", "answer", "harmless", "quantity"} and index == 0:
            return True
        if "no_unit" in token.classes or (token.classes & {"linking"} and not _is_confirmed(right[index:])):
            return False
        is_link = token.word in _UNIT_LINKS
        if not is_link and "preposition" in token.classes and unknown > 1:
            return False  # "sheep jump over the fence"
        unknown = 0 if is_link else unknown + (not token.classes)
        if unknown > _MAX_UNKNOWN:
            return False
    return True


def _is_confirmed(predicate: Sequence[TextToken]) -> bool:
    return "confirm" in classes_in(predicate[1:])


def is_of_another(left: Sequence[TextToken], right: Sequence[TextToken]) -> bool:
    """Whether a sentence tells what somebody else gets, has or gives: "my friend got 42"."""
    if any("hearsay" in token.classes for token in left):
        return True
    if any(token.word.partition(" ")[0] in _AUTHORS for token in left):
        return False
    sources = [index for index, token in enumerate(left) if "source" in token.classes]
    if not sources:
        return _is_name(left) and not right
    behind = left[sources[0] + 1 :]
    classes = classes_in(left)
    if "answer" in classes or "belief" in classes:
        return True
    is_pronoun = left[sources[-1]].word in ("he", "she", "they", "who", "many", "most", "few", "another")
    verbs = [token for token in behind if "epistemic" in token.classes]
    if is_pronoun and verbs and verbs[0].word in ("have", "has", "had", "give", "gives", "gave"):
        return False
    return bool(verbs) and not right


def _is_name(left: Sequence[TextToken]) -> bool:
    """Whether a clause begins with a name and a verb of finding: "Tom got"."""
    if len(left) < _MIN_NOUN:
        return False
    name, verb = left[0], left[1]
    return (
        name.is_capital
        and not name.classes
        and not name.word.endswith(("ing", "ion", "ly", "ment", "sis"))
        and not is_filler(name)
        and "epistemic" in verb.classes
        and "answer" not in verb.classes
        and verb.word
        not in ("have", "has", "had", "give", "gives", "gave", "show", "shows", "showed", "find")
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
        or "'" in adjective.word
        or not adjective.word.isalpha()
    )


def is_label_of(left: Sequence[TextToken]) -> bool:
    """Whether a clause says the number of something that is only numbered: "the room number is 42"."""
    if len(left) < 2 or "copula" not in left[-1].classes:  # noqa: PLR2004  (a noun and its verb)
        return False
    noun = left[-2]
    is_numbered = noun.word == "number" and len(left) > 2 and "label" in left[-3].classes  # noqa: PLR2004
    return is_numbered or ("label" in noun.classes and noun.word.endswith("number"))


def is_guess(left: Sequence[TextToken]) -> bool:
    """Whether "suppose" is the author's opinion: "I suppose the answer is 42"."""
    names = [token for token in left if "suppose" in token.classes]
    return all(token.word.removeprefix("i ") in _OPINIONS for token in names) and left[0].word in _SELVES


def is_identity(right: Sequence[TextToken]) -> bool:
    """Whether words behind a value say what it is: "is the town"."""
    return len(right) > 1 and "copula" in right[0].classes and right[1].word.partition(" ")[0] == "the"
