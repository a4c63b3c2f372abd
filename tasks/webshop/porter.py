"""Porter's stemmer, with the two departures of its author's own program, as Lucene has it.

Source: M. F. Porter, "An algorithm for suffix stripping" (1980), and the notes on its author's page.
"""

from functools import lru_cache

SHORTEST = 3
"""Characters of the shortest word that is stemmed."""

_STEP_2 = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),  # a departure from the paper
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),  # a departure from the paper
)
_STEP_3 = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion"),
    *("ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)


@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """Return the stem of a word in lower case; a word of one or two characters is its own stem."""
    if len(word) < SHORTEST:
        return word
    word = _step_1c(_step_1b(_step_1a(word)))
    word = _replace(_replace(word, _STEP_2), _STEP_3)
    return _step_5(_step_4(word))


def _step_1a(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _step_1b(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            return _mend(base) if _has_vowel(base) else word
    return word


def _mend(base: str) -> str:
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if _ends_in_double_consonant(base):
        return base if base[-1] in "lsz" else base[:-1]
    return base + "e" if _measure(base) == 1 and _ends_in_short_syllable(base) else base


def _step_1c(word: str) -> str:
    return word[:-1] + "i" if word.endswith("y") and _has_vowel(word[:-1]) else word


def _replace(word: str, rules: tuple[tuple[str, str], ...]) -> str:
    for suffix, other in rules:
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            return base + other if _measure(base) > 0 else word
    return word


def _step_4(word: str) -> str:
    for suffix in _STEP_4:
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            if suffix == "ion" and not base.endswith(("s", "t")):
                return word
            return base if _measure(base) > 1 else word
    return word


def _step_5(word: str) -> str:
    if word.endswith("e"):
        base = word[:-1]
        measure = _measure(base)
        if measure > 1 or (measure == 1 and not _ends_in_short_syllable(base)):
            word = base
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _shape(word: str) -> str:
    """Return "c" or "v" for each letter."""
    shape: list[str] = []
    for letter in word:
        is_vowel = letter in "aeiou" or (letter == "y" and bool(shape) and shape[-1] == "c")
        shape.append("v" if is_vowel else "c")
    return "".join(shape)


def _measure(word: str) -> int:
    """Count the sequences of vowels that consonants follow."""
    return _shape(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _shape(word)


def _ends_in_double_consonant(word: str) -> bool:
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _ends_in_short_syllable(word: str) -> bool:
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"
