"""Porter's stemmer for English words, with the departures of NLTK's, which rouge-score has. Pure.

Source: Porter 1980, "An algorithm for suffix stripping"; of NLTK's `PorterStemmer` in its default mode a list
of irregular words, short words that are left alone, `ies` and `ied` in short words, `alli`, `fulli` and
`logi`, and `y` behind a consonant only.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

MAX_WORD: Final = 200
"""Letters of a word that has a stem; a longer one is its own."""
_VOWELS: Final = frozenset("aeiou")
_IRREGULAR: Final = {
    **dict.fromkeys(("sky", "skies"), "sky"),
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    **dict.fromkeys(("innings", "inning"), "inning"),
    **dict.fromkeys(("outings", "outing"), "outing"),
    **dict.fromkeys(("cannings", "canning"), "canning"),
    **{word: word for word in ("news", "howe", "proceed", "exceed", "succeed")},
}

Rule: TypeAlias = tuple[str, str]
"""A suffix and what takes its place."""

_STEP_2: Final[Sequence[Rule]] = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize")),
    *(("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize")),
    *(("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful")),
    *(("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"), ("fulli", "ful")),
)
_STEP_3: Final[Sequence[Rule]] = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", "")),
    ("ness", ""),
)
_STEP_4: Final = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism"),
    *("ate", "iti", "ous", "ive", "ize"),
)


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """Return the stem of a word in lower case."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if not 2 < len(word) <= MAX_WORD:  # noqa: PLR2004  (words of two letters have no suffix)
        return word
    for step in _STEPS:
        word = step(word)
    return word


def _plural(word: str) -> str:
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]  # noqa: PLR2004  (as in "ties")
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]  # noqa: PLR2004  (as in "tied")
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix) and "v" in _shape(word.removesuffix(suffix)):
            stub = word.removesuffix(suffix)
            # A verb without its ending: "conflat" is "conflate", "hopp" is "hop", "fil" is "file".
            if stub.endswith(("at", "bl", "iz")):
                return stub + "e"
            if len(stub) > 1 and stub[-1] == stub[-2] and _shape(stub)[-1] == "c":
                return stub if stub[-1] in "lsz" else stub[:-1]
            return stub + "e" if _measure(stub) == 1 and _ends_short(stub) else stub
    return word


def _final_y(word: str) -> str:
    is_suffix = word.endswith("y") and len(word) > 2 and _shape(word[:-1])[-1] == "c"  # noqa: PLR2004  (as in "fly")
    return word[:-1] + "i" if is_suffix else word


def _step_2(word: str) -> str:
    while word.endswith("alli") and _measure(word[:-4]):
        word = word[:-2]
    if word.endswith("logi") and not any(word.endswith(suffix) for suffix, _ in _STEP_2):
        return word[:-1] if _measure(word[:-3]) else word
    return _replaced(word, _STEP_2)


def _step_4(word: str) -> str:
    suffix = next((ending for ending in _STEP_4 if word.endswith(ending)), None)
    if suffix is None:
        return word
    stub = word.removesuffix(suffix)
    is_free = suffix != "ion" or stub.endswith(("s", "t"))
    return stub if is_free and _measure(stub) > 1 else word


def _step_5(word: str) -> str:
    """Remove a final e, and one of two final l."""
    if word.endswith("e"):
        stub = word[:-1]
        measure = _measure(stub)
        word = stub if measure > 1 or (measure == 1 and not _ends_short(stub)) else word
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _replaced(word: str, rules: Sequence[Rule]) -> str:
    """Apply the first rule whose suffix a word has, if a measure is left."""
    for suffix, other in rules:
        if word.endswith(suffix):
            stub = word.removesuffix(suffix)
            return stub + other if _measure(stub) else word
    return word


def _shape(word: str) -> str:
    """Write consonants as c and vowels as v; y is a consonant at the start and behind a vowel."""
    shape: list[str] = []
    for letter in word:
        is_vowel = letter in _VOWELS or (letter == "y" and shape[-1:] == ["c"])
        shape.append("v" if is_vowel else "c")
    return "".join(shape)


def _measure(stub: str) -> int:
    return _shape(stub).count("vc")


def _ends_short(stub: str) -> bool:
    shape = _shape(stub)
    return (shape.endswith("cvc") and stub[-1] not in "wxy") or shape == "vc"


_STEPS: Final[Sequence[Callable[[str], str]]] = (
    *(_plural, _past, _final_y, _step_2, lambda word: _replaced(word, _STEP_3), _step_4, _step_5),
)
