"""A JSON file with records, and a folder of JSON files; the index keeps a copy of both.

An object may hold a table in one of the shapes in which pandas and others write it.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from json import JSONDecodeError
from pathlib import Path
from typing import Any, cast

from typing_extensions import override

from ors_server.environments.declared.row_faults import RowFaultError, show_value
from ors_server.environments.declared.rows.data_file import DataFile
from ors_server.environments.declared.rows.jsonl import scan_lines
from ors_server.environments.declared.rows.row_source import (
    MAX_ROW_BYTES,
    ROW_DECODER,
    RowReader,
    ScannedRow,
    as_object,
    parse_object,
)
from ors_server.environments.declared.rows.shards import are_shards
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.model.wire import JSONObject


def rows_of_object(table: JSONObject) -> list[JSONObject] | None:
    """Return the rows of an object; `None` if it is not in one of these shapes.

    - `{column: [value, ...]}`, lists of one length: `to_dict("list")` of pandas and datasets;
    - `{column: {index: value}}`, with the same indices: `DataFrame.to_json()`;
    - `{id: row}`, whose rows receive the id as `id` if they lack one: `to_json(orient="index")`;
    - `{"columns": [...], "data": [[...]]}`: `to_json(orient="split")`;
    - `{"schema": ..., "data": [row, ...]}`: `to_json(orient="table")`.
    """
    values = list(table.values())
    columns, data = table.get("columns"), table.get("data")
    if isinstance(columns, list) and isinstance(data, list) and table.keys() <= {"columns", "index", "data"}:
        names, cells = cast("Sequence[Any]", columns), cast("Sequence[Any]", data)
        are_names = _all_are(names, str) and len(set(names)) == len(names)
        is_table = are_names and _all_are(cells, list) and all(len(row) == len(names) for row in cells)
        return [dict(zip(names, row, strict=True)) for row in cells] if is_table else None
    if isinstance(data, list) and table.keys() == {"schema", "data"}:
        rows = cast("Sequence[JSONObject]", data)
        return list(rows) if _all_are(rows, dict) else None
    if values and _all_are(values, list):
        lists = cast("Sequence[Sequence[Any]]", values)
        # One list, or lists of objects, are probably records, not columns.
        are_records = len(lists) == 1 or all(_all_are(column, dict) for column in lists)
        if not are_records and lists[0] and len({len(column) for column in lists}) == 1:
            return [dict(zip(table, row, strict=True)) for row in zip(*lists, strict=True)]
    elif values and _all_are(values, dict):
        records = cast("Mapping[str, JSONObject]", table)
        first = next(iter(records.values()))
        # The same keys 0, 1, 2 and so on in all: pandas wrote columns by their index.
        has_indices = bool(first) and all(key == str(number) for number, key in enumerate(first))
        if has_indices and all(record.keys() == first.keys() for record in records.values()):
            return [{name: column[index] for name, column in records.items()} for index in first]
        return [{"id": name, **record} for name, record in records.items()]
    return None


def _all_are(values: Sequence[object], kind: type) -> bool:
    return all(isinstance(value, kind) for value in values)


MAX_SNIPPET = 40
"""Characters of a faulty file that an error shows."""
_SPACES = " \t\n\r"


class JsonFile(RowReader):
    """A JSON file whose records are its outermost list, lists deeper in it, rows of a table, or its values.

    `datasets`, Spark and others write JSON lines into files of this name, and jq one value after another.
    """

    def __init__(self, path: Path, records: str = "") -> None:
        """Read a file.

        Args:
            records: The names of the lists on the way to the records, with dots between them.
        """
        super().__init__(str(path), (path,))
        self._file = DataFile(path)
        self._has_single_records = are_shards([path])  # a part of JSON lines may have one line
        self._path = [part for part in records.split(".") if part]

    @override
    def rows(self) -> Iterator[ScannedRow]:
        if not self._path and self._has_lines():
            with self._file.open() as stream:
                yield from scan_lines(stream)
            return
        with self._file.open() as stream:
            text = self._decode(stream.read())
        first, end = self._value(text, 0)
        # One value, or several one after another as jq writes them: only the end of the first one shows it.
        if end == len(text):
            records = self._records(first, self._path, {})
        elif isinstance(first, dict):
            records = self._values(text)
            if self._path:
                records = chain.from_iterable(self._records(value, self._path, {}) for value in records)
        else:
            raise self._fault(JSONDecodeError("Extra data", text, end))
        for number, value in enumerate(records, 1):
            try:
                yield ScannedRow(f"record {number}", as_object(value))
            except RowFaultError as fault:
                yield ScannedRow(f"record {number}", fault)

    def _has_lines(self) -> bool:
        """Whether the first line is an object, and another line follows."""
        with self._file.open() as stream:
            lines = (line for line in iter(lambda: stream.readline(MAX_ROW_BYTES), b"") if not line.isspace())
            try:
                value: object = ROW_DECODER.decode(next(lines, b"").decode("utf-8-sig"))
            except (ValueError, RecursionError, RowFaultError):
                return False
            return isinstance(value, dict) and next(lines, None) is not None

    def _decode(self, data: bytes) -> str:
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise EnvironmentDefinitionError(
                f"{self.name}, line {line}: expected JSON in UTF-8, got the byte {data[error.start]:#04x}"
            ) from error

    def _values(self, text: str) -> Iterator[Any]:
        end = 0
        while end < len(text):
            value, end = self._value(text, end)
            yield value

    def _value(self, text: str, start: int) -> tuple[Any, int]:
        """Return the value that follows a position, and the position after it and its white space."""
        try:
            value, end = ROW_DECODER.raw_decode(text, _skip_spaces(text, start))
        except JSONDecodeError as error:
            raise self._fault(error) from error
        except RecursionError as error:
            raise EnvironmentDefinitionError(
                f"{self.name}: invalid JSON: lists or objects are nested too deeply"
            ) from error
        except (RowFaultError, ValueError) as error:
            raise EnvironmentDefinitionError(f"{self.name}: invalid JSON: {error}") from error
        return value, _skip_spaces(text, end)

    def _fault(self, error: JSONDecodeError) -> EnvironmentDefinitionError:
        before, after = error.doc[max(0, error.pos - MAX_SNIPPET) : error.pos], error.doc[error.pos :]
        shown = (before.rpartition("\n")[2] + after[:MAX_SNIPPET].partition("\n")[0]).strip()
        near = f", near {shown!r}" if shown else ""
        return EnvironmentDefinitionError(
            f"{self.name}, line {error.lineno}, column {error.colno}: invalid JSON: {error.msg}{near}"
        )

    def _records(self, value: Any, path: list[str], outer_fields: JSONObject) -> Iterator[Any]:
        if isinstance(value, list):
            for item in cast("Sequence[Any]", value):
                if path:
                    yield from self._records(item, path, outer_fields)
                else:
                    yield {**outer_fields, **cast("JSONObject", item)} if isinstance(item, dict) else item
            return
        if not path and isinstance(value, dict):
            table = cast("JSONObject", value)
            is_record = self._has_single_records or not any(
                isinstance(item, list | dict) for item in table.values()
            )
            rows = [table] if is_record and not outer_fields else rows_of_object(table)
            if rows is not None:
                # A record's own field wins over one of the object around it.
                yield from ({**outer_fields, **row} for row in rows)
                return
        if not path or not isinstance(value, dict) or path[0] not in value:
            expected = f"the list {path[0]!r}" if path else "a list of records"
            actual: Any = list(cast("JSONObject", value)) if isinstance(value, dict) else value
            raise EnvironmentDefinitionError(
                f"{self.name}: expected {expected}, got {show_value(actual)}; "
                'name the lists on the way to the records: records = "data.paragraphs.qas"'
            )
        table = cast("JSONObject", value)
        plain = {name: item for name, item in table.items() if not isinstance(item, list | dict)}
        yield from self._records(table[path[0]], path[1:], {**outer_fields, **plain})


def _skip_spaces(text: str, start: int) -> int:
    while start < len(text) and text[start] in _SPACES:
        start += 1
    return start


class JsonFolder(RowReader):
    """A folder in which every file *.json, also deeper down, is one row, in the order of paths."""

    def __init__(self, folder: Path) -> None:
        """Find the files; raises `EnvironmentDefinitionError` if there are none."""
        files = sorted(folder.rglob("*.json"), key=lambda path: path.relative_to(folder).parts)
        if not files:
            raise EnvironmentDefinitionError(
                f"{folder}: expected a folder with *.json files, got one without"
            )
        super().__init__(str(folder), tuple(files))
        self._folder = folder

    @override
    def rows(self) -> Iterator[ScannedRow]:
        for path in self.files:
            name = path.relative_to(self._folder).as_posix()
            try:
                yield ScannedRow(name, {"file": name, **parse_object(path.read_bytes())})
            except RowFaultError as fault:
                yield ScannedRow(name, fault)
