"""Reads sentences that decide between several values, by the patterns of `sentence_patterns.toml`. Pure.

A pattern is a sentence with places for values: "{-} (should be {+})". It says which of its values the text
asserts (`{+}`), denies (`{-}`) or leaves open (`{?}`); of `{.}` it says nothing, and `{*}` are up to twelve
words with any number of values, which are not answers. The other signs:

* `(a|b c)` are alternatives, `[a|b c]` alternatives that may be absent;
* `<name>` are the alternatives of that name in the table `words`, `[<name>]` the same, or nothing;
* `@name` are one to four words of a class of `polarity.toml`, `~` are up to eight words or commas,
  `~!` such words without a denial;
* `.` is the end of a sentence or line, `^` the beginning of one, `$` the end of one; `/` is either of these
  or another mark.

A pattern is searched only in a text that has the words and pairs of neighbours that every match of it has.
Each repetition has a greatest length: the work is linear in the length of the text.
"""

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import count, pairwise, product
from pathlib import Path
from typing import Final

from ors_server.rewards.reading.characters import WINDOW
from ors_server.rewards.reading.polarity import Classes, Polarity, words_of
from ors_server.rewards.reading.sentences import Sentence, TextToken, Value

_PATH: Final = Path(__file__).with_name("sentence_patterns.toml")
_VALUE: Final = "§"
_QUOTATION_MARKS: Final = frozenset('"“”„«»')
_FLAGS: Final = {
    "reject": "R",
    "fault": "F",
    "negative": "N",
    "confirm": "C",
    "answer": "A",
    "source": "S",
    "copula": "V",
    "report": "Q",
    "correction": "X",
    "maybe": "M",
    "quantity": "U",
    "result": "E",
    "retract": "T",
    "erring": "G",
    "refuse": "H",
}
"""Classes of words that patterns name, and the capital letter behind a word of the class."""
_TABLES: Final = {"patterns": None, "number_patterns": False, "name_patterns": True}
_POLARITIES: Final = {
    "+": Polarity.ASSERTED,
    "-": Polarity.DENIED,
    "?": Polarity.HEDGED,
    "*": Polarity.INTERMEDIATE,
}
_ANSWERS: Final = frozenset({Polarity.ASSERTED, Polarity.HEDGED})
"""What a pattern that denies a value replaces: a value that is not an answer already stays what it is."""
_ELEMENT: Final = re.compile(
    r"\{(?P<value>[-+?.*])\}|\[<(?P<maybe_name>\w+)>\]|<(?P<name>\w+)>|\((?=\S)(?P<group>[^()]+)\)|"
    r"\[(?=\S)(?P<optional>[^\[\]]+)\]|@(?P<word_class>\w+)|(?P<literal>\S+)"
)
_GAP: Final = r"(?: ,| [^ §.?;:()\[\]]+){0,8}?"
_PLAIN_GAP: Final = r"(?: ,| [^ §.?;:()\[\]A-Z]+[A-EG-MO-QS-Z]*(?![^ ])){0,8}?"
_END: Final = r"(?:(?= \.)|\Z)"
_SIGNS: Final = {
    "~": _GAP,
    "~!": _PLAIN_GAP,
    ".": r" \.(?: \.)*",
    "^": r"(?:(?<= \.)|(?<= \?)|\A)",
    "$": _END,
    "/": r"(?: [,;:.\u2013\u2014()\[\]\-]| and[A-Z]*| but[A-Z]*| so[A-Z]*){1,3}",
    "?": r" \?",
}
_START, _FINISH = "^", "$"
"""Neighbours of a text's first and last word."""
_FIRST: Final = {".": words_of("."), "?": words_of("?"), "$": words_of(f". {_FINISH}")}
_LAST: Final = {".": words_of("."), "?": words_of("?"), "^": words_of(f". ? {_START}")}
"""The words of a text with which a sign may begin and end; of others it is not known."""
_MAX_KEYS: Final = 400
"""Maximum number of words and pairs of which one is looked for."""
_FREQUENT: Final = words_of(
    "the a an is are was were be it this that these to of in on at by for from with and or but so as i we "
    "you my our he she they not no will would should have has had do does if then than there its it's "
    "answer result value total number problem solution step first final right correct wrong only which "
    ": ; ( ) \u2013 \u2014 [ ]"
)
"""Words and signs of many texts: a pattern is looked up by others."""

Key = str | tuple[str, str]
"""A word of a text, or two neighbours."""
Keys = frozenset[Key]
_TURN: Final = re.compile(r" [^ A-Z]+[A-Z]*[RNXFTGH]")
"""A word that may take back what is in front of it."""
_NEGATIONS: Final = words_of(
    "no nobody none nothing neither "
    "not never don't didn't doesn't won't cannot can't wouldn't couldn't shouldn't nor"
)
_CONDITIONS: Final = words_of("if suppose supposing assume assuming imagine unless were had should")


