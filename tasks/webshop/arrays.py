"""Arrays and rows on disk that all sessions share; pages that were read are given back to the system."""

import json
import mmap
import os
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

MAX_RESIDENT = 192 << 20
"""Bytes of a mapped array that are read before the process gives its pages back to the system."""


class MappedArray:
    """A one-dimensional array in a file. Slices of it are views of the file."""

    def __init__(self, path: Path, dtype: str) -> None:
        """Map the file."""
        self._map: mmap.mmap | None = None
        self._read = 0
        self._guard = threading.Lock()
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.values: NDArray[Any] = np.frombuffer(self._map or b"", dtype=dtype)

    def part(self, start: int, stop: int) -> NDArray[Any]:
        """Return the entries from `start` to `stop`, exclusive."""
        part = self.values[start:stop]
        with self._guard:
            self._read += part.nbytes
            if self._read > MAX_RESIDENT:
                self._read = 0
                self._give_back()
        return part

    def _give_back(self) -> None:
        if self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)  # the pages stay in the system's cache


def write_array(path: Path, values: NDArray[Any]) -> None:
    """Write an array for `MappedArray`."""
    values.tofile(path)


class Rows:
    """JSON values by number, read from disk one at a time."""

    def __init__(self, folder: Path, name: str) -> None:
        """Open the two files of `RowWriter`."""
        self._file = os.open(folder / f"{name}.rows", os.O_RDONLY)
        self._ends = MappedArray(folder / f"{name}.ends", "<i8")

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._ends.values)

    def __getitem__(self, number: int) -> Any:
        """Return an element; IndexError if the number is out of range."""
        if not 0 <= number < len(self):
            raise IndexError(number)
        start = int(self._ends.values[number - 1]) if number else 0
        return json.loads(os.pread(self._file, int(self._ends.values[number]) - start, start))

    def __del__(self) -> None:
        """Close the file."""
        os.close(self._file)


class RowWriter:
    """Writes rows for `Rows`."""

    def __init__(self, folder: Path, name: str) -> None:
        """Open the file."""
        self._path = folder / f"{name}.ends"
        self._file = (folder / f"{name}.rows").open("wb")
        self._ends: list[int] = []

    def append(self, row: object) -> None:
        """Write one."""
        self._file.write(_ENCODER.encode(row).encode())
        self._ends.append(self._file.tell())

    def finish(self) -> None:
        """Close the file, and write where the rows end."""
        self.close()
        write_array(self._path, np.array(self._ends, dtype="<i8"))

    def close(self) -> None:
        """Close the file. A second call does nothing."""
        self._file.close()


class Keys:
    """Sorted texts on disk, found by binary search."""

    def __init__(self, folder: Path, name: str) -> None:
        """Open the two files of `write_keys`."""
        self._bytes = MappedArray(folder / f"{name}.keys", "u1")
        self._ends = MappedArray(folder / f"{name}.key_ends", "<i8")

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._ends.values)

    def __getitem__(self, index: int) -> str:
        """Return one."""
        return self._at(index).decode()

    def find(self, key: str) -> int | None:
        """Return the place of a text; `None` if it is not there."""
        wanted = key.encode("utf-8", "surrogatepass")
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._at(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self._at(low) == wanted else None

    def _at(self, index: int) -> bytes:
        start = int(self._ends.values[index - 1]) if index else 0
        return self._bytes.values[start : int(self._ends.values[index])].tobytes()


def write_keys(folder: Path, name: str, keys: Sequence[bytes]) -> None:
    """Write texts, sorted as bytes, for `Keys`."""
    (folder / f"{name}.keys").write_bytes(b"".join(keys))
    write_array(folder / f"{name}.key_ends", np.cumsum(np.fromiter(_lengths(keys), dtype="<i8"), dtype="<i8"))


def _lengths(keys: Iterable[bytes]) -> Iterable[int]:
    return map(len, keys)
