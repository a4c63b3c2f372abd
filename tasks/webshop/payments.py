"""What each term of a query pays for the products that have it."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ors_server_tasks.webshop.analysis import analyse
from ors_server_tasks.webshop.arrays import MappedArray
from ors_server_tasks.webshop.inverted import InvertedIndex
from ors_server_tasks.webshop.similarity import Lengths, invert_lengths, make_growth_table, weight_of

_LOOKUP_COST = 24
"""What it costs to look up one product in the list of a term, in entries of the list that are read."""

Paid: TypeAlias = tuple[NDArray[np.uint32], NDArray[np.float32]]
"""Numbers of products, ascending, and what a term pays for each."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a query that some product has."""

    max_pay: float
    """The most that it can pay."""
    weight: np.float32
    key_index: int
    """Its position in the index."""
    count: int
    """Products that have it."""


class TermPayments:
    """What the terms of a query pay. It has no state that a search changes."""

    def __init__(self, folder: Path, documents: int, average_length: float, lengths: Lengths) -> None:
        """Open the index.

        Args:
            folder: Where it was written.
            documents: Products that have any term.
            average_length: Their mean number of terms.
            lengths: Whether lengths are rounded to one byte.
        """
        self._index = InvertedIndex(folder, "terms")
        self._peaks = MappedArray(folder / "terms.peaks", "<f4").values
        counts = MappedArray(folder / "terms.counts", "<u4").values.reshape(-1, 2)
        self._growth = make_growth_table(average_length, counts)
        self._frequencies = counts[:, 0].astype(np.float32)
        product_lengths = MappedArray(folder / "products.lengths", "<u4").values
        self._products = len(product_lengths)
        self._inverse: NDArray[np.float32] | None = None
        if lengths == "exact":
            self._inverse = invert_lengths(product_lengths.astype(np.float32), average_length)
        self._documents = documents

    def of_query(self, query: str) -> list[Term]:
        """Return the terms of a query, those that can pay most first."""
        terms: list[Term] = []
        for text, repeats in Counter(analyse(query)).items():
            key_index = self._index.keys.find(text)
            if key_index is not None:
                count = self._index.count(key_index)
                weight = weight_of(repeats, self._documents, count)
                # No rounded length is longer than the exact one, so the exact one never pays more.
                max_pay = float(weight - weight / self._peaks[key_index])
                terms.append(Term(max_pay, weight, key_index, count))
        return sorted(terms, key=lambda term: (-term.max_pay, term.key_index))

    def of_term(self, term: Term, some: NDArray[np.intp] | None) -> Paid:
        """Return the products that have a term, and what it pays for each.

        Args:
            some: Products, ascending, of which others are left out; `None` for all.
        """
        numbers, codes = self._index.numbers(term.key_index), self._index.codes(term.key_index)
        if some is None:
            return self._pay(term, numbers, codes)
        if len(some) * _LOOKUP_COST < len(numbers):
            return self.look_up(term, some)
        is_some = np.zeros(self._products, dtype=np.bool_)
        is_some[some] = True
        at = np.flatnonzero(is_some.take(numbers))
        return self._pay(term, numbers.take(at), codes.take(at))

    def look_up(self, term: Term, some: NDArray[np.intp]) -> Paid:
        """Return those of a few products, ascending, that have a term, and what it pays for each."""
        numbers, codes = self._index.numbers(term.key_index), self._index.codes(term.key_index)
        at = np.searchsorted(numbers, some.astype(np.uint32))
        at[at == len(numbers)] = 0
        at = at[numbers.take(at) == some]
        return self._pay(term, numbers.take(at), codes.take(at))

    def _pay(self, term: Term, numbers: NDArray[np.uint32], codes: NDArray[np.uint16]) -> Paid:
        if self._inverse is None:
            return numbers, (term.weight - term.weight / self._growth).take(codes)
        growth = np.float32(1) + self._frequencies.take(codes) * self._inverse.take(numbers)
        return numbers, term.weight - term.weight / growth
