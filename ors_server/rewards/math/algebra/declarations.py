r"""Declarations of letters in an answer, in signs or words: `n \in \mathbb{Z}`, "where C is a constant".

A declaration is removed from the text before the formula is parsed. Convention: natural numbers begin at 0 or
at 1, whichever makes both answers equal.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_NAME: Final = r"(?:[A-Za-z](?:_\s*(?:\{\s*\w+\s*\}|\w))?)"
_KIND: Final = (
    r"(?:(?:an?|any|all|some|arbitrary|the|fixed|real|complex|of|integration|integral|free|two|independent)"
    r"\s+)*"
)
_WHOLE: Final = r"positive integers?|natural numbers?|non-?negative integers?|integers?"
_IN_SET: Final = re.compile(
    rf"(?<![A-Za-z\\])({_NAME})\s*\\in\s*\\?(?:mathbb|mathbf|mathcal)?\s*\{{?\s*([ZNRCQ])\s*\}}?"
    r"\s*((?:\^|_)\s*\{?\s*(?:\+|\*|0|\\ge\s*0|\\geq\s*[01]|>\s*0|\\ge\s*1)\s*\}?)?\)?"
)
_IS_KIND: Final = re.compile(
    rf"(?<![A-Za-z\\])({_NAME})\s+(?:is|are|be|denotes?|=)\s+{_KIND}"
    rf"({_WHOLE}|whole numbers?|constants?|parameters?|real numbers?|reals?|numbers?)"
    r"(?:\s+of integration)?\)?"
)
_OF_KIND: Final = re.compile(
    rf"\b(?:any|all|every|each|an?|some)\s+(?=(?:{_WHOLE})\s+({_NAME})(?![A-Za-z]))"
    rf"({_WHOLE})\s+{_NAME}\)?"
)
_LISTED: Final = re.compile(
    rf"(?<![A-Za-z\\])({_NAME})\s*=\s*(\\ldots\s*,\s*-\s*\d\s*,\s*)?(0|1)\s*,\s*(\\pm\s*1|\d)"
    r"(?:\s*,\s*(?:\\pm\s*)?\d)*\s*,\s*(?:\\[lcd]?dots|\.\.\.)\)?"
)
_FROM: Final = re.compile(rf"(?<=[,;( ])({_NAME})\s*(\\geq?(?![A-Za-z])|\\geqslant|>=|>)\s*([01])\s*\)?\s*$")
_EDGE: Final = (
    r"(?:\b(?:where|for|with|if|and|all|some|any|each|every|here|being|as|integers?|arbitrary|constants?|letting)\b|"
    r"\\(?:forall|quad|qquad)(?![A-Za-z])|[,;:(])"
)
_LEFT: Final = re.compile(rf"(?:{_EDGE}|\s)+\Z")
_MORE: Final = re.compile(rf"(?:\A|{_EDGE})\s*((?:{_NAME}\s*(?:,|\band\b)\s*)+)\Z")
"""Further names before the last one of a declaration."""
_MAX_NAMES: Final = 4


@dataclass(frozen=True, slots=True)
class Declared:
    """Letters and the numbers that they may be."""

    whole: tuple[tuple[str, int | None], ...] = ()
    """Names of integers, with the least one, if there is one; -1 stands for the natural numbers."""
    constants: tuple[str, ...] = ()
    """Names of constants that may have any value."""


NATURAL: Final = -1
_LOWER_BOUNDS: Final = {
    "positive integer": 1,
    "natural number": NATURAL,
    "nonnegative integer": 0,
    "whole number": NATURAL,
    "integer": None,
}


def take_declarations(text: str) -> tuple[str, Declared]:
    r"""Return a text (without `\text`) without its declarations, and the declarations."""
    whole: dict[str, int | None] = {}
    constants: list[str] = []
    for pattern, reader in _READERS:
        while (match := pattern.search(text)) is not None and len(whole) + len(constants) < _MAX_NAMES:
            before, names = text[: match.start()], [_drop_braces(match[1])]
            if (more := _MORE.search(before)) is not None and reader is not _read_least:
                before = before[: more.start(1)]
                names += map(_drop_braces, re.split(r",|\band\b", more[1].strip(" ,")))
            reader(match, [name for name in names if name], whole, constants)
            text = _join(before, text[match.end() :])
    return _LEFT.sub("", text), Declared(tuple(whole.items()), tuple(dict.fromkeys(constants)))


def _join(before: str, behind: str) -> str:
    before = _LEFT.sub("", before)
    return f"{before} {behind}" if before else behind.lstrip(" ,;:)")


def _drop_braces(name: str) -> str:
    return re.sub(r"[\s{}]", "", name)


def _read_set(
    match: re.Match[str], names: list[str], whole: dict[str, int | None], constants: list[str]
) -> None:
    letter, mark = match[2], match[3] or ""
    if letter == "Z":
        least = None if not mark else 0 if "0" in mark and ">" not in mark else 1
        whole.update(dict.fromkeys(names, least))
    elif letter == "N":
        least = 0 if "0" in mark else 1 if mark else NATURAL
        whole.update(dict.fromkeys(names, least))
    else:
        constants += names


def _read_kind(
    match: re.Match[str], names: list[str], whole: dict[str, int | None], constants: list[str]
) -> None:
    kind = match[2].replace("-", "").rstrip("s")
    if kind in _LOWER_BOUNDS:
        whole.update(dict.fromkeys(names, _LOWER_BOUNDS[kind]))
    else:
        constants += names


def _read_listed(match: re.Match[str], names: list[str], whole: dict[str, int | None], _: list[str]) -> None:
    is_signed = bool(match[2]) or "pm" in match[4]
    whole[names[0]] = None if is_signed else int(match[3])


def _read_least(match: re.Match[str], names: list[str], whole: dict[str, int | None], _: list[str]) -> None:
    whole[names[0]] = int(match[3]) + (match[2] == ">")


_Reader = Callable[[re.Match[str], list[str], dict[str, int | None], list[str]], None]
_READERS: Final[tuple[tuple[re.Pattern[str], _Reader], ...]] = (
    (_IN_SET, _read_set),
    (_IS_KIND, _read_kind),
    (_OF_KIND, _read_kind),
    (_LISTED, _read_listed),
    (_FROM, _read_least),
)
