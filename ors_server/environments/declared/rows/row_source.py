"""The interface of every format of data: rows in order, each with its location."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from typing_extensions import override

from ors_server.environments.declared.row_faults import (
    MAX_SHOWN_CHARACTERS,
    RowFaultError,
    first_repeated,
    show_value,
)
from ors_server.model.errors import EnvironmentDefinitionError
from ors_server.model.json_bounds import MAX_VALUES, NEVER_TOO_MUCH, count_values
from ors_server.model.wire import JSONObject

MAX_ROW_BYTES = 16 * 2**20
"""Greatest size of one row."""


MAX_EXPANSION = 100
"""Greatest size of unpacked data, as a multiple of its files' size; for text, 10 is usual."""
ALWAYS_UNPACKED = 64 * 2**20
"""Bytes that data of any size may have once it is unpacked."""


def unpacked_limit(files: Iterable[Path]) -> int:
    """Return how many bytes the rows of packed files may have."""
    return max(ALWAYS_UNPACKED, MAX_EXPANSION * sum(path.stat().st_size for path in files))


def too_large(name: str, limit: int) -> EnvironmentDefinitionError:
    """Return the refusal of packed data that grows beyond its limit."""
    return EnvironmentDefinitionError(
        f"{name}: expected rows of at most {limit:,} bytes ({MAX_EXPANSION} times the size of the file), and "
        "they have more; unpack the file yourself if that is right"
    )


@dataclass(frozen=True, slots=True)
class ScannedRow:
    """A row as it was found in a file."""

    location: str
    """`line 17`, `record 3`, or a file's name in a folder."""
    value: JSONObject | RowFaultError
    offset: int = 0
    length: int = 0
    """Its bytes in the file, for a source that is read in place."""
    checksum: int = 0
    """CRC-32 of these bytes."""


class RowReader(ABC):
    """The rows of one split."""

    is_copied = True
    """Whether the index keeps a copy of the rows; otherwise it reads them in the file, by their bytes."""

    def __init__(self, name: str, files: tuple[Path, ...]) -> None:
        """Keep the name for messages, and the files whose change makes the index stale."""
        self.name = name
        self.files = files

    @abstractmethod
    def rows(self) -> Iterator[ScannedRow]:
        """Yield every row, the wrong ones too."""

    def decode(self, data: bytes) -> JSONObject:
        """Read a row from the bytes that the index kept, or that it finds in the file."""
        return parse_object(data)

    def stamp(self) -> dict[str, list[int]]:
        """Return size, times and inode of each file; raises OSError if one has gone."""
        return {str(path): stamp_of(path) for path in self.files}

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def stamp_of(path: Path) -> list[int]:
    """Return size, times of change and inode of a file."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def parse_object(data: bytes | str) -> JSONObject:
    """Read a row that is one JSON object; raise `RowFaultError` if it is something else."""
    try:
        text = data if isinstance(data, str) else data.decode()
        value = ROW_DECODER.decode(text)
    except UnicodeDecodeError as error:
        raise RowFaultError("", "UTF-8", f"the byte {error.object[error.start]:#04x}") from error
    except RecursionError as error:
        raise RowFaultError("", "JSON of fewer levels", "lists or objects nested too deeply") from error
    except json.JSONDecodeError as error:
        actual = f"{show_value(error.doc.strip())} ({error.msg} at column {error.colno})"
        raise RowFaultError("", "a JSON object", actual) from error
    except ValueError as error:  # a number of too many digits
        raise RowFaultError("", "a JSON object", str(error)) from error
    return as_object(value)


def as_object(value: object) -> JSONObject:
    """Return a JSON object, or raise `RowFaultError`."""
    if not isinstance(value, dict):
        raise RowFaultError("", "a JSON object", show_value(value))
    return cast("JSONObject", value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    # `json` would silently keep the last of two fields with one name.
    if len(fields) != len(pairs):
        twice = first_repeated(name for name, _ in pairs) or ""
        raise RowFaultError(twice[:MAX_SHOWN_CHARACTERS], "each field once", "the field twice")
    return fields


# NaN and the infinities, which JSON does not have, are missing values, as in parquet files.
ROW_DECODER = json.JSONDecoder(parse_constant=lambda _constant: None, object_pairs_hook=_object)
"""Reads rows; raises `RowFaultError` for a field that occurs twice."""


def check_line(line: bytes) -> None:
    """Raise `RowFaultError` for a row, as `write_row` writes it, that would hold a server up."""
    if len(line) > MAX_ROW_BYTES:
        raise row_too_large(len(line))
    if len(line) > NEVER_TOO_MUCH and count_values(line) > MAX_VALUES:
        expected = f"a row of {MAX_VALUES:,} values, keys and containers at most"
        raise RowFaultError("", expected, "more; write large data as one string")


def row_too_large(length: int) -> RowFaultError:
    """Return the fault of a row that has so many bytes, or more."""
    return RowFaultError("", f"a row of {MAX_ROW_BYTES:,} bytes at most", f"{length:,} bytes")


def write_row(row: JSONObject) -> bytes:
    """Write a row as a line of the index's copy; raise `RowFaultError` if it is not JSON."""
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError as error:
        raise RowFaultError("", "text that UTF-8 can write", "half a surrogate pair") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise RowFaultError("", "values that JSON can write", str(error)) from error
