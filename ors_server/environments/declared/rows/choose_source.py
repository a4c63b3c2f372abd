"""Chooses the reader of a data file by its name."""

from collections.abc import Callable
from pathlib import Path

from ors_server.environments.declared.rows.data_file import PACKED
from ors_server.environments.declared.rows.hugging_face import PREFIX, HubRows, parse_address
from ors_server.environments.declared.rows.json_files import JsonFile, JsonFolder
from ors_server.environments.declared.rows.jsonl import JsonLines
from ors_server.environments.declared.rows.parquet import ParquetRows
from ors_server.environments.declared.rows.row_source import RowReader
from ors_server.environments.declared.rows.separated import SeparatedValues
from ors_server.environments.declared.rows.shards import (
    are_shards,
    check_shards,
    find_splits,
    join_shards,
    list_data_files,
    match_files,
)
from ors_server.model.errors import EnvironmentDefinitionError

_TEXTS: dict[str, Callable[[Path, str], RowReader]] = {
    ".jsonl": lambda path, _: JsonLines(path),
    ".ndjson": lambda path, _: JsonLines(path),
    ".json": JsonFile,
    ".csv": lambda path, _: SeparatedValues(path, ","),
    ".tsv": lambda path, _: SeparatedValues(path, "\t"),
}
_READERS: dict[str, Callable[[Path, str], RowReader]] = {
    **_TEXTS,
    **{f"{ending}{PACKED}": make for ending, make in _TEXTS.items()},
    ".parquet": lambda path, _: ParquetRows(path),
}
ENDINGS = tuple(_READERS)
"""Endings of data files."""

_SHEET = "an Excel workbook; save the sheet as 'CSV UTF-8' (.csv)"
_TABLES = "; write it as parquet or JSON lines with the program that made it"
_UNREADABLE = {
    ".xlsx": _SHEET,
    ".xlsm": _SHEET,
    ".xls": _SHEET,
    ".ods": "a spreadsheet; save the sheet as CSV in UTF-8",
    ".arrow": f"an Arrow file{_TABLES}",
    ".feather": f"a Feather file{_TABLES}",
    ".avro": f"an Avro file{_TABLES}",
    ".orc": f"an ORC file{_TABLES}",
    ".pkl": f"a pickle, which may run code{_TABLES}",
    ".zip": "a ZIP archive; unpack it",
    ".bz2": "bzip2 data; unpack it (bunzip2)",
    ".xz": "xz data; unpack it (unxz)",
    ".zst": "Zstandard data; unpack it (unzstd)",
}
"""Endings of data that is not read, and what to do."""


def is_data(reference: str) -> bool:
    """Whether a reference of the command line names data: a file by its ending, or a dataset of the hub."""
    name = reference.lower()
    return reference.startswith(PREFIX) or name.endswith(ENDINGS) or name.endswith(tuple(_UNREADABLE))


def is_data_folder(reference: str) -> bool:
    """Whether a reference of the command line names a folder that has data files and no code."""
    folder = Path(reference)
    if not folder.is_dir() or any(folder.glob("*.py")):
        return False
    try:
        return bool(find_splits(folder, ENDINGS))
    except EnvironmentDefinitionError:  # data files that do not fit together
        return True


def choose_source(data: str, folder: Path, records: str = "") -> RowReader:
    """Return the reader of one split's data.

    Args:
        data: A file, a pattern of shards (`train-*.parquet`), a folder, or `hf:NAME`.
        folder: The folder from which relative paths start.
        records: Where the records are in a JSON file.

    Raises:
        EnvironmentDefinitionError: If there is no such file, or no reader for it.
    """
    if data.startswith(PREFIX):
        address = parse_address(data)
        return HubRows(address, address.split or "train")

    def make(path: Path) -> RowReader:
        check_readable(path)
        name = path.name.lower()
        maker = next(maker for ending, maker in _READERS.items() if name.endswith(ending))
        return maker(path, records)

    path = folder / data
    if path.is_dir():
        shards = list_data_files(path, ENDINGS)
        # JSON files that are not numbered like shards are one row each.
        if not shards or (all(shard.suffix == ".json" for shard in shards) and not are_shards(shards)):
            return JsonFolder(path)
        check_shards(shards, str(path))
        return join_shards(str(path), shards, make)
    if "*" in data and not path.exists():
        return join_shards(str(path), match_files(folder, data), make)
    if not path.is_file():
        raise EnvironmentDefinitionError(
            f"{path}: expected a data file or a folder of JSON files, got a path that does not "
            "exist; correct it"
        )
    return make(path)


def check_readable(path: Path) -> None:
    """Raise `EnvironmentDefinitionError`, with what to do, for a file whose name says that it is not read."""
    name = path.name.lower()
    if name.endswith(ENDINGS):
        return
    kind = next((kind for ending, kind in _UNREADABLE.items() if name.endswith(ending)), None)
    actual = f", got {kind}" if kind else "; rename it, or convert it to JSON lines"
    raise EnvironmentDefinitionError(f"{path}: expected a file that ends in {', '.join(ENDINGS)}{actual}")
