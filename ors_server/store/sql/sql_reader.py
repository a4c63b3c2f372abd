"""Reads episodes from a SQL database on its own threads, each answer from one snapshot.

SELECT statements for episodes and their statistics.
"""

import operator
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    Table,
    bindparam,
    case,
    cast,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
)

from ors_server.model.clock import from_microseconds, to_microseconds
from ors_server.model.errors import EpisodeNotFoundError
from ors_server.model.recording import BLOCKS, INCIDENT, ORIGIN, STEP, SUMMARY, TRANSITION, JsonCodec
from ors_server.model.trajectory import (
    STEP_COUNTS,
    EpisodeNote,
    EpisodeRecord,
    EpisodeResult,
    EpisodeSummary,
    Step,
    with_counts,
)
from ors_server.store.aggregates import (
    AGENT_LABEL,
    MARK_LETTERS,
    MINUTE,
    RUN_LABEL,
    CallsOfMinute,
    EpisodeGroup,
    EpisodeTotals,
    MeanReturn,
    PlayedTask,
    RunFigures,
    fold_runs,
    fold_totals,
)
from ors_server.store.episode_filter import (
    ALL,
    CONDITIONS,
    MARKS,
    SEARCHED_EPISODES,
    Condition,
    EpisodeFilter,
    FilterComparison,
    FilterKind,
    searched_text,
)
from ors_server.store.episode_order import NEWEST_FIRST, OLDEST_FIRST, EpisodeSorting, OrderKey
from ors_server.store.series import (
    GROUP_NAMES,
    LABEL,
    EpisodeSample,
    ReturnHistogram,
    RolloutGroup,
    SeriesPoint,
    histogram_of,
    make_groups,
    make_histogram,
    make_series,
    to_span,
)
from ors_server.store.sql.blobs import BlobStore, blob_names_in, restore_long_texts
from ors_server.store.sql.column_values import as_bigint, as_search_text, without_nul
from ors_server.store.sql.database import Database, snapshot
from ors_server.store.sql.kept_totals import (
    as_groups,
    bounded_return,
    count_by_minute,
    group_figures,
    is_graded,
    succeeded,
)
from ors_server.store.sql.record_tables import (
    episodes,
    incidents,
    labels,
    metadata,
    moves,
    notes,
    prompts,
    standings,
    steps,
    tool_uses,
    totals,
)

_ORDER = (episodes.c.created_at, episodes.c.episode_id)


def conditions(episode_filter: EpisodeFilter) -> list[ColumnElement[bool]]:
    """Return a filter as conditions on an episode's rows in `episodes` and `standings`."""
    clauses: list[ColumnElement[bool]] = []
    for condition, value in episode_filter.conditions():
        clauses += _compare(condition, value)
    return clauses


def _compare(condition: Condition, value: Any) -> Iterable[ColumnElement[bool]]:
    special = _SPECIAL.get(condition.comparison)
    if special is not None:
        return special(value)
    table, _, name = condition.column.partition(".")
    column = metadata.tables[table].c[name]
    if condition.comparison is FilterComparison.IS_PRESENT:
        present = column.is_not(None) if column.nullable else column > 0
        return [present if value else ~present]
    if condition.comparison is FilterComparison.IS_MISSING:
        return [column.is_(None) if value else column.is_not(None)]
    if condition.kind is FilterKind.TIME:
        value = to_microseconds(value)
    elif condition.kind is FilterKind.POSITION:
        value = as_bigint(value)
        if value is None:  # beyond every index on record
            return [false()]
    elif condition.comparison is FilterComparison.IS:
        return [column.in_(_texts_of(value))]
    return [_OPERATORS[condition.comparison](column, value)]


def _texts_of(names: str | tuple[str, ...]) -> list[str]:
    return [as_search_text(name) for name in ((names,) if isinstance(names, str) else names)]


