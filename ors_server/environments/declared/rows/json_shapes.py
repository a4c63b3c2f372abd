"""Finds the rows of a JSON value that is an object, in the shapes in which pandas and others write tables."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, cast

from ors_server.model.wire import JSONObject


def rows_of_object(table: JSONObject) -> list[JSONObject] | None:
    """Return the rows of an object; `None` if it has none of these shapes.

    - `{column: [value, ...]}`, lists of one length: `to_dict("list")` of pandas and datasets;
    - `{column: {index: value}}`, with the same indices: `DataFrame.to_json()`;
    - `{id: row}`, whose rows receive the id as `id` if they have none: `to_json(orient="index")`;
    - `{"columns": [...], "data": [[...]]}`: `to_json(orient="split")`;
    - `{"schema": ..., "data": [row, ...]}`: `to_json(orient="table")`.
    """
    values = list(table.values())
    columns, data = table.get("columns"), table.get("data")
    if isinstance(columns, list) and isinstance(data, list) and table.keys() <= {"columns", "index", "data"}:
        return _split_rows(cast("Sequence[Any]", columns), cast("Sequence[Any]", data))
    if isinstance(data, list) and table.keys() == {"schema", "data"}:
        rows = cast("Sequence[JSONObject]", data)
        return list(rows) if _are(rows, dict) else None
    if values and _are(values, list):
        return _rows_of_columns(cast("Mapping[str, list[Any]]", table))
    if values and _are(values, dict):
        return _rows_of_records(cast("Mapping[str, JSONObject]", table))
    return None


def _rows_of_records(records: Mapping[str, JSONObject]) -> list[JSONObject]:
    first = next(iter(records.values()))
    if _are_indices(first) and all(record.keys() == first.keys() for record in records.values()):
        return [{name: column[index] for name, column in records.items()} for index in first]
    return [{"id": name, **record} for name, record in records.items()]


def _are(values: Sequence[object], kind: type) -> bool:
    return all(isinstance(value, kind) for value in values)


def _split_rows(columns: Sequence[Any], data: Sequence[Any]) -> list[JSONObject] | None:
    if not _are(columns, str) or len(set(columns)) < len(columns):
        return None
    if not all(isinstance(row, list) and len(cast("Sequence[Any]", row)) == len(columns) for row in data):
        return None
    return [dict(zip(columns, row, strict=True)) for row in data]


def _rows_of_columns(columns: Mapping[str, list[Any]]) -> list[JSONObject] | None:
    lengths = {len(column) for column in columns.values()}
    # One list, or lists of objects, are rather records under a name.
    are_records = len(columns) == 1 or all(_are(column, dict) for column in columns.values())
    if are_records or len(lengths) != 1 or lengths == {0}:
        return None
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _are_indices(names: Mapping[str, object]) -> bool:
    """Whether names are 0, 1, 2 and so on."""
    return bool(names) and all(name == str(number) for name, number in zip(names, count(), strict=False))
