"""The lines on which the keys of a TOML document stand, for messages: `tomllib` tells none."""

import re
from collections.abc import Sequence
from typing import TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""Names of tables and keys, and positions in arrays of tables, from the top."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")
_FENCES = ('"""', "'''")


def find_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of each table and key of a valid document; inline tables count as one key."""
    lines: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        if fence:
            fence = "" if line.count(fence) % 2 else fence
            continue
        header, key = _HEADER.match(line), _KEY.match(line)
        if header is not None:
            table = _resolve(_names(header[2]), counts, is_array=header[1] == "[[")
            lines.setdefault(table, number)
        elif key is not None:
            lines.setdefault((*table, *_names(key[1])), number)
        fence = next((mark for mark in _FENCES if line.count(mark) % 2), "")
    return lines


def line_of(lines: dict[KeyPath, int], path: Sequence[str | int]) -> int | None:
    """Return the line of a key, or of the nearest table or key above it; `None` where there is none."""
    for length in range(len(path), 0, -1):
        if tuple(path[:length]) in lines:
            return lines[tuple(path[:length])]
    return None


def _names(text: str) -> list[str]:
    return [part.strip().strip("\"'") for part in text.split(".")]


def _resolve(names: list[str], counts: dict[KeyPath, int], *, is_array: bool) -> KeyPath:
    """Return the path of a header: a name of an array of tables above it means the array's last table."""
    path: KeyPath = ()
    for position, name in enumerate(names):
        path = (*path, name)
        if is_array and position == len(names) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path
