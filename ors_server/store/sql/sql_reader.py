"""Reads episodes from a SQL database on its own threads, each answer from one snapshot.

SELECT statements for episodes and their statistics.
"""

import operator
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy import ColumnElement, Connection, Select, Table, case, exists, false, func, select, tuple_

from ors_server.model.errors import EpisodeNotFoundError
from ors_server.model.recording import BLOCKS, INCIDENT, ORIGIN, STEP, SUMMARY, TRANSITION, JsonCodec
from ors_server.model.trajectory import (
    STEP_COUNTS,
    EpisodeRecord,
    EpisodeResult,
    EpisodeSummary,
    Step,
    with_counts,
)
from ors_server.store.aggregates import (
    AGENT_LABEL,
    RUN_LABEL,
    EpisodeGroup,
    EpisodeTotals,
    MeanReturn,
    RunFigures,
    TaskFigures,
    fold_runs,
    fold_totals,
)
from ors_server.store.episode_filter import (
    ALL,
    CONDITIONS,
    Condition,
    EpisodeFilter,
    FilterComparison,
    FilterKind,
)
from ors_server.store.sql.blobs import BlobStore, blob_names_in, restore_long_texts
from ors_server.store.sql.column_values import as_bigint, as_search_text, to_microseconds
from ors_server.store.sql.database import Database, snapshot
from ors_server.store.sql.kept_totals import as_groups, bounded_return, group_figures, is_graded, succeeded
from ors_server.store.sql.record_tables import (
    episodes,
    incidents,
    labels,
    metadata,
    moves,
    prompts,
    standings,
    steps,
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
    if condition.comparison is FilterComparison.INCLUDES:
        return [_has_label(name, text) for name, text in value.items()]
    table, _, name = condition.column.partition(".")
    column = metadata.tables[table].c[name]
    match condition.kind:
        case FilterKind.TIME:
            value = to_microseconds(value)
        case FilterKind.POSITION:
            value = as_bigint(value)
            if value is None:  # beyond every index on record
                return [false()]
        case FilterKind.NAME | FilterKind.PHASE | FilterKind.STOP_REASON:
            value = as_search_text(value)
        case _:
            pass
    if condition.comparison is FilterComparison.IS_PRESENT:
        present = column.is_not(None) if column.nullable else column > 0
        return [present if value else ~present]
    return [_OPERATORS[condition.comparison](column, value)]


_OPERATORS: Mapping[FilterComparison, Callable[[Any, Any], ColumnElement[bool]]] = {
    FilterComparison.IS: operator.eq,
    FilterComparison.AT_LEAST: operator.ge,
    FilterComparison.AT_MOST: operator.le,
    FilterComparison.BEFORE: operator.lt,
}


def _has_label(name: str, value: str) -> ColumnElement[bool]:
    return exists().where(
        labels.c.episode == episodes.c.key,
        labels.c.name == as_search_text(name),
        labels.c.value == as_search_text(value),
    )


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


def pages(
    episode_filter: EpisodeFilter, after: tuple[int, str] | None, limit: int, *, newest_first: bool
) -> Select[*tuple[Any, ...]]:
    """Select one page of episodes in the order of their creation.

    Args:
        after: Time and id of the last episode of the previous page.
    """
    query = records(*conditions(episode_filter)).limit(limit)
    if after is not None:
        position, boundary = tuple_(*_ORDER), tuple_(*after)
        query = query.where(position < boundary if newest_first else position > boundary)
    return query.order_by(*(column.desc() if newest_first else column.asc() for column in _ORDER))


_KEPT_CONDITIONS = frozenset({"environment", "phase", "stop_reason", "unjudged", "closed"})
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
    for name, condition in CONDITIONS.items():
        wanted = getattr(episode_filter, name)
        if wanted is None or wanted == {}:
            continue
        if name == "labels" and {*wanted} <= {RUN_LABEL, AGENT_LABEL} and all(wanted.values()):
            clauses += [totals.c[label] == as_search_text(text) for label, text in wanted.items()]
        elif name == "unjudged":
            is_unjudged = totals.c.result == EpisodeResult.UNJUDGED.value
            clauses.append(is_unjudged if wanted else ~is_unjudged)
        elif name in _KEPT_CONDITIONS and name != "closed":
            clauses.append(totals.c[condition.column.partition(".")[2]] == as_search_text(wanted))
        elif name not in _KEPT_CONDITIONS:
            return None
    return clauses


def _tasks(connection: Connection, episode_filter: EpisodeFilter, limit: int) -> list[TaskFigures]:
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
        .order_by(task[0], func.coalesce(task[1], ""), func.coalesce(task[2], -1), task[3])
        .limit(limit)
    )
    return [
        TaskFigures(
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
"""Most threads that read at the same time."""
HELD = 32
"""Episodes that a stream keeps in memory at a time."""
_AT_ONCE = 500
"""Most episodes that one statement names."""
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
        limit: int = 100,
        newest_first: bool = True,
    ) -> Sequence[EpisodeRecord]:
        """See `RecordReader.page`."""

        def read_page(connection: Connection) -> list[EpisodeRecord]:
            boundary = None if after is None else _boundary(connection, after)
            query = pages(episode_filter, boundary, limit, newest_first=newest_first)
            return self._records(connection, connection.execute(query).all(), with_moves=False)

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
    ) -> Sequence[TaskFigures]:
        """See `RecordReader.by_task`."""
        return await self._read(_tasks, episode_filter, limit)

    async def last_step(self, episode_id: str) -> int | None:
        """Return the number of an episode's last step; `None` if it was never opened."""
        return await self._read(_last_step, episode_id)

    async def aclose(self) -> None:
        """Close every connection."""
        await anyio.to_thread.run_sync(self._reading_engine.dispose)

    async def _read(self, function: Callable[..., Result], *args: Any) -> Result:
        def read() -> Result:
            with snapshot(self._database, self._reading_engine) as connection:
                return function(connection, *args)

        return await anyio.to_thread.run_sync(read, limiter=self._threads, abandon_on_cancel=True)

    def _find(self, connection: Connection, name: str) -> EpisodeRecord | None:
        row = connection.execute(records(episodes.c.episode_id == name)).first()
        if row is None:
            query = records(episodes.c.session_id == as_search_text(name)).order_by(episodes.c.key.desc())
            row = connection.execute(query.limit(1)).first()
        return None if row is None else self._records(connection, [row], with_moves=True)[0]

    def _slice(self, connection: Connection, episode_id: str, start: int, stop: int | None) -> list[Step]:
        query = (
            select(steps.c.episode, steps.c.number, steps.c.body, steps.c.blobs)
            .join(episodes, episodes.c.key == steps.c.episode)
            .where(episodes.c.episode_id == episode_id, steps.c.number > start)
            .order_by(steps.c.number)
        )
        if stop is not None:
            query = query.where(steps.c.number <= stop)
        return [step for _, step in self._whole_steps(connection, connection.execute(query).all())]

    def _chunk(
        self, connection: Connection, episode_filter: EpisodeFilter, boundary: tuple[int, str] | None
    ) -> tuple[tuple[int, str] | None, list[tuple[EpisodeRecord, Sequence[Step]]]]:
        rows = connection.execute(pages(episode_filter, boundary, HELD, newest_first=False)).all()
        found = self._records(connection, rows, with_moves=True)
        played: dict[int, list[Step]] = defaultdict(list)
        shown = list(_of_episodes(connection, steps, [row.key for row in rows]))
        for key, step in self._whole_steps(connection, shown):
            played[key].append(step)
        last = (rows[-1].created_at, rows[-1].episode_id) if len(rows) == HELD else None
        return last, [(record, played[row.key]) for record, row in zip(found, rows, strict=True)]

    def _records(
        self, connection: Connection, rows: Sequence[Any], *, with_moves: bool
    ) -> list[EpisodeRecord]:
        keys = [row.key for row in rows]
        prompt_rows = {row.episode: row for row in _of_episodes(connection, prompts, keys)}
        texts = self._texts(connection, [row.blobs for row in prompt_rows.values()])
        moved = _parts(connection, moves, TRANSITION, keys) if with_moves else {}
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
                    tuple(moved.get(row.key, ())),
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
    column = episodes.c.episode_id
    query = select(column).where(column >= prefix, column < prefix + _LAST).order_by(column).limit(limit)
    return list(connection.execute(query).scalars())


