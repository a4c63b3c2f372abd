"""Totals of closed episodes, kept while episodes are closed, so that no reader adds all of them up.

Invariants. A row of `totals` has the sums over exactly the closed episodes of its kind. A writer that closes,
changes or removes a closed episode changes the rows in the same transaction: a closing adds to them; what is
rare (a note about a closed episode, pruning) counts the touched kinds again. Writers of one database add to
the same rows, always in the order of the key, so that no two of them wait for each other.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from math import isclose
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    tuple_,
)

from ors_server.model.clock import from_microseconds
from ors_server.model.trajectory import STEP_COUNTS, EpisodeResult, StepStatus
from ors_server.store.aggregates import (
    GROUP_COLUMNS,
    KEPT_MINUTES,
    LARGEST_RETURN,
    MARK_LETTERS,
    MINUTE,
    SMALLEST_RETURN,
    SUCCESS_AT,
    SUMS,
    CallsOfMinute,
    EpisodeGroup,
)
from ors_server.store.episode_filter import MARKS
from ors_server.store.sql.database import execute
from ors_server.store.sql.record_tables import call_minutes, episodes, standings, steps, tool_uses, totals
from ors_server.store.sql.upserts import sizes_of

COLUMNS = tuple(column.name for column in totals.c)
_TOLERANCE = 1e-9

value = standings.c.episode_return
_largest: ColumnElement[float] = literal_column(repr(LARGEST_RETURN))
_smallest: ColumnElement[float] = literal_column(repr(-LARGEST_RETURN))
_nothing: ColumnElement[float] = literal_column("0.0")
bounded_return = case(
    (value > LARGEST_RETURN, _largest),
    (value < -LARGEST_RETURN, _smallest),
    # PostgreSQL refuses a square that is too small for a float, and with it the closing of the episode.
    (and_(value >= -SMALLEST_RETURN, value <= SMALLEST_RETURN), _nothing),
    else_=value,
)
is_graded = standings.c.result == literal_column(f"'{EpisodeResult.GRADED.value}'")
succeeded = case((and_(is_graded, value >= literal_column(repr(SUCCESS_AT))), 1), else_=0)
_empty: ColumnElement[str] = literal_column("''")
_marks: ColumnElement[str] = _empty
for _mark, _letter in MARK_LETTERS.items():
    _has_mark = standings.c[MARKS[_mark]] > literal_column("0")
    _shown: ColumnElement[str] = literal_column(f"'{_letter}'")
    _marks = _marks.concat(case((_has_mark, _shown), else_=_empty))
_KIND = (
    episodes.c.environment,
    func.coalesce(episodes.c.split, _empty),
    episodes.c.run,
    episodes.c.agent,
    standings.c.phase,
    func.coalesce(standings.c.stop_reason, _empty),
    standings.c.result,
    _marks,
)


def group_figures(*conditions: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    """Select the sums of episodes by kind, with the columns of `totals` in their order."""
    kinds = [column.label(name) for name, column in zip(GROUP_COLUMNS, _KIND, strict=True)]
    sums = {
        "episodes": func.count(),
        "steps": func.sum(standings.c.steps),
        **{name: func.sum(standings.c[name]) for name in STEP_COUNTS},
        "successes": func.sum(succeeded),
        "return_sum": func.sum(bounded_return),
        "return_squares": func.sum(bounded_return * bounded_return),
        "least_return": func.min(value),
        "greatest_return": func.max(value),
        "last_at": func.max(episodes.c.created_at),
    }
    rest = [sums[name].label(name) for name in COLUMNS if name in sums]
    return (
        select(*kinds, *rest)
        .select_from(standings.join(episodes, episodes.c.key == standings.c.episode))
        .where(*conditions)
        .group_by(*kinds)
    )


def as_groups(rows: Iterable[Any]) -> list[EpisodeGroup]:
    """Read rows with the columns of `totals`."""
    whole = {*SUMS} - {"return_sum", "return_squares"} | {"last_at"}  # PostgreSQL sums integers as decimals
    groups: list[EpisodeGroup] = []
    for row in rows:
        cells: dict[str, Any] = dict(zip(COLUMNS, row, strict=True))
        for name in whole:
            cells[name] = int(cells[name])
        groups.append(EpisodeGroup(**cells))
    return groups


_VALUE = (
    f"CASE WHEN episode_return > {LARGEST_RETURN!r} THEN {LARGEST_RETURN!r} "
    f"WHEN episode_return < -{LARGEST_RETURN!r} THEN -{LARGEST_RETURN!r} "
    f"WHEN episode_return BETWEEN -{SMALLEST_RETURN!r} AND {SMALLEST_RETURN!r} THEN 0.0 "
    "ELSE episode_return END"
)
_ADDED = {
    "environment": "environment",
    "split": "coalesce(split, '')",
    "run": "run",
    "agent": "agent",
    "phase": "phase",
    "stop_reason": "coalesce(stop_reason, '')",
    "result": "result",
    "marks": " || ".join(
        f"CASE WHEN {MARKS[mark]} > 0 THEN '{letter}' ELSE '' END" for mark, letter in MARK_LETTERS.items()
    ),
    "episodes": "count(*)",
    "steps": "sum(steps)",
    **{name: f"sum({name})" for name in STEP_COUNTS},
    "successes": f"sum(CASE WHEN result = 'graded' AND episode_return >= {SUCCESS_AT!r} THEN 1 ELSE 0 END)",
    "return_sum": f"sum({_VALUE})",
    "return_squares": f"sum(({_VALUE}) * ({_VALUE}))",
    "least_return": "min(episode_return)",
    "greatest_return": "max(episode_return)",
    "last_at": "max(created_at)",
}
"""Columns of `totals` with their expressions: `group_figures` as text, since every closing runs it."""
_EXTREMES = {"least_return": "<", "greatest_return": ">", "last_at": ">"}
_CHANGES = ", ".join(
    f"{name} = CASE WHEN excluded.{name} {_EXTREMES[name]} totals.{name} THEN excluded.{name} "
    f"ELSE totals.{name} END"
    if name in _EXTREMES
    else f"{name} = totals.{name} + excluded.{name}"
    for name in _ADDED
    if name not in GROUP_COLUMNS
)
_POSITIONS = ", ".join(str(position) for position, _ in enumerate(GROUP_COLUMNS, 1))
_ADD = (
    f"INSERT INTO totals ({', '.join(_ADDED)}) SELECT {', '.join(_ADDED.values())} FROM standings "  # noqa: S608  (ours)
    'JOIN episodes ON "key" = episode WHERE episode IN ({keys}) '
    f"GROUP BY {_POSITIONS} ORDER BY {_POSITIONS} "
    f"ON CONFLICT ({', '.join(GROUP_COLUMNS)}) DO UPDATE SET {_CHANGES}"
)


def add_closed(connection: Connection, placeholder: str, keys: Sequence[int]) -> None:
    """Add episodes that were just closed, and were open before, to the kept totals."""
    start = 0
    for size in sizes_of(len(keys), placeholder):
        statement = _ADD.format(keys=", ".join([placeholder] * size))
        execute(connection, statement, tuple(keys[start : start + size]))
        start += size


def groups_of(connection: Connection, keys: Collection[int]) -> set[tuple[str, ...]]:
    """Return the kinds of the closed ones of these episodes."""
    query = (
        select(*_KIND)
        .select_from(standings.join(episodes, episodes.c.key == standings.c.episode))
        .where(standings.c.episode.in_(list(keys)), standings.c.closed_at.is_not(None))
    )
    return {tuple(row) for row in connection.execute(query)}


def recount_groups(connection: Connection, kinds: Collection[tuple[str, ...]]) -> None:
    """Sum up some kinds of closed episodes again."""
    for kind in sorted(kinds):
        connection.execute(
            delete(totals).where(tuple_(*(totals.c[name] for name in GROUP_COLUMNS)) == tuple_(*kind))
        )
        query = group_figures(
            standings.c.closed_at.is_not(None),
            *(column == name for column, name in zip(_KIND, kind, strict=True)),
        )
        connection.execute(insert(totals).from_select(COLUMNS, query))


def recount_tools(connection: Connection, placeholder: str, key: int) -> None:
    """Write again which tools the steps of an episode name."""
    execute(connection, f"DELETE FROM tool_uses WHERE episode = {placeholder}", (key,))  # noqa: S608  (placeholder)
    query = f"SELECT DISTINCT episode, tool FROM steps WHERE episode = {placeholder}"  # noqa: S608  (placeholder)
    execute(connection, f"INSERT INTO tool_uses (episode, tool) {query}", (key,))


def calls_from(
    connection: Connection, placeholder: str, key: int | None, number: int
) -> Counter[tuple[int, str]]:
    """Count the calls of an episode from the step `number` on, by minute and status."""
    query = (
        f"SELECT started_at / {MINUTE}, status FROM steps WHERE episode = {placeholder} "  # noqa: S608  (placeholders)
        f"AND number >= {placeholder}"
    )
    return Counter(
        (minute, status) for minute, status in execute(connection, query, (key, number)).fetchall()
    )


def forget_minutes(connection: Connection, placeholder: str, newest: int) -> None:
    """Remove the counts of calls that began too long before a minute."""
    execute(
        connection,
        f"DELETE FROM call_minutes WHERE minute < {placeholder}",  # noqa: S608  (a placeholder)
        (newest - KEPT_MINUTES,),
    )


def count_by_minute(connection: Connection, first: int) -> list[CallsOfMinute]:
    """Return the calls of each minute from the number `first` on, oldest first."""
    columns = call_minutes.c
    query = (
        select(columns.minute, func.sum(columns.calls), func.sum(columns.refused), func.sum(columns.failed))
        .where(columns.minute >= first)
        .group_by(columns.minute)
        .order_by(columns.minute)
    )
    return [
        CallsOfMinute(from_microseconds(minute * MINUTE), *map(int, counts))
        for minute, *counts in connection.execute(query)
    ]


def wrong_minutes(connection: Connection) -> list[str]:
    """Return every minute that counts fewer calls of a kind than are on record, in words.

    More are not a fault: calls of pruned episodes count, too.
    """
    newest = connection.execute(select(func.max(call_minutes.c.minute))).scalar()
    first = 0 if newest is None else newest - KEPT_MINUTES
    kept = {minute.start: minute for minute in count_by_minute(connection, first)}
    begun = (steps.c.started_at // MINUTE).label("minute")
    rows = connection.execute(
        select(
            begun,
            func.count(),
            *(
                func.sum(case((steps.c.status == status, 1), else_=0))
                for status in (StepStatus.REFUSED, StepStatus.FAILED)
            ),
        )
        .where(steps.c.started_at >= first * MINUTE)
        .group_by(begun)
        .order_by(begun)
    )
    complaints: list[str] = []
    for minute, *counts in rows:
        start = from_microseconds(minute * MINUTE)
        stated = kept.get(start, CallsOfMinute(start, 0, 0, 0))
        kinds = (("", stated.calls), ("refused ", stated.refused), ("failed ", stated.failed))
        complaints += (
            f"{claimed} {kind}calls are kept for the minute {start:%Y-%m-%d %H:%M} UTC, and {on_record} "
            "that began in it are on record"
            for (kind, claimed), on_record in zip(kinds, map(int, counts), strict=True)
            if claimed < on_record
        )
    return complaints


def wrong_totals(connection: Connection) -> list[str]:
    """Return every kept total that differs from the closed episodes, in words."""
    kept = {_kind_of(group): group for group in as_groups(connection.execute(select(totals)))}
    query = group_figures(standings.c.closed_at.is_not(None))
    sums = {_kind_of(group): group for group in as_groups(connection.execute(query))}
    complaints: list[str] = []
    for kind in sorted({*kept, *sums}):
        words = ", ".join(f"{name} {text!r}" for name, text in zip(GROUP_COLUMNS, kind, strict=True) if text)
        if kind not in kept or kind not in sums:
            state = "missing" if kind not in kept else "kept, and no closed episode is of this kind"
            complaints.append(f"the totals of {words} are {state}")
            continue
        for name in COLUMNS[len(GROUP_COLUMNS) :]:
            stated, sum_ = getattr(kept[kind], name), getattr(sums[kind], name)
            scale = max(1.0, abs(sums[kind].return_squares))
            is_same = stated == sum_
            if isinstance(stated, float) and not is_same:  # sums of another order differ by rounding
                is_same = isclose(stated, sum_, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE * scale)
            if not is_same:
                complaints.append(
                    f"the kept {name} of {words} is {stated!r}, the closed episodes add up to {sum_!r}"
                )
    return complaints


def wrong_tools(connection: Connection) -> list[str]:
    """Return every episode whose list of tools differs from its steps, in words."""
    used = select(steps.c.episode, steps.c.tool).distinct()
    listed = select(tool_uses.c.episode, tool_uses.c.tool)
    rows = {*connection.execute(used.except_(listed)), *connection.execute(listed.except_(used))}
    keys = sorted({row[0] for row in rows})
    names = connection.execute(
        select(episodes.c.episode_id).where(or_(*(episodes.c.key == key for key in keys[:100])))
        if keys
        else select(episodes.c.episode_id).where(literal_column("1 = 0"))
    ).scalars()
    return [f"the list of tools of the episode {name} differs from its steps" for name in names]


def _kind_of(group: EpisodeGroup) -> tuple[str, ...]:
    return tuple(getattr(group, name) for name in GROUP_COLUMNS)
