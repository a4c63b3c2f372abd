"""Words and kinds of words that several frames know. Pure."""

from typing import Final

from ors_server.rewards.reading.polarity import classes_of, words_of
from ors_server.rewards.reading.sentences import TextToken

ERROR_STARTS: Final = frozenset({"fault", "erring"})
"""Classes of words that say that an error was made."""
OBJECTS: Final = words_of("it this that everything all us me them itself together up down out back nicely")
"""Objects and particles between a verb and its preposition: "brings it up to"."""
GUESSES: Final = words_of("guess claim opinion suggestion proposal bet conjecture attempt reply version")
"""Nouns for what a person thinks that the answer is."""
SOUGHT: Final = words_of("asked wanted sought needed required want need seek after looking for wants")
"""Words for what the task asks for."""
POSSESSIVES: Final = words_of("his her their its")
"""Words in front of a relation of `RELATIONS` that is not who the question asks for."""
RELATIONS: Final = words_of(
    "brother sister father mother wife husband son daughter uncle aunt cousin friend friends"
    " colleague rival parents "
    "teacher neighbour neighbor grandfather grandmother successor predecessor brothers sisters"
)


FILLERS: Final = words_of("so thus hence then and or nor but finally ok okay well now the a an of to for all")
_DETERMINERS: Final = words_of(
    "the a an all her his my our their its those these just both exactly precisely only even simply that"
)


def is_filler(token: TextToken) -> bool:
    """Whether a word in front of a value says nothing of it: a determiner, a letter, an adverb."""
    word = token.word
    return (
        word in FILLERS
        or word in _DETERMINERS
        or len(word) == 1
        or (not token.classes and word.endswith("ly"))
        or token.classes == frozenset({"harmless"})
    )


_MIN_VERB_LETTERS: Final = 3
"""Letters that a verb in the third person has more than: "is" and "was" are none."""


def is_third_person(token: TextToken) -> bool:
    """Whether a word may be a verb in the third person: "the last line kills 42"."""
    word = token.word
    return word.endswith("s") and len(word) > _MIN_VERB_LETTERS and word[-2] not in "siu'"


def is_source(token: TextToken) -> bool:
    """Whether a word is a person or a writing, or what belongs to one: "my neighbour's sheet"."""
    stem, _, ending = token.word.rpartition("'")
    return "source" in token.classes or (ending == "s" and "source" in classes_of(stem))


_ADVERBIAL: Final = frozenset({"maybe", "harmless", "yes"})


def is_adverb(token: TextToken) -> bool:
    """Whether a word only colours a negation: "not possibly", "not really"."""
    return bool(token.classes & _ADVERBIAL) or token.word.endswith("ly")