def _boundary(connection: Connection, episode_id: str) -> tuple[int, str]:
    query = select(episodes.c.created_at, episodes.c.episode_id).where(episodes.c.episode_id == episode_id)
    row = connection.execute(query).first()
    if row is None:
        raise EpisodeNotFoundError(f"the store has no episode {episode_id!r}, which `after` names")
    return row.created_at, row.episode_id


def _last_step(connection: Connection, episode_id: str) -> int | None:
    key = connection.execute(select(episodes.c.key).where(episodes.c.episode_id == episode_id)).scalar()
    if key is None:
        return None
    query = select(steps.c.number).where(steps.c.episode == key).order_by(steps.c.number.desc()).limit(1)
    return connection.execute(query).scalar() or 0


def _of_episodes(connection: Connection, table: Table, keys: Sequence[int]) -> Iterable[Any]:
    """Yield a table's rows of these episodes; each episode's rows in order."""
    for start in range(0, len(keys), _AT_ONCE):
        query = select(table).where(table.c.episode.in_(keys[start : start + _AT_ONCE]))
        yield from connection.execute(query.order_by(*table.primary_key.columns))


def _parts(
    connection: Connection, table: Table, codec: JsonCodec[Part], keys: Sequence[int]
) -> dict[int, list[Part]]:
    parts: dict[int, list[Part]] = defaultdict(list)
    for row in _of_episodes(connection, table, keys):
        parts[row.episode].append(codec.read(row.body))
    return parts
