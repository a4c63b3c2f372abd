"""The list of episodes: what its address selects, and its rows."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlencode

from ors_server.console.views import formats
from ors_server.console.views.episode import is_played, played_seconds, task_title
from ors_server.console.views.marks import Mark, highest_of, word_of
from ors_server.model.trajectory import EpisodeRecord
from ors_server.store.aggregates import EpisodeTotals
from ors_server.store.episode_filter import MARKS, EpisodeFilter
from ors_server.store.episode_order import NEWEST_FIRST, SORTS, EpisodeSorting, parse_order
from ors_server.store.series import ReturnHistogram

PAGE = 50
TABS = ("all", "live", "ended")
SHORT_LABELS = ("run", "agent", "group", "attempt")
"""Labels that have a parameter with their own name."""
COLUMNS = ("state", "task", "return", "steps", "duration", "stop", "labels", "age")
MAX_LABELS = 6
"""Labels of one row."""
MAX_LABEL = 16
"""Characters of a run's id that are shown whole."""
SORTED = {"return": "return", "steps": "steps", "duration": "duration", "age": "created"}
"""Columns by which the list is sorted, with the store's words."""


@dataclass(frozen=True, slots=True)
class Chip:
    """One condition of the list, and the address without it."""

    name: str
    value: str
    without: str


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

    @property
    def chips(self) -> tuple[Chip, ...]:
        """The conditions one by one."""
        return tuple(
            Chip(name, value, formats.query(self._own([*self.pairs[:i], *self.pairs[i + 1 :]], self.tab)))
            for i, (name, value) in enumerate(self.pairs)
        )

    @property
    def without_filters(self) -> str:
        """The query with no condition."""
        return formats.query(self._own((), self.tab))


MAX_PARAMETERS = 1_000
"""Parameters of a list; with more of them, none is read."""


def read_list_query(text: str) -> ListQuery:
    """Read a query; parameters that are unknown or wrong are named as mistakes, and select nothing."""
    values: dict[str, object] = {}
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
        elif problem := _read_condition(name, value, values, labels):
            mistakes.append(problem)
        else:
            pairs.append((name, value))
    if query.tab != "all":
        values["live"] = query.tab == "live"
    return replace(
        query,
        pairs=tuple(pairs),
        mistakes=tuple(mistakes),
        episode_filter=EpisodeFilter(**values, labels=labels),  # type: ignore[arg-type]  # by name, as read
    )


def _read_condition(name: str, value: str, values: dict[str, object], labels: dict[str, str]) -> str | None:
    """Put one condition where it belongs; return what is wrong with it, if anything."""
    if name in SHORT_LABELS:
        labels[name] = value
    elif name == "label" and "=" in value.strip("="):
        key, _, text = value.partition("=")
        labels[key] = text
    elif name in _READERS:
        try:
            values["credential_id" if name == "credential" else name] = _READERS[name](value)
        except (ValueError, KeyError, OverflowError):
            return f"{name}={value} is not a value of that filter"
    else:
        return f"no filter {name}={value}"
    return None


def _read_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _read_time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


NAMES = (
    *("environment", "split", "session_id", "stop_reason", "phase", "task_hash", "tool", "text"),
    *("environment_version", "server_version", "forked_from"),
)
"""Conditions whose values are texts."""
_READERS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys((*NAMES, "credential"), str),
    **dict.fromkeys(("min_return", "max_return"), _read_number),
    **dict.fromkeys(("since", "until"), _read_time),
    "index": int,
    "has": lambda text: tuple(mark for mark in text.split(",") if MARKS[mark]),
    "has_label": lambda text: (text,),
    "unjudged": {"true": True, "false": False}.__getitem__,
}
"""How the value of a condition is read; it raises ValueError, or KeyError, for an invalid value."""


@dataclass(frozen=True, slots=True)
class EpisodeRow:
    """One episode of the list."""

    episode_id: str
    title: str
    mark: Mark
    is_live: bool
    episode_return: float | None
    highest: float | None
    steps: int
    seconds: float | None
    stop_reason: str | None
    failed_steps: int
    unjudged_steps: int
    labels: tuple[tuple[str, str, str], ...]
    """Name, value, and the value as it is shown."""
    age: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of the histogram, in a drawing of 100 by 40."""

    x: float
    width: float
    height: float
    title: str
    link: str


@dataclass(frozen=True, slots=True)
class HistogramView:
    """How often each return occurred."""

    bars: tuple[Bar, ...]
    lowest: float
    highest: float
    episodes: int


@dataclass(frozen=True, slots=True)
class EpisodeListView:
    """The page."""

    query: ListQuery
    rows: tuple[EpisodeRow, ...]
    totals: EpisodeTotals
    histogram: HistogramView | None
    """`None` if no return of the list is known."""
    columns: tuple[str, ...]
    newer: str | None
    """The query of the page before, `None` on the first."""
    older: str | None


def view_list(
    query: ListQuery,
    records: Sequence[EpisodeRecord],
    totals: EpisodeTotals,
    histogram: ReturnHistogram,
    now: datetime,
    *,
    has_newer: bool,
    has_older: bool,
) -> EpisodeListView:
    """Return a page of the list, newest first."""
    rows = tuple(view_row(record, now) for record in records)
    return EpisodeListView(
        query=query,
        rows=rows,
        totals=totals,
        histogram=_view_histogram(histogram, query),
        columns=query.columns or COLUMNS,
        newer=query.link(before=rows[0].episode_id) if has_newer and rows else None,
        older=query.link(after=rows[-1].episode_id) if has_older and rows else None,
    )


def view_row(record: EpisodeRecord, now: datetime) -> EpisodeRow:
    """Return the row of an episode."""
    summary, labels = record.summary, record.origin.labels
    highest = highest_of(record)
    ordered = sorted(labels.items(), key=lambda pair: (pair[0] not in SHORT_LABELS, pair))
    return EpisodeRow(
        episode_id=record.origin.episode_id,
        title=task_title(record),
        mark=word_of(summary, 1.0 if highest is None else highest),
        is_live=is_played(record),
        episode_return=None if summary.last_reward is None else summary.episode_return,
        highest=highest,
        steps=summary.steps,
        seconds=played_seconds(record, now),
        stop_reason=summary.stop_reason,
        failed_steps=summary.failed_steps,
        unjudged_steps=summary.unjudged_steps,
        labels=tuple(
            # The last digits of a run's id tell it from others of the same agent and environment.
            (name, value, f"…{value[-6:]}" if name == "run" and len(value) > MAX_LABEL else value)
            for name, value in ordered[:MAX_LABELS]
        ),
        age=formats.age(record.origin.created_at, now),
        created_at=record.origin.created_at,
    )


def _view_histogram(histogram: ReturnHistogram, query: ListQuery) -> HistogramView | None:
    """Return the bars that are not empty; each leads to its episodes."""
    if not histogram.counts or not any(histogram.counts):
        return None
    bars: list[Bar] = []
    rest = [pair for pair in query.pairs if pair[0] not in {"min_return", "max_return"}]
    width = 100 / len(histogram.counts)
    for index, number in enumerate(histogram.counts):
        if number:
            low, high = histogram.edges[index], histogram.edges[index + 1]
            link = replace(query, pairs=(*rest, ("min_return", repr(low)), ("max_return", repr(high)))).link()
            title = f"{number:,} from {formats.amount(low)} to {formats.amount(high)}"
            height = 4 + 36 * number / max(histogram.counts)
            bars.append(Bar(width * index + width / 10, width * 0.8, height, title, link))
    return HistogramView(tuple(bars), histogram.edges[0], histogram.edges[-1], histogram.episodes)
