"""An exercise: the files before and after it, its text, and one command that solves it.

This module knows neither the exercises nor sandboxes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ors_server_tasks.shell.draw import Draw
from ors_server_tasks.shell.repository import RepositoryState

LEVELS = (1, 2, 3)
"""Difficulty levels: 1 one idea, 2 two or three ideas together, 3 several, with a trap in the data."""

EPOCH = 1_767_225_600
"""2026-01-01 00:00:00 UTC in Unix seconds: the modification time of a given file that needs none."""


_BLOCK = 0xFFFF
"""Bytes of the longest stored block of deflate (RFC 1951, 3.2.4)."""


@dataclass(frozen=True, slots=True)
class File:
    """A plain file."""

    content: bytes
    mode: int | None = None
    """Permission bits, special ones included; `None`: 0o644 when given, not compared when required."""
    mtime: int = EPOCH
    """Modification time in Unix seconds; used when given only."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder; folders above a file need no entry of their own."""

    mode: int | None = None
    """As for a file; 0o755 when given."""


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True, slots=True)
class Json:
    """A plain file with this JSON value in any layout; only required, never given."""

    value: Any


@dataclass(frozen=True, slots=True)
class Archive:
    """A tar archive, gzipped or not, with exactly these files in it; only required, never given."""

    members: Mapping[str, bytes]
    """Path to content; folders in the archive do not matter, a leading `./` neither."""
    gzipped: bool = True


Node: TypeAlias = File | Folder | Link | Json | Archive
Tree: TypeAlias = dict[str, Node]
"""Files, folders and links by their paths relative to the work dir."""


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise."""

    ask: str
    """The agent's job; the prompt adds the general rules and how to finish."""
    before: Mapping[str, Node]
    """The work dir at the start."""
    after: Mapping[str, Node]
    """The work dir at the end; paths that are only in `before` must be removed."""
    gold: str
    """A bash command that solves the exercise."""
    whole: tuple[str, ...] = ()
    """Folders in which only paths of `after` may exist."""
    hidden: Mapping[str, Node] = field(default_factory=dict[str, "Node"])
    """Further files at the start, which are not compared (those of `.git`)."""
    repositories: tuple[RepositoryState, ...] = ()
    """Required states of git repositories at the end."""


Choices: TypeAlias = tuple[int, ...]
"""One number for each way in which an exercise of a kind can be another exercise."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of exercise."""

    name: str
    level: int
    """Difficulty, one of `LEVELS`."""
    ways: Choices
    """The number of options of each choice; their product is the number of different exercises of the kind.
    Apart from the choices, only data, names and numbers vary."""
    make: Callable[[Draw, Choices], Exercise]
    """Draws an exercise; each choice is in [0, its number of ways)."""
    solution: Callable[[Choices], Choices] = tuple
    """Returns what of the choices decides the gold command: choices with equal results have the same command
    or the same text, so they are in the same split."""


def without(position: int) -> Callable[[Choices], Choices]:
    """Return a `Kind.solution` for kinds with a choice, the one at `position`, that no command depends on."""
    return lambda choices: (*choices[:position], *choices[position + 1 :])


@dataclass(frozen=True, slots=True)
class Family:
    """Kinds of exercise that ask for the same craft."""

    name: str
    kinds: tuple[Kind, ...]


def text_file(text: str, mode: int | None = None) -> File:
    """Make a file of a text in UTF-8."""
    return File(text.encode(), mode)


def lines_file(lines: list[str]) -> File:
    """Make a file of lines, each ended by a newline."""
    return File("".join(f"{line}\n" for line in lines).encode())


def changed(before: Mapping[str, Node], changes: Mapping[str, Node], without: tuple[str, ...] = ()) -> Tree:
    """Return a tree with nodes replaced or added, and without some."""
    return {path: node for path, node in {**before, **changes}.items() if path not in without}


def gzip_stored(content: bytes) -> bytes:
    """Wrap content as gzip (RFC 1952) without compressing it: the same bytes with every version of zlib."""
    blocks = [content[at : at + _BLOCK] for at in range(0, len(content), _BLOCK)] or [b""]
    body = b"".join(
        struct.pack("<BHH", block is blocks[-1], len(block), len(block) ^ _BLOCK) + block for block in blocks
    )
    return b"\x1f\x8b\x08" + bytes(6) + b"\xff" + body + struct.pack("<II", zlib.crc32(content), len(content))
