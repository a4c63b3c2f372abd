"""The words that carry polarity, read from `polarity.toml`: classes of words and phrases, by language. Pure.

A phrase wins over its words, and the longest phrase over shorter ones. Words of English always count; words
of another language count where the text has a word that only that language has.
"""

import tomllib
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from ors_server.rewards.reading.inflection import inflect, read_irregular

Classes: TypeAlias = frozenset[str]

NO_CLASSES: Final[Classes] = frozenset()
_PATH: Final = Path(__file__).with_name("polarity.toml")
_MIN_PHRASE_WORDS: Final = 2
"""Words of the shortest phrase."""
_SILENT: Final = frozenset({"common", "filler"})
"""Classes of words that only tell their language."""
_OTHER_TABLES: Final = ("characters", "irregular_verbs", "options")
"""Tables of `polarity.toml` that are not languages."""


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text that lists them with spaces between."""
    return frozenset(text.split())


_SHARED: Final = words_of(
    "no non or a o u to is as of was in if me man men dan den die der des in fast halt also per sin son son "
    "sole more point pas ni ne si se ma mal an on at so ale bar car sans soit up us je te hier fin fine dit "
    "mais son was want al all moment error correct correction solution exact juste als noch maar test via "
    "come fait son des other pero but he hat war she do dos das e y i la le les el lo une un uno una "
    "her idea place met mere van solo logo dove era font ten till vet vale valor tort hem quasi salvo "
    "sumo ai"
)
"""Words of other languages that are English words too, or too short to tell a language by."""


class Polarity(StrEnum):
    """What a text says about a value in it."""

    ASSERTED = "asserted"
    DENIED = "denied"
    BOUNDED = "bounded"
    """A limit of the value: "more than 42"."""
    ASKED = "asked"
    SUPPOSED = "supposed"
    """True only under a condition: "if x = 1 then 42", "42 would be too large"."""
    QUOTED = "quoted"
    """What another person says."""
    RETRACTED = "retracted"
    """Struck, taken back, or corrected later."""
    HEDGED = "hedged"
    """One of several values between which the text does not decide."""
    INTERMEDIATE = "intermediate"
    """A value on the way, a label ("step 72"), a remark about the work."""


class Lexicon:
    """The words and phrases of one language."""

    def __init__(self, lists: Iterable[tuple[str, str]]) -> None:
        """Read (class, words and phrases separated by commas or line ends)."""
        self.words: dict[str, Classes] = {}
        self.phrases: dict[tuple[str, str], list[tuple[tuple[str, ...], Classes]]] = {}
        """Phrases by their first two words, longest first."""
        merged: dict[tuple[str, ...], set[str]] = {}
        for name, text in lists:
            for entry in _entries(text):
                merged.setdefault(tuple(entry.casefold().split()), set()).add(name)
        for words, names in merged.items():
            if len(words) == 1:
                self.words[words[0]] = frozenset(names)
            else:
                self.phrases.setdefault((words[0], words[1]), []).append((words, frozenset(names)))
        for listed in self.phrases.values():
            listed.sort(key=lambda phrase: -len(phrase[0]))

    def match_phrase(self, words: list[str], index: int) -> tuple[int, Classes] | None:
        """Return the length in words and the classes of the longest phrase at a place."""
        listed = self.phrases.get((words[index], words[index + 1])) if index + 1 < len(words) else None
        for phrase, classes in listed or ():
            length = len(phrase)
            if length == _MIN_PHRASE_WORDS or tuple(words[index : index + length]) == phrase:
                return length, classes
        return None


@cache
def lexicons() -> dict[str, Lexicon]:
    """Return the lexicon of each language; read at the first use."""
    data = _read_data()
    languages = [name for name in data if name not in _OTHER_TABLES]
    return {name: Lexicon(_lists_of(data, name)) for name in languages}


def _lists_of(data: dict[str, dict[str, Any]], language: str) -> Iterator[tuple[str, str]]:
    """Return the classes of a language with their words; verbs in all forms."""
    irregular = read_irregular(data["irregular_verbs"].get(language, ""))
    for name, content in data[language].items():
        if name != "verbs":
            yield name, content
            continue
        for verb_class, text in content.items():
            forms = [form for verb in _entries(text) for form in inflect(verb, irregular)]
            yield verb_class, ", ".join(forms)


def _entries(text: str) -> list[str]:
    """Return the words and phrases that a text lists with commas or line ends between."""
    return [entry for part in text.replace("\n", ",").split(",") if (entry := part.strip())]


@cache
def option_lexicon() -> Lexicon:
    """Return the words that say something else about letters and names than about numbers."""
    return Lexicon(_lists_of(_read_data(), "options"))


@cache
def _read_data() -> dict[str, dict[str, Any]]:
    return tomllib.loads(_PATH.read_text(encoding="utf-8"))


@cache
def character_lists() -> dict[str, tuple[str, ...]]:
    """Return the lists for scripts without spaces, longest entries first."""
    lists = _read_data()["characters"]
    return {
        name: tuple(sorted(set(_entries(text)), key=lambda entry: -len(entry)))
        for name, text in lists.items()
    }


@cache
def _languages_by_word() -> dict[str, tuple[str, ...]]:
    """Return the languages of each word that tells its language."""
    named: dict[str, list[str]] = {}
    english = lexicons()["english"]
    for name, lexicon in lexicons().items():
        if name == "english":
            continue
        for word in {
            *lexicon.words,
            *(word for listed in lexicon.phrases.values() for p, _ in listed for word in p),
        }:
            if word not in _SHARED and word not in english.words:
                named.setdefault(word, []).append(name)
    return {word: tuple(names) for word, names in named.items()}


@cache
def _languages_by_shared_word() -> dict[str, tuple[str, ...]]:
    """Return the languages of each word that says something of a value, also where others share it."""
    named: dict[str, list[str]] = {}
    for name, lexicon in lexicons().items():
        for word, classes in lexicon.words.items():
            if classes - _SILENT and name != "english":
                named.setdefault(word, []).append(name)
    return {word: tuple(names) for word, names in named.items()}


def languages_of(words: Collection[str]) -> list[Lexicon]:
    """Return the lexicons that count for a text with these words: English, and its own language."""
    counts: dict[str, int] = {}
    by_word, english = _languages_by_word(), lexicons()["english"]
    for word in () if by_word.keys().isdisjoint(words) else words:
        for name in by_word.get(word, ()):
            counts[name] = counts.get(name, 0) + 1
    if not counts:
        if not english.words.keys().isdisjoint(words):
            return [english]
        for word in words:  # "pas Turin"
            for name in _languages_by_shared_word().get(word, ()):
                counts[name] = counts.get(name, 0) + 1
    max_count = max(counts.values(), default=0)
    leading = [name for name, count in counts.items() if count == max_count]
    return [english, *(lexicons()[name] for name in leading)]


def classes_of(word: str) -> Classes:
    """Return the classes of an English word."""
    return lexicons()["english"].words.get(word.casefold(), NO_CLASSES)


def has_denial(text: str) -> bool:
    """Return whether a text in a script without spaces has a denial in it."""
    lists = character_lists()
    return any(entry in text for name in ("denied_before", "denied_after") for entry in lists[name])
