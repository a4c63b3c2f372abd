"""JSON lines: an object on each line, read in place; compressed with gzip, they are copied."""

import zlib
from collections.abc import Iterator
from pathlib import Path

from typing_extensions import override

from ors_server.environments.declared.row_faults import RowFaultError
from ors_server.environments.declared.rows.data_file import ByteStream, DataFile
from ors_server.environments.declared.rows.row_source import (
    MAX_ROW_BYTES,
    RowReader,
    ScannedRow,
    parse_object,
    row_too_large,
)

_BOM = b"\xef\xbb\xbf"


class JsonLines(RowReader):
    """A file of JSON lines, which may be compressed; empty lines are not rows."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), (path,))
        self._file = DataFile(path)
        self.is_copied = self._file.is_packed

    @override
    def rows(self) -> Iterator[ScannedRow]:
        with self._file.open() as stream:
            yield from scan_lines(stream)


def scan_lines(stream: ByteStream) -> Iterator[ScannedRow]:
    """Yield the row of each line that is not empty."""
    offset = number = 0
    while line := stream.readline(MAX_ROW_BYTES + 1):
        start, length = offset, len(line)
        number += 1
        if length > MAX_ROW_BYTES and not line.endswith(b"\n"):
            # The rest of the line is skipped in pieces, so that one huge line does not take its size in
            # memory.
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
        return ScannedRow(f"line {number}", _explain(fault, line))
    return ScannedRow(f"line {number}", value, start, len(line), zlib.crc32(line))


def _explain(fault: RowFaultError, line: bytes) -> RowFaultError:
    """Say what to do about files that are not JSON lines as a whole."""
    text = line.strip()
    if text in {b"{", b"["}:
        actual = "the first of several lines of one value; `jq -c .` writes it on one line"
    elif text.startswith(b"["):
        actual = f"{fault.actual}; a list of records belongs in a file that ends in .json"
    elif b"\r" in text:
        actual = f"{fault.actual}; end lines with LF, not with CR alone"
    else:
        return fault
    return RowFaultError(fault.field, fault.expected, actual)


def _skip_line(stream: ByteStream) -> int:
    skipped = 0
    while piece := stream.readline(MAX_ROW_BYTES):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped
