"""Sentences and words of English as NLTK's Punkt model and its word tokenizer split them. Pure.

Source: Kiss and Strunk 2006, "Unsupervised Multilingual Sentence Boundary Detection", as NLTK 3.10 applies
it: the abbreviations and the words that begin sentences (`sentences.toml`) are those of its English model.
What the model has learned of the case of 20,000 further words is left out; where it knows a word as one that
is not capitalised within sentences, the `openers` are the common ones. So a sentence behind an abbreviation
or an ellipsis may be counted otherwise where it begins with a rare word.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_WORDS: Final[dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_ABBREVIATIONS: Final = frozenset(_WORDS["abbreviations"].split())
_STARTERS: Final = frozenset(_WORDS["starters"].split())
_OPENERS: Final = frozenset(_WORDS["openers"].split())
_PERSONAL: Final = frozenset({"i", "shall", "oh", "additionally", "consequently"})
"""Words that the model has only seen capitalised; an initial may end a sentence before any other."""
_KNOWN: Final = (_STARTERS - _PERSONAL) | _OPENERS
_INSIDE: Final = re.compile(r"[.?!](?=[)\";}\]*:@'({\[!?])")
_NUMERAL: Final = re.compile(r"-?[.,]?\d[\d,.-]*\.?")
_INITIAL: Final = re.compile(r"[^\W\d]\.")
_CLOSERS: Final = re.compile(r"[\"')\]}]+?(?:\s+|(?=--)|$)")
_TOKENS: Final = re.compile(
    r"-{2,}|\.{2,}|[^(\"`{\[:;&#*@)}\]\-,\s](?:(?!\.{2,}|-{2,})[^\s)\";}\]*:@'({\[!?,])*,?|\S"
)
_SPLIT: Final = re.compile(r"[;@#$%&?!*\[\](){}<>«»“”„‘’\"`]|\.{2,}|--|''|[:,](?=\D|$)")  # noqa: RUF001  (these signs are what it is about)
_CLITIC: Final = re.compile(r"(?<=[^' ])('[sSmMdD]|'ll|'LL|'re|'RE|'ve|'VE|n't|N'T|')$")
_CONTRACTION: Final = re.compile(
    r"(?i)^(can)(not)$|^(d)('ye)$|^(gim|lem)(me)$|^(gon|wan)(na)$|^(got)(ta)$|^('t)(is|was)$"
)


def count_sentences(text: str) -> int:
    """Count the sentences of a text that is not blank."""
    words = list(re.finditer(r"\S+", text))
    count = last = 0
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else None
        end = _possible_end(word[0], has_next=following is not None)
        if end is None:
            continue
        is_last = end == len(word[0]) - 1
        if _ends(word[0][: end + 1], following[0] if is_last and following is not None else None):
            count += 1
            last = following.start() if is_last and following is not None else word.start() + end + 1
    rest = text[last:].strip()
    closers = _CLOSERS.match(rest) if count else None
    return count + bool(rest if closers is None else rest[closers.end() :])


def split_words(text: str) -> Iterator[str]:
    """Yield the words of a text, with the endings of contractions apart, as in "DO N'T"."""
    for piece in _SPLIT.sub(" ", text).split():
        rough = piece.rstrip(".")
        clitic = _CLITIC.search(rough)
        word = rough if clitic is None else rough[: clitic.start()]
        contraction = _CONTRACTION.match(word)
        yield from (word,) if contraction is None else (part for part in contraction.groups() if part)
        if clitic is not None:
            yield clitic[1]


def _possible_end(word: str, *, has_next: bool) -> int | None:
    """Return the last place in a word at which a sentence may end: before a sign, or before white space."""
    if has_next and word[-1] in ".?!":
        return len(word) - 1
    found = None
    for found in _INSIDE.finditer(word):  # noqa: B007  (the last one counts)
        pass
    return None if found is None else found.start()


def _ends(word: str, following: str | None) -> bool:
    """Whether a sentence ends with a word; the following text is a sign, or the next word."""
    tokens = _TOKENS.findall(word)
    if any(map(_is_end, tokens[:-1])) or tokens[-1][-1] in "?!":
        return True
    if following is None:
        return _is_end(tokens[-1])
    after = _TOKENS.findall(following)
    return any(map(_is_end, after[:-1])) or _ends_before(tokens[-1], after[0])


def _is_end(token: str) -> bool:
    """Whether a token ends a sentence, whatever follows."""
    if token in {"?", "!"}:
        return True
    return token.endswith(".") and not token.endswith("..") and not _is_abbreviation(token)


def _ends_before(token: str, after: str) -> bool:
    kind = after.rstrip(".").lower()
    is_number = _NUMERAL.fullmatch(token) is not None
    is_initial = _INITIAL.fullmatch(token) is not None
    is_open = not (token.endswith("..") or _is_abbreviation(token))
    is_large, is_small = after[:1].isupper(), after[:1].islower()
    if not is_open and not is_initial:
        return is_large and (kind in _OPENERS or kind in _STARTERS)
    if is_number or is_initial:
        if is_small or after[:1] in ";:,.!?":
            return False
        is_open = is_open or (is_large and kind in _OPENERS)
        return is_open and not (is_initial and is_large and kind not in _KNOWN)
    return is_open


def _is_abbreviation(token: str) -> bool:
    bare = token[:-1].lower()
    return bare in _ABBREVIATIONS or bare.rpartition("-")[2] in _ABBREVIATIONS
