"""Writes a batch of entries in one transaction, in as few statements as there are tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, func, select

from ors_server.clock import Clock
from ors_server.errors import StoreError
from ors_server.recording import SUMMARY
from ors_server.store.sql import statements
from ors_server.store.sql.blobs import Shelf
from ors_server.store.sql.database import Database, transaction
from ors_server.store.sql.entries import (
    CloseEntry,
    Entry,
    MoveEntry,
    OpenEntry,
    Pen,
    PromptEntry,
    StepEntry,
)
from ors_server.store.sql.schema import episodes, moves, standings, steps
from ors_server.store.sql.stamps import digest_of, searchable, stamp, whole
from ors_server.trajectory import EpisodeOrigin, EpisodeSummary

Rejections = dict[Entry, StoreError]
_LOOKED_UP = 500
"""Most episodes that one statement looks up."""


@dataclass(slots=True)
class _Rows:
    """What a batch comes to, by table."""

    steps: dict[tuple[int, int], tuple[Any, ...]] = field(default_factory=dict[tuple[int, int], Any])
    moves: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    prompts: dict[int, tuple[Any, ...]] = field(default_factory=dict[int, Any])
    standings: dict[int, EpisodeSummary] = field(default_factory=dict[int, EpisodeSummary])
    """The latest summary by episode."""
    closed: set[int] = field(default_factory=set[int])
    texts: dict[str, bytes] = field(default_factory=dict[str, bytes])
    uses: dict[tuple[int, str], None] = field(default_factory=dict[tuple[int, str], None])
    doubts: dict[Pen, int] = field(default_factory=dict[Pen, int])


class BatchWriter:
    """Turns entries into rows, on one thread."""

    def __init__(self, database: Database, shelf: Shelf, clock: Clock) -> None:
        """Name where to write.

        Args:
            database: The database.
            shelf: Where long texts go.
            clock: The source of time.
        """
        self._database = database
        self._shelf = shelf
        self._clock = clock

    def write(self, connection: Connection, entries: Sequence[Entry]) -> Rejections:
        """Write all entries, or none.

        Args:
            connection: One of the writing engine.
            entries: In the order in which they were put on the line.

        Returns:
            The entries that make no sense, with what is wrong with them; all others were written.
        """
        rows = _Rows()
        rejected: Rejections = {}
        now = stamp(self._clock.now())
        _share_pens(entries)
        try:
            self._database.check()
            with transaction(self._database, connection):
                early = self._said_too_early(connection, entries)
                self._open(connection, [entry for entry in entries if isinstance(entry, OpenEntry)], now)
                self._find(connection, entries)
                for entry in entries:
                    if entry.pen is not None and (entry in early or not _sort(entry, entry.pen, rows)):
                        rejected[entry] = StoreError(f"the episode {entry.pen.episode_id!r} was never opened")
                self._run(connection, rows, now)
        except BaseException:
            for entry in entries:
                if entry.pen is not None:
                    entry.pen.key = None  # the row may be gone with the transaction, or with its episode
            raise
        for pen, number in rows.doubts.items():
            if pen.doubt == number:
                pen.doubt = None
        return rejected

    def _said_too_early(self, connection: Connection, entries: Sequence[Entry]) -> set[Entry]:
        """Return what is about an episode that is opened only later in the batch."""
        opened = {entry.pen for entry in entries if isinstance(entry, OpenEntry)}
        early: set[Entry] = set()
        for entry in entries:
            if isinstance(entry, OpenEntry):
                opened.discard(entry.pen)
            elif entry.pen in opened:
                early.add(entry)
        self._find(connection, early)
        return {entry for entry in early if entry.pen is not None and entry.pen.key is None}

    def _open(self, connection: Connection, entries: Sequence[OpenEntry], now: int) -> None:
        if not entries:
            return
        fresh = {entry.origin.episode_id: entry for entry in entries}
        mark = self._database.mark
        statements.EPISODES.run(connection, mark, [_episode_row(entry) for entry in fresh.values()])
        self._find(connection, fresh.values())
        first: list[tuple[Any, ...]] = []
        named: list[tuple[Any, ...]] = []
        for entry in fresh.values():
            key = None if entry.pen is None else entry.pen.key
            first.append(_standing_row(key, entry.summary, now, None))
            named += ((key, name, value) for name, value in label_columns(entry.origin).items())
        statements.FIRST_STANDINGS.run(connection, mark, first)
        statements.LABELS.run(connection, mark, named)

    def _after_all_others(self, connection: Connection, now: int) -> int:
        """Return a time of closing later than every other, whatever the clock has done since."""
        last = connection.execute(select(func.max(standings.c.closed_at))).scalar()
        return now if last is None else max(now, last + 1)

    def _find(self, connection: Connection, entries: Iterable[Entry]) -> None:
        """Look up the rows of the episodes that are not known yet."""
        pens = {entry.pen.episode_id: entry.pen for entry in entries if entry.pen and entry.pen.key is None}
        wanted = list(pens)
        for start in range(0, len(wanted), _LOOKED_UP):
            query = select(
                episodes.c.episode_id,
                episodes.c.key,
                _last(moves.c.position, moves.c.episode),
                _last(steps.c.number, steps.c.episode),
            ).where(episodes.c.episode_id.in_(wanted[start : start + _LOOKED_UP]))
            for episode_id, key, position, number in connection.execute(query):
                pen = pens[episode_id]
                pen.key = key
                pen.moves = max(pen.moves, 0 if position is None else position + 1)
                pen.found = number or 0

    def _run(self, connection: Connection, rows: _Rows, now: int) -> None:
        mark = self._database.mark
        for pen, number in rows.doubts.items():
            connection.exec_driver_sql(
                f"DELETE FROM steps WHERE episode = {mark} AND number >= {mark}",  # noqa: S608  (marks)
                (pen.key, number),
            )
        self._shelf.put(connection, rows.texts)
        statements.STEPS.run(connection, mark, list(rows.steps.values()))
        statements.MOVES.run(connection, mark, rows.moves)
        statements.PROMPTS.run(connection, mark, list(rows.prompts.values()))
        statements.BLOB_USES.run(connection, mark, list(rows.uses))
        closing = self._after_all_others(connection, now) if rows.closed else now
        latest = [
            _standing_row(key, summary, now, closing if key in rows.closed else None)
            for key, summary in sorted(rows.standings.items(), key=_first)
        ]
        statements.STANDINGS.run(connection, mark, latest)


def _sort(entry: Entry, pen: Pen, rows: _Rows) -> bool:
    """Add what an entry comes to, and say whether it makes sense."""
    if pen.key is None:  # what is noted of an unknown episode is passed over; a step is not
        return not isinstance(entry, StepEntry)
    if entry.is_abandoned and isinstance(entry, StepEntry):
        return True  # whoever waited was told meanwhile that it failed
    if pen.doubt is not None:
        rows.doubts[pen] = pen.doubt
    match entry:
        case StepEntry():
            _add_step(entry, pen.key, rows)
        case MoveEntry():
            _add_move(entry, pen, pen.key, rows)
        case PromptEntry():
            digest = digest_of(entry.body, entry.places)
            row = (pen.key, entry.body.decode(), digest, entry.places)
            rows.prompts.setdefault(pen.key, row)
            _add_texts(entry.texts, pen.key, rows)
        case CloseEntry():
            rows.standings[pen.key] = entry.summary
            rows.closed.add(pen.key)
        case _:
            pass  # an episode that was opened already
    return True


def _share_pens(entries: Iterable[Entry]) -> None:
    """Give entries of one episode one pen: notes of an episode that was closed already bring one each."""
    pens: dict[str, Pen] = {}
    for entry in entries:
        if entry.pen is not None:
            entry.pen = pens.setdefault(entry.pen.episode_id, entry.pen)


def _first(pair: tuple[int, object]) -> int:
    return pair[0]


def _last(column: Any, episode: Any) -> Any:
    return select(func.max(column)).where(episode == episodes.c.key).scalar_subquery()


def _add_step(entry: StepEntry, key: int, rows: _Rows) -> None:
    digest = digest_of(entry.body, entry.places)
    body = entry.body.decode()
    rows.steps[key, entry.number] = (key, entry.number, entry.reward, body, digest, entry.places)
    rows.standings[key] = entry.summary
    if entry.texts:
        _add_texts(entry.texts, key, rows)


def _add_move(entry: MoveEntry, pen: Pen, key: int, rows: _Rows) -> None:
    if entry.position is None:
        entry.position = pen.moves
        pen.moves += 1
    rows.moves.append((key, entry.position, entry.body.decode(), digest_of(entry.body)))
    rows.standings[key] = entry.summary


def _add_texts(texts: Mapping[str, bytes], key: int, rows: _Rows) -> None:
    rows.texts.update(texts)
    rows.uses.update(dict.fromkeys((key, name) for name in texts))


def _episode_row(entry: OpenEntry) -> tuple[Any, ...]:
    return (*episode_columns(entry.origin), entry.body.decode(), digest_of(entry.body))


def episode_columns(origin: EpisodeOrigin) -> tuple[Any, ...]:
    """Return what the columns of `episodes` beside the key, the body and its digest say, in order.

    Args:
        origin: Where the episode comes from.
    """
    return (
        origin.episode_id,
        searchable(origin.session_id),
        stamp(origin.created_at),
        searchable(origin.environment),
        None if origin.split is None else searchable(origin.split),
        whole(origin.index),
        origin.task_hash,
        None if origin.credential_id is None else searchable(origin.credential_id),
    )


def label_columns(origin: EpisodeOrigin) -> dict[str, str]:
    """Return the names and values that the rows of `labels` have.

    Args:
        origin: Where the episode comes from.
    """
    return {searchable(name): searchable(value) for name, value in origin.labels.items()}


def _standing_row(
    key: int | None, summary: EpisodeSummary, now: int, closed_at: int | None
) -> tuple[Any, ...]:
    body = SUMMARY.write(summary)
    return (
        key,
        summary.phase,
        summary.stop_reason,
        summary.steps,
        summary.episode_return,
        now,
        closed_at,
        body.decode(),
        digest_of(body),
    )
