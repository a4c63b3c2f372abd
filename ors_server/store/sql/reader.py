"""Reads a record out of a SQL database, on threads of its own, one snapshot for every answer."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy import Connection, Engine, Table, select

from ors_server.errors import EpisodeNotFoundError
from ors_server.recording import BLOCKS, ORIGIN, STEP, SUMMARY, TRANSITION
from ors_server.store.base import ALL, EpisodeFilter, EpisodeTotals
from ors_server.store.sql.blobs import Shelf, names_in, unshelve
from ors_server.store.sql.database import Database, snapshot
from ors_server.store.sql.queries import figures, pages, records
from ors_server.store.sql.schema import episodes, moves, prompts, steps
from ors_server.store.sql.stamps import searchable
from ors_server.trajectory import EpisodeRecord, Step, Transition

Result = TypeVar("Result")

THREADS = 4
"""Most threads that read at once."""
HELD = 32
"""Episodes that a stream holds at a time."""
_AT_ONCE = 500
"""Most episodes that one statement names."""
_LAST = "\U0010ffff"


class SqlReader:
    """Reads one database."""

    def __init__(self, database: Database, engine: Engine, shelf: Shelf) -> None:
        """Name what to read.

        Args:
            database: The database.
            engine: Its reading engine; it is let go of with the reader.
            shelf: Where long texts are.
        """
        self._database = database
        self._engine = engine
        self._shelf = shelf
        self._threads = anyio.CapacityLimiter(THREADS)

    async def find(self, name: str) -> EpisodeRecord | None:
        """Return a record by the episode's id, or the newest one by its session's id.

        Args:
            name: The whole id.

        Raises:
            StoreError: If the record cannot be read.
        """
        return await self._read(self._find, name)

    async def resolve(self, prefix: str, limit: int = 2) -> Sequence[str]:
        """Return ids of episodes that begin with a text, in order.

        Args:
            prefix: At least one character.
            limit: Most ids.

        Raises:
            StoreError: If the record cannot be read.
        """
        return await self._read(_resolve, prefix, limit)

    async def steps(self, episode_id: str, start: int = 0, stop: int | None = None) -> Sequence[Step]:
        """Return a slice of an episode's steps, in order; empty for an unknown episode.

        Args:
            episode_id: The episode.
            start: First position, from 0.
            stop: Last position, exclusive; `None` for all.

        Raises:
            StoreError: If the record, or a blob that it names, cannot be read.
        """
        return await self._read(self._slice, episode_id, start, stop)

    async def page(
        self, wanted: EpisodeFilter, *, after: str | None = None, limit: int = 100, newest_first: bool = True
    ) -> Sequence[EpisodeRecord]:
        """Return a page of episodes in the order of their creation, without their transitions.

        Args:
            wanted: Which ones.
            after: Id of the last episode of the page before; `None` for the first page.
            limit: Most episodes.
            newest_first: Whether the newest one comes first.

        Raises:
            EpisodeNotFoundError: If `after` is the id of no episode.
            StoreError: If the record cannot be read.
        """

        def turn(connection: Connection) -> list[EpisodeRecord]:
            border = None if after is None else _border(connection, after)
            query = pages(wanted, border, limit, newest_first=newest_first)
            return self._records(connection, connection.execute(query).all(), with_moves=False)

        return await self._read(turn)

    async def stream(
        self, wanted: EpisodeFilter = ALL
    ) -> AsyncGenerator[tuple[EpisodeRecord, Sequence[Step]], None]:
        """Go through episodes with all their steps, oldest first, holding a few of them at a time.

        Args:
            wanted: Which ones; those that come while it runs may be missing.

        Raises:
            StoreError: If the record, or a blob that it names, cannot be read.
        """
        border: tuple[int, str] | None = None
        while True:
            border, chunk = await self._read(self._chunk, wanted, border)
            for pair in chunk:
                yield pair
            if border is None:
                return

    async def totals(self, wanted: EpisodeFilter = ALL) -> EpisodeTotals:
        """Return figures over a set of episodes.

        Args:
            wanted: Which ones.

        Raises:
            StoreError: If the record cannot be read.
        """
        return await self._read(_totals, wanted)

    async def last_step(self, episode_id: str) -> int | None:
        """Return the number of an episode's last step; `None` if it was never opened.

        Args:
            episode_id: The episode.

        Raises:
            StoreError: If the record cannot be read.
        """
        return await self._read(_last_step, episode_id)

    async def aclose(self) -> None:
        """Close every connection."""
        await anyio.to_thread.run_sync(self._engine.dispose)

    async def _read(self, function: Callable[..., Result], *args: Any) -> Result:
        def read() -> Result:
            with snapshot(self._database, self._engine) as connection:
                return function(connection, *args)

        return await anyio.to_thread.run_sync(read, limiter=self._threads, abandon_on_cancel=True)

    def _find(self, connection: Connection, name: str) -> EpisodeRecord | None:
        row = connection.execute(records(episodes.c.episode_id == name)).first()
        if row is None:
            query = records(episodes.c.session_id == searchable(name)).order_by(episodes.c.key.desc())
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
        self, connection: Connection, wanted: EpisodeFilter, border: tuple[int, str] | None
    ) -> tuple[tuple[int, str] | None, list[tuple[EpisodeRecord, Sequence[Step]]]]:
        rows = connection.execute(pages(wanted, border, HELD, newest_first=False)).all()
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
        told = {row.episode: row for row in _of_episodes(connection, prompts, keys)}
        texts = self._texts(connection, [row.blobs for row in told.values()])
        moved = _moves(connection, keys) if with_moves else {}
        found: list[EpisodeRecord] = []
        for row in rows:
            prompt = told.get(row.key)
            blocks = None if prompt is None else BLOCKS.read(prompt.body)
            if blocks is not None and prompt is not None and prompt.blobs is not None:
                blocks = unshelve(blocks, prompt.blobs, texts, f"the prompt of the episode {row.episode_id}")
            found.append(
                EpisodeRecord(
                    ORIGIN.read(row.origin),
                    SUMMARY.read(row.summary),
                    blocks,
                    tuple(moved.get(row.key, ())),
                    is_closed=row.closed_at is not None,
                )
            )
        return found

    def _whole_steps(self, connection: Connection, rows: Sequence[Any]) -> Iterable[tuple[int, Step]]:
        texts = self._texts(connection, [row.blobs for row in rows if row.blobs is not None])
        for row in rows:
            step = STEP.read(row.body)
            if row.blobs is not None:
                what = f"step {row.number} of the episode in row {row.episode}"
                step = replace(step, blocks=unshelve(step.blocks, row.blobs, texts, what))
            yield row.episode, step

    def _texts(self, connection: Connection, places: Iterable[str | None]) -> dict[str, bytes]:
        names = sorted({name for place in places for name in names_in(place)})
        return self._shelf.get(connection, names) if names else {}


def _resolve(connection: Connection, prefix: str, limit: int) -> list[str]:
    column = episodes.c.episode_id
    query = select(column).where(column >= prefix, column < prefix + _LAST).order_by(column).limit(limit)
    return list(connection.execute(query).scalars())


def _border(connection: Connection, episode_id: str) -> tuple[int, str]:
    query = select(episodes.c.created_at, episodes.c.episode_id).where(episodes.c.episode_id == episode_id)
    row = connection.execute(query).first()
    if row is None:
        raise EpisodeNotFoundError(f"no episode {episode_id!r} is on record, so no page follows it")
    return row.created_at, row.episode_id


def _last_step(connection: Connection, episode_id: str) -> int | None:
    key = connection.execute(select(episodes.c.key).where(episodes.c.episode_id == episode_id)).scalar()
    if key is None:
        return None
    query = select(steps.c.number).where(steps.c.episode == key).order_by(steps.c.number.desc()).limit(1)
    return connection.execute(query).scalar() or 0


def _of_episodes(connection: Connection, table: Table, keys: Sequence[int]) -> Iterable[Any]:
    """Read the rows of a table that belong to episodes, those of one episode in order."""
    for start in range(0, len(keys), _AT_ONCE):
        query = select(table).where(table.c.episode.in_(keys[start : start + _AT_ONCE]))
        yield from connection.execute(query.order_by(*table.primary_key.columns))


def _moves(connection: Connection, keys: Sequence[int]) -> dict[int, list[Transition]]:
    found: dict[int, list[Transition]] = defaultdict(list)
    for row in _of_episodes(connection, moves, keys):
        found[row.episode].append(TRANSITION.read(row.body))
    return found


def _totals(connection: Connection, wanted: EpisodeFilter) -> EpisodeTotals:
    rows = connection.execute(figures(wanted)).all()
    count = sum(row.episodes for row in rows)
    return EpisodeTotals(
        episodes=count,
        steps=int(sum(row.steps for row in rows)),
        mean_return=sum(row.sum for row in rows) / count if count else None,
        least_return=min((row.least for row in rows), default=None),
        greatest_return=max((row.greatest for row in rows), default=None),
        by_environment=_tally(rows, "environment"),
        by_phase=_tally(rows, "phase"),
        by_stop_reason=_tally(rows, "stop_reason"),
    )


def _tally(rows: Iterable[Any], kind: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        name = getattr(row, kind)
        if name is not None:
            found[name] = found.get(name, 0) + row.episodes
    return dict(sorted(found.items()))
