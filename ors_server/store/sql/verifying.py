"""Goes through a whole record and tells what does not agree."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import isclose
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from ors_server.errors import RecordError
from ors_server.recording import BLOCKS, ORIGIN, STEP, SUMMARY, TRANSITION, task_digest
from ors_server.store.place import Place
from ors_server.store.sql.batch import episode_columns
from ors_server.store.sql.blobs import complaint_about, names_in
from ors_server.store.sql.database import snapshot
from ors_server.store.sql.opening import Prepared, prepare_to_read
from ors_server.store.sql.schema import blob_uses, blobs, episodes, moves, prompts, standings, steps
from ors_server.store.sql.sqlite import SqliteDatabase
from ors_server.trajectory import EpisodeOrigin, Step

TOLERANCE = 1e-9
"""Relative and absolute difference that two sums of the same floats may have."""
_ROWS = 500
_COLUMNS = [column.name for column in episodes.c if column.name not in {"key", "body"}]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not agree."""

    episode_id: str | None
    """`None` for what is not about one episode."""
    text: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What a look at everything came to."""

    episodes: int
    steps: int
    blobs: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    steps: int
    total: float
    findings: list[str]
    is_finished: bool = False
    """Whether the last step says that the episode is over."""


def verify(place: Place) -> Verification:
    """Check one snapshot of a record; servers may go on writing meanwhile. Blocks.

    Args:
        place: Where the record is.

    Raises:
        SettingsError: If there is none, or it has another form.
        StoreError: If it cannot be read.
    """
    prepared = prepare_to_read(place)
    engine = prepared.database.reading_engine()
    try:
        with snapshot(prepared.database, engine) as connection:
            return _verify(prepared, connection)
    finally:
        engine.dispose()


def _verify(prepared: Prepared, connection: Connection) -> Verification:
    findings = [Finding(None, complaint) for complaint in _complaints_of(prepared, connection)]
    count, wrong = _check_blobs(prepared, connection)
    findings += (Finding(None, complaint) for complaint in wrong)
    played = 0
    seen = 0
    query = (
        select(
            *(column for column in episodes.c if column.name != "body"),
            episodes.c.body.label("origin"),
            standings,
        )
        .join(standings, standings.c.episode == episodes.c.key, isouter=True)
        .order_by(episodes.c.key)
    )
    used = _uses(connection)
    by_episode = _steps_by_episode(connection)
    following = next(by_episode, None)
    for row in _rows(connection, query):
        seen += 1
        found = _Found(0, 0.0, [])
        while following is not None and following[0] < row.key:  # steps of no episode, which is told above
            following = next(by_episode, None)
        if following is not None and following[0] == row.key:
            found = _check_steps(following[1], used.get(row.key, frozenset()))
            following = next(by_episode, None)
        played += found.steps
        complaints = [*_check_figures(row, found), *found.findings]
        findings += (Finding(row.episode_id, complaint) for complaint in complaints)
    findings += _check_moves(connection)
    findings += (Finding(None, complaint) for complaint in _check_prompts(connection, used))
    return Verification(seen, played, count, tuple(findings))


def _complaints_of(prepared: Prepared, connection: Connection) -> Iterator[str]:
    """Ask the database itself; PostgreSQL never lets a foreign key lead nowhere."""
    if not isinstance(prepared.database, SqliteDatabase):
        return
    try:
        for (verdict,) in connection.exec_driver_sql("PRAGMA quick_check"):
            if verdict != "ok":
                yield f"the file is damaged: {verdict}"
        for table, row, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
            yield f"row {row} of {table} leads to no row of {parent}"
    except SQLAlchemyError as error:
        yield f"the file is damaged: {error}"


def _check_blobs(prepared: Prepared, connection: Connection) -> tuple[int, list[str]]:
    names = list(connection.execute(select(blobs.c.sha256).order_by(blobs.c.sha256)).scalars())
    complaints = [
        complaint
        for name in names
        if (complaint := complaint_about(name, prepared.shelf.get(connection, [name]).get(name))) is not None
    ]
    return len(names), complaints


def _uses(connection: Connection) -> dict[int, frozenset[str]]:
    rows = connection.execute(select(blob_uses).order_by(blob_uses.c.episode))
    return {
        key: frozenset(row.sha256 for row in group)
        for key, group in groupby(rows, key=lambda row: row.episode)
    }


def _steps_by_episode(connection: Connection) -> Iterator[tuple[int, Iterable[Any]]]:
    rows = _rows(connection, select(steps).order_by(steps.c.episode, steps.c.number))
    return groupby(rows, key=lambda row: row.episode)


def _rows(connection: Connection, query: Any) -> Iterator[Any]:
    """Read row by row: a whole record does not fit into memory."""
    yield from connection.execution_options(yield_per=_ROWS).execute(query)


def _check_steps(rows: Iterable[Any], used: frozenset[str]) -> _Found:
    findings: list[str] = []
    count = 0
    total = 0.0
    is_finished = False
    for row in rows:
        if is_finished:
            findings.append(f"step {row.number} follows one that ended the episode")
        count += 1
        total += row.reward or 0.0
        if row.number != count:
            findings.append(f"step {row.number} stands where step {count} should")
            count = row.number
        try:
            step: Step = STEP.read(row.body)
        except RecordError as error:
            findings.append(f"step {row.number}: {error}")
            continue
        is_finished = step.finished
        findings += _check_step(row, step, used)
    return _Found(count, total, findings, is_finished)


def _check_step(row: Any, step: Step, used: frozenset[str]) -> Iterator[str]:
    if (step.number, step.reward) != (row.number, row.reward):
        yield f"step {row.number}: its columns say other things than its body"
    parts = sum(step.components.values())
    if step.reward is not None and not _is_same(step.reward, parts):
        yield f"step {row.number}: its reward is {step.reward!r}, its components add up to {parts!r}"
    yield from (
        f"step {row.number}: the blob {name} is not held for the episode"
        for name in names_in(row.blobs)
        if name not in used
    )


def _check_figures(row: Any, found: _Found) -> Iterator[str]:
    if row.episode is None:
        yield "there are no figures"
        return
    try:
        origin: EpisodeOrigin = ORIGIN.read(row.origin)
        summary = SUMMARY.read(row.body)
    except RecordError as error:
        yield str(error)
        return
    yield from _check_origin(row, origin)
    figures = (summary.phase, summary.stop_reason, summary.steps, summary.episode_return)
    if figures != (row.phase, row.stop_reason, row.steps, row.episode_return):
        yield "the columns of the figures say other things than their body"
    if summary.stop_reason == "completed" and not found.is_finished:
        yield "the episode was completed, and its last step does not say so"
    if found.is_finished and summary.stop_reason is None:
        yield "the last step ended the episode, and the summary does not say so"
    if summary.steps != found.steps:
        yield f"the summary counts {summary.steps} steps, on record are {found.steps}"
    if not _is_same(summary.episode_return, found.total):
        claimed = summary.episode_return
        yield f"the summary's return is {claimed!r}, the steps' rewards add up to {found.total!r}"


def _check_origin(row: Any, origin: EpisodeOrigin) -> Iterator[str]:
    wanted = dict(zip(_COLUMNS, episode_columns(origin), strict=True))
    wrong = [name for name, value in wanted.items() if getattr(row, name) != value]
    if wrong:
        yield f"the columns {', '.join(wrong)} say other things than the origin"
    if task_digest(origin.task_spec) != origin.task_hash:
        yield "the task is not the one that its hash was made of"


def _is_same(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)


def _check_moves(connection: Connection) -> Iterator[Finding]:
    """Check that the transitions are all there, and that they lead to where a closed episode stands."""
    phases = {
        row.key: row
        for row in _rows(
            connection,
            select(episodes.c.key, episodes.c.episode_id, standings.c.phase, standings.c.closed_at).join(
                standings, standings.c.episode == episodes.c.key
            ),
        )
    }
    query = select(moves).order_by(moves.c.episode, moves.c.position)
    last: dict[int, str] = {}
    for key, group in groupby(_rows(connection, query), key=lambda row: row.episode):
        standing = phases.get(key)
        episode_id = None if standing is None else standing.episode_id
        for expected, row in enumerate(group):
            if row.position != expected:
                yield Finding(episode_id, f"transition {expected} is missing")
                break
            try:
                last[key] = TRANSITION.read(row.body).phase
            except RecordError as error:
                yield Finding(episode_id, f"transition {row.position}: {error}")
    for key, standing in phases.items():
        if standing.closed_at is not None and last.get(key, standing.phase) != standing.phase:
            text = f"it was closed as {standing.phase}, its transitions lead to {last[key]}"
            yield Finding(standing.episode_id, text)


def _check_prompts(connection: Connection, used: dict[int, frozenset[str]]) -> Iterator[str]:
    for row in _rows(connection, select(prompts)):
        try:
            BLOCKS.read(row.body)
        except RecordError as error:
            yield f"the prompt in row {row.episode}: {error}"
        yield from (
            f"the prompt in row {row.episode}: the blob {name} is not held for the episode"
            for name in names_in(row.blobs)
            if name not in used.get(row.episode, frozenset())
        )
