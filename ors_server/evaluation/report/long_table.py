"""Long tables of a report: all rows as data for the page's script, the first ones as HTML too."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ors_server.evaluation.number_format import NOTHING, number
from ors_server.evaluation.report.markup import Markup, element, join

PAGE = 50
"""Rows without the script; with it, rows of a page."""
MAX_ROWS = 20_000
"""Maximum number of rows of a report."""
MAX_TEXT = 300
"""Maximum number of characters of a text."""
_MAX_CHOICES = 1_000
_FINE = 10
"""Significant digits of a number in the data."""

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


@dataclass(frozen=True, slots=True)
class LongTable(Generic[Item]):
    """A table that is sorted, filtered and paged."""

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

    def render(self) -> Markup:
        """Return the table with its controls and data."""
        rows = [[column.read(item) for column in self.columns] for item in self.items[:MAX_ROWS]]
        shown, total = len(rows), len(self.items)
        note = "" if total <= shown else f" The first {shown:,} of {total:,} are here."
        return element(
            "div",
            self._tools(rows),
            element(
                "div",
                element(
                    "table",
                    element("caption", f"{self.title}{note}"),
                    element("thead", element("tr", *map(_head, self.columns))),
                    element("tbody", *(self._row(row) for row in rows[:PAGE])),
                ),
                class_="scroll",
                tabindex="0",
                role="region",
                aria_label=self.title,
            ),
            element("script", self._data(rows), type="application/json", id=f"{self.name}-data"),
            class_="card",
            id=self.name,
            data_rows=f"{self.name}-data",
        )

    def _tools(self, rows: Sequence[Sequence[Cell]]) -> Markup:
        choices: list[Markup] = []
        if self.filter_by is not None:
            at = [column.name for column in self.columns].index(self.filter_by)
            values = sorted({str(row[at]) for row in rows if row[at] is not None})
            options = (element("option", value, value=value) for value in values)
            choices.append(
                element(
                    "select",
                    element("option", f"any {self.filter_by}", value=""),
                    *options,
                    aria_label=f"Show one {self.filter_by}",
                    data_column=str(at),
                )
            )
        return element(
            "div",
            element("input", type="search", placeholder="Filter", aria_label=f"Filter: {self.title}"),
            *choices,
            element("span", class_="told", aria_live="polite"),
            element("button", "Previous", type="button"),
            element("button", "Next", type="button"),
            class_="tools scripted",
        )

    def _row(self, row: Sequence[Cell]) -> Markup:
        parts = (str(cell) for cell, column in zip(row, self.columns, strict=True) if column.in_id)
        cells = (self._cell(index, cell) for index, cell in enumerate(row))
        return element("tr", *cells, id=self.anchor + "/".join(parts))

    def _cell(self, index: int, cell: Cell) -> Markup:
        kind, words = self.columns[index].kind, _spell(cell)
        if kind == "link" and cell:
            return element("td", element("a", "show", href=f"#{cell}"))
        if kind == "badge":
            return element("td", element("span", words, class_=f"badge {words}"))
        if index == 0 and self.link:
            return element("td", element("a", words, href=f"#{self.link}{words}"))
        return element("td", words, class_=None if kind == "plain" else kind)

    def _data(self, rows: Sequence[Sequence[Cell]]) -> Markup:
        # Texts that recur are written once and referred to by number: statuses and stop reasons of 20,000
        # rows are most of a page otherwise.
        choices = [_choices([row[index] for row in rows]) for index in range(len(self.columns))]
        codes = [
            None if choice is None else {value: code for code, value in enumerate(choice)}
            for choice in choices
        ]
        columns = [
            {"name": column.name, "kind": column.kind, "in_id": column.in_id, "choices": choice}
            for column, choice in zip(self.columns, choices, strict=True)
        ]
        coded = [
            [
                _brief(cell) if code is None or not isinstance(cell, str) else code[cell]
                for cell, code in zip(row, codes, strict=True)
            ]
            for row in rows
        ]
        return as_data({"columns": columns, "rows": coded, "anchor": self.anchor, "link": self.link})


def as_data(value: object) -> Markup:
    """Return JSON that cannot end the element around it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # A text with `</script>` would end the element, and the rest would run as markup.
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def cut(text: str | None) -> str | None:
    """Return a text with at most `MAX_TEXT` characters."""
    return text if text is None or len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def plain_table(headings: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> Markup:
    """Return a short table."""
    body = (element("tr", *(element("td", cell) for cell in row)) for row in rows)
    heads = (element("th", heading, scope="col") for heading in headings)
    above = element("caption", caption) if caption else Markup("")
    table = element("table", above, element("thead", element("tr", *heads)), element("tbody", join(body)))
    return element("div", table, class_="scroll")


def _head(column: Column[Item]) -> Markup:
    return element("th", column.name, scope="col", class_="number" if column.kind == "number" else None)


def _spell(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell or NOTHING
    return number(cell)


def _brief(cell: Cell) -> Cell:
    return float(f"{cell:.{_FINE}g}") if isinstance(cell, float) else cell


def _choices(cells: Sequence[Cell]) -> list[str] | None:
    """Return the different texts of a column with many repeats; `None` for other columns."""
    texts = [cell for cell in cells if isinstance(cell, str)]
    distinct = list(dict.fromkeys(texts))
    return distinct if texts and len(distinct) <= min(_MAX_CHOICES, max(1, len(texts) // 2)) else None
