"""Reads episodes from a SQL database on its own threads, each answer from one snapshot.

SELECT statements for episodes and their statistics.
"""

import operator
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy import ColumnElement, Connection, Select, Table, case, exists, false, func, select, tuple_

from ors_server.model.errors import EpisodeNotFoundError
from ors_server.model.recording import BLOCKS, INCIDENT, ORIGIN, STEP, SUMMARY, TRANSITION, JsonCodec
from ors_server.model.trajectory import ENDINGS, EpisodeRecord, EpisodeResult, EpisodeSummary, Step
from ors_server.store.base import EpisodeTotals
from ors_server.store.episode_filter import ALL, Condition, EpisodeFilter, FilterComparison, FilterKind
from ors_server.store.sql.blobs import BlobStore, blob_names_in, restore_long_texts
from ors_server.store.sql.column_values import as_bigint, as_search_text, to_microseconds
from ors_server.store.sql.database import Database, snapshot
from ors_server.store.sql.record_tables import (
    episodes,
    incidents,
    labels,
    metadata,
    moves,
    prompts,
    standings,
    steps,
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
            standings.c.unjudged_steps,
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


def figures(episode_filter: EpisodeFilter) -> Select[*tuple[Any, ...]]:
    """Select statistics by environment, phase, stop reason and result."""
    rows = (
        select(
            episodes.c.environment,
            standings.c.phase,
            standings.c.stop_reason,
            standings.c.steps,
            standings.c.episode_return,
            _result().label("result"),
        )
        .select_from(episodes.join(standings, standings.c.episode == episodes.c.key))
        .where(*conditions(episode_filter))
        .subquery()
    )
    kinds = (rows.c.environment, rows.c.phase, rows.c.stop_reason, rows.c.result)
    return select(
        *kinds,
        func.count().label("episodes"),
        func.sum(rows.c.steps).label("steps"),
        func.sum(rows.c.episode_return).label("sum"),
        func.min(rows.c.episode_return).label("least"),
        func.max(rows.c.episode_return).label("greatest"),
    ).group_by(*kinds)


def _result() -> ColumnElement[str]:
    """Return `trajectory.result_of` as an expression.

    A step's reward is in a column and the summary's last reward is not: an episode was paid or charged
    exactly if one of its steps was. Only ended episodes are asked, and mostly their first steps answer.
    """
    reason = standings.c.stop_reason
    return case(
        (standings.c.unjudged_steps > 0, EpisodeResult.UNJUDGED.value),
        (reason.is_(None), EpisodeResult.LIVE.value),
        (reason == "failed", EpisodeResult.FAILED.value),
        (reason.not_in(sorted(ENDINGS)), EpisodeResult.ABANDONED.value),
        (
            exists().where(steps.c.episode == standings.c.episode, steps.c.reward.is_not(None)),
            EpisodeResult.GRADED.value,
        ),
        else_=EpisodeResult.UNGRADED.value,
    )


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
        return await self._read(_totals, episode_filter)

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
                    summary_of(row.summary, row.unjudged_steps),
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


def summary_of(body: str, unjudged_steps: int) -> EpisodeSummary:
    """Read a summary; the number of unjudged steps, which older servers did not write, has its own column."""
    summary = SUMMARY.read(body)
    if summary.unjudged_steps == unjudged_steps:
        return summary
    return replace(summary, unjudged_steps=unjudged_steps)


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


def _totals(connection: Connection, episode_filter: EpisodeFilter) -> EpisodeTotals:
    rows = connection.execute(figures(episode_filter)).all()
    graded = [row for row in rows if row.result == EpisodeResult.GRADED.value]
    results = _tally(rows, "result")
    count = results.get(EpisodeResult.GRADED.value, 0)
    return EpisodeTotals(
        episodes=sum(row.episodes for row in rows),
        steps=int(sum(row.steps for row in rows)),
        mean_return=sum(row.sum for row in graded) / count if count else None,
        least_return=min((row.least for row in graded), default=None),
        greatest_return=max((row.greatest for row in graded), default=None),
        by_environment=_tally(rows, "environment"),
        by_phase=_tally(rows, "phase"),
        by_stop_reason=_tally(rows, "stop_reason"),
        **{result.value: results.get(result.value, 0) for result in EpisodeResult},
    )


def _tally(rows: Iterable[Any], kind: str) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row in rows:
        if (name := getattr(row, kind)) is not None:
            found[name] += row.episodes
    return dict(sorted(found.items()))
