"""CSV and TSV files with a line of column names, read in place; every value is text."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from typing_extensions import override

from ors_server.authoring.declared.row_faults import (
    MAX_SHOWN,
    RowFaultError,
    first_repeated,
    list_names,
    show_value,
)
from ors_server.authoring.declared.rows.row_source import MAX_ROW_BYTES, RowReader, ScannedRow, row_too_large
from ors_server.errors import EnvironmentDefinitionError
from ors_server.wire import JSONObject

MAX_NAMES_BYTES = 2**20
"""Bytes of the line with the names of the columns; taking it apart holds the interpreter."""
_BOM = "\ufeff"


class SeparatedValues(RowReader):
    """A file whose values are separated by commas or tabs, quoted as Python's module `csv` reads them."""

    is_copied = False

    def __init__(self, path: Path, separator: str) -> None:
        super().__init__(str(path), (path,))
        self._separator = separator
        self._names: list[str] | None = None

    @override
    def rows(self) -> Iterator[ScannedRow]:
        csv.field_size_limit(MAX_ROW_BYTES)
        with self.files[0].open("rb") as stream:
            lines = _CountedLines(stream)
            self._names = self._read_names(lines)
            while True:
                start, first = lines.offset, lines.number + 1
                place = f"line {first}"
                try:
                    values = self._next(lines)
                    if values is None:
                        return
                    if values:
                        length = lines.offset - start
                        yield ScannedRow(place, self._named(values), start, length, lines.checksum)
                except RowFaultError as fault:
                    yield ScannedRow(place, fault)

    @override
    def decode(self, data: bytes) -> JSONObject:
        if self._names is None:
            csv.field_size_limit(MAX_ROW_BYTES)
            with self.files[0].open("rb") as stream:
                self._names = self._read_names(_CountedLines(stream))
        values = self._next(_CountedLines(io.BytesIO(data)))
        return self._named(values or [])

    def _next(self, lines: "_CountedLines") -> list[str] | None:
        """Return the values of the next record; `None` at the end."""
        lines.begin_record()
        reader = csv.reader(lines, delimiter=self._separator, strict=True)
        try:
            return next(reader, None)
        except csv.Error as error:
            raise RowFaultError("", "values that are quoted as in CSV", str(error)) from error

    def _read_names(self, lines: "_CountedLines") -> list[str]:
        lines.limit = MAX_NAMES_BYTES
        try:
            names = self._next(lines) or []
        except RowFaultError as fault:
            raise EnvironmentDefinitionError(f"{self.name}, line 1: {fault}") from fault
        lines.limit = None
        if names:
            names[0] = names[0].removeprefix(_BOM)
        twice = first_repeated(names)
        if not names or twice is not None or not all(names):
            came = (
                f"{twice[:MAX_SHOWN]!r} twice" if twice else show_value(names) if names else "an empty file"
            )
            raise EnvironmentDefinitionError(
                f"{self.name}, line 1: expected the names of the columns, each once, came {came}; "
                "write the names into the first line"
            )
        return names

    def _named(self, values: list[str]) -> JSONObject:
        names = self._names or []
        if len(values) != len(names):
            raise RowFaultError("", f"{len(names)} values ({list_names(names)})", f"{len(values)}")
        return dict(zip(names, values, strict=True))


class _CountedLines:
    """The lines of a file as text, with the place of the next one."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream = stream
        self.offset = self.number = self._start = 0
        self.limit: int | None = None
        """Bytes of a line; a longer one is refused before it is taken apart."""
        self.checksum = 0
        """CRC-32 of the record's lines."""

    def begin_record(self) -> None:
        """Begin a record with the next line."""
        self._start, self.checksum = self.offset, 0

    def __iter__(self) -> "_CountedLines":
        return self

    def __next__(self) -> str:
        line = self._stream.readline(MAX_ROW_BYTES + 1)
        if not line:
            raise StopIteration
        if self.limit is not None and len(line) > self.limit:
            raise RowFaultError("", f"a line of at most {self.limit:,} bytes", "a longer one")
        self.offset += len(line)
        self.checksum = crc32(line, self.checksum)
        self.number += 1
        if len(line) > MAX_ROW_BYTES and not line.endswith(b"\n"):
            self._skip_line()
        if self.offset - self._start > MAX_ROW_BYTES:
            raise row_too_large(self.offset - self._start)
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise RowFaultError("", "UTF-8", f"the byte {line[error.start]:#04x}") from error

    def _skip_line(self) -> None:
        while piece := self._stream.readline(MAX_ROW_BYTES):
            self.offset += len(piece)
            if piece.endswith(b"\n"):
                return
