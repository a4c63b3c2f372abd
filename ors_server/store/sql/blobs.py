"""Blobs: long texts of blocks, each stored once under the SHA-256 of its UTF-8."""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeAlias

from sqlalchemy import Connection, delete, select

from ors_server.model.errors import StoreError
from ors_server.model.wire import ImageBlock, TextBlock
from ors_server.store.sql.record_tables import blobs

Block: TypeAlias = TextBlock | ImageBlock
MAX_CHARACTER_BYTES = 4
"""Maximum number of bytes of a character in UTF-8."""
_PRIVATE_FOLDER = 0o700


@dataclass(frozen=True, slots=True)
class ExtractedTexts:
    """Blocks without their long texts."""

    blocks: tuple[Block, ...]
    """The blocks; the long ones are empty."""
    blob_refs: str | None
    """JSON of `[position, hash]` pairs; `None` if no block was long."""
    texts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The long texts in UTF-8, by hash."""


class BlobStore(Protocol):
    """A place for blobs."""

    def put(self, connection: Connection, texts: Mapping[str, bytes]) -> None:
        """Store texts by hash, in the transaction that writes the rows that refer to them."""
        ...

    def get(self, connection: Connection, names: Sequence[str]) -> dict[str, bytes]:
        """Return texts by hash; missing ones are left out, and hashes are not checked."""
        ...

    def drop(self, connection: Connection, names: Iterable[str]) -> None:
        """Remove texts that no episode refers to, in the transaction that found that out."""
        ...


def extract_long_texts(blocks: Sequence[Block], limit: int) -> ExtractedTexts:
    """Take the long texts out of blocks."""
    kept: list[Block] = []
    blob_refs: list[tuple[int, str]] = []
    texts: dict[str, bytes] = {}
    for position, block in enumerate(blocks):
        name, text = _text_of(block)
        written = text.encode()
        if len(written) <= limit:
            kept.append(block)
            continue
        key = sha256(written).hexdigest()
        texts[key] = written
        blob_refs.append((position, key))
        kept.append(block.model_copy(update={name: ""}))
    return ExtractedTexts(tuple(kept), json.dumps(blob_refs) if blob_refs else None, texts)


def blob_names_in(blob_refs: str | None) -> list[str]:
    """Return the hashes in a row's references."""
    return [name for _, name in blob_refs_in(blob_refs)]


def restore_long_texts(
    blocks: Sequence[Block], blob_refs: str | None, texts: Mapping[str, bytes], owner: str
) -> tuple[Block, ...]:
    """Put the long texts back into their blocks.

    Args:
        owner: Whose blocks they are, for messages.

    Raises:
        StoreError: If a text is missing or damaged.
    """
    restored = list(blocks)
    for position, key in blob_refs_in(blob_refs):
        damage = damage_of(key, texts.get(key))
        if damage is not None:
            raise StoreError(f"{owner}: block {position + 1}: {damage}")
        block = restored[position]
        restored[position] = block.model_copy(update={_text_of(block)[0]: texts[key].decode()})
    return tuple(restored)


def damage_of(name: str, text: bytes | None) -> str | None:
    """Return what is wrong with a blob's text; `None` if nothing is."""
    if text is None:
        return f"the blob {name} is missing"
    if sha256(text).hexdigest() != name:
        return f"the blob {name} is damaged: its content has another hash"
    return None


def blob_refs_in(blob_refs: str | None) -> list[tuple[int, str]]:
    """Return the positions and hashes in a row's references."""
    return [] if blob_refs is None else [(position, name) for position, name in json.loads(blob_refs)]


def _text_of(block: Block) -> tuple[str, str]:
    return ("data", block.data) if isinstance(block, ImageBlock) else ("text", block.text)


class FileBlobStore:
    """Files next to a SQLite database; `ab/abcdef...` for the hash `abcdef...`."""

    def __init__(self, folder: Path, insert: str) -> None:
        """Use a folder, which the first blob creates."""
        self.folder = folder
        self._insert = insert

    def path_of(self, name: str) -> Path:
        """Return the file of a blob."""
        return self.folder / name[:2] / name

    def put(self, connection: Connection, texts: Mapping[str, bytes]) -> None:
        """Store texts; each is on the disk before the row that names it.

        The transaction keeps every other process from removing files meanwhile.

        Raises:
            OSError: If a file cannot be written.
        """
        for name, text in texts.items():
            self._write(self.path_of(name), text)
            connection.exec_driver_sql(self._insert, (name, len(text), None))

    def get(self, connection: Connection, names: Sequence[str]) -> dict[str, bytes]:
        """See `BlobStore.get`."""
        del connection
        contents: dict[str, bytes] = {}
        for name in names:
            with suppress(FileNotFoundError):
                contents[name] = self.path_of(name).read_bytes()
        return contents

    def drop(self, connection: Connection, names: Iterable[str]) -> None:
        """Remove texts.

        A writer that needs one of them again waits for the transaction, and then writes it again. If the
        transaction fails, rows without a file are left, which no episode refers to.
        """
        gone = list(names)
        connection.execute(delete(blobs).where(blobs.c.sha256.in_(gone)))
        for name in gone:
            self.path_of(name).unlink(missing_ok=True)

    def remove_unreferenced(self, named: Collection[str]) -> int:
        """Remove files that no row names, such as after a crash; returns their bytes.

        Args:
            named: The hashes of all rows; none may be added meanwhile.
        """
        gone = 0
        for path in self.unreferenced_files(named):
            gone += path.stat().st_size
            path.unlink()
        return gone

    def unreferenced_files(self, named: Collection[str]) -> list[Path]:
        """Return the files that no row names, in order."""
        return sorted(
            path
            for path in self.folder.glob("*/*")
            if path != self.path_of(path.name) or path.name not in named
        )

    def _write(self, path: Path, text: bytes) -> None:
        if path.exists() and path.stat().st_size == len(text):
            return
        path.parent.mkdir(mode=_PRIVATE_FOLDER, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with draft.open("wb") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        for folder in (path.parent, self.folder, self.folder.parent):
            # A new name is on the disk only after its folder was synced (fsync(2)).
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


class TableBlobStore:
    """A table of the database, which every server reaches."""

    def __init__(self, insert: str) -> None:
        self._insert = insert

    def put(self, connection: Connection, texts: Mapping[str, bytes]) -> None:
        """See `BlobStore.put`."""
        for name, text in texts.items():
            connection.exec_driver_sql(self._insert, (name, len(text), text))

    def get(self, connection: Connection, names: Sequence[str]) -> dict[str, bytes]:
        """See `BlobStore.get`."""
        rows = connection.execute(
            select(blobs.c.sha256, blobs.c.data).where(blobs.c.sha256.in_(names), blobs.c.data.is_not(None))
        )
        return {row.sha256: bytes(row.data) for row in rows}

    def drop(self, connection: Connection, names: Iterable[str]) -> None:
        """See `BlobStore.drop`."""
        connection.execute(delete(blobs).where(blobs.c.sha256.in_(list(names))))
