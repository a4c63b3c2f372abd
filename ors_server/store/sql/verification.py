"""Checks a whole store and reports contradictions within it.

Checks an episode's transitions against the table of phases, and their end against the summary.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Table, select
from sqlalchemy.exc import SQLAlchemyError

from ors_server.model.episode import TRANSITIONS, EpisodeEvent, Phase
from ors_server.model.errors import RecordError
from ors_server.model.recording import BLOCKS, INCIDENT, ORIGIN, STEP, SUMMARY, TRANSITION, task_digest
from ors_server.model.trajectory import (
    STEP_COUNTS,
    STEP_MAXIMA,
    EpisodeOrigin,
    EpisodeSummary,
    Step,
    Transition,
)
from ors_server.model.wire import ImageBlock
from ors_server.store.location import StoreLocation
from ors_server.store.sql.blobs import Block, FileBlobStore, blob_refs_in, damage_of
from ors_server.store.sql.column_values import as_search_text, is_edited
from ors_server.store.sql.columns import (
    STANDING_COLUMNS,
    STEP_COLUMNS,
    episode_columns,
    label_columns,
    standing_columns,
    step_columns,
)
from ors_server.store.sql.components import StoreComponents, reading
from ors_server.store.sql.kept_totals import wrong_minutes, wrong_tools, wrong_totals
from ors_server.store.sql.record_tables import (
    blob_uses,
    blobs,
    episodes,
    incidents,
    labels,
    moves,
    prompts,
    standings,
    steps,
)
from ors_server.store.sql.sql_reader import summary_of
from ors_server.store.sql.sqlite import SqliteDatabase
from ors_server.store.sql.verification_sums import StepSums

_CLOCK = timedelta(milliseconds=1)
_SESSION_ENDED = frozenset({Phase.DELETED, Phase.EXPIRED})
_TABLE = {(before.value, event.value): after.value for (before, event), after in TRANSITIONS.items()}


@dataclass(slots=True)
class _Standing:
    """The phase after the transitions so far."""

    phase: str | None
    """`None` at the start of a fork: its first transition has no recorded phase before it."""
    stop_reason: str | None = None
    at: datetime | None = None


def check_moves(
    rows: Iterable[Any], origin: EpisodeOrigin, summary: EpisodeSummary, *, is_closed: bool
) -> Iterator[str]:
    """Yield transitions that are missing, out of order, or lead elsewhere than the summary."""
    is_fork = origin.forked_from is not None
    standing = _Standing(None if is_fork else Phase.CREATED.value, at=None if is_fork else origin.created_at)
    count = 0
    for row in rows:
        if row.position != count:
            yield f"transition {count} is missing"
            return
        count += 1
        if is_edited(row.digest, row.body):
            yield f"transition {row.position} was edited"
        try:
            transition = TRANSITION.read(row.body)
        except RecordError as error:
            yield f"transition {row.position}: {error}"
            return
        yield from (f"transition {row.position}: {text}" for text in _follow(standing, transition))
    if is_closed and summary.phase not in _SESSION_ENDED:
        yield f"its session has ended, and the phase is {summary.phase!r}"
    if is_closed and not count:
        yield "all transitions are missing"
    elif standing.phase is None or _may_precede(standing, summary, is_closed=is_closed):
        return
    else:
        state = "final state" if is_closed else "current state"
        yield (
            f"its {state} is {_describe(summary.phase, summary.stop_reason)}, its transitions lead to "
            f"{_describe(standing.phase, standing.stop_reason)}"
        )


def _follow(standing: _Standing, transition: Transition) -> Iterator[str]:
    leads_to = None if standing.phase is None else _TABLE.get((standing.phase, transition.event))
    if standing.phase is not None and (leads_to != transition.phase or leads_to == standing.phase):
        yield (
            f"{transition.event!r} does not lead from {standing.phase} to {transition.phase}: "
            "a transition is missing or changed"
        )
    if standing.stop_reason not in {None, transition.stop_reason}:
        yield f"the stop reason was {standing.stop_reason!r} and became {transition.stop_reason!r}"
    if (transition.stop_reason is None) != (transition.event in {EpisodeEvent.SETUP_DONE, EpisodeEvent.STEP}):
        yield f"{transition.event!r} has the stop reason {transition.stop_reason!r}"
    if standing.at is not None and transition.at < standing.at - _CLOCK:
        yield "it happened before the previous one"
    standing.phase, standing.stop_reason, standing.at = (
        transition.phase,
        transition.stop_reason,
        transition.at,
    )


def _may_precede(standing: _Standing, summary: EpisodeSummary, *, is_closed: bool) -> bool:
    """Return whether the summary may follow: a crash may have lost the transition after the last step."""
    if (standing.phase, standing.stop_reason) == (summary.phase, summary.stop_reason):
        return True
    if is_closed or standing.phase is None:
        return False
    by_step = (
        _TABLE.get((standing.phase, EpisodeEvent.STEP.value)),
        _TABLE.get((standing.phase, EpisodeEvent.END.value)),
    )
    is_first = standing.phase == Phase.PLAYING or summary.steps == 1
    return is_first and standing.phase != summary.phase and summary.phase in by_step


def _describe(phase: str, stop_reason: str | None) -> str:
    return phase if stop_reason is None else f"{phase} ({stop_reason})"


_ROWS = 500
_COLUMNS = [column.name for column in episodes.c if column.name not in {"key", "body", "digest"}]


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """One contradiction in a store."""

    episode_id: str | None
    """`None` if it is not about one episode."""
    text: str


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of checking a store."""

    episodes: int
    steps: int
    blobs: int
    findings: tuple[StoreFinding, ...]
    leftovers: tuple[str, ...] = ()
    """Blobs that no episode refers to, such as after a crash or an interrupted `prune`: they take disk space
    and contradict nothing.
    """


