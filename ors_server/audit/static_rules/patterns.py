"""Tells regular expressions whose time doubles with each character of a text that does not match."""

import importlib
import re
import warnings
from collections.abc import Sequence
from typing import Any

_MANY = 20
"""A repetition of at least so many times counts as one without an end."""
_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT"})


def is_exponential(pattern: str, *, is_whole: bool) -> bool:
    """Return whether a pattern has a repetition inside a repetition that share their characters.

    Args:
        pattern: Of Python's `re`; a wrong one gives False.
        is_whole: Whether it is matched with the whole text (`fullmatch`).
    """
    try:
        parser: Any = importlib.import_module("re._parser")  # the standard library has no public parser
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = parser.parse(pattern)
    except (ImportError, AttributeError, OverflowError, RecursionError, re.error):
        return False
    return _has_ambiguous(list(parsed), is_followed=is_whole)


def _has_ambiguous(items: Sequence[Any], *, is_followed: bool) -> bool:
    for place, (operation, value) in enumerate(items):
        ends = is_followed or not all(map(_is_optional, items[place + 1 :]))
        name = str(operation)
        if name in _REPEATS:
            inner = list(value[2])
            if ends and _is_long(value) and _is_ambiguous(inner):
                return True
            if _has_ambiguous(inner, is_followed=ends):
                return True
        if any(_has_ambiguous(list(part), is_followed=ends) for part in _parts(name, value)):
            return True
    return False


def _parts(name: str, value: Any) -> Sequence[Any]:
    if name == "SUBPATTERN":
        return [value[-1]]
    return value[1] if name == "BRANCH" else ()


def _is_ambiguous(items: Sequence[Any]) -> bool:
    """Return whether the inside of a repetition can be one repetition and nothing else."""
    if len(items) == 1:
        name, value = str(items[0][0]), items[0][1]
        if name == "SUBPATTERN":
            return _is_ambiguous(list(value[-1]))
        if name == "BRANCH":
            return any(_is_ambiguous(list(one)) for one in value[1])
    required = [item for item in items if not _is_optional(item)]
    repeats = [item for item in items if str(item[0]) in _REPEATS and _is_long(item[1])]
    return bool(repeats) and (not required or (len(required) == 1 and required[0] in repeats))


def _is_long(value: Any) -> bool:
    return int(value[1]) >= _MANY


def _is_optional(item: Any) -> bool:
    """Return whether an item matches the empty text everywhere."""
    name, value = str(item[0]), item[1]
    if name in _REPEATS or name == "POSSESSIVE_REPEAT":
        return int(value[0]) == 0 or all(map(_is_optional, value[2]))
    if name == "SUBPATTERN":
        return all(map(_is_optional, value[-1]))
    if name == "ATOMIC_GROUP":
        return all(map(_is_optional, value))
    return name == "BRANCH" and any(all(map(_is_optional, one)) for one in value[1])