def _has_text(text: str) -> list[ColumnElement[bool]]:
    """Search the newest episodes alone: nothing indexes the texts, and a whole record may have gigabytes."""
    needle = searched_text(without_nul(text))

    def contains(body: ColumnElement[str]) -> ColumnElement[bool]:
        return func.lower(body).contains(needle, autoescape=True)

    newest = select(func.max(episodes.c.key)).scalar_subquery()
    parts = (prompts, steps)
    return [
        episodes.c.key > newest - SEARCHED_EPISODES,
        contains(episodes.c.body)
        | or_(*(exists().where(part.c.episode == episodes.c.key, contains(part.c.body)) for part in parts)),
    ]


_SPECIAL: Mapping[FilterComparison, Callable[[Any], Sequence[ColumnElement[bool]]]] = {
    FilterComparison.INCLUDES: lambda labels_: [_has_label(name, text) for name, text in labels_.items()],
    FilterComparison.HAS_KEYS: lambda names: [_has_label(name) for name in names],
    FilterComparison.IS_MARKED: lambda marks: [standings.c[MARKS[mark]] > 0 for mark in marks],
    FilterComparison.USES: lambda tools: [
        episodes.c.key.in_(select(tool_uses.c.episode).where(tool_uses.c.tool.in_(_texts_of(tools))))
    ],
    FilterComparison.CONTAINS: _has_text,
}
"""Comparisons of more than one column with a value."""
_OPERATORS: Mapping[FilterComparison, Callable[[Any, Any], ColumnElement[bool]]] = {
    FilterComparison.IS: operator.eq,
    FilterComparison.AT_LEAST: operator.ge,
    FilterComparison.AT_MOST: operator.le,
    FilterComparison.BEFORE: operator.lt,
}


def _has_label(name: str, value: str | None = None) -> ColumnElement[bool]:
    key = as_search_text(name)
    if value is not None and key in {RUN_LABEL, AGENT_LABEL} and value:  # which are columns too
        return episodes.c[key] == as_search_text(value)
    having = () if value is None else (labels.c.value == as_search_text(value),)
    return exists().where(labels.c.episode == episodes.c.key, labels.c.name == key, *having)


