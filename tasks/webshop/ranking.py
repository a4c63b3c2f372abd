"""The best products of a query: exactly Lucene's order, with work that ends when the order is certain.

The terms are added in the order of what they can pay at most. As soon as the terms that are left cannot lift
another product among the best, they are looked up for the products that still can be among them.
"""

from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ors_server_tasks.webshop.analysis import analyse
from ors_server_tasks.webshop.arrays import MappedArray
from ors_server_tasks.webshop.inverted import InvertedIndex
from ors_server_tasks.webshop.similarity import make_growth_table, weight_of

_BLOCKS = 2048
"""Blocks of products; only the best one of each is looked at to find a bound."""
_LOOKUP_COST = 24
"""What it costs to look up one product in the list of a term, in entries of the list that are added."""
_SLACK = 1 - 1e-6
"""What rounding to single precision may change."""


class Ranking:
    """Finds products by words. It has no state that a search changes, so that threads may share it."""

    def __init__(self, folder: Path, products: int, documents: int, average_length: float) -> None:
        """Open the index.

        Args:
            folder: Where it was written.
            products: Products of the catalogue.
            documents: Those that have any term.
            average_length: Their mean number of terms.
        """
        self._index = InvertedIndex(folder, "terms")
        self._peaks = MappedArray(folder / "terms.peaks", "<f4").values
        self._ranks = MappedArray(folder / "asins.ranks", "<u4").values
        self._growth = make_growth_table(average_length)
        self._products = products
        self._block = -(-products // _BLOCKS)
        self._documents = documents

    def find(self, query: str, limit: int) -> list[int]:
        """Return the numbers of the best products, the best first; equal ones in the order of their asins."""
        terms = self._terms(query)
        if not terms:
            return []
        scores = np.zeros(-(-self._products // self._block) * self._block)
        left: NDArray[np.intp] | None = None
        rest = total = sum(most for most, _, _ in terms)
        for done, (most, weight, place) in enumerate(terms):
            if left is not None and len(left) > limit:
                left = _keep_possible(left, scores, limit, rest)
            elif left is None and total - rest > rest and self._is_long(terms[done:]):
                left = self._possible(scores, limit, rest)
            self._add(scores, left, weight, place)
            rest -= most
        if left is None:
            left = self._possible(scores, limit, 0.0)
            if left is None:
                left = np.flatnonzero(scores)
        return self._best(left, scores, limit)

    def _terms(self, query: str) -> list[tuple[float, np.float32, int]]:
        """Return what each term can pay at most, its weight and its place in the index; the most first."""
        found: list[tuple[float, np.float32, int]] = []
        for term, repeats in Counter(analyse(query)).items():
            place = self._index.keys.find(term)
            if place is not None:
                weight = weight_of(repeats, self._documents, self._index.count(place))
                found.append((float(weight - weight / self._peaks[place]), weight, place))
        return sorted(found, key=lambda term: (-term[0], term[2]))

    def _is_long(self, terms: list[tuple[float, np.float32, int]]) -> bool:
        return sum(self._index.count(place) for _, _, place in terms) > self._products // 4

    def _add(
        self, scores: NDArray[np.float64], left: NDArray[np.intp] | None, weight: np.float32, place: int
    ) -> None:
        numbers, codes = self._index.numbers(place), self._index.codes(place)
        if left is not None and len(left) * _LOOKUP_COST < len(numbers):
            at = np.searchsorted(numbers, left.astype(np.uint32))
            at[at == len(numbers)] = 0
            at = at[numbers[at] == left]
            numbers, codes = numbers[at], codes[at]
        scores[numbers] += weight - weight / self._growth[codes]

    def _possible(self, scores: NDArray[np.float64], limit: int, rest: float) -> NDArray[np.intp] | None:
        """Return the products that can be among the best if each may get `rest` more; `None` for all."""
        blocks = scores.reshape(-1, self._block)
        highest = blocks.max(axis=1)
        bound = _find_bound(highest, limit, rest)
        if bound <= 0:
            return None
        near = np.flatnonzero(highest >= bound)
        rows, columns = np.nonzero(blocks[near] >= bound)
        return near[rows] * self._block + columns

    def _best(self, left: NDArray[np.intp], scores: NDArray[np.float64], limit: int) -> list[int]:
        left = _keep_possible(left, scores, limit, 0.0)
        values = scores[left].astype(np.float32)
        if len(left) > limit:
            bound = np.sort(values)[-limit]
            above, equal = left[values > bound], left[values == bound]
            missing = limit - len(above)
            if len(equal) > missing:
                equal = equal[np.argpartition(self._ranks[equal], missing - 1)[:missing]]
            left = np.concatenate([above, equal])
            values = scores[left].astype(np.float32)
        return [int(number) for number in left[np.lexsort((self._ranks[left], -values))]]


def _keep_possible(
    left: NDArray[np.intp], scores: NDArray[np.float64], limit: int, rest: float
) -> NDArray[np.intp]:
    values = scores[left]
    kept: NDArray[np.intp] = left[values >= _find_bound(values, limit, rest)]
    return kept


def _find_bound(values: NDArray[np.float64], limit: int, rest: float) -> float:
    """Return a score that each of the best has at least, if `rest` is still to come; 0 if nothing is known.

    Of many scores, the best ones of blocks are sorted: a partition is slow where many are equal.
    """
    block = len(values) // _BLOCKS
    if block > 1:
        values = values[: block * _BLOCKS].reshape(_BLOCKS, block).max(axis=1)
    return float(np.sort(values)[-limit]) * _SLACK - rest / _SLACK if len(values) >= limit else 0.0