def verify(location: StoreLocation) -> Verification:
    """Check one snapshot of a store; servers may keep writing. Blocks.

    Raises:
        SettingsError: If there is no store, or it has another schema.
        StoreError: If it cannot be read.
    """
    with reading(location) as (components, connection):
        return _verify(components, connection)


def _verify(components: StoreComponents, connection: Connection) -> Verification:
    findings = [StoreFinding(None, complaint) for complaint in _complaints_of(components, connection)]
    count, wrong, leftovers = _check_blobs(components, connection)
    findings += (StoreFinding(None, complaint) for complaint in wrong)
    findings += (StoreFinding(None, complaint) for complaint in wrong_totals(connection))
    findings += (StoreFinding(None, complaint) for complaint in wrong_tools(connection))
    findings += (StoreFinding(None, complaint) for complaint in wrong_minutes(connection))
    played = 0
    seen = 0
    query = (
        select(
            *(column for column in episodes.c if column.name not in {"body", "digest"}),
            episodes.c.body.label("origin"),
            episodes.c.digest.label("origin_digest"),
            standings,
        )
        .join(standings, standings.c.episode == episodes.c.key, isouter=True)
        .order_by(episodes.c.key)
    )
    parts = {
        table: _Groups(connection, table) for table in (blob_uses, incidents, labels, moves, prompts, steps)
    }
    for row in _rows(connection, query):
        seen += 1
        own = {table: groups.of(row.key) for table, groups in parts.items()}
        played += len(own[steps])
        findings += (StoreFinding(row.episode_id, complaint) for complaint in _check_episode(row, own))
    return Verification(seen, played, count, tuple(findings), tuple(leftovers))


class _Groups:
    """The rows of a table, grouped by episode, read in step with the episodes."""

    def __init__(self, connection: Connection, table: Table) -> None:
        rows = _rows(connection, select(table).order_by(*table.primary_key.columns))
        self._groups = groupby(rows, key=lambda row: row.episode)
        self._next = next(self._groups, None)

    def of(self, key: int) -> list[Any]:
        """Return the rows of an episode; the keys of successive calls increase."""
        while (
            self._next is not None and self._next[0] < key
        ):  # rows without an episode, which were reported above
            self._next = next(self._groups, None)
        if self._next is None or self._next[0] != key:
            return []
        found = list(self._next[1])
        self._next = next(self._groups, None)
        return found


def _complaints_of(components: StoreComponents, connection: Connection) -> Iterator[str]:
    """Run the database's own checks; PostgreSQL always enforces foreign keys."""
    if not isinstance(components.database, SqliteDatabase):
        return
    try:
        for (verdict,) in connection.exec_driver_sql("PRAGMA quick_check"):
            if verdict != "ok":
                yield f"the file is damaged: {verdict}"
        for table, row, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
            yield f"row {row} of {table} refers to a missing row of {parent}"
    except SQLAlchemyError as error:
        yield f"the file is damaged: {error}"


def _check_blobs(components: StoreComponents, connection: Connection) -> tuple[int, list[str], list[str]]:
    rows = connection.execute(select(blobs.c.sha256, blobs.c.size).order_by(blobs.c.sha256)).all()
    used = set(connection.execute(select(blob_uses.c.sha256).distinct()).scalars())
    complaints: list[str] = []
    for name, size in rows:
        text = components.blob_store.get(connection, [name]).get(name)
        complaint = damage_of(name, text)
        if complaint is not None:
            complaints.append(complaint)
        elif text is not None and len(text) != size:
            complaints.append(f"the blob {name} has {len(text)} bytes; its row states {size}")
    leftovers = [
        f"no episode refers to the blob {name}: `prune` removes it" for name, _ in rows if name not in used
    ]
    if isinstance(components.blob_store, FileBlobStore):
        filled = connection.execute(select(blobs.c.sha256).where(blobs.c.data.is_not(None))).scalars()
        complaints += (
            f"the row of the blob {name} has a text, which should be in its file" for name in filled
        )
        unreferenced = components.blob_store.unreferenced_files({name for name, _ in rows})
        leftovers += (f"no row names the file {path}: `vacuum` removes it" for path in unreferenced)
    return len(rows), complaints, leftovers


