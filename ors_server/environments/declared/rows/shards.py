"""Data in several files: the shards of one split, and the splits of a folder."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from typing_extensions import override

from ors_server.environments.declared.rows.row_source import RowReader, ScannedRow
from ors_server.model.errors import EnvironmentDefinitionError

SPLIT_WORDS = frozenset({"train", "validation", "valid", "val", "dev", "test"})
"""Words in the names of files and folders that name a split."""

_NUMBER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]+")
"""The part in which the names of shards differ: a number, or the UUID that Spark writes."""
_OF = re.compile(r"(?P<number>[0-9]+)-of-(?P<count>[0-9]+)")
_PART = re.compile(r"part[-_.]?[0-9]+.*|.*[0-9]+-of-[0-9]+.*")
MAX_LISTED = 5
_SAVED_TO_DISK = ("dataset_info.json", "dataset_dict.json")
"""Files that `datasets` writes next to Arrow files."""


class Shards(RowReader):
    """The rows of several files of one kind, one file after another; the index keeps a copy."""

    def __init__(self, name: str, parts: Sequence[RowReader]) -> None:
        super().__init__(name, tuple(path for part in parts for path in part.files))
        self._parts = tuple(parts)

    @override
    def rows(self) -> Iterator[ScannedRow]:
        for part in self._parts:
            for row in part.rows():
                yield ScannedRow(f"{Path(part.name).name}, {row.location}", row.value)


def split_named(data: str) -> str | None:
    """Return the split that a file's name says, such as `test` for `gsm8k_test.jsonl`."""
    words = re.split(r"[-_*]", Path(data).name.partition(".")[0].lower())
    split_words = [word for word in words if word in SPLIT_WORDS]
    return split_words[-1] if split_words else None


def list_data_files(folder: Path, endings: Sequence[str]) -> list[Path]:
    """Return the data files of a folder, by name, without those that Spark adds, such as `_SUCCESS`."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.name.lower().endswith(tuple(endings)) and path.name[0] not in "._" and path.is_file()
    )


def are_shards(paths: Sequence[Path]) -> bool:
    """Whether files are named as the parts of one data set are, even if it is one file."""
    return all(_PART.fullmatch(path.name) for path in paths)


def check_shards(paths: Sequence[Path], where: str) -> None:
    """Raise `EnvironmentDefinitionError` unless files are all the shards of one data set."""
    if len({_NUMBER.sub("#", path.name) for path in paths}) > 1:
        raise EnvironmentDefinitionError(
            f"{where}: expected the shards of one data set, such as train-00000-of-00002.parquet, or a file "
            f"for each split, such as train.jsonl and test.jsonl, got {_list(paths)}; name one file, or "
            "write an environment.toml with [splits]"
        )
    # Only names such as `00001-of-00004` say how many there should be.
    named = [match for path in paths if (match := _OF.search(path.name))]
    if named and len(named) < int(named[0]["count"]):
        present = {int(match["number"]) for match in named}
        missing = next(number for number in range(len(named) + 1) if number not in present)
        raise EnvironmentDefinitionError(
            f"{where}: expected {int(named[0]['count'])} shards, got {len(named)}; "
            f"number {missing} is missing"
        )


def find_splits(folder: Path, endings: Sequence[str]) -> dict[str, str]:
    """Return the splits of a folder of data: their names, and their data as paths or patterns below it.

    A file or shards for each split (`train.jsonl`, `test-00000-of-00002.parquet`), also below `data`; folders
    that are named like splits; or else one split, `train`, of shards or of JSON files that are one row each.
    Empty if there are no data files.

    Raises:
        EnvironmentDefinitionError: If the files are not of one data set, or shards are missing.
    """
    if any((folder / name).is_file() for name in _SAVED_TO_DISK):
        raise EnvironmentDefinitionError(
            f"{folder}: expected data files, got a folder that save_to_disk of datasets wrote; "
            "write the data with to_parquet or to_json"
        )
    for part in (".", "data"):
        if (folder / part).is_dir() and (paths := list_data_files(folder / part, endings)):
            return _splits_of_files(paths, folder / part, "" if part == "." else f"{part}/")
    named = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_dir()}
    splits = {name: path.name for name, path in named.items() if name in SPLIT_WORDS}
    if splits:
        return splits
    # Not deeper: the folder may be the root of something large that has no data.
    has_rows = any(next(folder.glob(f"{above}*.json"), None) for above in ("", "*/", "*/*/"))
    return {"train": "."} if has_rows else {}


def _splits_of_files(paths: list[Path], folder: Path, prefix: str) -> dict[str, str]:
    by_split: dict[str, list[Path]] = {}
    for path in paths:
        by_split.setdefault(split_named(path.name) or "", []).append(path)
    if by_split.keys() == {""} and all(path.suffix == ".json" for path in paths) and not are_shards(paths):
        return {"train": prefix or "."}  # each file is a row
    if "" in by_split and len(by_split) > 1:
        raise EnvironmentDefinitionError(
            f"{folder}: expected a split such as train or test in the name of each data file, got "
            f"{_list(by_split[''])}; move it away, or write an environment.toml with [splits]"
        )
    splits: dict[str, str] = {}
    for name, files in by_split.items():
        check_shards(files, str(folder))
        splits[name or "train"] = prefix + _pattern(files)
    return splits


def _pattern(paths: Sequence[Path]) -> str:
    """Return a pattern for the names of shards."""
    names = [path.name for path in paths]
    if len(names) == 1:
        return names[0]
    first, last = min(names), max(names)
    start = next(at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1])
    end = _NUMBER.sub("#", first).rpartition("#")[2]
    return f"{first[:start]}*{end}"


def match_files(folder: Path, pattern: str) -> list[Path]:
    """Return the files below a folder that a pattern with `*` names, by name.

    Raises:
        EnvironmentDefinitionError: If it names none, or files that are not the shards of one data set.
    """
    paths = sorted(path for path in folder.glob(pattern) if path.is_file())
    if not paths:
        raise EnvironmentDefinitionError(
            f"{folder / pattern}: expected data files, and none has such a name; correct the pattern"
        )
    check_shards(paths, str(folder / pattern))
    return paths


def join_shards(name: str, paths: Sequence[Path], make: Callable[[Path], RowReader]) -> RowReader:
    """Return one reader of all shards, or of the only one."""
    return make(paths[0]) if len(paths) == 1 else Shards(name, [make(path) for path in paths])


def _list(paths: Sequence[Path]) -> str:
    names = ", ".join(path.name for path in paths[:MAX_LISTED])
    return f"{names} and {len(paths) - MAX_LISTED} more" if len(paths) > MAX_LISTED else names
