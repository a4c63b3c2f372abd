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
        actual = json.loads(content.decode(), object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return _is_same(actual, value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a key occurs twice")
    return mapping


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _is_same(actual: Any, value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(actual, dict) and _same_items(
            cast("dict[str, Any]", actual), cast("dict[str, Any]", value)
        )
    if isinstance(value, list):
        return isinstance(actual, list) and _same_rows(
            [*cast("Iterable[Any]", actual)], [*cast("Iterable[Any]", value)]
        )
    is_alike = isinstance(actual, bool) == isinstance(value, bool)
    return bool(is_alike and actual == value)


def _same_items(actual: dict[str, Any], value: dict[str, Any]) -> bool:
    return actual.keys() == value.keys() and all(_is_same(actual[key], value[key]) for key in value)


def _same_rows(actual: list[Any], value: list[Any]) -> bool:
    return len(actual) == len(value) and all(map(_is_same, actual, value))


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
    members: dict[str, bytes] = {}
    for member in archive:
        if member.isdir():
            continue
        name = member.name.removeprefix("./")
        content = expected.members.get(name)
        is_plain = member.isreg() and not member.issparse()
        if not is_plain or content is None or name in members or member.size != len(content):
            return False
        body = archive.extractfile(member)
        members[name] = body.read() if body is not None else b""
    return members == expected.members
