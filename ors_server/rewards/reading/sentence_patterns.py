"""Reads sentences that decide between several values, by the patterns of `sentence_patterns.toml`. Pure.

A pattern is a sentence with places for values: "{-} (should be {+})". It says which of its values the text
asserts (`{+}`), denies (`{-}`) or leaves open (`{?}`); of `{.}` it says nothing, and `{*}` are up to twelve
words with any number of values, which are no answers. The other signs:

* `(a|b c)` are alternatives, `[a|b c]` alternatives that may be absent;
* `<name>` are the alternatives of that name in the table `words`, `[<name>]` the same, or nothing;
* `@name` are one to four words of a class of `polarity.toml`, `~` are up to eight words or commas,
  `~!` such words without a denial;
* `.` is the end of a sentence or line, `^` the beginning of one, `$` the end of one; `/` is either of these
  or another mark.

A pattern is searched only in a text that has one of the words that every match of it has, and each repetition
has a greatest length: the work is linear in the length of the text.
"""

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import count
from pathlib import Path
from typing import Final

from ors_server.rewards.reading.characters import WINDOW
from ors_server.rewards.reading.polarity import NO_CLASSES, Classes, Polarity, words_of
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
"""What a pattern that denies a value replaces: a value that is no answer already stays what it is."""
_ELEMENT: Final = re.compile(
    r"\{(?P<value>[-+?.*])\}|\[<(?P<maybe_name>\w+)>\]|<(?P<name>\w+)>|\((?=\S)(?P<group>[^()]+)\)|"
    r"\[(?=\S)(?P<optional>[^\[\]]+)\]|@(?P<word_class>\w+)|(?P<literal>\S+)"
)
_GAP: Final = r"(?: ,| [^ §.?;:()\[\]]+){0,8}?"
_PLAIN_GAP: Final = r"(?: ,| [^ §.?;:()\[\]A-Z]+[A-EG-MO-QS-Z]*(?![^ ])){0,8}?"
_PLAIN_WORD: Final = re.compile(r"[^\W\d_]")
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
_FREQUENT: Final = words_of(
    "the a an is are was were be it this that these to of in on at by for from with and or but so as i we "
    "you my our he she they not no will would should have has had do does if then than there its it's "
    ", . : ; ( ) ? ^ $ / ~ \u2013 \u2014 [ ]"
)
"""Words and signs of most texts: a pattern is looked up by another one of its words."""
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
    required: tuple[frozenset[str], ...]
    """Sets of words, of each of which a text must have one: most texts have none of some set."""
    of_names: bool | None = None
    """Whether it is for names and labels only, or for other values only; `None`: for all."""
    rank: int = 0
    """Its place in the file: of two patterns that differ about a value the later one decides."""

    @cached_property
    def places(self) -> int:
        """How many values it has at least."""
        return len(self.marks.replace("*", ""))

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The pattern as a regular expression over the words of a text."""
        return re.compile("".join(expression for expression, _ in _elements_of(self.text)))


@cache
def _read_data() -> dict[str, dict[str, str]]:
    return tomllib.loads(_PATH.read_text(encoding="utf-8"))


@cache
def sentence_patterns(*, are_names: bool) -> dict[str, list[SentencePattern]]:
    """Return the patterns for names or for other values, by the words one of which a text must have."""
    by_word: dict[str, list[SentencePattern]] = {}
    ranks = count()
    for table, of_names in _TABLES.items():
        if of_names is (not are_names):
            continue
        for text in filter(None, map(str.strip, "\n".join(_read_data()[table].values()).splitlines())):
            rank, elements = next(ranks), list(_elements_of(text))
            marks = "".join(match[1] for match in re.finditer(r"\{([-+?.*])\}", text))
            required = sorted(
                (words for _, words in elements if words),
                key=lambda words: (len(words & _FREQUENT), len(words)),
            )
            pattern = SentencePattern(text, marks, tuple(required[1:]), of_names, rank)
            for word in required[0]:
                by_word.setdefault(word, []).append(pattern)
    return by_word


def _elements_of(text: str) -> Iterator[tuple[str, frozenset[str]]]:
    """Return the regular expression of each element of a pattern, and the words with which it may begin.

    An element that may be absent has no such words.
    """
    for match in _ELEMENT.finditer(text):
        kind, content = match.lastgroup or "", match[match.lastgroup or 0]
        if kind == "value":
            yield r"((?: [^ .?]+){0,12})" if content == "*" else rf" ({_VALUE})", NO_CLASSES
        elif kind in ("name", "maybe_name", "group", "optional"):
            alternatives = (
                _read_data()["words"][content].replace("\n", "|") if kind.endswith("name") else content
            )
            phrases = [phrase.split() for phrase in alternatives.split("|") if phrase.strip()]
            joined = "|".join("".join(map(_literal, phrase)) for phrase in phrases)
            is_absent = kind in ("maybe_name", "optional")
            first: frozenset[str] = frozenset(phrase[0] for phrase in phrases)
            if is_absent or not _SIGNS.keys().isdisjoint(first):
                first = NO_CLASSES  # a sign is no word of a text
            yield f"(?:{joined})" + "?" * is_absent, first
        elif kind == "word_class":
            flag = _FLAGS[content]
            yield rf"(?: [^ A-Z§.,;:?]+[A-Z]*{flag}[A-Z]*){{1,4}}", NO_CLASSES
        else:
            is_word = _PLAIN_WORD.search(content) is not None
            yield _literal(content), frozenset({content} if is_word or content not in _SIGNS else ())


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
    patterns = sentence_patterns(are_names=are_names)
    words = {word for token in tokens for word in (token.word.split() or (token.word,))}
    candidates = {
        pattern.rank: pattern
        for word in words
        if word in patterns
        for pattern in patterns[word]
        if pattern.places <= len(values) and not any(map(words.isdisjoint, pattern.required))
    }
    if not candidates:
        return []
    line = _line_of(tokens)
    places = [place for place, char in enumerate(line) if char == _VALUE]
    last_turn = max((match.end() for match in _TURN.finditer(line)), default=0)
    matches: list[PatternMatch] = []
    for _, pattern in sorted(candidates.items()):
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


def _line_of(tokens: Iterable[TextToken]) -> str:
    """Return the words of a text, each with a space in front and the letters of its classes behind."""
    pieces: list[str] = []
    for token in tokens:
        if token.kind == "value":
            pieces.append(_VALUE)
        elif token.kind in ("stop", "line"):
            pieces.append(".")
        elif token.kind == "ask":
            pieces.append("?")
        elif token.word in _QUOTATION_MARKS:
            continue
        else:
            flags = _flags_of(token.classes)
            pieces += [word + flags for word in token.word.split()]
    return "".join(" " + piece for piece in pieces)


@lru_cache(maxsize=1024)
def _flags_of(classes: Classes) -> str:
    return "".join(flag for name, flag in _FLAGS.items() if name in classes)


def _is_open(before: str) -> bool:
    """Whether no word in front of a match denies what it says or makes it a condition."""
    sentence = re.split(r" [.?]", before)[-1].split()
    words = [word.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for word in sentence]
    is_denied = not _NEGATIONS.isdisjoint(words[-3:]) and words[-1:] != [","]
    return not is_denied and (words[:1] == [] or words[0] not in _CONDITIONS)
