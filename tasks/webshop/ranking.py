"""The best products of a query: exactly the order of BM25, with work that ends when the order is certain.

The terms are added in the order of what they can pay at most. In between, a few of the best products so far
get what the other terms pay for them: no product among the best has less than the worst of these. As soon as
the terms that are left cannot lift a further product there, only those are looked at that they can.
"""

import threading
from collections import deque
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ors_server_tasks.webshop.arrays import MappedArray
from ors_server_tasks.webshop.payments import Term, TermPayments
from ors_server_tasks.webshop.similarity import Lengths

_BLOCKS = 2048
"""Blocks of scores; only the best one of each is looked at to find a bound."""
_TRIED = 128
"""Products that get what all terms pay for them before the others do."""
_MAX_KEPT = 4
"""Arrays of scores that are kept for the next searches."""
_MAX_AT_ONCE = 2
"""Searches that run at a time: threads of more would keep the event loop waiting for the interpreter."""
_LEAST = 1e-300
"""A score that every product with a score has."""
_SLACK = 1 - 1e-6
"""What rounding to single precision may change."""


class Ranking:
    """Finds products by words. Threads may share it."""

    def __init__(self, folder: Path, documents: int, average_length: float, lengths: Lengths) -> None:
        """Open the index, as `TermPayments` does."""
        self._payments = TermPayments(folder, documents, average_length, lengths)
        self._ranks = MappedArray(folder / "asins.ranks", "<u4").values
        self._zeros: deque[NDArray[np.float64]] = deque(maxlen=_MAX_KEPT)
        """Scores of ended searches, 0 again: recreating them takes a millisecond in a large catalogue."""
        self._turns = threading.Semaphore(_MAX_AT_ONCE)

    def find(self, query: str, limit: int) -> list[int]:
        """Return the numbers of the best products, the best first; equal ones in the order of their asins."""
        terms = self._payments.of_query(query)
        if not terms:
            return []
        with self._turns:
            search = _ProductSearch(self._payments, self._take_zeros(), limit)
            left, scores = search.run(terms)
            self._zeros.append(search.clear())
        is_near = scores >= _bound(scores, limit) * _SLACK
        left, values = left[is_near], scores[is_near].astype(np.float32)
        if len(left) > limit:
            bound = np.sort(values)[-limit]
            above, equal = left[values > bound], left[values == bound]
            missing = limit - len(above)
            if len(equal) > missing:
                equal = equal[np.argpartition(self._ranks[equal], missing - 1)[:missing]]
            values = np.concatenate([values[values > bound], np.full(len(equal), bound)])
            left = np.concatenate([above, equal])
        return [int(number) for number in left[np.lexsort((self._ranks[left], -values))]]

    def _take_zeros(self) -> NDArray[np.float64]:
        try:
            return self._zeros.pop()
        except IndexError:
            return np.zeros(len(self._ranks))


class _ProductSearch:
    """One search: the scores so far, and which products can be among the best."""

    def __init__(self, payments: TermPayments, scores: NDArray[np.float64], limit: int) -> None:
        self._payments = payments
        self._limit = limit
        self._scores = scores
        self._few = len(scores) // 32
        self._floor = 0.0
        """A score that each of the best has at least."""
        self._seen: list[NDArray[np.uint32]] | None = []
        """Those with a score, in parts; `None` as soon as they are many."""
        self._left: NDArray[np.intp] | None = None
        """Those that can be among the best, ascending; `None` for all."""

    def run(self, terms: list[Term]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return products, among them the best ones, and their scores."""
        rest = total = sum(term.max_pay for term in terms)
        for done, term in enumerate(terms):
            if total - rest > rest and sum(other.count for other in terms[done:]) > self._few:
                self._narrow(terms[done:], rest)
            numbers, paid = self._payments.of_term(term, self._left)
            self._note_seen(numbers)
            self._scores[numbers.astype(np.intp)] += paid  # converted once, not twice
            rest -= term.max_pay
        if self._left is None:
            scored = self._scored()
            scores = self._scores if scored is None else self._scores.take(scored)
            self._keep(max(_bound(scores, self._limit) * _SLACK, _LEAST))
        left = np.empty(0, dtype=np.intp) if self._left is None else self._left
        return left, self._scores.take(left)

    def clear(self) -> NDArray[np.float64]:
        """Return the scores, all 0 again."""
        if self._seen is None:
            self._scores.fill(0.0)
        for part in self._seen or ():
            self._scores[part] = 0.0
        return self._scores

    def _note_seen(self, numbers: NDArray[np.uint32]) -> None:
        if self._seen is None:
            return
        if sum(map(len, self._seen)) + len(numbers) > self._few:
            self._seen = None
        else:
            self._seen.append(numbers.compress(self._scores.take(numbers) == 0.0))

    def _scored(self) -> NDArray[np.intp] | None:
        """Return the products that can be among the best so far; `None` for all."""
        if self._left is not None or self._seen is None:
            return self._left
        return np.concatenate(self._seen, dtype=np.intp)

    def _narrow(self, terms: list[Term], rest: float) -> None:
        """Leave out what cannot be among the best if the other terms pay at most `rest`."""
        scored = self._scored()
        if scored is not None and len(scored) <= (self._limit if self._left is None else 2 * _TRIED):
            return
        scores = self._scores if scored is None else self._scores.take(scored)
        tried = _find_high(scores)
        self._floor = max(
            self._floor, self._try(np.sort(tried if scored is None else scored.take(tried)), terms)
        )
        self._keep(self._floor - rest / _SLACK)

    def _try(self, tried: NDArray[np.intp], terms: list[Term]) -> float:
        """Return a score that each of the best has at least, by what all terms pay for a few products."""
        scores = self._scores.take(tried)
        for term in terms:
            numbers, paid = self._payments.look_up(term, tried)
            scores[np.searchsorted(tried, numbers)] += paid
        return float(np.sort(scores)[-self._limit]) * _SLACK if len(scores) >= self._limit else 0.0

    def _keep(self, bound: float) -> None:
        """Leave out the products of a lower score, if the bound is one."""
        if bound <= 0:
            return
        scored = self._scored()
        if scored is None:
            self._left = np.flatnonzero(self._scores >= bound)
        else:
            eligible = scored.compress(self._scores.take(scored) >= bound)
            self._left = np.sort(eligible) if self._left is None else eligible


def _find_high(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the places of some high scores: the best of each block, and of these the best."""
    block = len(scores) // _BLOCKS
    if block < 2:  # noqa: PLR2004  (a block of one score bounds nothing)
        return np.argsort(scores)[-_TRIED:]
    blocks = scores[: block * _BLOCKS].reshape(_BLOCKS, block)
    columns = blocks.argmax(axis=1)
    rows = np.argsort(blocks[np.arange(_BLOCKS), columns])[-_TRIED:]
    places: NDArray[np.intp] = rows * block + columns[rows]
    return places


def _bound(scores: NDArray[np.float64], limit: int) -> float:
    """Return a score that each of the best has at least; 0 if there are not so many.

    Of many scores, the best ones of blocks are sorted: a partition is slow where many are equal.
    """
    block = len(scores) // _BLOCKS
    if block > 1:
        scores = scores[: block * _BLOCKS].reshape(_BLOCKS, block).max(axis=1)
    return float(np.sort(scores)[-limit]) if len(scores) >= limit else 0.0
