"""Writes a batch in one transaction, with as few statements as there are tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection

from ors_server.model.clock import Clock
from ors_server.model.errors import OrsServerError, StoreError
from ors_server.model.recording import SUMMARY
from ors_server.model.trajectory import EpisodeOrigin, EpisodeSummary
from ors_server.store.sql import upserts
from ors_server.store.sql.blobs import BlobStore
from ors_server.store.sql.column_values import as_bigint, as_search_text, row_digest, to_microseconds
from ors_server.store.sql.database import Database, execute, transaction
from ors_server.store.sql.host_rows import Fence
from ors_server.store.sql.live_sessions import LiveSessions
from ors_server.store.sql.opening import ALIVE_AT
from ors_server.store.sql.pending_writes import (
    PendingClose,
    PendingIncident,
    PendingOpen,
    PendingPrompt,
    PendingSign,
    PendingStep,
    PendingTransition,
    PendingWrite,
    WriteState,
)

Rejections = dict[PendingWrite, OrsServerError]
_LOOK_UP = (
    'SELECT episode_id, "key", (SELECT max(position) FROM moves WHERE episode = episodes."key"), '
    '(SELECT max(position) FROM incidents WHERE episode = episodes."key"), '
    '(SELECT max(number) FROM steps WHERE episode = episodes."key") FROM episodes WHERE episode_id IN'
)


@dataclass(slots=True)
class _Rows:
    """The rows of a batch, by table."""

    steps: dict[tuple[int, int], tuple[Any, ...]] = field(default_factory=dict[tuple[int, int], Any])
    moves: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    incidents: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    prompts: dict[int, tuple[Any, ...]] = field(default_factory=dict[int, Any])
    standings: dict[int, EpisodeSummary] = field(default_factory=dict[int, EpisodeSummary])
    """The latest summary by episode."""
    closed: set[int] = field(default_factory=set[int])
    texts: dict[str, bytes] = field(default_factory=dict[str, bytes])
    uses: dict[tuple[int, str], None] = field(default_factory=dict[tuple[int, str], None])
    unconfirmed: dict[WriteState, int] = field(default_factory=dict[WriteState, int])


class BatchWriter:
    """Turns pending writes into rows; used on the writer thread only."""

    def __init__(
        self, database: Database, blob_store: BlobStore, clock: Clock, holds: Fence | LiveSessions
    ) -> None:
        """Write for a server.

        Args:
            holds: What keeps the server's sessions its own: its fence, or else its live sessions.
        """
        self._database = database
        self._fence = holds if isinstance(holds, Fence) else None
        self._live = holds if isinstance(holds, LiveSessions) else None
        self._blob_store = blob_store
        self._clock = clock

    def write(self, connection: Connection, entries: Sequence[PendingWrite]) -> Rejections:
        """Write all, or nothing.

        Returns:
            The rejected writes with their errors; all others were written.
        """
        rows = _Rows()
        rejected: Rejections = {}
        now = to_microseconds(self._clock.now())
        _share_states(entries)
        try:
            self._database.check()
            with transaction(self._database, connection):
                if self._fence is not None:
                    self._fence.check(connection)
                opens = [entry for entry in entries if isinstance(entry, PendingOpen)]
                if self._live is not None and opens:
                    rejected.update(self._live.refused(connection, opens, now))
                    entries = [entry for entry in entries if entry not in rejected]
                early = self._queued_too_early(connection, entries)
                self._open(connection, [entry for entry in opens if entry not in rejected], now)
                self._look_up(connection, entries)
                for entry in entries:
                    if entry.state is not None and (
                        entry in early or not _add_entry(entry, entry.state, rows)
                    ):
                        rejected[entry] = StoreError(
                            f"the episode {entry.state.episode_id!r} was never opened"
                        )
                self._run(connection, rows, now)
                if any(isinstance(entry, PendingSign) for entry in entries):
                    sign = (ALIVE_AT, str(now).encode())
                    upserts.SHARED_VALUES.run(connection, self._database.placeholder, [sign])
        except BaseException:
            for entry in entries:
                if entry.state is not None:
                    entry.state.key = None  # the row may be gone: rolled back, or pruned
            raise
        if self._live is not None:
            self._live.note(entries)
        for state, number in rows.unconfirmed.items():
            if state.unconfirmed_from == number:
                state.unconfirmed_from = None
        return rejected

    def _queued_too_early(self, connection: Connection, entries: Sequence[PendingWrite]) -> set[PendingWrite]:
        """Return the writes whose episode is opened only later in the batch."""
        opened = {entry.state for entry in entries if isinstance(entry, PendingOpen)}
        early: set[PendingWrite] = set()
        for entry in entries:
            if isinstance(entry, PendingOpen):
                opened.discard(entry.state)
            elif entry.state in opened:
                early.add(entry)
        self._look_up(connection, early)
        return {entry for entry in early if entry.state is not None and entry.state.key is None}

    def _open(self, connection: Connection, entries: Sequence[PendingOpen], now: int) -> None:
        if not entries:
            return
        fresh = {entry.origin.episode_id: entry for entry in entries}
        placeholder = self._database.placeholder
        origins = [
            (*episode_columns(entry.origin), entry.body.decode(), row_digest(entry.body))
            for entry in fresh.values()
        ]
        upserts.EPISODES.run(connection, placeholder, origins)
        self._look_up(connection, fresh.values())
        first: list[tuple[Any, ...]] = []
        named: list[tuple[Any, ...]] = []
        for entry in fresh.values():
            key = None if entry.state is None else entry.state.key
            first.append(_standing_row(key, entry.summary, now, None))
            named += ((key, name, value) for name, value in label_columns(entry.origin).items())
        upserts.FIRST_STANDINGS.run(connection, placeholder, first)
        upserts.LABELS.run(connection, placeholder, named)

    def _after_all_others(self, connection: Connection, now: int) -> int:
        """Return a closing time later than every other one, even if the clock was set back."""
        [(last,)] = execute(connection, "SELECT max(closed_at) FROM standings", ()).fetchall()
        return now if last is None else max(now, last + 1)

    def _look_up(self, connection: Connection, entries: Iterable[PendingWrite]) -> None:
        """Find the rows of episodes whose row is not known yet."""
        states = {
            entry.state.episode_id: entry.state
            for entry in entries
            if entry.state and entry.state.key is None
        }
        ids = tuple(states)
        placeholder = self._database.placeholder
        start = 0
        for size in upserts.sizes_of(len(ids), placeholder):
            query = f"{_LOOK_UP} ({', '.join([placeholder] * size)})"
            rows = execute(connection, query, ids[start : start + size]).fetchall()
            start += size
            for episode_id, key, move, incident, number in rows:
                state = states[episode_id]
                state.key = key
                state.moves = max(state.moves, 0 if move is None else move + 1)
                state.incidents = max(state.incidents, 0 if incident is None else incident + 1)
                state.found = number or 0

    def _run(self, connection: Connection, rows: _Rows, now: int) -> None:
        placeholder = self._database.placeholder
        for state, number in rows.unconfirmed.items():
            execute(
                connection,
                f"DELETE FROM steps WHERE episode = {placeholder} AND number >= {placeholder}",  # noqa: S608  (placeholders)
                (state.key, number),
            )
        self._blob_store.put(connection, rows.texts)
        upserts.STEPS.run(connection, placeholder, list(rows.steps.values()))
        upserts.MOVES.run(connection, placeholder, rows.moves)
        upserts.INCIDENTS.run(connection, placeholder, rows.incidents)
        upserts.PROMPTS.run(connection, placeholder, list(rows.prompts.values()))
        upserts.BLOB_USES.run(connection, placeholder, list(rows.uses))
        closing = self._after_all_others(connection, now) if rows.closed else now
        latest = [
            _standing_row(key, summary, now, closing if key in rows.closed else None)
            for key, summary in sorted(rows.standings.items(), key=itemgetter(0))
        ]
        upserts.STANDINGS.run(connection, placeholder, latest)


def _add_entry(entry: PendingWrite, state: WriteState, rows: _Rows) -> bool:
    """Add the rows of a write; returns whether the write is valid."""
    if state.key is None:  # an unknown episode: only a step is an error
        return not isinstance(entry, PendingStep)
    if entry.is_abandoned and isinstance(entry, PendingStep):
        return True  # its caller already got an error
    if state.unconfirmed_from is not None:
        rows.unconfirmed[state] = state.unconfirmed_from
    match entry:
        case PendingStep():
            _add_step(entry, state.key, rows)
        case PendingTransition():
            _add_move(entry, state, state.key, rows)
        case PendingIncident():
            _add_incident(entry, state, state.key, rows)
        case PendingPrompt():
            digest = row_digest(entry.body, entry.blob_refs)
            row = (state.key, entry.body.decode(), digest, entry.blob_refs)
            rows.prompts.setdefault(state.key, row)
            _add_texts(entry.texts, state.key, rows)
        case PendingClose():
            rows.standings[state.key] = entry.summary
            rows.closed.add(state.key)
        case _:
            pass  # an episode that is already open
    return True


def _share_states(entries: Iterable[PendingWrite]) -> None:
    """Give all writes of one episode the same state: those after its close have one each."""
    states: dict[str, WriteState] = {}
    for entry in entries:
        if entry.state is not None:
            entry.state = states.setdefault(entry.state.episode_id, entry.state)


def _add_step(entry: PendingStep, key: int, rows: _Rows) -> None:
    digest = row_digest(entry.body, entry.blob_refs)
    body = entry.body.decode()
    rows.steps[key, entry.number] = (key, entry.number, entry.reward, body, digest, entry.blob_refs)
    rows.standings[key] = entry.summary
    if entry.texts:
        _add_texts(entry.texts, key, rows)


def _add_move(entry: PendingTransition, state: WriteState, key: int, rows: _Rows) -> None:
    if entry.position is None:
        entry.position = state.moves
        state.moves += 1
    rows.moves.append((key, entry.position, entry.body.decode(), row_digest(entry.body)))
    rows.standings[key] = entry.summary


def _add_incident(entry: PendingIncident, state: WriteState, key: int, rows: _Rows) -> None:
    if entry.position is None:
        entry.position = state.incidents
        state.incidents += 1
    rows.incidents.append((key, entry.position, entry.body.decode(), row_digest(entry.body)))


def _add_texts(texts: Mapping[str, bytes], key: int, rows: _Rows) -> None:
    rows.texts.update(texts)
    rows.uses.update(dict.fromkeys((key, name) for name in texts))


def episode_columns(origin: EpisodeOrigin) -> tuple[Any, ...]:
    """Return the values of the columns of `episodes` but key, body and digest, in order."""
    return (
        origin.episode_id,
        as_search_text(origin.session_id),
        to_microseconds(origin.created_at),
        as_search_text(origin.environment),
        None if origin.split is None else as_search_text(origin.split),
        as_bigint(origin.index),
        origin.task_hash,
        None if origin.credential_id is None else as_search_text(origin.credential_id),
    )


def label_columns(origin: EpisodeOrigin) -> dict[str, str]:
    """Return the names and values of an episode's rows in `labels`."""
    return {as_search_text(name): as_search_text(value) for name, value in origin.labels.items()}


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
        summary.unjudged_steps,
        now,
        closed_at,
        body.decode(),
        row_digest(body),
    )
