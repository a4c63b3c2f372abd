"""Judges the content of JSON files and archives that an agent wrote. Pure, for a worker process."""

from __future__ import annotations

import io
import json
import tarfile
import zlib
from collections.abc import Iterable
from typing import Any, cast

from ors_server_tasks.shell.exercise import Archive

ARCHIVE_BYTES = 1 << 22
"""Longest archive that is read, packed and unpacked."""
_FROM_GZIP = 31
"""Window bits with which zlib reads gzip."""


def is_json(content: bytes, value: Any) -> bool:
    """Return whether a text is JSON of a value, without repeated keys; true is not 1."""
    try:
        found = json.loads(content.decode(), object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return _is_same(found, value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key occurs twice")
    return made


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _is_same(found: Any, value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(found, dict) and _same_items(
            cast("dict[str, Any]", found), cast("dict[str, Any]", value)
        )
    if isinstance(value, list):
        return isinstance(found, list) and _same_rows(
            [*cast("Iterable[Any]", found)], [*cast("Iterable[Any]", value)]
        )
    is_alike = isinstance(found, bool) == isinstance(value, bool)
    return bool(is_alike and found == value)


def _same_items(found: dict[str, Any], value: dict[str, Any]) -> bool:
    return found.keys() == value.keys() and all(_is_same(found[key], value[key]) for key in value)


def _same_rows(found: list[Any], value: list[Any]) -> bool:
    return len(found) == len(value) and all(map(_is_same, found, value))


def is_archive(content: bytes, expected: Archive) -> bool:
    """Return whether bytes are a tar archive of exactly the expected files."""
    try:
        plain = _unzipped(content) if expected.gzipped else content
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            return _holds(archive, expected)
    except (tarfile.TarError, zlib.error, OSError, ValueError, EOFError, OverflowError, RecursionError):
        return False


def _unzipped(content: bytes) -> bytes:
    reader = zlib.decompressobj(_FROM_GZIP)
    plain = reader.decompress(content, ARCHIVE_BYTES)
    if not reader.eof or reader.unused_data:
        raise ValueError("not one whole gzip stream of bounded length")
    return plain


def _holds(archive: tarfile.TarFile, expected: Archive) -> bool:
    found: dict[str, bytes] = {}
    for member in archive:
        if member.isdir():
            continue
        name = member.name.removeprefix("./")
        content = expected.members.get(name)
        is_plain = member.isreg() and not member.issparse()
        if not is_plain or content is None or name in found or member.size != len(content):
            return False
        body = archive.extractfile(member)
        found[name] = body.read() if body is not None else b""
    return found == expected.members
