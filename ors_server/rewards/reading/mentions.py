"""Where a text names candidates for its answer, and which of them it asserts. Pure."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ors_server.rewards.reading.braces import unclosed_box
from ors_server.rewards.reading.polarity import (
    NO_CLASSES,
    Polarity,
    character_lists,
    classes_of,
    languages_of,
    words_of,
)
from ors_server.rewards.reading.statements import FIELD_KEY, Statement, read_statements

MAX_TAIL: Final = 20_000
"""Characters at the end of a text in which statements are read."""
SENTENCE_START: Final = re.compile(r"(?:\A|[.!?:;\n\"“(*>|#]|(?:\A|\n)[ \t]{0,4}[-+\u2013\u2022])\s{0,4}\Z")
OPENERS: Final = words_of(
    "the a an this that these those in on at my our their his her its there here with for to by "
    "everywhere anywhere nowhere somewhere everything anything nothing everyone anyone nobody all any "
    "every each none no some both either neither other another many most few several if when while "
    "although though since because as after before once until unless whereas so then thus hence "
    "therefore however but and or yet not only even just of from into near between among than what "
    "which who where why how is are was were do does did can could should would will may might must let "
    "please note first second third finally next last one two "
    "based judging "
    "document article source text passage according sorry well now also perhaps maybe still indeed though "
    "you they she he it we i compare contrast "
    "done finished okay ok alright thanks cheers hello hi sure certainly absolutely definitely great hmm "
    "wait actually clearly obviously surely indeed yes qed"
)
"""Words that begin a sentence with a capital letter and name nothing."""
_INVISIBLE: Final = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_WORDS: Final = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")  # noqa: RUF001  (an apostrophe)
_JOINERS: Final = words_of(
    "and or nor plus und et oder ou o y e i и или ve veya lub oraz en of lor vee cup land wedge"
)
_BETWEEN: Final = words_of(
    "also too well possibly perhaps maybe probably likely just equally is are alternatively else either good "
    "possible the option choice letter answer correct right much text even indeed soit"
)
_MAYBE: Final = frozenset({"possibly", "perhaps", "maybe"})
_CONTRAST: Final = frozenset(
    {
        "correction",
        "retract",
        "negative",
        "reject",
        "fault",
        "pivot",
        "suppose",
        "report",
        "intermediate",
        "trial",
    }
)
_DENIED: Final = (Polarity.DENIED, Polarity.RETRACTED)
_ANSWER_KEY: Final = re.compile(
    r"(?:(?:final|correct|my|chosen|selected|best|predicted)[_ -]?)?"
    r"(?:answer|result|solution|value|choice|option|letter|city|town|name|label|location|place|pick|selection|"
    r"prediction|response|decision|verdict|winner|class|category|sentiment)|final|chosen|selected|predicted|"
    r"(?:antwort|ergebnis|r[ée]ponse|respuesta|risposta|resposta|antwoord|odpowied[źz]|ответ|答案|答え|정답|cevap)",
    re.IGNORECASE,
)
_KEY: Final = re.compile(r"(?<=[{,\n])\s{0,20}\"([\w -]{1,40})\"\s{0,4}:")
_KEY_CHARS: Final = 120
_INSIDE_FIELD: Final = re.compile(r"[{,]\s{0,20}\"([\w -]{1,40})\"\s{0,4}:\s{0,4}\"[^\"\n]{1,400}\Z")
"""A field of JSON up to a value inside of its text."""
_FIELD_CHARS: Final = 500
_LIST_START: Final = re.compile(r"""\[\s{0,4}["'][^\[\]{}:]{1,80},\s{0,4}["']\Z""")
"""The beginning of a list in JSON up to one of its values."""
_STOPPED: Final = re.compile(r"[.!;]\s")
_NEW_SENTENCE: Final = re.compile(r"(?:\A|[^\W\d_])[)\"'”*]*(?:[.!…]\s+(?=[^\W\d_])|[\u3002\uff01])")
"""The end of a sentence of words, and the beginning of one."""
_LATER: Final = words_of("today nowadays now later since finally eventually afterwards thereafter")
"""Words that set a later place against an earlier one: "It was in Oslo; today it is in Riga"."""
_MIN_WORDS: Final = 4
"""Words between two names of which at least one has a sentence about it."""
_ENUMERATOR: Final = re.compile(r"\n[ \t]{0,8}\(?\d{1,2}[.):][ \t]")
_LINE_DRESS: Final = " \t\r\n*_-+•.,;:()[]xX☐\"'"


@dataclass(frozen=True, slots=True)
class Mention:
    """A candidate that a text names at a place."""

    start: int
    end: int
    name: str | None
    """The candidate; `None` for a place of an answer that names none of them, or several."""
    is_marked: bool = False
    """Whether it is in a place of an answer: a box, a tag."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A mention, and what the text says of it."""

    mention: Mention
    statement: Statement

    @property
    def is_asserted(self) -> bool:
        """Whether the text asserts it."""
        return self.statement.polarity is Polarity.ASSERTED

    @property
    def is_named(self) -> bool:
        """Whether the text says that this is its answer: by a mark, or in words."""
        return self.mention.is_marked or self.statement.is_framed or self.statement.is_definite


def visible(text: str) -> str:
    """Return a text without zero-width characters, which may be inside of words."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def outermost(mentions: Iterable[Mention]) -> list[Mention]:
    """Return mentions in order without those that overlap an earlier or longer one."""
    outer: list[Mention] = []
    for mention in sorted(mentions, key=lambda item: (item.start, -item.end)):
        if not outer or mention.start >= outer[-1].end:
            outer.append(mention)
    return outer


def read_mentions(
    text: str,
    mentions: Iterable[Mention],
    *,
    neutral: Collection[str] = (),
    takes_alternatives: bool = False,
    are_labels: bool = False,
) -> list[Reading]:
    """Return what a text says of mentions, in order; two of one name are one value, however written."""
    unclosed = unclosed_box(text)
    placed = outermost(mention for mention in mentions if mention.start < unclosed)
    by_span = {(mention.start, mention.end): mention for mention in placed}
    names = {text[mention.start : mention.end]: mention.name for mention in placed}
    forms = {"".join(written.split()).strip("$.,*").casefold(): name for written, name in names.items()}

    def is_same(written: str, other: str) -> bool:
        name = forms.get(written)
        return name is not None and name == forms.get(other)

    statements = read_statements(
        _without_other_keys(text),
        by_span,
        neutral=neutral,
        takes_alternatives=takes_alternatives,
        is_same=is_same,
        are_labels=are_labels,
    )
    if '":' in text or '" :' in text or "':" in text:
        statements = [_without_other_field(text, statement) for statement in statements]
    return [Reading(by_span[statement.start, statement.end], statement) for statement in statements]


def _without_other_keys(text: str) -> str:
    """Blank the keys of a JSON object that do not name an answer: they say nothing of its other fields."""
    if '":' not in text and '" :' not in text:
        return text
    return _KEY.sub(lambda key: key[0] if _ANSWER_KEY.fullmatch(key[1].strip()) else " " * len(key[0]), text)


def _without_other_field(text: str, statement: Statement) -> Statement:
    """Take the value of a field of JSON for no answer, unless the field is named so."""
    before = text[max(0, statement.start - _KEY_CHARS) : statement.start]
    field = FIELD_KEY.search(_LIST_START.sub('["', before)) or _INSIDE_FIELD.search(
        text[max(0, statement.start - _FIELD_CHARS) : statement.start]
    )
    if field is None or _ANSWER_KEY.fullmatch(field[1].strip()):
        return statement
    return replace(statement, polarity=Polarity.INTERMEDIATE)


def asserted(readings: Iterable[Reading]) -> list[Reading]:
    """Return the readings that are asserted."""
    return [reading for reading in readings if reading.is_asserted]


def final_assertion(readings: Sequence[Reading]) -> Reading | None:
    """Return the last assertion that is named as the answer, or else the last one, if there is one."""
    assertions = asserted(readings)
    named = [assertion for assertion in assertions if assertion.is_named]
    ranked = named or assertions
    return ranked[-1] if ranked else None


def single_assertion(text: str, readings: Sequence[Reading]) -> Reading | None:
    """Return the final assertion, where candidates exclude each other; `None` if it comes with a rival.

    A rival names another candidate: joined by "and" or "or"; or in the same way in the same line, without a
    word of correction or contrast between the two; or in lines of nothing but candidates.
    """
    final = final_assertion(readings)
    if final is None:
        return None
    index = next(index for index, reading in enumerate(readings) if reading is final)
    if any(
        reading.mention.name == final.mention.name and reading.statement.polarity in _DENIED
        for reading in readings[index + 1 :]
    ):
        return None
    for neighbour in (*readings[max(0, index - 1) : index], *readings[index + 1 : index + 2]):
        first, last = sorted((neighbour.mention, final.mention), key=lambda mention: mention.start)
        gap = _ENUMERATOR.sub("\n", text[first.end : last.start])
        if neighbour.mention.name == final.mention.name or neighbour.statement.polarity in _DENIED:
            continue
        is_open = neighbour.is_asserted or neighbour.statement.polarity is Polarity.HEDGED
        is_listed = is_open and not gap.strip(_LINE_DRESS)
        if is_joined(gap) or (is_listed and ("\n" not in gap or first is final.mention)):
            return None
    rivals = [reading for reading in readings if reading.is_asserted and reading.is_named is final.is_named]
    rival = next(
        (reading for reading in reversed(rivals) if reading.mention.name != final.mention.name), None
    )
    if rival is None:
        return final
    first, last = sorted((rival.mention, final.mention), key=lambda mention: mention.start)
    gap = _ENUMERATOR.sub("\n", text[first.end : last.start])
    if "\n" in gap:
        is_marked = first.is_marked and last.is_marked  # of two marks the last counts
        is_beside = not is_marked and not gap.strip(_LINE_DRESS) and _fills_lines(text, first, last)
    elif first.is_marked and last.is_marked and _STOPPED.search(gap):
        is_beside = False  # of two marks the last counts
    else:
        # Whether a sentence about the first of the two ends between them.
        is_next = _NEW_SENTENCE.search(gap) is not None and len(_WORDS.findall(gap)) >= _MIN_WORDS
        is_beside = "=" not in gap and not _turns(text, gap) and not (last is final.mention and is_next)
    return None if is_beside else final


def _turns(text: str, gap: str) -> bool:
    """Return whether the text between two candidates corrects or contrasts them, in any language."""
    words = _WORDS.findall(gap.casefold())
    if any(word in _LATER or classes_of(word) & _CONTRAST for word in words):
        return True
    own = languages_of(set(_WORDS.findall(text[-MAX_TAIL:].casefold())))[1:]
    if any(lexicon.words.get(word, NO_CLASSES) & _CONTRAST for lexicon in own for word in words):
        return True
    return not gap.isascii() and any(entry in gap for entry in character_lists()["contrast"])


def is_joined(gap: str) -> bool:
    """Return whether the text between two candidates does nothing but join them."""
    words = _WORDS.findall(gap.casefold().replace("as well as", "and").replace("as likely as", "or"))
    has_joiner = any(word in _JOINERS or word in _MAYBE for word in words) or any(
        sign in gap for sign in "&/|+"
    )
    return "\n" not in gap and has_joiner and all(word in _JOINERS or word in _BETWEEN for word in words)


def _fills_lines(text: str, first: Mention, last: Mention) -> bool:
    before = _ENUMERATOR.sub("", "\n" + text[text.rfind("\n", 0, first.start) + 1 : first.start])
    end = text.find("\n", last.end)
    after = text[last.end : len(text) if end < 0 else end]
    return not before.strip(_LINE_DRESS) and not after.strip(_LINE_DRESS)
