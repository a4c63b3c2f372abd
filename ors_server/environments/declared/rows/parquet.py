"""Parquet files, of which the index keeps a copy. Needs the extra `parquet`."""

import base64
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from typing_extensions import override

from ors_server.environments.declared.row_faults import MAX_SHOWN_CHARACTERS, first_repeated
from ors_server.environments.declared.rows.row_source import RowReader, ScannedRow
from ors_server.installation import install_hint
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.model.wire import JSONObject

BATCH_ROWS = 1_000
_PANDAS_INDEX = re.compile(r"__index_level_[0-9]+__")
"""The column in which pandas keeps the index of a table."""


class ParquetRows(RowReader):
    """The rows of a parquet file."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), (path,))
        try:
            self._parquet: Any = import_module("pyarrow.parquet")
        except ImportError as error:
            raise EnvironmentDefinitionError(
                f"{path}: expected the package pyarrow, which reads parquet files, and it is not installed: "
                f"{install_hint('parquet')}"
            ) from error

    @override
    def rows(self) -> Iterator[ScannedRow]:
        number = 0
        try:
            with self._parquet.ParquetFile(self.files[0]) as file:
                names: list[str] = file.schema_arrow.names
                twice = first_repeated(names)
                if twice is not None:
                    raise EnvironmentDefinitionError(
                        f"{self.name}: expected each column once, got {twice[:MAX_SHOWN_CHARACTERS]!r} "
                        "twice; rename one"
                    )
                columns_read = [name for name in names if not _PANDAS_INDEX.fullmatch(name)]
                for batch in file.iter_batches(batch_size=BATCH_ROWS):
                    columns: list[list[Any]] = []
                    for column in map(batch.column, columns_read):
                        try:
                            columns.append(column.to_pylist())
                        # Python has no type for such values, as nanoseconds, and pandas would be needed.
                        except (ValueError, ImportError):
                            columns.append([_value_of(value) for value in column])
                    for values in zip(*columns, strict=True):
                        number += 1
                        yield ScannedRow(
                            f"row {number}", as_json_row(dict(zip(columns_read, values, strict=True)))
                        )
        except (OSError, ValueError) as error:  # what pyarrow raises derives from them
            raise EnvironmentDefinitionError(f"{self.name}: expected a parquet file, and {error}") from error


def _value_of(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, ImportError):
        pass
    # A number of nanoseconds, or a list, a mapping or a structure that has such numbers.
    if hasattr(scalar, "value"):
        return str(scalar.value)
    if isinstance(scalar, Sequence):
        parts = [_value_of(part) for part in cast("Any", scalar).values]
        return [tuple(part.values()) for part in parts] if isinstance(scalar, Mapping) else parts
    return {name: _value_of(part) for name, part in scalar.items()}


def as_json_row(row: Mapping[str, Any]) -> JSONObject:
    """Return a row with values that JSON has: bytes in base64, times as ISO 8601, NaN as null."""
    return {str(name): as_json_value(value) for name, value in row.items()}


def as_json_value(value: Any) -> Any:
    """Return a value as JSON has it; what has no such form, such as a duration, as text."""
    match value:
        case Mapping():
            return as_json_row(cast("Mapping[str, Any]", value))
        case list() | tuple():
            return [as_json_value(item) for item in cast("list[Any]", value)]
        case bytes():
            return base64.b64encode(value).decode()
        case float():
            return value if math.isfinite(value) else None
        case datetime() | date() | time():
            return value.isoformat()
        case _:
            return value if isinstance(value, str | int | None) else str(value)
