"""Writes a batch in one transaction, with as few statements as there are tables."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from secrets import randbits
from typing import Any, TypeAlias

from sqlalchemy import Connection

from ors_server.model.clock import Clock, to_microseconds
from ors_server.model.errors import OrsServerError, StoreError
from ors_server.model.recording import SUMMARY
from ors_server.model.trajectory import EpisodeSummary, StepStatus
from ors_server.store.aggregates import MINUTE
from ors_server.store.sql import upserts
from ors_server.store.sql.blobs import BlobStore
from ors_server.store.sql.column_values import row_digest
from ors_server.store.sql.columns import (
    STEP_COLUMNS,
    episode_columns,
    label_columns,
    note_columns,
    standing_columns,
)
from ors_server.store.sql.database import Database, execute, transaction
from ors_server.store.sql.host_rows import Fence
from ors_server.store.sql.kept_totals import (
    add_closed,
    calls_from,
    forget_minutes,
    groups_of,
    recount_groups,
    recount_tools,
)
from ors_server.store.sql.live_sessions import LiveSessions
from ors_server.store.sql.opening import ALIVE_AT
from ors_server.store.sql.pending_writes import (
    PendingClose,
    PendingIncident,
    PendingNote,
    PendingOpen,
    PendingPrompt,
    PendingSign,
    PendingStep,
    PendingTransition,
    PendingWrite,
    WriteState,
)

Rejections = dict[PendingWrite, OrsServerError]
_TOOL = STEP_COLUMNS.index("tool")
_STATUS, _STARTED_AT = (2 + STEP_COLUMNS.index(name) for name in ("status", "started_at"))
"""In rows of steps, which begin with episode and number."""
_MAX_TOOLS = 1000
"""Tools of an episode that are remembered; a row of each further one is written with every step, in vain."""
_LOOK_UP = (
    'SELECT episode_id, "key", (SELECT max(position) FROM moves WHERE episode = episodes."key"), '
    '(SELECT max(position) FROM incidents WHERE episode = episodes."key"), '
    '(SELECT max(number) FROM steps WHERE episode = episodes."key"), '
    '(SELECT closed_at FROM standings WHERE episode = episodes."key") FROM episodes WHERE episode_id IN'
)


_Summed: TypeAlias = PendingStep | PendingTransition | PendingClose
"""A write after which an episode has another summary."""


@dataclass(slots=True)
class _Rows:
    """The rows of a batch, by table."""

    steps: dict[tuple[int, int], tuple[Any, ...]] = field(default_factory=dict[tuple[int, int], Any])
    moves: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    incidents: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    notes: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    prompts: dict[int, tuple[Any, ...]] = field(default_factory=dict[int, Any])
    standings: dict[int, _Summed] = field(default_factory=dict[int, _Summed])
    """The last such write of each episode: a step's summary is computed when it is read."""
    closed: set[int] = field(default_factory=set[int])
    texts: dict[str, bytes] = field(default_factory=dict[str, bytes])
    uses: dict[tuple[int, str], None] = field(default_factory=dict[tuple[int, str], None])
    states: dict[int, WriteState] = field(default_factory=dict[int, WriteState])
    """Of the episodes with steps."""
    tools: dict[tuple[int, str], WriteState] = field(default_factory=dict[tuple[int, str], WriteState])
    """Tools that may not be on record for their episodes yet."""
    reopened: set[int] = field(default_factory=set[int])
    """Closed episodes whose summary is written again."""
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
        self._holds = holds
        self._blob_store = blob_store
        self._clock = clock
        self._writer = randbits(31)
        """Its name in the counts of calls."""
        self._newest_minute = 0

    def write(self, connection: Connection, take: Callable[[], Sequence[PendingWrite]]) -> Rejections:
        """Write all, or nothing.

        Args:
            take: Returns the writes. It is called once the transaction has begun: what was queued while that
                waited for another server's commit is in the same one.

        Returns:
            The rejected writes with their errors; all others were written.
        """
        rows = _Rows()
        rejected: Rejections = {}
        entries: Sequence[PendingWrite] = ()
        try:
            self._database.check()
            with transaction(self._database, connection):
                now = to_microseconds(self._clock.now())
                entries = take()
                _share_states(entries)
                rejected.update(self._holds.check_writes(connection, entries, now))
                entries = [entry for entry in entries if entry not in rejected]
                early = self._queued_too_early(connection, entries)
                self._open(connection, [entry for entry in entries if isinstance(entry, PendingOpen)], now)
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
        self._holds.note(entries)
        for state, number in rows.unconfirmed.items():
            if state.unconfirmed_from == number:
                state.unconfirmed_from = None
        for (_, tool), state in rows.tools.items():
            if len(state.tools) < _MAX_TOOLS:
                state.tools.add(tool)
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
            for episode_id, key, move, incident, number, closed_at in rows:
                state = states[episode_id]
                state.key = key
                state.moves = max(state.moves, 0 if move is None else move + 1)
                state.incidents = max(state.incidents, 0 if incident is None else incident + 1)
                state.last_found = state.last_counted = number or 0
                state.is_closed = closed_at is not None

    def _run(self, connection: Connection, rows: _Rows, now: int) -> None:
        placeholder = self._database.placeholder
        calls: Counter[tuple[int, str]] = Counter()
        for state, number in rows.unconfirmed.items():
            calls.subtract(calls_from(connection, placeholder, state.key, number))
            state.last_counted = min(state.last_counted, number - 1)
            execute(
                connection,
                f"DELETE FROM steps WHERE episode = {placeholder} AND number >= {placeholder}",  # noqa: S608  (placeholders)
                (state.key, number),
            )
            if state.key is not None:
                recount_tools(connection, placeholder, state.key)
            state.tools.clear()
        self._blob_store.put(connection, rows.texts)
        self._count_calls(connection, rows, calls)
        for upsert, values in (
            (upserts.STEPS, rows.steps.values()),
            (upserts.TOOL_USES, rows.tools),
            (upserts.MOVES, rows.moves),
            (upserts.INCIDENTS, rows.incidents),
            (upserts.NOTES, rows.notes),
            (upserts.PROMPTS, rows.prompts.values()),
            (upserts.BLOB_USES, rows.uses),
        ):
            if values:
                upsert.run(connection, placeholder, list(values))
        closing = now
        if rows.closed:
            # Later than every other closing time, even if the clock was set back.
            [(last,)] = execute(connection, "SELECT max(closed_at) FROM standings", ()).fetchall()
            closing = now if last is None else max(now, last + 1)
        latest = [
            _standing_row(key, entry.summary, now, closing if key in rows.closed else None)
            for key, entry in sorted(rows.standings.items(), key=itemgetter(0))
        ]
        kept_before: set[tuple[str, ...]] = set()
        if rows.reopened:
            kept_before = groups_of(connection, rows.reopened)
        upserts.STANDINGS.run(connection, placeholder, latest)
        if rows.closed - rows.reopened:
            add_closed(connection, placeholder, sorted(rows.closed - rows.reopened))
        if rows.reopened:
            recount_groups(connection, kept_before | groups_of(connection, rows.reopened))

    def _count_calls(self, connection: Connection, rows: _Rows, calls: Counter[tuple[int, str]]) -> None:
        """Add the steps that are new to the calls of their minutes; `calls` has those that were deleted."""
        for (key, number), row in rows.steps.items():
            if number > rows.states[key].last_counted:
                calls[row[_STARTED_AT] // MINUTE, row[_STATUS]] += 1
        for key, number in rows.steps:
            rows.states[key].last_counted = max(rows.states[key].last_counted, number)
        minutes = sorted({minute for minute, _ in calls})
        counts = [
            (
                minute,
                self._writer,
                sum(count for (of_minute, _), count in calls.items() if of_minute == minute),
                calls[minute, StepStatus.REFUSED],
                calls[minute, StepStatus.FAILED],
            )
            for minute in minutes
        ]
        placeholder = self._database.placeholder
        upserts.CALL_MINUTES.run(connection, placeholder, counts)
        if minutes and minutes[-1] > self._newest_minute:
            self._newest_minute = minutes[-1]
            forget_minutes(connection, placeholder, self._newest_minute)


def _add_entry(entry: PendingWrite, state: WriteState, rows: _Rows) -> bool:
    """Add the rows of a write; returns whether the write is valid."""
    if state.key is None:  # an unknown episode: only a step is an error
        return not isinstance(entry, PendingStep)
    if entry.is_abandoned and isinstance(entry, PendingStep):
        return True  # its caller already got an error
    if state.unconfirmed_from is not None:
        rows.unconfirmed[state] = state.unconfirmed_from
    if state.is_closed and isinstance(entry, PendingStep | PendingTransition | PendingClose):
        rows.reopened.add(state.key)  # its kept totals change with it
    match entry:
        case PendingStep():
            _add_step(entry, state, state.key, rows)
        case PendingTransition():
            _add_move(entry, state, state.key, rows)
        case PendingIncident():
            _add_incident(entry, state, state.key, rows)
        case PendingNote():
            rows.notes.append((entry.note.note_id, state.key, *note_columns(entry.note)))
        case PendingPrompt():
            digest = row_digest(entry.body, entry.blob_refs)
            row = (state.key, entry.body.decode(), digest, entry.blob_refs)
            rows.prompts.setdefault(state.key, row)
            _add_texts(entry.texts, state.key, rows)
        case PendingClose():
            rows.standings[state.key] = entry
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


def _add_step(entry: PendingStep, state: WriteState, key: int, rows: _Rows) -> None:
    digest = row_digest(entry.body, entry.blob_refs)
    body = entry.body.decode()
    rows.steps[key, entry.number] = (key, entry.number, *entry.columns, body, digest, entry.blob_refs)
    rows.states[key] = state
    tool = entry.columns[_TOOL]
    if tool not in state.tools:  # on record once for each episode, so most steps write nothing
        rows.tools[key, tool] = state
    rows.standings[key] = entry
    if entry.texts:
        _add_texts(entry.texts, key, rows)


def _add_move(entry: PendingTransition, state: WriteState, key: int, rows: _Rows) -> None:
    if entry.position is None:
        entry.position = state.moves
        state.moves += 1
    rows.moves.append((key, entry.position, entry.body.decode(), row_digest(entry.body)))
    rows.standings[key] = entry


def _add_incident(entry: PendingIncident, state: WriteState, key: int, rows: _Rows) -> None:
    if entry.position is None:
        entry.position = state.incidents
        state.incidents += 1
    rows.incidents.append((key, entry.position, entry.body.decode(), row_digest(entry.body)))


def _add_texts(texts: Mapping[str, bytes], key: int, rows: _Rows) -> None:
    rows.texts.update(texts)
    rows.uses.update(dict.fromkeys((key, name) for name in texts))


def _standing_row(
    key: int | None, summary: EpisodeSummary, now: int, closed_at: int | None
) -> tuple[Any, ...]:
    body = SUMMARY.write(summary)
    return (
        key,
        *standing_columns(summary),
        now,
        closed_at,
        body.decode(),
        row_digest(body),
    )
