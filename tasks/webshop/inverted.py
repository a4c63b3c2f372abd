"""An inverted index on disk: for each key, the numbers of the products that have it, in order.

It is written in two passes, so that neither a large catalogue nor its index has to fit into memory: pairs of
key and product go to a file, and are then sorted piece by piece into their places.
"""

from array import array
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ors_server_tasks.webshop.arrays import Keys, MappedArray, write_array, write_keys

PAIRS_AT_ONCE = 1 << 23
"""Pairs that are sorted at once."""


class InvertedIndex:
    """Numbers of products by key, each with a code of 16 bits."""

    def __init__(self, folder: Path, name: str) -> None:
        """Open the files of `IndexWriter`."""
        self.keys = Keys(folder, name)
        self._starts = MappedArray(folder / f"{name}.starts", "<i8").values
        self._numbers = MappedArray(folder / f"{name}.numbers", "<u4")
        self._codes = MappedArray(folder / f"{name}.codes", "<u2")

    def count(self, key_index: int) -> int:
        """Return how many products have a key."""
        return int(self._starts[key_index + 1] - self._starts[key_index])

    def numbers(self, key_index: int) -> NDArray[np.uint32]:
        """Return the numbers of the products that have a key, ascending."""
        return self._numbers.part(int(self._starts[key_index]), int(self._starts[key_index + 1]))

    def codes(self, key_index: int) -> NDArray[np.uint16]:
        """Return the code of each of these products."""
        return self._codes.part(int(self._starts[key_index]), int(self._starts[key_index + 1]))


class IndexWriter:
    """Writes an inverted index: `add` for each product in order, then `finish`."""

    def __init__(self, folder: Path, name: str) -> None:
        """Open a file for the pairs."""
        self._folder = folder
        self._name = name
        self._path = folder / f"{name}.pairs"
        self._pairs = self._path.open("wb")
        self._numbers_of_keys: dict[str, int] = {}
        self._block = array("I")

    def number_of(self, key: str) -> int:
        """Return the number of a key, which may be a new one."""
        return self._numbers_of_keys.setdefault(key, len(self._numbers_of_keys))

    def add(self, product: int, codes: dict[int, int]) -> None:
        """Add a product.

        Args:
            product: Its number, greater than that of the last one.
            codes: A code from 0 to 65,535 for the number of each key that it has.
        """
        for key, code in codes.items():
            self._block.extend((key, product, code))
        if len(self._block) > PAIRS_AT_ONCE:
            self._flush()

    def finish(self) -> None:
        """Sort the pairs into their places, and write the index."""
        self._flush()
        self.close()
        order = sorted(
            range(len(self._numbers_of_keys)), key=list(map(_as_bytes, self._numbers_of_keys)).__getitem__
        )
        names = list(self._numbers_of_keys)
        write_keys(self._folder, self._name, [_as_bytes(names[number]) for number in order])
        place_of = np.empty(len(order), dtype="<u4")
        place_of[order] = np.arange(len(order), dtype="<u4")
        pairs = MappedArray(self._path, "<u4").values.reshape(-1, 3)
        counts = np.zeros(len(order), dtype="<i8")
        for start in range(0, len(pairs), PAIRS_AT_ONCE):
            counts += np.bincount(place_of[pairs[start : start + PAIRS_AT_ONCE, 0]], minlength=len(order))
        starts = np.concatenate([np.zeros(1, dtype="<i8"), np.cumsum(counts, dtype="<i8")])
        write_array(self._folder / f"{self._name}.starts", starts)
        self._scatter(pairs, place_of, starts)
        del pairs
        self._path.unlink()

    def _scatter(
        self, pairs: NDArray[np.uint32], place_of: NDArray[np.uint32], starts: NDArray[np.int64]
    ) -> None:
        stem = self._folder / self._name
        for suffix in ("numbers", "codes"):
            stem.with_name(f"{self._name}.{suffix}").touch()
        if not len(pairs):
            return
        numbers = np.memmap(f"{stem}.numbers", dtype="<u4", mode="w+", shape=(len(pairs),))
        codes = np.memmap(f"{stem}.codes", dtype="<u2", mode="w+", shape=(len(pairs),))
        free = starts[:-1].copy()
        for start in range(0, len(pairs), PAIRS_AT_ONCE):
            piece = pairs[start : start + PAIRS_AT_ONCE]
            places = place_of[piece[:, 0]]
            order = np.argsort(places, kind="stable")
            places = places[order]
            first = np.flatnonzero(np.concatenate([[True], places[1:] != places[:-1]]))
            lengths = np.diff(np.append(first, len(places)))
            within = np.arange(len(places)) - np.repeat(first, lengths)
            targets = free[places] + within
            numbers[targets] = piece[order, 1]
            codes[targets] = piece[order, 2]
            free[places[first]] += lengths
        numbers.flush()
        codes.flush()

    def close(self) -> None:
        """Close the file of pairs. A second call does nothing."""
        self._pairs.close()

    def _flush(self) -> None:
        self._block.tofile(self._pairs)
        self._block = array("I")


def _as_bytes(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")
