"""From a text to the terms of the index, as Lucene's English analysis makes them.

The steps are those of Anserini's `DefaultEnglishAnalyzer`: words by Unicode's rules (StandardTokenizer), no
possessive 's, lower case, no stop words, Porter's stems.
"""

import re
from collections.abc import Iterable

import regex

from ors_server_tasks.webshop.porter import stem
from ors_server_tasks.webshop.word_lists import read_words

LONGEST_WORD = 255
"""Characters after which a word is cut into several."""

_STOP_WORDS = frozenset(read_words("stop_words"))

_POSSESSIVES = frozenset(f"{mark}{letter}" for mark in "'\u2019\uff07" for letter in "sS")

_ASCII_WORD = re.compile(
    r"_*[A-Za-z0-9](?:[A-Za-z0-9_]|(?<=[A-Za-z])[.:'](?=[A-Za-z])|(?<=[0-9])[.,;'](?=[0-9]))*"
)


def _unicode_word() -> "regex.Pattern[str]":
    """Return the pattern of one word: UAX #29, with the exceptions of Lucene's StandardTokenizer.

    Source: the grammar of Lucene 8 (Unicode 9, Emoji 11). An emoji sequence is a word: a pictograph with its
    modifiers, several that are joined, a pair of regional indicators, `#` or `*` in a keycap. The signs of
    trade marks and copyright are pictographs too.
    """
    follow = r"[[\p{WB=Format}\p{WB=Extend}\p{WB=ZWJ}]--\p{EMod}]*+"

    def one_of(*classes: str) -> str:
        return f"(?:[{''.join(classes)}]{follow})"

    def wb(name: str) -> str:
        return rf"\p{{WB={name}}}"

    joiner, quote, double = one_of(wb("ExtendNumLet")), one_of(wb("Single_Quote")), one_of(wb("Double_Quote"))
    hebrew, katakana = one_of(wb("Hebrew_Letter")), one_of(wb("Katakana"))
    letter = one_of(wb("Hebrew_Letter"), wb("ALetter"))
    digit = one_of(wb("Numeric"), r"\uff10-\uff19")
    in_word = one_of(wb("MidLetter"), wb("MidNumLet"), wb("Single_Quote"))
    in_number = one_of(wb("MidNum"), wb("MidNumLet"), wb("Single_Quote"))
    unit = (
        f"(?:{hebrew}{double}(?={hebrew})|{hebrew}{quote}"
        f"|{letter}(?:{in_word}(?={letter}))?|{digit}(?:{in_number}(?={digit}))?)"
    )
    run = f"(?:{katakana}(?:{joiner}*+{katakana})*|{unit}(?:{joiner}*+{unit})*)"
    picture = (
        r"[\p{ExtPict}\u2388\u2600-\u2605\u2607-\u2612\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2763-\u2767]"
    )
    near = (
        r"(?:[[\p{WB=Format}\p{WB=Extend}]--[\ufe0e\ufe0f]--\p{EMod}]"
        rf"|\u200d++(?!{picture}|\p{{EMod}}))*"
    )
    part = rf"(?:(?:\p{{EBase}}{near})?\p{{EMod}}{near}|{picture}{near}\ufe0f?)"
    emoji = (
        rf"(?:(?<!\u200d)\u200d++)?{part}(?:\u200d++{part})*"
        rf"|(?:\p{{RI}}{follow}){{2}}|[#*]{near}\ufe0f?\u20e3{near}"
    )
    return regex.compile(
        rf"{joiner}*+{run}(?:{joiner}++{run})*{joiner}*+|{joiner}++(*SKIP)(*FAIL)|{emoji}"
        rf"|(?:\p{{LB=Complex_Context}}{follow})+|\p{{Script=Han}}{follow}|\p{{Script=Hiragana}}{follow}",
        regex.V1,
    )


_UNICODE_WORD = _unicode_word()


def split_words(text: str) -> list[str]:
    """Return the words of a text, in order."""
    words = _ASCII_WORD.findall(text) if text.isascii() else _UNICODE_WORD.findall(text)
    if max(map(len, words), default=0) <= LONGEST_WORD:
        return words
    return [word[at : at + LONGEST_WORD] for word in words for at in range(0, len(word), LONGEST_WORD)]


def find_term(word: str) -> str | None:
    """Return the term of a word; `None` for a stop word."""
    if word[-2:] in _POSSESSIVES:
        word = word[:-2]
    word = word.lower()
    return None if word in _STOP_WORDS else stem(word)


def analyse(text: str) -> Iterable[str]:
    """Yield the terms of a text, in order, with repeats."""
    return (term for word in split_words(text) if (term := find_term(word)) is not None)
