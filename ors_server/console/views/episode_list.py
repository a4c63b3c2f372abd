"""The list of episodes: what its address selects, and its rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from pydantic import ValidationError

from ors_server.console.views import formats
from ors_server.console.views.episode import SHORT_LABELS
from ors_server.doors.control.episodes import EpisodeSelection
from ors_server.store.episode_filter import EpisodeFilter
from ors_server.store.episode_order import NEWEST_FIRST, SORTS, EpisodeSorting, parse_order

EPISODES_PER_PAGE = 50
TABS = ("all", "live", "ended")
COLUMNS = ("state", "task", "return", "steps", "duration", "stop", "labels", "age")
SORTED = {"return": "return", "steps": "steps", "duration": "duration", "age": "created"}
"""Columns by which the list is sorted, with the store's words."""


@dataclass(frozen=True, slots=True)
class ListQuery:
    """What an address selects."""

    pairs: tuple[tuple[str, str], ...] = ()
    """The parameters that count, in order; without the tab, the page and the columns."""
    tab: str = "all"
    after: str | None = None
    before: str | None = None
    columns: tuple[str, ...] = ()
    order: EpisodeSorting = NEWEST_FIRST
    mistakes: tuple[str, ...] = ()
    episode_filter: EpisodeFilter = field(default_factory=EpisodeFilter)

    @property
    def text(self) -> str:
        """The query without the page, as other addresses carry it."""
        return urlencode(self._own(self.pairs, self.tab))

    def _own(self, pairs: Sequence[tuple[str, str]], tab: str) -> list[tuple[str, str]]:
        extra = [] if tab == "all" else [("tab", tab)]
        if self.order != NEWEST_FIRST:
            extra.append(("sort", str(self.order)))
        if self.columns:
            extra.append(("columns", ",".join(self.columns)))
        return [*pairs, *extra]

    def sort_link(self, column: str) -> str:
        """Return the query sorted by a column: the greatest first, then the other way round."""
        key = SORTED[column]
        order = parse_order(key if str(self.order) == f"-{key}" else f"-{key}")
        return replace(self, order=order).link()

    def direction(self, column: str) -> str | None:
        """Return in which direction a column is sorted; `None` if the list is sorted by another."""
        if SORTED.get(column) != self.order.key:
            return None
        # The oldest episode has the greatest age.
        return "descending" if self.order.descending != (column == "age") else "ascending"

    def link(self, **changes: str) -> str:
        """Return the query with another tab, or with `after` or `before` for another page."""
        tab = changes.pop("tab", self.tab)
        return formats.query([*self._own(self.pairs, tab), *changes.items()])

    def with_pair(self, name: str, value: str) -> str:
        """Return the query with one more condition, on its first page; it replaces one of the same name."""
        pairs = [pair for pair in self.pairs if pair[0] != name or name == "label"]
        return formats.query(self._own([*pairs, (name, value)], self.tab))

    def within(self, low: float, high: float, *, is_last: bool) -> str:
        """Return the query of the returns in a bin, which has its lower border, and the last one both."""
        highest = high if is_last else math.nextafter(high, -math.inf)
        bounds = {"min_return": repr(low), "max_return": repr(highest)}
        pairs = [pair for pair in self.pairs if pair[0] not in bounds]
        return formats.query(self._own([*pairs, *bounds.items()], self.tab))

    def without(self, *conditions: tuple[str, str]) -> str:
        """Return the query without some conditions."""
        return formats.query(self._own([pair for pair in self.pairs if pair not in conditions], self.tab))


MAX_PARAMETERS = 1_000
"""Parameters of a list; with more of them, none is read."""


def read_list_query(text: str) -> ListQuery:
    """Read a query; parameters that are unknown or wrong are named as mistakes, and select nothing."""
    values: dict[str, Any] = {}
    labels: dict[str, str] = {}
    pairs: list[tuple[str, str]] = []
    mistakes: list[str] = []
    query = ListQuery()
    try:
        parameters = parse_qsl(text, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        parameters = []
        mistakes.append(f"more than {MAX_PARAMETERS} parameters")
    for name, value in parameters:
        if name == "tab":
            query = replace(query, tab=value if value in TABS else "all")
        elif name == "sort" and value in SORTS:
            query = replace(query, order=parse_order(value))
        elif name in {"after", "before"}:
            query = replace(query, after=value) if name == "after" else replace(query, before=value)
        elif name in {"columns", "column"}:
            chosen = [*query.columns, *value.split(",")]
            query = replace(query, columns=tuple(column for column in COLUMNS if column in chosen))
        else:
            key, entry = ("label", f"{name}={value}") if name in SHORT_LABELS else (name, value)
            if key in {"since", "until"} and len(entry) == len("2026-01-31"):
                entry += "T00:00:00Z"
            entries = entry.split(",") if key == "has" else [entry]
            condition = {key: entries if key in EpisodeSelection.repeatable else entry}
            try:  # the conditions are those of the control API
                labels |= EpisodeSelection.model_validate(condition).as_filter().labels
            except ValidationError as error:
                mistakes.append(f"no filter {name}={value}: {error.errors()[0]['msg']}")
            else:
                values |= condition
                pairs.append((name, value))
    if labels:
        values["label"] = [f"{key}={value}" for key, value in labels.items()]
    if query.tab != "all":
        values["live"] = str(query.tab == "live").lower()
    selection = EpisodeSelection.model_validate(values)
    return replace(query, pairs=tuple(pairs), mistakes=tuple(mistakes), episode_filter=selection.as_filter())
