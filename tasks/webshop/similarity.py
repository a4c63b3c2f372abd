"""Lucene's BM25: the constants, the length of a document in one byte, and the sums in single precision.

Source: `BM25Similarity` and `SmallFloat` of Lucene 8. A document's terms are counted, the count is kept in
one byte, and a term pays `weight - weight / (1 + frequency * inverse_length)`. The other form of the length
is the count itself, as most other BM25s have it.
"""

import math
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

SATURATION = 0.9
"""How soon a repeated term stops counting (k1)."""
LENGTH_WEIGHT = 0.4
"""How much a long document is held back, in [0, 1] (b)."""
Lengths: TypeAlias = Literal["lucene", "exact"]
"""Whether a document's length is rounded to one byte, as Lucene does, or counted exactly."""
LENGTHS: dict[str, Lengths] = {"lucene": "lucene", "exact": "exact"}

_BYTE = 256


def _shrink(number: int) -> int:
    """Return a number as four significant bits and a shift."""
    shift = max(0, number.bit_length() - 4)
    return number if number < 8 else (number >> shift) & 7 | (shift + 1) << 3  # noqa: PLR2004  (three bits)


def _grow(code: int) -> int:
    bits, shift = code & 7, (code >> 3) - 1
    return bits if shift < 0 else (bits | 8) << shift


_EXACT = _BYTE - 1 - _shrink(2**31 - 1)
"""Lengths below this one are kept exactly."""


def length_code(length: int) -> int:
    """Return the byte of a document's length, in terms."""
    return length if length < _EXACT else _EXACT + _shrink(length - _EXACT)


ROUNDED_LENGTHS = np.array(
    [code if code < _EXACT else _EXACT + _grow(code - _EXACT) for code in range(_BYTE)], dtype=np.float32
)
"""The length that each byte stands for."""


def invert_lengths(lengths: NDArray[np.float32], average: float) -> NDArray[np.float32]:
    """Return the inverse length of documents that have so many terms."""
    unit, k1, b = np.float32(1), np.float32(SATURATION), np.float32(LENGTH_WEIGHT)
    return (unit / (k1 * ((unit - b) + b * lengths / np.float32(average)))).astype(np.float32)


def make_growth_table(average: float, counts: NDArray[np.uint32]) -> NDArray[np.float32]:
    """Return `1 + frequency * inverse_length` by code, with lengths in one byte.

    Args:
        average: Mean number of terms of a document.
        counts: For each code, the frequency of a term and the byte of the document's length.
    """
    inverse = invert_lengths(ROUNDED_LENGTHS, average)
    return (np.float32(1) + counts[:, 0].astype(np.float32) * inverse[counts[:, 1]]).astype(np.float32)


def weight_of(repeats: int, documents: int, holding: int) -> np.float32:
    """Return the weight of a term of a query.

    Args:
        repeats: How often the query has it.
        documents: Documents of the index that have any term.
        holding: Documents that have this one.
    """
    rarity = math.log(1 + (documents - holding + 0.5) / (holding + 0.5))
    return np.float32(repeats) * np.float32(rarity)
