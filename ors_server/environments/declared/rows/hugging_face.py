"""Datasets of the Hugging Face hub or of local folders, read by `datasets`. Needs the extra `huggingface`."""

import re
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import override

from ors_server.environments.declared.rows.parquet import as_json_row
from ors_server.environments.declared.rows.row_source import RowReader, ScannedRow, stamp_of
from ors_server.installation import install_hint
from ors_server.model.errors import EnvironmentDefinitionError

PREFIX = "hf:"
_ADDRESS = re.compile(r"hf:(?P<name>[^@:]+)(?:@(?P<config>[^@:]+))?(?::(?P<split>[^@:]+))?")


class HubAddress(NamedTuple):
    """`hf:NAME[@CONFIG][:SPLIT]`."""

    name: str
    config: str | None
    split: str | None


def parse_address(text: str) -> HubAddress:
    """Read an address; raise `EnvironmentDefinitionError` if it has another form."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise EnvironmentDefinitionError(
            f"data = {text!r}: expected hf:NAME[@CONFIG][:SPLIT], such as hf:openai/gsm8k@main:test"
        )
    return HubAddress(match["name"], match["config"], match["split"])


def list_hub_splits(address: HubAddress) -> list[str]:
    """Return the names of a dataset's splits."""
    datasets = _import_datasets(address.name)
    try:
        return list(map(str, datasets.get_dataset_split_names(address.name, address.config)))
    except Exception as error:
        raise _refusal(address, error) from error


class HubRows(RowReader):
    """The rows of a split of a dataset."""

    def __init__(self, address: HubAddress, split: str) -> None:
        config = f"@{address.config}" if address.config else ""
        super().__init__(f"{PREFIX}{address.name}{config}:{split}", ())
        self._address, self._split = address, split

    @cached_property
    def _dataset(self) -> Any:
        datasets = _import_datasets(self._address.name)
        try:
            return datasets.load_dataset(self._address.name, self._address.config, split=self._split)
        except Exception as error:
            raise _refusal(self._address, error) from error

    @override
    def stamp(self) -> dict[str, list[int]]:
        files = [Path(file["filename"]) for file in self._dataset.cache_files]
        return {self.name: [len(self._dataset)], **{str(path): stamp_of(path) for path in files}}

    @override
    def rows(self) -> Iterator[ScannedRow]:
        columns: Any = self._dataset
        images = [name for name, feature in columns.features.items() if type(feature).__name__ == "Image"]
        for name in images:
            # Undecoded, so that a row has the bytes of the file.
            kind = _import_datasets(self._address.name).Image(decode=False)
            columns = columns.cast_column(name, kind)
        for number, row in enumerate(columns, 1):
            yield ScannedRow(f"row {number}", as_json_row(row))


def _import_datasets(name: str) -> Any:
    try:
        return import_module("datasets")
    except ImportError as error:
        raise EnvironmentDefinitionError(
            f"{PREFIX}{name}: expected the package datasets, and it is not installed: "
            f"{install_hint('huggingface')}"
        ) from error


def _refusal(address: HubAddress, error: Exception) -> EnvironmentDefinitionError:
    first = str(error).strip().partition("\n")[0] or type(error).__name__
    return EnvironmentDefinitionError(
        f"{PREFIX}{address.name}: expected a dataset that `datasets` can load, and it failed: {first}; check "
        "the name, the configuration (@CONFIG) and the split, or download the data first"
    )
