"""Whether two results are the same: rows as bags or in order, numbers within a tolerance. Pure."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from ors_server.rewards.sql.engine import QueryResult, Row

MAX_CELLS = 2_000_000
"""Cells that are compared while orders of columns are tried."""
MAX_LEFT = 200
"""Rows of one kind that are paired one by one where sorting did not pair them."""


@dataclass(frozen=True, slots=True)
class RowRules:
    """How results are compared."""

    is_ordered: bool
    """Whether rows must come in the gold's order."""
    tolerance: float = 1e-6
    """How far a number may be off, relative to the gold's; absolutely where that is 0."""
    any_column_order: bool = False

    def agree(self, gold: QueryResult, answer: QueryResult) -> bool:
        """Return whether a result is the gold's."""
        if gold.columns != answer.columns or len(gold.rows) != len(answer.rows) or answer.is_cut:
            return False
        if self._same(gold.rows, answer.rows):
            return True
        return self.any_column_order and self._any_order(gold, answer)

    def _same(self, gold: Sequence[Row], answer: Sequence[Row]) -> bool:
        if self.is_ordered:
            return all(
                self._same_row(gold_row, answer_row)
                for gold_row, answer_row in zip(gold, answer, strict=True)
            )
        missing, extra = Counter(gold), Counter(answer)
        missing, extra = missing - extra, extra - missing
        return self._same_kinds(list(missing.elements()), list(extra.elements()))

    def _same_kinds(self, gold: list[Row], answer: list[Row]) -> bool:
        """Compare rows that are not exactly equal: those with fractions, which may be off."""
        if not gold or not self.tolerance:
            return not gold and not answer
        loose = {
            index
            for row in (*gold, *answer)
            for index, cell in enumerate(row)
            if isinstance(cell, float) and not cell.is_integer()
        }
        gold_kinds, answer_kinds = _by_kind(gold, loose), _by_kind(answer, loose)
        return gold_kinds.keys() == answer_kinds.keys() and all(
            self._paired(gold_kinds[kind], answer_kinds[kind]) for kind in gold_kinds
        )

    def _paired(self, gold: list[Row], answer: list[Row]) -> bool:
        if len(gold) != len(answer):
            return False
        if all(
            self._same_row(gold_row, answer_row)
            for gold_row, answer_row in zip(sorted(gold), sorted(answer), strict=True)
        ):
            return True
        if len(gold) > MAX_LEFT:
            return False
        left = list(answer)
        for row in gold:
            match_index = next(
                (index for index, candidate in enumerate(left) if self._same_row(row, candidate)), None
            )
            if match_index is None:
                return False
            left.pop(match_index)
        return True

    def _same_row(self, gold: Row, answer: Row) -> bool:
        return all(
            self._same_cell(gold_cell, answer_cell)
            for gold_cell, answer_cell in zip(gold, answer, strict=True)
        )

    def _same_cell(self, gold: Any, answer: Any) -> bool:
        if gold == answer:
            return True
        if not (isinstance(gold, int | float) and isinstance(answer, int | float)):
            return False
        if isinstance(gold, int) and isinstance(answer, int):
            return False
        if not (math.isfinite(gold) and math.isfinite(answer)):
            return False
        return abs(gold - answer) <= self.tolerance * (abs(gold) or 1.0)

    def _any_order(self, gold: QueryResult, answer: QueryResult) -> bool:
        """Try the orders of columns, until the bound on compared cells is reached."""
        cells = max(1, gold.columns * len(gold.rows))
        for tried, order in enumerate(permutations(range(answer.columns)), start=1):
            if tried * cells > MAX_CELLS:
                return False
            if self._same(gold.rows, [tuple(row[index] for index in order) for row in answer.rows]):
                return True
        return False


def _by_kind(rows: list[Row], loose: set[int]) -> dict[Row, list[Row]]:
    """Group rows by their cells outside of the columns with fractions, whose numbers remain."""
    kinds: defaultdict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        numbers = [index in loose and isinstance(cell, int | float) for index, cell in enumerate(row)]
        kind = tuple("number" if is_one else (cell,) for is_one, cell in zip(numbers, row, strict=True))
        kinds[kind].append(tuple(cell for is_one, cell in zip(numbers, row, strict=True) if is_one))
    return kinds
