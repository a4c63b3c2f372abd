"""Long texts of blocks, each kept once under the SHA-256 of its UTF-8, apart from the steps that show it."""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeAlias

from sqlalchemy import Connection, delete, select

from ors_server.errors import StoreError
from ors_server.store.sql.schema import blobs
from ors_server.wire import ImageBlock, TextBlock

Block: TypeAlias = TextBlock | ImageBlock
_BYTES_PER_CHARACTER = 4
"""Most bytes of a character in UTF-8."""
_PRIVATE_FOLDER = 0o700


@dataclass(frozen=True, slots=True)
class Shelved:
    """Blocks whose long texts were taken out."""

    blocks: tuple[Block, ...]
    """The blocks; those that were long are empty now."""
    places: str | None
    """JSON of `[position, hash]` pairs; `None` where nothing was long."""
    texts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The long texts in UTF-8, by hash."""


class Shelf(Protocol):
    """Where the long texts stand."""

    def put(self, connection: Connection, texts: Mapping[str, bytes]) -> None:
        """Keep texts, within the transaction that writes what shows them.

        Args:
            connection: Whose transaction it is.
            texts: The texts by hash; those that are there already cost nothing.
        """
        ...

    def get(self, connection: Connection, names: Sequence[str]) -> dict[str, bytes]:
        """Return texts by hash; those that are missing are left out, and nothing is checked.

        Args:
            connection: One that reads.
            names: The hashes.
        """
        ...

    def drop(self, connection: Connection, names: Iterable[str]) -> None:
        """Let go of texts that nothing shows, within the transaction that found that out.

        Args:
            connection: Whose transaction it is.
            names: The hashes.
        """
        ...


def is_long(blocks: Sequence[Block], limit: int) -> bool:
    """Say whether one of the blocks may be longer than the limit; that is asked for every step.

    Args:
        blocks: The blocks.
        limit: Bytes of UTF-8.
    """
    for block in blocks:
        text = block.data if isinstance(block, ImageBlock) else block.text
        if len(text) * _BYTES_PER_CHARACTER > limit:
            return True
    return False


def shelve(blocks: Sequence[Block], limit: int) -> Shelved:
    """Take the long texts out of blocks.

    Args:
        blocks: The blocks.
        limit: Bytes of UTF-8 that stay.
    """
    kept: list[Block] = []
    places: list[tuple[int, str]] = []
    texts: dict[str, bytes] = {}
    for position, block in enumerate(blocks):
        name, text = _text_of(block)
        written = text.encode()
        if len(written) <= limit:
            kept.append(block)
            continue
        key = sha256(written).hexdigest()
        texts[key] = written
        places.append((position, key))
        kept.append(block.model_copy(update={name: ""}))
    return Shelved(tuple(kept), json.dumps(places) if places else None, texts)


def names_in(places: str | None) -> list[str]:
    """Return the hashes that a row names.

    Args:
        places: What `shelve` made.
    """
    return [name for _, name in places_in(places)]


def unshelve(
    blocks: Sequence[Block], places: str | None, texts: Mapping[str, bytes], what: str
) -> tuple[Block, ...]:
    """Put the long texts back.

    Args:
        blocks: The blocks as `shelve` left them.
        places: What `shelve` made.
        texts: The texts by hash, as they were found.
        what: Whose blocks they are, for messages.

    Raises:
        StoreError: If a text is missing or not what was put there.
    """
    whole = list(blocks)
    for position, key in places_in(places):
        complaint = complaint_about(key, texts.get(key))
        if complaint is not None:
            raise StoreError(f"{what}: block {position + 1}: {complaint}")
        block = whole[position]
        whole[position] = block.model_copy(update={_text_of(block)[0]: texts[key].decode()})
    return tuple(whole)


def complaint_about(name: str, text: bytes | None) -> str | None:
    """Say what is wrong with a blob; `None` if nothing is.

    Args:
        name: Its hash.
        text: What was found; `None` for nothing.
    """
    if text is None:
        return f"the blob {name} is missing"
    if sha256(text).hexdigest() != name:
        return f"the blob {name} is damaged: what stands there has another hash"
    return None


def places_in(places: str | None) -> list[tuple[int, str]]:
    """Return the positions and hashes that a row names.

    Args:
        places: What `shelve` made.
    """
    return [] if places is None else [(position, name) for position, name in json.loads(places)]


def _text_of(block: Block) -> tuple[str, str]:
    return ("data", block.data) if isinstance(block, ImageBlock) else ("text", block.text)


class FileShelf:
    """Files beside a SQLite database, `ab/abcdef...` for the hash `abcdef...`."""

    def __init__(self, folder: Path, insert: str) -> None:
        """Name the folder; it is made with the first blob.

        Args:
            folder: Where the files are.
            insert: The statement that adds a row of `blobs` unless it is there.
        """
        self.folder = folder
        self._insert = insert

    def path_of(self, name: str) -> Path:
        """Return where a blob is.

        Args:
            name: Its hash.
        """
        return self.folder / name[:2] / name

    def put(self, connection: Connection, texts: Mapping[str, bytes]) -> None:
        """Keep texts: each is on the disk before the row that names it.

        Args:
            connection: Whose transaction it is; it keeps everybody else from removing files meanwhile.
            texts: The texts by hash.

        Raises:
            OSError: If a file cannot be written.
        """
        for name, text in texts.items():
            self._write(self.path_of(name), text)
            connection.exec_driver_sql(self._insert, (name, len(text), None))

    def get(self, connection: Connection, names: Sequence[str]) -> dict[str, bytes]:
        """Return texts by hash; those that are missing are left out.

        Args:
            connection: Not used.
            names: The hashes.
        """
        del connection
        found: dict[str, bytes] = {}
        for name in names:
            with suppress(FileNotFoundError):
                found[name] = self.path_of(name).read_bytes()
        return found

    def drop(self, connection: Connection, names: Iterable[str]) -> None:
        """Remove texts.

        Whoever wants one of them again waits for the transaction to end, and then writes it again; should the
        transaction fail, a row is left that nothing shows.

        Args:
            connection: Whose transaction it is.
            names: The hashes.
        """
        gone = list(names)
        connection.execute(delete(blobs).where(blobs.c.sha256.in_(gone)))
        for name in gone:
            self.path_of(name).unlink(missing_ok=True)

    def sweep(self, named: Collection[str]) -> int:
        """Remove files that no row names, as a crash leaves them; returns their bytes.

        Args:
            named: The hashes of all rows, which must not become more meanwhile.
        """
        gone = 0
        for path in self.strays(named):
            gone += path.stat().st_size
            path.unlink()
        return gone

    def strays(self, named: Collection[str]) -> list[Path]:
        """Return the files that no row names, in order.

        Args:
            named: The hashes of all rows.
        """
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
            _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    # A new name is on the disk once its folder is (fsync(2)).
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class TableShelf:
    """A table of the database itself, which every server reaches."""

    def __init__(self, insert: str) -> None:
        """Keep the statement.

        Args:
            insert: The statement that adds a row of `blobs` unless it is there.
        """
        self._insert = insert

    def put(self, connection: Connection, texts: Mapping[str, bytes]) -> None:
        """Keep texts.

        Args:
            connection: Whose transaction it is.
            texts: The texts by hash.
        """
        for name, text in texts.items():
            connection.exec_driver_sql(self._insert, (name, len(text), text))

    def get(self, connection: Connection, names: Sequence[str]) -> dict[str, bytes]:
        """Return texts by hash; those that are missing are left out.

        Args:
            connection: One that reads.
            names: The hashes.
        """
        rows = connection.execute(
            select(blobs.c.sha256, blobs.c.data).where(blobs.c.sha256.in_(names), blobs.c.data.is_not(None))
        )
        return {row.sha256: bytes(row.data) for row in rows}

    def drop(self, connection: Connection, names: Iterable[str]) -> None:
        """Remove texts.

        Args:
            connection: Whose transaction it is.
            names: The hashes.
        """
        connection.execute(delete(blobs).where(blobs.c.sha256.in_(list(names))))
