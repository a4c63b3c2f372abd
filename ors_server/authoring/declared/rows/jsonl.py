"""JSON lines: an object on each line, read in place; compressed with gzip, they are copied."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from typing_extensions import override

from ors_server.authoring.declared.row_faults import RowFaultError
from ors_server.authoring.declared.rows.row_source import (
    MAX_ROW_BYTES,
    RowReader,
    ScannedRow,
    parse_object,
    row_too_large,
    too_large,
    unpacked_limit,
)
from ors_server.errors import EnvironmentDefinitionError

_BOM = b"\xef\xbb\xbf"


class Lines(Protocol):
    """What lines are read from."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line, or a part of it of at most `size` bytes; empty at the end."""
        ...


class JsonLines(RowReader):
    """A file of JSON lines; empty lines are not rows."""

    is_copied = False

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), (path,))

    @override
    def rows(self) -> Iterator[ScannedRow]:
        with self.files[0].open("rb") as stream:
            yield from scan_lines(stream)


class GzippedJsonLines(RowReader):
    """A file of JSON lines that is compressed with gzip."""

    def __init__(self, path: Path) -> None:
        """Read a file, of which the index keeps a copy."""
        super().__init__(str(path), (path,))

    @override
    def rows(self) -> Iterator[ScannedRow]:
        try:
            with gzip.open(self.files[0]) as stream:
                yield from scan_lines(_BoundedLines(stream, self.name, unpacked_limit(self.files)))
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise EnvironmentDefinitionError(f"{self.name}: expected gzip data, and {error}") from error


class _BoundedLines:
    """The lines of compressed data, up to a size."""

    def __init__(self, stream: Lines, name: str, limit: int) -> None:
        self._stream, self._name, self._limit = stream, name, limit
        self._left = limit

    def readline(self, size: int = -1, /) -> bytes:
        line = self._stream.readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise too_large(self._name, self._limit)
        return line


def scan_lines(stream: Lines) -> Iterator[ScannedRow]:
    """Yield the row of each line that is not empty."""
    offset = number = 0
    while line := stream.readline(MAX_ROW_BYTES + 1):
        start, length = offset, len(line)
        number += 1
        if length > MAX_ROW_BYTES and not line.endswith(b"\n"):
            length += _skip_line(stream)
            yield ScannedRow(f"line {number}", row_too_large(length))
        else:
            if start == 0 and line.startswith(_BOM):
                start, line = len(_BOM), line.removeprefix(_BOM)
            if not line.isspace():
                yield _scan(line, number, start)
        offset += length


def _scan(line: bytes, number: int, start: int) -> ScannedRow:
    try:
        value = parse_object(line)
    except RowFaultError as fault:
        return ScannedRow(f"line {number}", fault)
    return ScannedRow(f"line {number}", value, start, len(line), zlib.crc32(line))


def _skip_line(stream: Lines) -> int:
    skipped = 0
    while piece := stream.readline(MAX_ROW_BYTES):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped
