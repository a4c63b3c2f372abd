"""A data file as bytes: unpacked if it is compressed, and refused with a reason if it is not text."""

import gzip
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ors_server.environments.declared.rows.row_source import too_large, unpacked_limit
from ors_server.model.errors import EnvironmentDefinitionError

PACKED = ".gz"
"""The ending of the name of a file that is compressed with gzip."""

_FIRST_BYTES = {
    b"\xff\xfe": "UTF-16 (iconv -f UTF-16 -t UTF-8 converts it)",
    b"\xfe\xff": "UTF-16 (iconv -f UTF-16 -t UTF-8 converts it)",
    b"PK\x03\x04": "a ZIP archive or an Excel workbook (unpack it, or save the sheet as 'CSV UTF-8')",
    b"\x1f\x8b": "gzip data (give it a name that ends in .gz)",
    b"PAR1": "a parquet file (give it a name that ends in .parquet)",
    b"BZh": "bzip2 data (bunzip2 unpacks it)",
    b"\xfd7zXZ": "xz data (unxz unpacks it)",
    b"\x28\xb5\x2f\xfd": "Zstandard data (unzstd unpacks it)",
}
"""The first bytes of files that are not text in UTF-8, and their kinds."""
_PEEKED = max(map(len, _FIRST_BYTES))


class ByteStream(Protocol):
    """A stream from which rows are read."""

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line, or a part of it of at most `size` bytes; empty at the end."""
        ...

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes, or all; empty at the end."""
        ...


class DataFile:
    """A file of text."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self.path = path
        self.is_packed = path.name.lower().endswith(PACKED)

    @contextmanager
    def open(self) -> Generator[ByteStream]:
        """Open the file for reading bytes.

        Raises:
            EnvironmentDefinitionError: If it is not text in UTF-8, not gzip data as its name says, or grows
                beyond all measure.
        """
        if not self.is_packed:
            with self.path.open("rb") as stream:
                self._check(stream.peek(_PEEKED))
                yield stream
            return
        try:
            with gzip.open(self.path) as unpacked:
                self._check(unpacked.peek(_PEEKED))
                # A few kilobytes of gzip data can unpack to gigabytes.
                yield _BoundedData(unpacked, str(self.path), unpacked_limit([self.path]))
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise EnvironmentDefinitionError(f"{self.path}: expected gzip data, and {error}") from error

    def _check(self, first: bytes) -> None:
        kind = next((kind for begin, kind in _FIRST_BYTES.items() if first.startswith(begin)), None)
        if kind is not None:
            raise EnvironmentDefinitionError(f"{self.path}: expected text in UTF-8, got {kind}")


class _BoundedData:
    """Unpacked data, up to a size."""

    def __init__(self, stream: ByteStream, name: str, limit: int) -> None:
        self._stream, self._name, self._limit = stream, name, limit
        self._left = limit

    def readline(self, size: int = -1, /) -> bytes:
        return self._count(self._stream.readline(size))

    def read(self, size: int = -1, /) -> bytes:
        return self._count(self._stream.read(self._left + 1 if size < 0 else size))

    def _count(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise too_large(self._name, self._limit)
        return data
