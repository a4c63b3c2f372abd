"""CSV and TSV files with a line of column names, read in place; every value is text."""

import csv
import io
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from zlib import crc32

from typing_extensions import override

from ors_server.environments.declared.row_faults import (
    MAX_SHOWN_CHARACTERS,
    RowFaultError,
    first_repeated,
    list_names,
    show_value,
)
from ors_server.environments.declared.rows.data_file import ByteStream, DataFile
from ors_server.environments.declared.rows.row_source import (
    MAX_ROW_BYTES,
    RowReader,
    ScannedRow,
    row_too_large,
)
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.model.wire import JSONObject

_OTHER_SEPARATORS = (";", "\t", "|")
_SEPARATOR_LINE = len("sep=;")
MAX_NAMES_BYTES = 2**20
"""Bytes of the line with the names of the columns; taking it apart holds the interpreter."""
_BOM = "\ufeff"


class SeparatedValues(RowReader):
    """A file whose values are separated by commas or tabs, quoted as Python's module `csv` reads them.

    Excel writes semicolons where the comma is in numbers: another separator is taken from the line of names
    if that lacks the expected one. Columns without a name, such as the index that pandas writes, are
    left out, and so are lines without any value, with which Excel ends.
    """

    def __init__(self, path: Path, separator: str) -> None:
        super().__init__(str(path), (path,))
        self._file = DataFile(path)
        self.is_copied = self._file.is_packed
        self._separator = separator
        self._names: list[str] | None = None

    @override
    def rows(self) -> Iterator[ScannedRow]:
        csv.field_size_limit(MAX_ROW_BYTES)
        with self._file.open() as stream:
            lines = _CountedLines(stream)
            self._names = self._read_names(lines)
            while True:
                start, first = lines.offset, lines.number + 1
                location = f"line {first}"
                try:
                    values = self._next(lines)
                    if values is None:
                        return
                    if any(values):
                        length = lines.offset - start
                        yield ScannedRow(location, self._named(values), start, length, lines.checksum)
                except RowFaultError as fault:
                    yield ScannedRow(location, fault)

    @override
    def decode(self, data: bytes) -> JSONObject:
        if self.is_copied:
            return super().decode(data)
        if self._names is None:
            csv.field_size_limit(MAX_ROW_BYTES)
            with self._file.open() as stream:
                self._names = self._read_names(_CountedLines(stream))
        values = self._next(_CountedLines(io.BytesIO(data)))
        return self._named(values or [])

    def _next(self, lines: "_CountedLines") -> list[str] | None:
        """Return the values of the next record; `None` at the end."""
        lines.begin_record()
        records: Iterable[str] = lines
        if self._separator == "\t" and self._names is not None:
            line = next(lines, None)
            if line is None:
                return None
            values = self._split_at_tabs(line)
            if values is not None:
                return values
            records = chain([line], lines)
        try:
            return next(csv.reader(records, delimiter=self._separator, strict=True), None)
        except csv.Error as error:
            what = str(error).partition(" - ")[0]  # advice for those who opened the file themselves follows
            actual = f"{what}{_hint(str(error), lines.text)}"
            raise RowFaultError("", "values that are quoted as in CSV", actual) from error

    def _split_at_tabs(self, line: str) -> list[str] | None:
        """Return the values of a line of a TSV file, in which a quote may be a character like any other.

        `None` for a line that seems to end within quotes.
        """
        plain = line.rstrip("\r\n")
        values = plain.split("\t") if plain else []
        if '"' not in plain:
            return values
        count = len(self._names or [])
        try:
            quoted = next(csv.reader([line], delimiter="\t", strict=True))
        except csv.Error:
            quoted = []
        if len(quoted) == count:
            return quoted
        return values if len(values) == count else None

    def _read_names(self, lines: "_CountedLines") -> list[str]:
        lines.limit = MAX_NAMES_BYTES
        try:
            names = self._read_first(lines)
        except RowFaultError as fault:
            raise EnvironmentDefinitionError(f"{self.name}, line 1: {fault}") from fault
        lines.limit = None
        twice = first_repeated(filter(None, names))
        if not any(names) or twice is not None:
            actual = (
                f"{twice[:MAX_SHOWN_CHARACTERS]!r} twice"
                if twice
                else show_value(names)
                if names
                else "an empty file"
            )
            raise EnvironmentDefinitionError(
                f"{self.name}, line 1: expected the names of the columns, each once, got {actual}; "
                "write the names into the first line"
            )
        return names

    def _read_first(self, lines: "_CountedLines") -> list[str]:
        """Read the line of names, and find the separator."""
        fault: RowFaultError | None = None
        names: list[str] = []
        try:
            names = self._next(lines) or []
        except RowFaultError as error:
            fault = error
        text = lines.text.removeprefix(_BOM)
        if text[:4].lower() == "sep=" and len(text.strip()) == _SEPARATOR_LINE:  # Excel reads and writes it
            self._separator = text[4]
            return self._next(lines) or []
        if len(names) > 1 and not text.startswith('"'):
            return [names[0].removeprefix(_BOM), *names[1:]]
        # Behind a byte order mark, a quote was read as an ordinary character: the line is read again without
        # it.
        for separator in (self._separator, *_OTHER_SEPARATORS):
            try:
                columns = next(csv.reader([text], delimiter=separator, strict=True), list[str]())
            except csv.Error:
                continue
            if len(columns) > 1:
                self._separator = separator
                return columns
        if fault is not None:
            raise fault
        return [name.removeprefix(_BOM) for name in names]

    def _named(self, values: list[str]) -> JSONObject:
        names = self._names or []
        if len(values) != len(names):
            raise RowFaultError("", f"{len(names)} values ({list_names(names)})", f"{len(values)}")
        return {name: value for name, value in zip(names, values, strict=True) if name}