def records(*also: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    """Select episodes with their summaries."""
    return (
        select(
            episodes.c.key,
            episodes.c.created_at,
            episodes.c.episode_id,
            episodes.c.body.label("origin"),
            standings.c.body.label("summary"),
            *(standings.c[name] for name in STEP_COUNTS),
            standings.c.closed_at,
        )
        .join(standings, standings.c.episode == episodes.c.key)
        .where(*also)
    )


_BY_EPISODE = records(episodes.c.episode_id == bindparam("name"))
_BY_SESSION = records(episodes.c.session_id == bindparam("name")).order_by(episodes.c.key.desc()).limit(1)

_LAST_NUMBER = 2**63 - 1
_SLICE = (
    select(steps.c.episode, steps.c.number, steps.c.body, steps.c.blobs)
    .join(episodes, episodes.c.key == steps.c.episode)
    .where(
        episodes.c.episode_id == bindparam("name"),
        steps.c.number > bindparam("start"),
        steps.c.number <= bindparam("stop"),
    )
    .order_by(steps.c.number)
)

_ORDER_COLUMNS = {
    OrderKey.RETURN: standings.c.episode_return,
    OrderKey.STEPS: standings.c.steps,
    OrderKey.DURATION: standings.c.duration,
}


def _order_by(order: EpisodeSorting) -> tuple[ColumnElement[Any], ...]:
    if order.key is OrderKey.CREATED:
        return _ORDER
    column = _ORDER_COLUMNS[order.key]
    return (func.coalesce(column, order.missing) if column.nullable else column, *_ORDER)


def pages(
    episode_filter: EpisodeFilter,
    position: tuple[Any, ...] | None,
    limit: int,
    order: EpisodeSorting,
    *,
    is_backward: bool = False,
) -> Select[*tuple[Any, ...]]:
    """Select the keys of one page of episodes, in order; the other columns are read for these alone.

    Args:
        position: What the episode next to the page is ordered by.
        is_backward: Whether the page is before that episode; its last one comes first.
    """
    columns = _order_by(order)
    descends = order.descending is not is_backward
    query = (
        select(episodes.c.key, episodes.c.created_at, episodes.c.episode_id)
        .join(standings, standings.c.episode == episodes.c.key)
        .where(*conditions(episode_filter))
        .limit(limit)
    )
    if position is not None:
        here, there = tuple_(*columns), tuple_(*position)
        query = query.where(here < there if descends else here > there)
    return query.order_by(*(column.desc() if descends else column.asc() for column in columns))


_KEPT_CONDITIONS = frozenset(
    {"environment", "split", "phase", "stop_reason", "live", "unjudged", "closed", "has"}
)
"""Conditions, besides the labels run and agent, that kinds of kept totals meet or do not."""


def _groups(connection: Connection, episode_filter: EpisodeFilter) -> list[EpisodeGroup]:
    """Return the sums over the matching episodes by kind: kept ones where the filter is about kinds alone."""
    kept = _kept_conditions(episode_filter)
    if kept is None:
        return as_groups(connection.execute(group_figures(*conditions(episode_filter))))
    is_open = standings.c.closed_at.is_(None)
    groups = as_groups(connection.execute(group_figures(is_open, *conditions(episode_filter))))
    if episode_filter.closed is not False:
        groups += as_groups(connection.execute(select(totals).where(*kept)))
    return groups


def _kept_conditions(episode_filter: EpisodeFilter) -> list[ColumnElement[bool]] | None:
    """Return a filter as conditions on kept totals; `None` if it is about more than their kinds."""
    clauses: list[ColumnElement[bool]] = []
    for name in CONDITIONS:
        wanted = getattr(episode_filter, name)
        if wanted is None or wanted == {}:
            continue
        if name == "labels" and {*wanted} <= {RUN_LABEL, AGENT_LABEL} and all(wanted.values()):
            clauses += [totals.c[label] == as_search_text(text) for label, text in wanted.items()]
        elif name == "unjudged":
            is_unjudged = totals.c.result == EpisodeResult.UNJUDGED.value
            clauses.append(is_unjudged if wanted else ~is_unjudged)
        elif name == "live":
            is_live = totals.c.stop_reason == ""
            clauses.append(is_live if wanted else ~is_live)
        elif name == "has":
            clauses += [totals.c.marks.contains(MARK_LETTERS[mark]) for mark in wanted]
        elif name in _KEPT_CONDITIONS and name != "closed":
            clauses.append(totals.c[name].in_(_texts_of(wanted)))
        elif name not in _KEPT_CONDITIONS:
            return None
    return clauses


def _samples(
    connection: Connection, episode_filter: EpisodeFilter, by: Sequence[str], span: int | None = None
) -> list[EpisodeSample]:
    """Return the samples of episodes; with a span of time, in microseconds, those that agree as one.

    Most returns are few values, and a hundred thousand rows take longer to read than to group.
    """
    time: ColumnElement[int] = episodes.c.created_at
    names = [_value_of(name).label(f"name_{position}") for position, name in enumerate(by)]
    shared: list[ColumnElement[Any]] = [standings.c.result, standings.c.episode_return]
    count: ColumnElement[int] = literal(1)
    total: ColumnElement[int] = standings.c.steps
    if span is not None:
        time, count, total = (time // span * span), func.count(), func.sum(standings.c.steps)
    time = time.label("time")
    query = (
        select(time, *shared, total, count, *names)
        .select_from(standings.join(episodes, episodes.c.key == standings.c.episode))
        .where(*conditions(episode_filter))
    )
    if span is not None:
        query = query.group_by(time, *shared, *names)
    samples: list[EpisodeSample] = []
    for row in connection.execute(query):
        cells: tuple[Any, ...] = tuple(row)
        samples.append(EpisodeSample(cells[0], cells[1], cells[2], int(cells[3]), cells[5:], cells[4]))
    return samples


def _histogram(connection: Connection, episode_filter: EpisodeFilter, bins: int) -> ReturnHistogram:
    """Count returns where they are: a hundred thousand take ten times as long to be read."""
    clauses = (is_graded, *conditions(episode_filter))
    columns = [condition.column for condition, _ in episode_filter.conditions()]
    is_narrow = all(column.startswith("standings.") for column in columns)
    source = standings if is_narrow else standings.join(episodes, episodes.c.key == standings.c.episode)
    # One look at the tables: what matches is kept for the two looks at its values.
    matched = select(bounded_return.label("value")).select_from(source).where(*clauses).cte("matched")
    least, greatest = func.min(matched.c.value), func.max(matched.c.value)
    ends = select(least.label("least"), greatest.label("greatest")).subquery("ends")
    width = func.nullif(ends.c.greatest - ends.c.least, 0.0) / bins
    position = (matched.c.value - ends.c.least) / width
    # A cast rounds in PostgreSQL and cuts in SQLite, which may have no `floor`; no position is negative.
    is_sqlite = connection.dialect.name == "sqlite"
    whole = cast(position, Integer) if is_sqlite else func.floor(position)
    # A quotient that is rounded puts a return at a border into the wrong bin: the borders decide.
    is_above = matched.c.value >= ends.c.least + width * (whole + 1)
    is_below = matched.c.value < ends.c.least + width * whole
    bin_ = (whole + case((is_above, 1), (is_below, -1), else_=0)).label("bin")
    query = (
        select(bin_, func.count(), func.min(ends.c.least), func.max(ends.c.greatest))
        .select_from(matched.join(ends, true()))
        .group_by(bin_)
    )
    rows = connection.execute(query).all()
    if not rows:
        return make_histogram((), bins)
    counts = {int(row[0] or 0): row[1] for row in rows}
    return histogram_of(sum(counts.values()), rows[0][2], rows[0][3], counts, bins)


def _value_of(name: str) -> ColumnElement[str]:
    if not name.startswith(LABEL):
        return func.coalesce(episodes.c[name], "")
    key = as_search_text(name.removeprefix(LABEL))
    if key in {RUN_LABEL, AGENT_LABEL}:
        return episodes.c[key]
    value = select(labels.c.value).where(labels.c.episode == episodes.c.key, labels.c.name == key)
    return func.coalesce(value.scalar_subquery(), "")


def _tasks(connection: Connection, episode_filter: EpisodeFilter, limit: int) -> list[PlayedTask]:
    task = (episodes.c.environment, episodes.c.split, episodes.c.task_index, episodes.c.task_hash)
    graded = case((is_graded, 1), else_=0)
    paid = case((is_graded, bounded_return), else_=0.0)
    query = (
        select(
            *task,
            func.count().label("episodes"),
            func.sum(graded).label("graded"),
            func.sum(case((standings.c.result == EpisodeResult.FAILED.value, 1), else_=0)).label("failed"),
            func.sum(succeeded).label("successes"),
            func.sum(paid).label("sum"),
            func.sum(paid * paid).label("squares"),
            func.min(case((is_graded, standings.c.episode_return))).label("least"),
            func.max(case((is_graded, standings.c.episode_return))).label("greatest"),
        )
        .select_from(standings.join(episodes, episodes.c.key == standings.c.episode))
        .where(*conditions(episode_filter))
        .group_by(*task)
        .order_by(task[0], task[1].nulls_first(), task[2].nulls_first(), task[3])
        .limit(limit)
    )
    return [
        PlayedTask(
            row.environment,
            row.split,
            row.task_index,
            row.task_hash,
            episodes=row.episodes,
            graded=int(row.graded),
            failed=int(row.failed),
            returns=MeanReturn.of(int(row.graded), row.sum, row.squares),
            least_return=row.least,
            greatest_return=row.greatest,
            success=int(row.successes) / int(row.graded) if row.graded else None,
        )
        for row in connection.execute(query)
    ]


Result = TypeVar("Result")
Part = TypeVar("Part")

THREADS = 4
"""Maximum number of threads that read at the same time."""
EPISODES_PER_QUERY = 32
"""Episodes that a stream keeps in memory at a time."""
_EPISODES_PER_STATEMENT = 500
"""Maximum number of episodes that one statement names."""
_LAST = "\U0010ffff"


class SqlReader:
    """Reads one database."""

    def __init__(self, database: Database, blob_store: BlobStore) -> None:
        """Open connections as they are needed; `aclose` closes them."""
        self._database = database
        self._blob_store = blob_store
        self._reading_engine = database.reading_engine()
        self._threads = anyio.CapacityLimiter(THREADS)

    async def find(self, name: str) -> EpisodeRecord | None:
        """See `RecordReader.find`."""
        return await self._read(self._find, name)

    async def whole(self, name: str) -> tuple[EpisodeRecord, Sequence[Step]] | None:
        """See `RecordReader.whole`; also fails if a blob is missing or damaged."""
        return await self._read(self._whole, name)

    async def resolve(self, prefix: str, limit: int = 2) -> Sequence[str]:
        """See `RecordReader.resolve`."""
        return await self._read(_resolve, prefix, limit)

    async def steps(self, episode_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """See `RecordReader.steps`; also fails if a blob is missing or damaged."""
        return await self._read(self._slice, episode_id, start, stop)

    async def page(
        self,
        episode_filter: EpisodeFilter,
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int = 100,
        order: EpisodeSorting = NEWEST_FIRST,
    ) -> Sequence[EpisodeRecord]:
        """See `RecordReader.page`."""

        def read_page(connection: Connection) -> list[EpisodeRecord]:
            is_backward = before is not None
            position = None if (name := before or after) is None else _boundary(connection, name, order)
            query = pages(episode_filter, position, limit, order, is_backward=is_backward)
            keys = [row.key for row in connection.execute(query)]
            if is_backward:
                keys.reverse()
            rows = {row.key: row for row in connection.execute(records(episodes.c.key.in_(keys)))}
            return self._records(connection, [rows[key] for key in keys], with_moves=False)

        return await self._read(read_page)

    async def stream(
        self, episode_filter: EpisodeFilter = ALL
    ) -> AsyncGenerator[tuple[EpisodeRecord, Sequence[Step]], None]:
        """See `RecordReader.stream`; also fails if a blob is missing or damaged."""
        boundary: tuple[int, str] | None = None
        while True:
            boundary, chunk = await self._read(self._chunk, episode_filter, boundary)
            for pair in chunk:
                yield pair
            if boundary is None:
                return

    async def totals(self, episode_filter: EpisodeFilter = ALL) -> EpisodeTotals:
        """See `RecordReader.totals`."""
        return fold_totals(await self._read(_groups, episode_filter))

    async def runs(self, episode_filter: EpisodeFilter = ALL) -> Sequence[RunFigures]:
        """See `RecordReader.runs`."""
        return fold_runs(await self._read(_groups, episode_filter))

    async def by_task(
        self, episode_filter: EpisodeFilter = ALL, *, limit: int = 1000
    ) -> Sequence[PlayedTask]:
        """See `RecordReader.by_task`."""
        return await self._read(_tasks, episode_filter, limit)

    async def notes(self, episode_id: str) -> Sequence[EpisodeNote]:
        """See `RecordReader.notes`."""

        def read_notes(connection: Connection) -> list[EpisodeNote]:
            query = (
                select(notes)
                .join(episodes, episodes.c.key == notes.c.episode)
                .where(episodes.c.episode_id == episode_id)
                .order_by(notes.c.at, notes.c.note_id)
            )
            return [
                EpisodeNote(
                    row.note_id, row.author, from_microseconds(row.at), row.text, row.verdict, row.step
                )
                for row in connection.execute(query)
            ]

        return await self._read(read_notes)

    async def last_step(self, episode_id: str) -> int | None:
        """Return the number of an episode's last step; `None` if it was never opened."""

        def read_last_step(connection: Connection) -> int | None:
            key = connection.execute(
                select(episodes.c.key).where(episodes.c.episode_id == episode_id)
            ).scalar()
            if key is None:
                return None
            query = (
                select(steps.c.number).where(steps.c.episode == key).order_by(steps.c.number.desc()).limit(1)
            )
            return connection.execute(query).scalar() or 0

        return await self._read(read_last_step)

    async def series(
        self, episode_filter: EpisodeFilter, every: float, by: Sequence[str] = ()
    ) -> Sequence[SeriesPoint]:
        """See `RecordReader.series`."""
        samples = await self._read(_samples, episode_filter, by, to_span(every))
        return make_series(samples, every, by)

    async def histogram(self, episode_filter: EpisodeFilter = ALL, *, bins: int = 20) -> ReturnHistogram:
        """See `RecordReader.histogram`."""
        return await self._read(_histogram, episode_filter, bins)

    async def groups(self, run: str) -> Sequence[RolloutGroup]:
        """See `RecordReader.groups`."""
        return make_groups(await self._read(_samples, EpisodeFilter(labels={"run": run}), GROUP_NAMES))

    async def calls_by_minute(self, since: datetime) -> Sequence[CallsOfMinute]:
        """See `RecordReader.calls_by_minute`."""
        return await self._read(count_by_minute, to_microseconds(since) // MINUTE)

    async def aclose(self) -> None:
        """Close every connection."""
        await anyio.to_thread.run_sync(self._reading_engine.dispose)

    async def _read(self, function: Callable[..., Result], *args: Any) -> Result:
        def read() -> Result:
            with snapshot(self._database, self._reading_engine) as connection:
                return function(connection, *args)

        return await anyio.to_thread.run_sync(read, limiter=self._threads, abandon_on_cancel=True)

    def _find(self, connection: Connection, name: str) -> EpisodeRecord | None:
        named = {"name": as_search_text(name)}
        row = connection.execute(_BY_EPISODE, named).first() or connection.execute(_BY_SESSION, named).first()
        return None if row is None else self._records(connection, [row], with_moves=True)[0]

    def _whole(self, connection: Connection, name: str) -> tuple[EpisodeRecord, Sequence[Step]] | None:
        record = self._find(connection, name)
        return None if record is None else (record, self._slice(connection, record.origin.episode_id))

    def _slice(
        self, connection: Connection, episode_id: str, start: int = 0, stop: int | None = None
    ) -> list[Step]:
        wanted = {"name": episode_id, "start": start, "stop": _LAST_NUMBER if stop is None else stop}
        return [step for _, step in self._whole_steps(connection, connection.execute(_SLICE, wanted).all())]

    def _chunk(
        self, connection: Connection, episode_filter: EpisodeFilter, boundary: tuple[int, str] | None
    ) -> tuple[tuple[int, str] | None, list[tuple[EpisodeRecord, Sequence[Step]]]]:
        query = pages(episode_filter, boundary, EPISODES_PER_QUERY, OLDEST_FIRST)
        keys = [row.key for row in connection.execute(query)]
        whole = {row.key: row for row in connection.execute(records(episodes.c.key.in_(keys)))}
        rows = [whole[key] for key in keys]
        found = self._records(connection, rows, with_moves=True)
        played: dict[int, list[Step]] = defaultdict(list)
        shown = list(_of_episodes(connection, steps, [row.key for row in rows]))
        for key, step in self._whole_steps(connection, shown):
            played[key].append(step)
        last = (rows[-1].created_at, rows[-1].episode_id) if len(rows) == EPISODES_PER_QUERY else None
        return last, [(record, played[row.key]) for record, row in zip(found, rows, strict=True)]

    def _records(
        self, connection: Connection, rows: Sequence[Any], *, with_moves: bool
    ) -> list[EpisodeRecord]:
        keys = [row.key for row in rows]
        prompt_rows = {row.episode: row for row in _of_episodes(connection, prompts, keys)}
        texts = self._texts(connection, [row.blobs for row in prompt_rows.values()])
        transitions = _parts(connection, moves, TRANSITION, keys) if with_moves else {}
        happened = _parts(connection, incidents, INCIDENT, keys) if with_moves else {}
        found: list[EpisodeRecord] = []
        for row in rows:
            prompt = prompt_rows.get(row.key)
            blocks = None if prompt is None else BLOCKS.read(prompt.body)
            if blocks is not None and prompt is not None and prompt.blobs is not None:
                blocks = restore_long_texts(
                    blocks, prompt.blobs, texts, f"the prompt of the episode {row.episode_id}"
                )
            found.append(
                EpisodeRecord(
                    ORIGIN.read(row.origin),
                    summary_of(row.summary, row),
                    blocks,
                    tuple(transitions.get(row.key, ())),
                    is_closed=row.closed_at is not None,
                    incidents=tuple(happened.get(row.key, ())),
                )
            )
        return found

    def _whole_steps(self, connection: Connection, rows: Sequence[Any]) -> Iterable[tuple[int, Step]]:
        texts = self._texts(connection, [row.blobs for row in rows if row.blobs is not None])
        for row in rows:
            step = STEP.read(row.body)
            if row.blobs is not None:
                what = f"step {row.number} of the episode in row {row.episode}"
                step = replace(step, blocks=restore_long_texts(step.blocks, row.blobs, texts, what))
            yield row.episode, step

    def _texts(self, connection: Connection, blob_refs: Iterable[str | None]) -> dict[str, bytes]:
        names = sorted({name for ref in blob_refs for name in blob_names_in(ref)})
        return self._blob_store.get(connection, names) if names else {}


def summary_of(body: str, row: Any) -> EpisodeSummary:
    """Read a summary; numbers of steps that older servers did not write are columns of the row."""
    return with_counts(SUMMARY.read(body), {name: getattr(row, name) for name in STEP_COUNTS})


def _resolve(connection: Connection, prefix: str, limit: int) -> list[str]:
    column, prefix = episodes.c.episode_id, as_search_text(prefix)
    query = select(column).where(column >= prefix, column < prefix + _LAST).order_by(column).limit(limit)
    return list(connection.execute(query).scalars())


def _boundary(connection: Connection, episode_id: str, order: EpisodeSorting) -> tuple[Any, ...]:
    query = (
        select(*_order_by(order))
        .select_from(episodes.join(standings, standings.c.episode == episodes.c.key))
        .where(episodes.c.episode_id == episode_id)
    )
    row = connection.execute(query).first()
    if row is None:
        raise EpisodeNotFoundError(f"the store has no episode {episode_id!r}, which the cursor names")
    return tuple(row)


def _of_episodes(connection: Connection, table: Table, keys: Sequence[int]) -> Iterable[Any]:
    """Yield a table's rows of these episodes; each episode's rows in order."""
    query = _rows_of_episodes(table)
    for start in range(0, len(keys), _EPISODES_PER_STATEMENT):
        yield from connection.execute(query, {"keys": keys[start : start + _EPISODES_PER_STATEMENT]})


@cache
def _rows_of_episodes(table: Table) -> Select[*tuple[Any, ...]]:
    """Build the statement once: that takes longer than a database needs for the rows of one episode."""
    of_episodes = table.c.episode.in_(bindparam("keys", expanding=True))
    return select(table).where(of_episodes).order_by(*table.primary_key.columns)


def _parts(
    connection: Connection, table: Table, codec: JsonCodec[Part], keys: Sequence[int]
) -> dict[int, list[Part]]:
    parts: dict[int, list[Part]] = defaultdict(list)
    for row in _of_episodes(connection, table, keys):
        parts[row.episode].append(codec.read(row.body))
    return parts
