"""The files of a catalogue in WebShop's format, their hash, and whether they have changed."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ors_server_tasks.webshop.json_reading import CatalogueError

FORMAT = "3"
"""Changes whenever the files of the index change their form or their contents."""

_PRODUCTS = ("items_shuffle.json", "items_shuffle_1000.json", "items_shuffle.jsonl")
_ATTRIBUTES = {
    "items_shuffle.json": "items_ins_v2.json",
    "items_shuffle_1000.json": "items_ins_v2_1000.json",
    "items_shuffle.jsonl": "items_ins_v2.json",
}
_HUMAN = "items_human_ins.json"


@dataclass(frozen=True)
class DataFolder:
    """The files of one catalogue."""

    products: Path
    attributes: Path
    human: Path | None
    """Instructions by people; a catalogue without them has synthetic goals only."""

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them."""
        return (self.products, self.attributes, *([] if self.human is None else [self.human]))

    def stamp(self) -> dict[str, list[int]]:
        """Return size, time and place on disk of each file; CatalogueError if one has gone."""
        return {str(path): _stamp(path) for path in self.files}

    def total_size(self) -> int:
        """Return the bytes of all files."""
        return sum(size for size, *_ in self.stamp().values())


def find_files(folder: Path) -> DataFolder:
    """Return the files of a folder.

    Raises:
        CatalogueError: It is not a folder, or lacks a file.
    """
    if not folder.is_dir():
        raise CatalogueError(
            f"WEBSHOP_DATA={folder}: expected a folder with WebShop's files; without the variable, an "
            "invented catalogue is served"
        )
    names = [name for name in _PRODUCTS if (folder / name).is_file()]
    if not names:
        raise CatalogueError(
            f"WEBSHOP_DATA={folder}: expected one of {', '.join(_PRODUCTS)} in it, found none"
        )
    attributes = folder / _ATTRIBUTES[names[0]]
    if not attributes.is_file():
        raise CatalogueError(
            f"WEBSHOP_DATA={folder}: expected {attributes.name} next to {names[0]}; it is missing"
        )
    human = folder / _HUMAN
    return DataFolder(folder / names[0], attributes, human if human.is_file() else None)


def hash_of(folder: DataFolder, cache: Path) -> str:
    """Return the hash of the contents, 32 hexadecimal digits; unchanged files are not read again."""
    stamp = {**folder.stamp(), "format": [int(FORMAT)]}
    name = hashlib.sha256("\0".join(map(str, folder.files)).encode()).hexdigest()[:32]
    cached = cache / "hashes" / f"{name}.json"
    entry = _read_known(cached)
    if entry is not None and entry.get("stamp") == stamp and entry.get("hash"):
        return str(entry["hash"])
    digest = hashlib.sha256(FORMAT.encode())
    for path in folder.files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    content = digest.hexdigest()[:32]
    cached.parent.mkdir(parents=True, exist_ok=True)
    partial = cached.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps({"stamp": stamp, "hash": content}), encoding="utf-8")
    partial.replace(cached)
    return content


def _read_known(path: Path) -> Mapping[str, object] | None:
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return cast("dict[str, object]", entry) if isinstance(entry, dict) else None


def _stamp(path: Path) -> list[int]:
    try:
        status = path.stat()
    except OSError as error:
        raise CatalogueError(f"{path}: expected the catalogue's file: {error.strerror}") from error
    return [status.st_size, status.st_mtime_ns, status.st_ino]
