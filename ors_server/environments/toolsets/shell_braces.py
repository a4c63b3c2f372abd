"""Expands the braces of a shell word, such as `{a,b}` and `{1..3}`, as bash does."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

MAX_EXPANDED = 64
"""Words that braces in one word may make; of more, only the first are looked at."""

_PIECE = re.compile(
    r"""\\. | '[^']*' | "(?:[^"\\]|\\.)*" | \$\{[^}]*\} | \$?\([^)]*\) | `[^`]*` | .""",
    re.VERBOSE | re.DOTALL,
)
_RANGE = re.compile(r"(?:([+-]?\d+)\.\.([+-]?\d+)|([a-zA-Z])\.\.([a-zA-Z]))(?:\.\.([+-]?\d+))?", re.ASCII)
_LONGEST_RANGE = 64

_Pieces: TypeAlias = Sequence[str]
_Waiting: TypeAlias = "tuple[_Pieces, _Waiting] | None"
"""The rest of a word that is still to be expanded, from left to right."""


def expand_braces(word: str) -> list[str]:
    """Return the words that the shell makes of a word, at most `MAX_EXPANDED`; quoted braces stay."""
    done: list[str] = []
    unfinished: list[tuple[str, _Waiting]] = [("", (_PIECE.findall(word), None))]
    while unfinished:
        prefix, waiting = unfinished.pop()
        if waiting is None:
            done.append(prefix)
            continue
        pieces, rest = waiting
        # Groups multiply: no more words are begun than may be returned.
        free = MAX_EXPANDED - len(unfinished) - len(done)
        group = _first_group(pieces) if free > 0 else None
        if group is None:
            unfinished.append((prefix + "".join(pieces), rest))
            continue
        start, end = group
        prefix += "".join(pieces[:start])
        after = (pieces[end + 1 :], rest)
        choices = _choices(pieces[start + 1 : end])[:free]
        unfinished += [(prefix, (choice, after)) for choice in reversed(choices)]
    return done


@dataclass
class _Level:
    """The open braces that one closing brace would close."""

    ready: list[int] = field(default_factory=list[int])
    """Those that have a comma or dots of their own."""
    bare: list[int] = field(default_factory=list[int])


def _first_group(pieces: _Pieces) -> tuple[int, int] | None:
    """Find the first brace that begins an expansion, and the one that ends it.

    To bash, a closing brace that comes before any comma is text to the brace that it would close, and closes
    nothing of it; the braces around that one count it.
    """
    levels = [_Level()]
    closed: list[tuple[int, int]] = []
    for index, piece in enumerate(pieces):
        if piece == "{":
            levels.append(_Level(bare=[] if index == 0 and pieces[1:2] == ["}"] else [index]))
        elif piece == "," or _has_dots(pieces, index):
            levels[-1].ready += levels[-1].bare
            levels[-1].bare.clear()
        elif piece == "}":
            closed += [(opened, index) for opened in levels[-1].ready]
            levels[-1].ready.clear()
            if len(levels) > 1:
                _merge(levels)
    return min(closed, default=None)


def _merge(levels: list[_Level]) -> None:
    inner = levels.pop().bare
    outer = levels[-1]
    if len(inner) > len(outer.bare):
        outer.bare, inner = inner, outer.bare
    outer.bare += inner


def _has_dots(pieces: _Pieces, index: int) -> bool:
    return "".join(pieces[index : index + 2]) == ".." and pieces[index + 2 : index + 3] != ["}"]


def _choices(pieces: _Pieces) -> list[_Pieces]:
    """Return what may stand for a group, given what is between its braces."""
    if not any("," in piece for piece in pieces):
        text = "".join(pieces)
        # Without a comma or a range, the braces are text.
        return [[member] for member in _range(text)] or [["{" + text + "}"]]
    choices: list[_Pieces] = []
    level = start = 0
    for index, piece in enumerate(pieces):
        if piece == "," and level == 0:
            choices.append(pieces[start:index])
            start = index + 1
        level = max(0, level + {"{": 1, "}": -1}.get(piece, 0))
    return [*choices, pieces[start:]]


def _range(text: str) -> list[str]:
    """Return the first members of `1..9`, `01..09`, `a..e` or `9..1..2`; none if the text is no range."""
    match = _RANGE.fullmatch(text)
    if match is None or len(text) > _LONGEST_RANGE:
        return []
    first_number, last_number, first_letter, last_letter, step_text = match.groups()
    step = max(1, abs(int(step_text or 1)))
    if first_letter:
        letters = _members(ord(first_letter), ord(last_letter), step)
        # Between `Z` and `a` are signs such as the backquote, which must not be read as syntax again.
        return [letter if letter.isalnum() else f"\\{letter}" for letter in map(chr, letters)]
    is_padded = any(re.match(r"[+-]?0\d", number) for number in (first_number, last_number))
    width = max(len(first_number), len(last_number)) if is_padded else 0
    return [f"{number:0{width}d}" for number in _members(int(first_number), int(last_number), step)]


def _members(first: int, last: int, step: int) -> range:
    direction = 1 if first <= last else -1
    return range(first, last + direction, direction * step)[:MAX_EXPANDED]
