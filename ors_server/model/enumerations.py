"""Enumerations whose members each call looks up: as quick as names of a module.

The standard library's own are slower where a call passes them. The hash of a member is a function in Python,
and in Python 3.11 so is the lookup of each member by its name, which takes four times as long as that of a
plain attribute; from 3.12 on, members are plain attributes.
"""

import sys
from enum import Enum, StrEnum
from typing import TypeVar

_Kind = TypeVar("_Kind", bound=Enum)


def quick_members(kind: type[_Kind]) -> type[_Kind]:
    """Have the members of an enumeration be plain attributes of it in every version of Python."""
    if sys.version_info < (3, 12):
        for name, member in kind.__members__.items():
            # An enumeration forbids to reassign its members; this sets each to itself.
            type.__setattr__(kind, name, member)
    return kind


class Word(StrEnum):
    """A word of a table, with the hash of its string: an enumeration's own is ten times as slow."""

    __hash__ = str.__hash__
