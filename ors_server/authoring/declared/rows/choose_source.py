"""Chooses the reader of a data file by its name."""

from collections.abc import Callable
from pathlib import Path

from ors_server.authoring.declared.rows.hugging_face import PREFIX, HubRows, parse_address
from ors_server.authoring.declared.rows.json_files import JsonFile, JsonFolder
from ors_server.authoring.declared.rows.jsonl import GzippedJsonLines, JsonLines
from ors_server.authoring.declared.rows.parquet import ParquetRows
from ors_server.authoring.declared.rows.row_source import RowReader
from ors_server.authoring.declared.rows.separated import SeparatedValues
from ors_server.errors import EnvironmentDefinitionError

_READERS: dict[str, Callable[[Path, str], RowReader]] = {
    ".jsonl": lambda path, _: JsonLines(path),
    ".ndjson": lambda path, _: JsonLines(path),
    ".jsonl.gz": lambda path, _: GzippedJsonLines(path),
    ".json": JsonFile,
    ".csv": lambda path, _: SeparatedValues(path, ","),
    ".tsv": lambda path, _: SeparatedValues(path, "\t"),
    ".parquet": lambda path, _: ParquetRows(path),
}
ENDINGS = tuple(_READERS)
"""Endings of data files."""


def is_data(reference: str) -> bool:
    """Whether a reference of the command line names data: a file by its ending, or a dataset of the hub."""
    return reference.startswith(PREFIX) or reference.lower().endswith(ENDINGS)


def choose_source(data: str, folder: Path, records: str = "") -> RowReader:
    """Return the reader of one split's data.

    Args:
        folder: The folder from which relative paths start.

    Raises:
        EnvironmentDefinitionError: If there is no such file, or no reader for it.
    """
    if data.startswith(PREFIX):
        address = parse_address(data)
        return HubRows(address, address.split or "train")
    path = folder / data
    if path.is_dir():
        return JsonFolder(path)
    if not path.is_file():
        raise EnvironmentDefinitionError(
            f"{path}: expected a data file or a folder of JSON files, and there is none; correct the path"
        )
    name = path.name.lower()
    make = next((make for ending, make in _READERS.items() if name.endswith(ending)), None)
    if make is None:
        raise EnvironmentDefinitionError(
            f"{path}: expected a file that ends in {', '.join(ENDINGS)}; rename it, or convert "
            "it to JSON lines"
        )
    return make(path, records)
