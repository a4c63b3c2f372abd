"""A JSON file with a list of records, and a folder of JSON files; the index keeps a copy of both."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from typing_extensions import override

from ors_server.authoring.declared.row_faults import RowFaultError, show_value
from ors_server.authoring.declared.rows.row_source import RowReader, ScannedRow, as_object, parse_object
from ors_server.errors import EnvironmentDefinitionError
from ors_server.wire import JSONObject


class JsonFile(RowReader):
    """A JSON file whose records are its outermost list, or lists deeper in it."""

    def __init__(self, path: Path, records: str = "") -> None:
        """Read a file.

        Args:
            records: The names of the lists on the way to the records, with dots between them.
        """
        super().__init__(str(path), (path,))
        self._path = [part for part in records.split(".") if part]

    @override
    def rows(self) -> Iterator[ScannedRow]:
        try:
            # Wrapped, so that the same rules hold for a list as for one row.
            whole = parse_object('{"":' + self.files[0].read_text("utf-8-sig") + "}")[""]
        except UnicodeDecodeError as error:
            raise EnvironmentDefinitionError(
                f"{self.name}: expected JSON in UTF-8: {error.reason}"
            ) from error
        except RowFaultError as fault:
            raise EnvironmentDefinitionError(f"{self.name}: expected JSON, and {fault}") from fault
        for number, value in enumerate(self._records(whole, self._path, {}), 1):
            try:
                yield ScannedRow(f"record {number}", as_object(value))
            except RowFaultError as fault:
                yield ScannedRow(f"record {number}", fault)

    def _records(self, value: Any, path: list[str], around: JSONObject) -> Iterator[Any]:
        if isinstance(value, list):
            for item in cast("Sequence[Any]", value):
                yield from self._records(item, path, around) if path else [_inside(item, around)]
            return
        if not path or not isinstance(value, dict) or path[0] not in value:
            wanted = f"the list {path[0]!r}" if path else "a list of records"
            raise EnvironmentDefinitionError(
                f"{self.name}: expected {wanted}, came {show_value(_shape(value))}; "
                'name the lists on the way to the records: records = "data.paragraphs.qas"'
            )
        outer = cast("JSONObject", value)
        plain = {name: item for name, item in outer.items() if not isinstance(item, list | dict)}
        yield from self._records(outer[path[0]], path[1:], {**around, **plain})


def _inside(record: Any, around: JSONObject) -> Any:
    return {**around, **cast("JSONObject", record)} if isinstance(record, dict) else record


def _shape(value: Any) -> Any:
    return list(cast("JSONObject", value)) if isinstance(value, dict) else value


class JsonFolder(RowReader):
    """A folder in which every file *.json, also deeper down, is one row, in the order of paths."""

    def __init__(self, folder: Path) -> None:
        """Find the files; raises `EnvironmentDefinitionError` if there are none."""
        files = sorted(folder.rglob("*.json"), key=lambda path: path.relative_to(folder).parts)
        if not files:
            raise EnvironmentDefinitionError(
                f"{folder}: expected a folder with *.json files, and it has none"
            )
        super().__init__(str(folder), tuple(files))
        self._folder = folder

    @override
    def rows(self) -> Iterator[ScannedRow]:
        for path in self.files:
            place = path.relative_to(self._folder).as_posix()
            try:
                yield ScannedRow(place, {"file": place, **parse_object(path.read_bytes())})
            except RowFaultError as fault:
                yield ScannedRow(place, fault)