def _rows(connection: Connection, query: Any) -> Iterator[Any]:
    """Yield row by row: a whole store does not fit into memory."""
    yield from connection.execution_options(yield_per=_ROWS).execute(query)


def _check_episode(row: Any, own: Mapping[Table, list[Any]]) -> Iterator[str]:
    if row.episode is None:
        yield "its summary is missing"
        return
    try:
        origin: EpisodeOrigin = ORIGIN.read(row.origin)
        written = SUMMARY.read(row.body)
        summary = summary_of(row.body, row)
    except RecordError as error:
        yield str(error)
        return
    yield from _check_origin(row, origin, own[labels])
    if is_edited(row.digest, row.body):
        yield "its summary was edited"
    expected = dict(zip(STANDING_COLUMNS, standing_columns(summary), strict=True))
    expected |= {name: getattr(written, name) or getattr(row, name) for name in STEP_COUNTS}
    wrong = [name for name, value in expected.items() if getattr(row, name) != value]
    if wrong:
        yield f"the columns {', '.join(wrong)} of its summary differ from the body"
    referenced: set[str] = set()
    sums = StepSums(origin)
    yield from _check_steps(own[steps], sums, referenced)
    unstated = STEP_MAXIMA.keys() - json.loads(row.body).keys()  # an older server did not know them
    yield from sums.differences(summary, unstated)
    yield from _check_prompts(own[prompts], referenced)
    used = {use.sha256 for use in own[blob_uses]}
    yield from (f"the blob {name} is not listed for the episode" for name in sorted(referenced - used))
    yield from (
        f"the blob {name} is listed for the episode, and neither a step nor the prompt refers to it"
        for name in sorted(used - referenced)
    )
    yield from _check_incidents(own[incidents])
    yield from check_moves(own[moves], origin, summary, is_closed=row.closed_at is not None)


def _check_incidents(rows: Iterable[Any]) -> Iterator[str]:
    for count, row in enumerate(rows):
        if row.position != count:
            yield f"incident {count} is missing"
            return
        if is_edited(row.digest, row.body):
            yield f"incident {row.position} was edited"
        try:
            INCIDENT.read(row.body)
        except RecordError as error:
            yield f"incident {row.position}: {error}"


def _check_prompts(rows: Iterable[Any], referenced: set[str]) -> Iterator[str]:
    for row in rows:
        if is_edited(row.digest, row.body, row.blobs):
            yield "the prompt was edited"
        try:
            referenced |= _check_blocks(BLOCKS.read(row.body), row.blobs)
        except RecordError as error:
            yield f"the prompt: {error}"


def _check_steps(rows: Iterable[Any], sums: StepSums, referenced: set[str]) -> Iterator[str]:
    expected = 1
    for row in rows:
        if row.number != expected:
            yield f"step {row.number} is at the position of step {expected}"
        expected = row.number + 1
        if is_edited(row.digest, row.body, row.blobs):
            yield f"step {row.number} was edited"
        try:
            step: Step = STEP.read(row.body)
            referenced |= _check_blocks(step.blocks, row.blobs)
        except RecordError as error:
            yield f"step {row.number}: {error}"
            continue
        stated = tuple(_shortened(getattr(row, name)) for name in STEP_COLUMNS)
        if (step.number, *step_columns(step)) != (row.number, *stated):
            yield f"step {row.number}: its columns differ from its body"
        yield from sums.add(step)


def _check_blocks(blocks: Sequence[Block], blob_refs: str | None) -> set[str]:
    """Return the hashes of a row's blobs; raises `RecordError` unless each has an empty block."""
    try:
        refs = blob_refs_in(blob_refs)
        empty = [not (block.data if isinstance(block, ImageBlock) else block.text) for block in blocks]
        positions = [position for position, _ in refs]
        is_sound = len(set(positions)) == len(positions) and all(empty[position] for position in positions)
    except (ValueError, TypeError, IndexError):
        is_sound, refs = False, []
    if not is_sound:
        raise RecordError("its list of blobs does not match its blocks")
    return {name for _, name in refs}


def _check_origin(row: Any, origin: EpisodeOrigin, named: Iterable[Any]) -> Iterator[str]:
    if is_edited(row.origin_digest, row.origin):
        yield "its origin was edited"
    expected = dict(zip(_COLUMNS, episode_columns(origin), strict=True))
    wrong = [name for name, value in expected.items() if _shortened(getattr(row, name)) != value]
    if wrong:
        yield f"the columns {', '.join(wrong)} differ from the origin"
    if task_digest(origin.task_spec) != origin.task_hash:
        yield "the task does not match its hash"
    if label_columns(origin) != {_shortened(label.name): _shortened(label.value) for label in named}:
        yield "the rows of its labels differ from the origin"


def _shortened(value: Any) -> Any:
    """Return a column's value as it is written now: older servers kept long texts whole."""
    return as_search_text(value) if isinstance(value, str) else value
