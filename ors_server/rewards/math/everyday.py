"""Numbers, counts, dates and durations in words.

Conventions: "exactly three solutions" is 3 with words after it; "March 5th", "5 March" and "March 5" are one
date, and a year counts if both sides have one; "2 hours and 30 minutes" is one duration as well as two.
"""

import re
from fractions import Fraction
from typing import Final

from ors_server.rewards.math.tree import Add, Listing, Multiply, Node, Number, Quantity
from ors_server.rewards.math.units import conversion, name_unit


def _number_names(names: str, first: int = 0) -> dict[str, int]:
    """Return the numbers of names in order; names of one number have commas between them."""
    return {
        name: number for number, spellings in enumerate(names.split(), first) for name in spellings.split(",")
    }


_SMALL: Final = _number_names(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TENS: Final = {
    name: 10 * number
    for name, number in _number_names("twenty thirty forty fifty sixty seventy eighty ninety", 2).items()
}
_SCALES: Final = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_MULTIPLES: Final = {"hundred": 100, "dozen": 12}
_FULL: Final = frozenset({*_SCALES.values(), 100})
"""Values after which smaller numbers may follow."""
_TEN: Final = 10
_PARTS: Final = {
    **_number_names("half third quarter,fourth fifth sixth seventh eighth ninth tenth", 2),
    "hundredth": 100,
}
_SIGNS: Final = frozenset({"minus", "negative"})
_SPELLED: Final = re.compile(
    rf"\b(?:{'|'.join((*_SMALL, *_TENS, *_SCALES, *_PARTS, 'hundred', 'dozen', 'halves'))})", re.IGNORECASE
)
_LEAD: Final = re.compile(
    r"(?:(?:there (?:are|is)|we have|it is|exactly|precisely|only|just|a total of|the number)\s+)*",
    re.IGNORECASE,
)
_MAX_WORDS: Final = 16
_MAX_NOUNS: Final = 3
_NO_NOUNS: Final = re.compile(
    r"or|and|not|of|than|more|less|over|to|by|minus|plus|times|point|but|if|at|from|per|without",
    re.IGNORECASE,
)
_MONTHS: Final = _number_names(
    "january,jan february,feb march,mar april,apr may june,jun july,jul august,aug september,sep,sept "
    "october,oct november,nov december,dec",
    1,
)
_MONTH: Final = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\.?"
_DAY: Final = r"(?:the\s+)?(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR: Final = r"(?:(?:\s*,\s*|\s+)(?P<year>\d{4}))?"
_DATES: Final = tuple(
    re.compile(rf"\s*(?:on\s+)?(?:the\s+)?{body}{_YEAR}\s*\.?\s*", re.IGNORECASE)
    for body in (rf"{_MONTH}\s+{_DAY}", rf"{_DAY}\s+(?:of\s+)?{_MONTH}")
)
_DRESS: Final = re.compile(r"\\(?:text(?:bf|it|rm)?|mathrm|mbox)\s*\{([^{}]*)\}|[${}]|\\[ ,]")
_DATE_CHARS: Final = 60


def spelled_number(text: str) -> int | Fraction | None:
    """Return the number of `twenty-three`, `one million`, `two thirds`, `minus five`, or `None`."""
    words = [word for word in re.split(r"[\s-]+", text.casefold().strip(" .")) if word]
    if not words or len(words) > _MAX_WORDS:
        return None
    sign = -1 if words[0] in _SIGNS else 1
    words = words[1:] if sign < 0 else words
    if words[:1] in (["a"], ["an"]) and len(words) > 1:
        words = ["one", *words[1:]]
    value = _with_part(words)
    return None if value is None else sign * value


def _with_part(words: list[str]) -> int | Fraction | None:
    part = (
        {"halves": 2}.get(words[-1]) or _PARTS.get(words[-1]) or _PARTS.get(words[-1].rstrip("s"))
        if words
        else 0
    )
    if not part:
        return _whole(words)
    if "and" in words:
        cut = words.index("and")
        tops = [word for word in words[cut + 1 : -1] if word != "a"]
        whole, top = _whole(words[:cut]), _whole(tops or ["one"])
        return None if whole is None or top is None else whole + Fraction(top, part)
    top = _whole(words[:-1] or ["one"])
    return None if top is None else Fraction(top, part)


def _whole(words: list[str]) -> int | None:
    total = group = last = 0
    if not words or "and" in (words[0], words[-1]):
        return None
    for word in words:
        if word == "and" and last in _FULL:
            continue
        value = _value(word, last)
        if value is None:
            return None
        last = value
        if word in _SCALES:
            total, group = total + group * value, 0
        elif word in _MULTIPLES:
            group *= value
        else:
            group += value
    return total + group


def _value(word: str, last: int) -> int | None:
    """Return the value of a word, or `None` if it cannot follow a word of the value `last`."""
    if word in _SCALES or word in _MULTIPLES:
        return (_SCALES | _MULTIPLES)[word] if last else None
    if last == 0 or last in _FULL:
        return _SMALL.get(word, _TENS.get(word))
    is_unit = last in _TENS.values() and 0 < _SMALL.get(word, 0) < _TEN
    return _SMALL[word] if is_unit else None


def readings_of(text: str) -> list[Node]:
    """Return what a text in words, already unified, may mean as a number or a count."""
    if _SPELLED.search(text) is None:
        return []
    words = _LEAD.sub("", _DRESS.sub(r"\1", text).strip(" ."), count=1).split()
    if not 0 < len(words) <= _MAX_WORDS:
        return []
    for end in range(len(words), 0, -1):
        value = spelled_number(" ".join(words[:end]))
        if value is not None:
            return _read_count(value, words[end:])
    return []


def _read_count(value: int | Fraction, nouns: list[str]) -> list[Node]:
    number = Number(value)
    if not nouns:
        return [number]
    is_noun = all(noun.isalpha() and not _NO_NOUNS.fullmatch(noun) for noun in nouns)
    if len(nouns) > _MAX_NOUNS or not is_noun or _SPELLED.search(" ".join(nouns)):
        return []
    return [Quantity(number, name_unit(" ".join(nouns)))]


def date_of(text: str) -> tuple[int, int, int] | None:
    """Return month, day and year (0 without one) of a date, or `None`."""
    if len(text) > _DATE_CHARS or text.upper() == text.lower():
        return None  # a month has a name
    bare = _DRESS.sub(r" \1 ", text)
    for pattern in _DATES:
        if (match := pattern.fullmatch(bare)) is not None:
            return _MONTHS[match["month"].casefold()], int(match["day"]), int(match["year"] or 0)
    return None


def same_date(gold: str, answer: str) -> bool:
    """Return whether two texts are one date; a day of any year is not a day of a certain year."""
    expected = date_of(gold)
    return expected is not None and expected == date_of(answer)


def duration_of(node: Node) -> Node | None:
    """Return the one quantity that a list of ever smaller ones may be: `2 hours and 30 minutes`."""
    if not isinstance(node, Listing) or node.joiner not in ("and", ",") or len(node.items) < 2:  # noqa: PLR2004  (two at least)
        return None
    first = node.items[0]
    if not isinstance(first, Quantity):
        return None
    total: list[Node] = [first.value]
    last = Fraction(1)
    for item in node.items[1:]:
        factor = conversion(item.unit, first.unit) if isinstance(item, Quantity) else None
        if not isinstance(item, Quantity) or factor is None or factor >= last:
            return None
        total.append(Multiply((Number(factor), item.value)))
        last = factor
    return Quantity(Add(tuple(total)), first.unit)
