"""Long tables of a report: the first rows are in sight, and the page's script unpacks the rest."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

ROWS_PER_PAGE = 50
"""Rows without the script; with it, rows of a page."""
MAX_ROWS = 20_000
"""Maximum number of rows of a report."""
MAX_TEXT = 300
"""Maximum number of characters of a text."""

Cell = str | float | int | None
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Column(Generic[Item]):
    """One column of a long table."""

    name: str
    read: Callable[[Item], Cell]
    """Returns the cell of an item's row."""
    kind: str = "plain"
    """How it looks: `plain`, `number`, `text` (long), `mono`, `badge`, or `link` (an id of the page)."""
    in_id: bool = False
    """Whether it is part of the row's id."""


@dataclass(frozen=True)
class LongTable(Generic[Item]):
    """A table that is sorted, filtered and paged; the part `long_table` of the page shows it."""

    name: str
    """Its id."""
    title: str
    columns: Sequence[Column[Item]]
    items: Sequence[Item]
    anchor: str
    """Beginning of each row's id."""
    link: str = ""
    """Beginning of links in the first column; no links by default."""
    filter_by: str | None = None
    """Column with a list of its values to choose from."""
    page: int = ROWS_PER_PAGE

    @property
    def note(self) -> str:
        """What the title does not say: that the table is not complete."""
        is_whole = len(self.items) <= MAX_ROWS
        return "" if is_whole else f" The first {MAX_ROWS:,} of {len(self.items):,} are here."

    @cached_property
    def rows(self) -> list[list[Cell]]:
        """The cells of every row that the page has."""
        return [[column.read(item) for column in self.columns] for item in self.items[:MAX_ROWS]]

    @property
    def filter_column(self) -> int:
        """The position of the column with the choices."""
        return [column.name for column in self.columns].index(self.filter_by or "")

    @property
    def choices(self) -> list[str]:
        """The values to choose from."""
        return sorted({str(row[self.filter_column]) for row in self.rows} - {"None"})

    def id_of(self, row: Sequence[Cell]) -> str:
        """Return the id of a row."""
        parts = (str(cell) for cell, column in zip(row, self.columns, strict=True) if column.in_id)
        return self.anchor + "/".join(parts)


def cut(text: str | None) -> str | None:
    """Return a text with at most `MAX_TEXT` characters."""
    return text if text is None or len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