def _hint(problem: str, text: str) -> str:
    if "new-line" in problem:
        return "; end lines with LF, not with CR alone"
    if '\\"' in text:
        return '; write a quote within quotes as "" (Spark: option("escape", "\\""))'
    return ""


class _CountedLines:
    """The lines of a file as text, with the place of the next one."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self.offset = self.number = self._start = 0
        self.limit: int | None = None
        """Bytes of a line; a longer one is refused before it is taken apart."""
        self.checksum = 0
        """CRC-32 of the record's lines."""
        self._texts: list[str] = []

    def begin_record(self) -> None:
        """Begin a record with the next line."""
        self._start, self.checksum = self.offset, 0
        self._texts.clear()

    @property
    def text(self) -> str:
        """The record's lines."""
        return "".join(self._texts)

    def __iter__(self) -> "_CountedLines":
        return self

    def __next__(self) -> str:
        line = self._stream.readline(MAX_ROW_BYTES + 1)
        if not line:
            raise StopIteration
        if self.limit is not None and len(line) > self.limit:
            raise RowFaultError("", f"a line of at most {self.limit:,} bytes", "a longer one")
        self.offset += len(line)
        # Over all lines of a record, because a quoted value may hold line feeds.
        self.checksum = crc32(line, self.checksum)
        self.number += 1
        if len(line) > MAX_ROW_BYTES and not line.endswith(b"\n"):
            self._skip_line()
        if self.offset - self._start > MAX_ROW_BYTES:
            raise row_too_large(self.offset - self._start)
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            actual = f"the byte {line[error.start]:#04x} (save it as 'CSV UTF-8', or convert it with iconv)"
            raise RowFaultError("", "UTF-8", actual) from error
        self._texts.append(text)
        return text

    def _skip_line(self) -> None:
        while piece := self._stream.readline(MAX_ROW_BYTES):
            self.offset += len(piece)
            if piece.endswith(b"\n"):
                return