@dataclass(frozen=True)
class SentencePattern:
    """A pattern of a sentence with values."""

    text: str
    marks: str
    """What the pattern says of its values, in order: `+`, `-`, `?` or `.`."""
    required: tuple[Keys, ...]
    """Sets of keys, of each of which a text must have one: most texts have none of some set."""
    of_names: bool | None = None
    """Whether it is for names and labels only, or for other values only; `None`: for all."""
    rank: int = 0
    """Its place in the file: of two patterns that differ about a value the later one decides."""

    @cached_property
    def places(self) -> int:
        """Minimum number of values in it."""
        return len(self.marks.replace("*", ""))

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The pattern as a regular expression over the words of a text."""
        return re.compile("".join(element.expression for element in _elements_of(self.text)))


@dataclass(frozen=True)
class _Element:
    """A part of a pattern."""

    expression: str
    first: frozenset[str] | None = None
    """The words with which it may begin; `None`: any."""
    last: frozenset[str] | None = None
    keys: Keys = frozenset()
    """Of which a text has one where it has the element; empty if that is not known."""
    is_optional: bool = False


@cache
def _read_data() -> dict[str, dict[str, str]]:
    return tomllib.loads(_PATH.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class PatternIndex:
    """Patterns by what a text must have for them."""

    patterns: dict[Key, list[SentencePattern]]
    """Under each key of the set that texts have least often."""

    def find(self, words: Sequence[str], values: int) -> list[SentencePattern]:
        """Return the patterns that a text with so many values may match, in order."""
        words = [_START, *words, _FINISH]
        keys: set[Key] = {*words, *pairwise(words)}
        possible: dict[int, SentencePattern] = {}
        for key in self.patterns.keys() & keys:
            for pattern in self.patterns[key]:
                if pattern.places <= values and not any(map(keys.isdisjoint, pattern.required)):
                    possible[pattern.rank] = pattern
        return [possible[rank] for rank in sorted(possible)]


@cache
def sentence_patterns(*, are_names: bool) -> PatternIndex:
    """Return the patterns for names or for other values."""
    by_key: dict[Key, list[SentencePattern]] = {}
    sets: dict[Keys, Keys] = {}  # many patterns share a set
    ranks = count()
    for table, of_names in _TABLES.items():
        if of_names is (not are_names):
            continue
        for text in filter(None, map(str.strip, "\n".join(_read_data()[table].values()).splitlines())):
            rank, elements = next(ranks), list(_elements_of(text))
            marks = "".join(match[1] for match in re.finditer(r"\{([-+?.*])\}", text))
            known = [element.keys for element in elements if element.keys and not element.is_optional]
            rarest, *frequent = sorted({*known, *_pairs_of(elements)}, key=_frequency)
            required = tuple(sets.setdefault(keys, keys) for keys in frequent)
            pattern = SentencePattern(text, marks, required, of_names, rank)
            for key in rarest:
                by_key.setdefault(key, []).append(pattern)
    return PatternIndex(by_key)


def _elements_of(text: str) -> Iterator[_Element]:
    for match in _ELEMENT.finditer(text):
        kind, content = match.lastgroup or "", match[match.lastgroup or 0]
        if kind == "value":
            if content == "*":
                yield _Element(r"((?: [^ .?]+){0,12})", is_optional=True)
            else:
                yield _Element(rf" ({_VALUE})", words_of(_VALUE), words_of(_VALUE))
        elif kind == "word_class":
            flag = _FLAGS[content]
            yield _Element(rf"(?: [^ A-Z§.,;:?]+[A-Z]*{flag}[A-Z]*){{1,4}}")
        else:
            if kind.endswith("name"):
                content = _read_data()["words"][content].replace("\n", "|")
            alternatives = [content] if kind == "literal" else content.split("|")
            phrases = [phrase.split() for phrase in alternatives if phrase.strip()]
            joined = "|".join("".join(map(_literal, phrase)) for phrase in phrases)
            is_optional = kind in ("maybe_name", "optional")
            yield _Element(
                f"(?:{joined})" + "?" * is_optional,
                _edge_of((phrase[0] for phrase in phrases), _FIRST),
                _edge_of((phrase[-1] for phrase in phrases), _LAST),
                _keys_of(phrases),
                is_optional or content in ("~", "~!"),
            )


def _edge_of(words: Iterable[str], signs: Mapping[str, frozenset[str]]) -> frozenset[str] | None:
    edge: set[str] = set()
    for word in words:
        if word in _SIGNS and word not in signs:
            return None
        edge |= signs.get(word, {word})
    return frozenset(edge)


def _keys_of(phrases: Iterable[Sequence[str]]) -> Keys:
    keys: set[Key] = set()
    for phrase in phrases:
        start = phrase[:2]
        if start[0] in _SIGNS:
            return frozenset()
        keys.add(start[0] if len(start) == 1 or start[1] in _SIGNS else (start[0], start[1]))
    return frozenset(keys)


def _pairs_of(elements: Sequence[_Element]) -> Iterator[Keys]:
    """Yield the pairs of neighbours at each border of an element, where they are known."""
    for index, element in enumerate(elements):
        following: set[str] = set()
        for neighbour in elements[index + 1 :]:
            if neighbour.first is None:
                break
            following |= neighbour.first
            if not neighbour.is_optional:
                if element.last and not element.is_optional:
                    pairs = frozenset(product(element.last, following))
                    if len(pairs) <= _MAX_KEYS:
                        yield pairs
                break


def _frequency(keys: Keys) -> float:
    """Return roughly how many texts of ten have one of some keys."""
    return sum(
        10 * _frequency_of(key) if isinstance(key, str) else 3 * _frequency_of(key[0]) * _frequency_of(key[1])
        for key in keys
    )


def _frequency_of(word: str) -> float:
    return 1.0 if word in _SIGNS or word in (_VALUE, ",") else 0.4 if word in _FREQUENT else 0.01


def _literal(word: str) -> str:
    if word in _SIGNS:
        return _SIGNS[word]
    return " " + re.escape(word) + "[A-Z]*(?![^ ])"


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """A sentence that a pattern matches."""

    values: Sequence[Value]
    marks: str
    """What the pattern says of each value."""
    is_followed: bool
    """Whether words behind the match may take back what it asserts."""
    is_of_names: bool
    """Whether the pattern is for names only, which it also denies where a text only mentions them."""

    def judge(self, *, is_final: bool) -> None:
        """Give the values the polarities that the pattern says.

        Args:
            is_final: Whether other sentences have been read, too. What they took back stays so.
        """
        is_framed = any(value.is_framed for value in self.values)
        for value, mark in zip(self.values, self.marks, strict=True):
            polarity = _POLARITIES.get(mark)
            # What other sentences say of a value outweighs a pattern that only asserts it.
            is_outweighed = (
                self.is_followed
                if value.polarity is Polarity.RETRACTED
                else value.polarity in (Polarity.HEDGED, Polarity.INTERMEDIATE) and set(self.marks) == {"+"}
            )
            if polarity is None or (is_final and mark == "+" and is_outweighed):
                continue
            is_mentioned = self.is_of_names and value.polarity is Polarity.INTERMEDIATE
            if polarity is Polarity.ASSERTED or value.polarity in _ANSWERS or is_mentioned:
                value.polarity = polarity
            value.is_weak = value.is_maybe = False
            value.is_framed = mark == "+" and is_framed


def match_sentence_patterns(
    sentences: Sequence[Sentence],
    tokens: Sequence[TextToken],
    values: Sequence[Value],
    *,
    takes_alternatives: bool,
    are_names: bool,
) -> list[PatternMatch]:
    """Return the matches of all patterns in a text.

    Args:
        takes_alternatives: Whether several values may be the answer, so that nothing is left open.
        are_names: Whether the values are names or labels.
    """
    candidates = sentence_patterns(are_names=are_names).find(_words_of(tokens), len(values))
    if not candidates:
        return []
    line = "".join(" " + word for word in _words_of(tokens, with_classes=True))
    places = [place for place, char in enumerate(line) if char == _VALUE]
    last_turn = max((match.end() for match in _TURN.finditer(line)), default=0)
    matches: list[PatternMatch] = []
    for pattern in candidates:
        if takes_alternatives and "?" in pattern.marks:
            continue
        for match in pattern.expression.finditer(line):
            first = bisect_left(places, match.start())
            counts = [group.count(_VALUE) for group in match.groups()]
            marks = "".join(mark * count for mark, count in zip(pattern.marks, counts, strict=True))
            matched = values[first : first + len(marks)]
            before = line[max(0, match.start() - WINDOW) : match.start()]
            is_asked = any(sentences[value.sentence].is_question for value in matched)
            if _is_open(before) and not (is_asked and "?" not in pattern.text.split()):
                matches.append(
                    PatternMatch(
                        matched,
                        marks,
                        is_followed=last_turn > match.end(),
                        is_of_names=pattern.of_names is True,
                    )
                )
    return matches


def _words_of(tokens: Iterable[TextToken], *, with_classes: bool = False) -> list[str]:
    """Return the words of a text, with the letters of their classes behind if they are wanted."""
    words: list[str] = []
    for token in tokens:
        if token.kind == "value":
            words.append(_VALUE)
        elif token.kind in ("stop", "line"):
            words.append(".")
        elif token.kind == "ask":
            words.append("?")
        elif token.word in _QUOTATION_MARKS:
            continue
        elif not with_classes:
            words += token.word.split()
        else:
            flags = _flags_of(token.classes)
            words += [word + flags for word in token.word.split()]
    return words


@lru_cache(maxsize=1024)
def _flags_of(classes: Classes) -> str:
    return "".join(flag for name, flag in _FLAGS.items() if name in classes)


def _is_open(before: str) -> bool:
    """Whether no word in front of a match denies what it says or makes it a condition."""
    sentence = re.split(r" [.?]", before)[-1].split()
    words = [word.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for word in sentence]
    is_denied = not _NEGATIONS.isdisjoint(words[-3:]) and words[-1:] != [","]
    return not is_denied and (words[:1] == [] or words[0] not in _CONDITIONS)
