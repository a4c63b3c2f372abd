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
    """Whether columns may stand in any order."""

    def agree(self, gold: QueryResult, came: QueryResult) -> bool:
        """Return whether a result is the gold's.

        Args:
            gold: What is right.
            came: What came.
        """
        if gold.columns != came.columns or len(gold.rows) != len(came.rows) or came.is_cut:
            return False
        if self._same(gold.rows, came.rows):
            return True
        return self.any_column_order and self._any_order(gold, came)

    def _same(self, gold: Sequence[Row], came: Sequence[Row]) -> bool:
        if self.is_ordered:
            return all(self._same_row(one, other) for one, other in zip(gold, came, strict=True))
        missing, extra = Counter(gold), Counter(came)
        missing, extra = missing - extra, extra - missing
        return self._same_kinds(list(missing.elements()), list(extra.elements()))

    def _same_kinds(self, gold: list[Row], came: list[Row]) -> bool:
        """Compare rows that are not exactly equal: those with fractions, which may be off."""
        if not gold or not self.tolerance:
            return not gold and not came
        loose = {index for row in (*gold, *came) for index, cell in enumerate(row) if _is_fraction(cell)}
        wanted, given = _by_kind(gold, loose), _by_kind(came, loose)
        return wanted.keys() == given.keys() and all(
            self._paired(wanted[kind], given[kind]) for kind in wanted
        )

    def _paired(self, gold: list[Row], came: list[Row]) -> bool:
        if len(gold) != len(came):
            return False
        if all(self._same_row(one, other) for one, other in zip(sorted(gold), sorted(came), strict=True)):
            return True
        if len(gold) > MAX_LEFT:
            return False
        left = list(came)
        for row in gold:
            found = next((index for index, one in enumerate(left) if self._same_row(row, one)), None)
            if found is None:
                return False
            left.pop(found)
        return True

    def _same_row(self, gold: Row, came: Row) -> bool:
        return all(self._same_cell(one, other) for one, other in zip(gold, came, strict=True))

    def _same_cell(self, gold: Any, came: Any) -> bool:
        if gold == came:
            return True
        if not (isinstance(gold, int | float) and isinstance(came, int | float)):
            return False
        if isinstance(gold, int) and isinstance(came, int):
            return False
        if not (math.isfinite(gold) and math.isfinite(came)):
            return False
        return abs(gold - came) <= self.tolerance * (abs(gold) or 1.0)

    def _any_order(self, gold: QueryResult, came: QueryResult) -> bool:
        """Try the orders of columns, as far as the cells that may be compared reach."""
        cells = max(1, gold.columns * len(gold.rows))
        for tried, order in enumerate(permutations(range(came.columns)), start=1):
            if tried * cells > MAX_CELLS:
                return False
            if self._same(gold.rows, [tuple(row[index] for index in order) for row in came.rows]):
                return True
        return False


def _is_fraction(cell: Any) -> bool:
    return isinstance(cell, float) and not cell.is_integer()


def _by_kind(rows: list[Row], loose: set[int]) -> dict[Row, list[Row]]:
    """Sort rows by their cells outside of the columns with fractions, whose numbers are what is left."""
    kinds: defaultdict[Row, list[Row]] = defaultdict(list)
    for row in rows:
        numbers = [index in loose and isinstance(cell, int | float) for index, cell in enumerate(row)]
        kind = tuple("number" if is_one else (cell,) for is_one, cell in zip(numbers, row, strict=True))
        kinds[kind].append(tuple(cell for is_one, cell in zip(numbers, row, strict=True) if is_one))
    return kinds
